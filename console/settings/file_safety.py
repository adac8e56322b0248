"""Whether other users of this machine could change a file or folder that the console trusts. Reads only."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from pathlib import Path


def who_may_write(path: Path) -> str | None:
    """Which others may change what is there: "everybody", or "the group NAME"; None where nobody else may.

    Raises OSError. The sticky bit counts for a folder: what is in it can be replaced by its owner alone.
    """
    status = path.stat()
    mode = status.st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_ISVTX:
        return None
    if mode & stat.S_IWOTH:
        return "everybody"
    if mode & stat.S_IWGRP and not _is_private(status.st_gid, status.st_uid):
        return f"the group {_group_name(status.st_gid)}"
    return None


def who_may_replace(path: Path) -> str | None:
    """As `who_may_write`, of the path or a folder on the way to it: whoever writes that can replace it.

    Of the folders further up only those count that everybody may write.
    """
    real = path.resolve()
    others = who_may_write(path) or who_may_write(real.parent)
    above = (folder for folder in real.parent.parents if who_may_write(folder) == "everybody")
    return others or ("everybody" if next(above, None) is not None else None)


def read_regular(path: Path, most: int) -> bytes:
    """The whole of a file. Raises OSError, also for what is no file, which might never end, and for a larger one."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as file:
        if stat.S_ISDIR(os.fstat(opened).st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path))
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "it is not a file", str(path))
        held = file.read(most + 1)
    if len(held) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
    return held


def _is_private(gid: int, uid: int) -> bool:
    """The group is the owner's own: it has the owner's name and no other member."""
    try:
        owner, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return gid == uid == os.getuid()  # a user without a name, as in a container
    return owner.pw_gid == gid and group.gr_name == owner.pw_name and set(group.gr_mem) <= {owner.pw_name}


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
