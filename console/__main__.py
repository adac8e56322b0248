"""The `dlq` command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    for name in [name for name in os.environ if name.startswith("TEXTUAL")]:
        del os.environ[name]  # TEXTUAL_PRESS and its kin could press keys for the operator
    from console.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
