"""Opens and decodes the files that a person names: never waits for a pipe, and no depth of brackets is a bug.

Must not know what a file means.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

_LARGEST_SCRIPT = 10_000_000  # bytes


def open_plain(path: Path, flags: int) -> int:
    """A descriptor of an ordinary file. Raises OSError, also for a pipe, a device or a folder."""
    opened = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return opened


def read_script(path: Path) -> bytes:
    """Raises OSError, and ValueError for one that no person wrote."""
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        data = file.read(_LARGEST_SCRIPT + 1)
    if len(data) > _LARGEST_SCRIPT:
        raise ValueError(f"it is larger than {_LARGEST_SCRIPT:,} bytes")
    return data


def decoded(data: bytes) -> object:
    """What JSON says. Raises ValueError."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
