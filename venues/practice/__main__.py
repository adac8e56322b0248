"""Runs the practice exchange without the console: `python -m venues.practice`."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from venues.practice import PracticeError, serve


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m venues.practice", description="The practice exchange on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ledger", type=Path)
    parser.add_argument("--script", type=Path)
    parser.add_argument("--no-fsync", action="store_true")
    given = parser.parse_args()
    announce = partial(print, flush=True)  # the parent process reads the URL from stdout
    try:
        serve(given.port, given.ledger, script=given.script, announce=announce, fsync=not given.no_fsync)
    except PracticeError as error:
        print(error, file=sys.stderr)  # noqa: T201 - tells the operator why it did not start
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
