"""The `dlq` command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    for name in [name for name in os.environ if name.startswith("TEXTUAL")]:
        del os.environ[name]  # TEXTUAL_PRESS and its kin could press keys for the operator
    from console.cli.main import run

    code = run(sys.argv[1:])
    _flush()
    sys.exit(code)


def _flush() -> None:
    """Where the terminal is gone, what was still to be said would turn the exit code into Python's own."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)


if __name__ == "__main__":
    main()
