"""The console as a test's own program, in one of three ways.

`crash` plants a bug with a secret in it, `modules` tells what was loaded by the end, `first-frame` ends where the first
frame is about to be painted and tells what was loaded by then. Both tell whether garbage is collected.

Run as `python -m tests.support.terminal.entry`; DLQ_TEST_ENTRY says which, DLQ_TEST_OUT where to tell.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import NoReturn

from console.__main__ import main

CANARY = "canary-51c5d84f"
COLLECTING = "(garbage is collected)"  # among the modules: no module has such a name
_PATIENCE = 60.0  # on a busy machine the first page may be late; the frame is then left out


def _plant() -> None:
    from console.app import ConsoleApp

    def broken(self: ConsoleApp) -> None:
        api_key = CANARY
        raise RuntimeError(f"signing with {api_key} failed")

    ConsoleApp.next_theme = broken  # type: ignore[method-assign]  # the planted bug, on the key that changes the theme


def _tell(modules: list[str]) -> None:
    told = [*modules, *([COLLECTING] if gc.isenabled() else [])]
    Path(os.environ["DLQ_TEST_OUT"]).write_text("\n".join(told))


def _stop_before_first_frame() -> None:
    """Both modules are on the way to the first frame, so loading them here adds nothing."""
    from console.cli import console
    from console.terminal import first_frame

    def stop(_: str) -> NoReturn:
        loaded = sorted(name for name, module in sys.modules.items() if getattr(module, "__file__", None))
        _tell(loaded)
        os._exit(0)

    console._FIRST_FRAME_SECONDS = _PATIENCE
    first_frame.painted = stop  # type: ignore[assignment]  # it never returns what it would be entered with


def run() -> None:
    way = os.environ["DLQ_TEST_ENTRY"]
    if way == "crash":
        _plant()
    elif way == "first-frame":
        _stop_before_first_frame()
    try:
        main()
    finally:
        if "DLQ_TEST_OUT" in os.environ:
            _tell(sorted(sys.modules))


if __name__ == "__main__":
    run()
