"""Decides whose unix socket may be talked to when nobody named one. Looks at owners, sends nothing."""

from __future__ import annotations

import os
import pwd
import socket
import stat
import struct
from collections.abc import Sequence
from pathlib import Path

from dlq_sink.error import BadTarget
from dlq_sink.libpq.settings import SOCKET_FOLDERS

_ROOT = 0


def socket_path(folder: str, port: int) -> str:
    """The socket's path; a name that begins with @ is an abstract one, which the system spells with a zero byte."""
    path = f"{folder}/.s.PGSQL.{port}"
    return f"\0{path[1:]}" if path.startswith("@") else path


def trusted_owners(path: Path, own: int) -> frozenset[int]:
    """Who may be behind a socket that nobody named: this user, root, and the owner of a folder not open to all."""
    folder = path.parent.stat()
    owners = {own, _ROOT}
    if not folder.st_mode & stat.S_IWOTH:
        owners.add(folder.st_uid)
        # Only root and the folder's owner can have put it here, or whom they let in by its group.
        if folder.st_uid == _ROOT:
            owners.add(path.lstat().st_uid)
    return frozenset(owners)


def default_sockets(port: int, folders: Sequence[str] = SOCKET_FOLDERS) -> tuple[list[str], list[str]]:
    """The folders whose socket may be used, and those whose socket belongs to somebody who must not be trusted."""
    usable: list[str] = []
    refused: list[str] = []
    seen: set[str] = set()
    for folder in folders:
        path = Path(socket_path(folder, port))
        real = os.path.realpath(path)
        try:
            found = path.lstat()
            if real in seen:
                continue
            seen.add(real)
            is_ours = stat.S_ISSOCK(found.st_mode) and found.st_uid in trusted_owners(path, os.geteuid())
        except OSError:
            continue
        (usable if is_ours else refused).append(folder)
    return usable, refused


def peer_uid(connected: socket.socket) -> int | None:
    """Who listens at the other end, by the kernel's word; None where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    size = struct.calcsize("3i")
    return int(struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, option, size))[1])


def uid_of(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise BadTarget("requirepeer of the DSN names an OS user that does not exist") from None
