"""Whether other users of this machine could change a file or folder that the console trusts. Reads only."""

from __future__ import annotations

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
