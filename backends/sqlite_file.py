"""Checks a SQLite file before SQLite opens it, and notices cheaply that it was not written. Reads no table."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from dlq_sink.error import NotADLQ, Unreachable
from dlq_sink.values import readable

from backends.target import SQLiteTarget

_HEADER = b"SQLite format 3\0"
_STILL_LOOKS = 10
_WAL_VERSION = 2  # byte 18 of the header
_kept: dict[tuple[int, int], int] = {}  # one descriptor per store in rollback mode, never closed


def check_file(target: SQLiteTarget) -> None:
    """Raises if the file cannot be opened, or if opening it would harm its engine."""
    path = readable(str(target.path))
    try:
        status = target.path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):  # a pipe would never end
            raise NotADLQ(f"{path} is not a file")
        header = _header(target.path, status)
    except FileNotFoundError:
        raise Unreachable(f"no such file: {path} ({_init(path)} would make a store there)") from None
    except IsADirectoryError:
        raise NotADLQ(f"{path} is a directory, not a SQLite file") from None
    except PermissionError:
        raise Unreachable(f"no permission to read {path}") from None
    except OSError as problem:
        raise Unreachable(f"cannot read {path}: {problem.strerror}") from None
    _check_side_files(target.path, status)
    if header is None:
        return
    if not header:
        raise NotADLQ(f"{path} is empty: {_init(path)} makes a store there")
    if not header.startswith(_HEADER):
        raise NotADLQ(f"{path} is not a SQLite database")
    if len(header) < 100:
        raise Unreachable(f"{path} is damaged: it ends within its header; restore it from a backup")
    if header[18] == _WAL_VERSION and not target.immutable:
        _check_wal(target.path, status)


def _header(path: Path, status: os.stat_result) -> bytes | None:
    """The file's first bytes; None if somebody has the store open in WAL mode.

    Closing any descriptor of a file drops every lock this process holds on it, including SQLite's, and another process
    could then remove the log while it is in use. So a descriptor is closed only where SQLite can hold no lock.
    """
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError
    if Path(f"{path.resolve()}-shm").exists():
        return None
    key = status.st_dev, status.st_ino
    descriptor = _kept.get(key)
    if descriptor is None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    header = os.pread(descriptor, 100, 0)
    if header.startswith(_HEADER) and header[18:19] != bytes([_WAL_VERSION]):
        _kept[key] = descriptor
    else:
        _kept.pop(key, None)
        os.close(descriptor)
    return header


def _check_side_files(path: Path, status: os.stat_result) -> None:
    """Refuse a log or journal of somebody who may not write the store: SQLite would write its pages into the store."""
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return
    for tail in ("-journal", "-wal", "-shm"):
        beside = Path(f"{path.resolve()}{tail}")
        try:
            found = beside.lstat()
        except OSError:
            continue
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, status.st_uid, os.geteuid()):
            raise Unreachable(
                f"{readable(str(beside))} is not of the store's owner {_user(status.st_uid)}: SQLite would take it for "
                "an unfinished write. Find out who put it there, and remove it"
            )


def _check_wal(path: Path, status: os.stat_result) -> None:
    """Refuse a closed WAL store of another user: reading it makes `-shm` and `-wal` that its engine could not write.

    SQLite gives both the rights of the store itself: beside one that anyone may write, so may the engine.
    """
    real, shown = path.resolve(), readable(str(path))
    if Path(f"{real}-shm").exists():
        return
    uid = os.geteuid()
    url = f"sqlite:///{shown}?immutable=1"
    if uid not in (0, status.st_uid) and not status.st_mode & stat.S_IWOTH:
        owner = _user(status.st_uid)
        raise Unreachable(
            f"{shown} is a closed WAL store of user {owner}: opening it as {_user(uid)} would leave files that its "
            f"engine cannot write. Run as {owner}, start the engine first, or, while the engine is stopped, attach a "
            f"copy or {url}"
        )
    if not os.access(real.parent, os.W_OK):
        raise Unreachable(
            f"{shown} is a closed WAL store in a directory that cannot be written: SQLite cannot open it. "
            f"Start the engine first, or, while the engine is stopped, attach a copy or {url}"
        )


def could_be_written(path: Path) -> bool:
    """Could this user change the store, with the rights as they are or as the owner could set them?"""
    real = path.resolve()
    files = [file for tail in ("", "-wal", "-shm", "-journal") if (file := Path(f"{real}{tail}")).exists()]
    places = [*files, real.parent]
    return any(os.access(place, os.W_OK) or place.stat().st_uid == os.geteuid() for place in places)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


class FileChangeProbe:
    """True if the file was certainly not written since the last call, so that nobody needs to ask SQLite.

    Waits for two equal looks, because the first may fall into the same clock tick as a write, and regularly answers
    False, because some file systems keep no times.
    """

    def __init__(self, path: Path) -> None:
        real = path.resolve()  # SQLite keeps the -wal beside the real file
        self._paths = (str(real), f"{real}-wal")
        self._seen: object = None
        self._looks = 0

    def __call__(self) -> bool:
        traces = tuple(map(_trace, self._paths))
        self._looks = self._looks + 1 if traces == self._seen else 0
        self._seen = traces
        return self._looks > 1 and self._looks % _STILL_LOOKS != 0


def _trace(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - called ten times a second; Path.stat costs more
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev


def _init(path: str) -> str:
    """The command that makes a store there, as a shell takes it."""
    from shlex import quote  # only to say what is wrong

    return f"dlq init --db {quote(path)}"
