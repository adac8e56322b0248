"""How the console starts itself as another process."""

from __future__ import annotations

import sys

# -P: nothing of the working directory is imported, so that a file planted there does not run as the operator.
OWN_PROGRAM = (sys.executable, "-P", "-m", "console")
