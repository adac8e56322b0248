"""Who acts: the real uid is the identity, the operator's name is only a label."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

from backends.ledger.actor import Actor
from console import __version__

_PROC = Path("/proc/self")
_NOBODY_LOGGED_IN = 4294967295  # the kernel's word for it
_EVERY_UID = ("0", "0", "4294967295")


def current_actor(label: str | None) -> Actor:
    uid = os.getuid()  # not the effective one: a set-uid program is not another person
    user = _name(uid)
    return Actor(
        operator=label or user,
        os_user=user,
        host=os.uname().nodename,  # as socket.gethostname says, which takes longer to load
        program=f"dlq-console {__version__}",
        uid=uid,
        sudo_user=os.environ.get("SUDO_USER") or None,
        login_uid=_login_uid(),
        foreign_namespace=is_foreign_namespace(),
    )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid{uid}"


def _login_uid() -> int | None:
    try:
        uid = int((_PROC / "loginuid").read_text())
    except (OSError, ValueError):
        return None
    return None if uid == _NOBODY_LOGGED_IN else uid


def is_foreign_namespace(uid_map: Path = _PROC / "uid_map") -> bool:
    """True unless uids mean here what they mean to the machine; a map that Linux does not show counts as foreign."""
    try:
        lines = uid_map.read_text().splitlines()
    except OSError:
        return sys.platform == "linux"
    return [tuple(line.split()) for line in lines] != [_EVERY_UID]
