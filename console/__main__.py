"""The `dlq` command."""

from __future__ import annotations

import errno
import gc
import os
import sys


def main() -> None:
    gc.disable()  # loading makes what stays, and looking for garbage in it takes a fifth of the time; `run` ends this
    for name in [name for name in os.environ if name.startswith("TEXTUAL")]:
        del os.environ[name]  # TEXTUAL_PRESS and its kin could press keys for the operator
    _fill_closed_streams()
    if sys.argv[1:] and not sys.argv[1].startswith("-"):
        from console.priority import give_way_early  # not for the console itself, whose first frame is waited for

        give_way_early(sys.argv[1:])
    from console.cli.main import output_lost, run

    code = run(sys.argv[1:], own_process=True)
    if (problem := _flush()) is not None and code == 0:
        code = output_lost(problem)
    gc.freeze()  # all memory goes back at once: no need to look for garbage in it
    sys.exit(code)


def _fill_closed_streams() -> None:
    """Python has None for a stream that was closed, and prints what is said to such a stderr among the results."""
    for name, way in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, way, encoding="utf-8"))  # noqa: PTH123, SIM115 - open until the end


def _flush() -> OSError | None:
    """What is still to be said must not turn the exit code into Python's own. → why results could not be written.

    A terminal or reader that is gone is nobody's loss.
    """
    lost = None
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError as problem:
            if number == 1 and problem.errno not in (errno.EIO, errno.EPIPE):
                lost = problem
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return lost


if __name__ == "__main__":
    main()
