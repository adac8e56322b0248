"""The console as a test's own program: `crash` plants a bug with a secret in it, `modules` tells what was loaded.

Run as `python -m tests.support.terminal.entry`; DLQ_TEST_ENTRY says which, DLQ_TEST_OUT where to tell.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from console.__main__ import main

CANARY = "canary-51c5d84f"


def _plant() -> None:
    from console.app import ConsoleApp

    def broken(self: ConsoleApp) -> None:
        api_key = CANARY
        raise RuntimeError(f"signing with {api_key} failed")

    ConsoleApp.next_theme = broken  # type: ignore[method-assign]  # the planted bug, on the key that changes the theme


def run() -> None:
    if os.environ["DLQ_TEST_ENTRY"] == "crash":
        _plant()
    try:
        main()
    finally:
        if out := os.environ.get("DLQ_TEST_OUT"):
            Path(out).write_text("\n".join(sorted(sys.modules)))


if __name__ == "__main__":
    run()
