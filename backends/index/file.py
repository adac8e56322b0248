"""Owns the index file: its path, permissions and single writer. Makes it anew if it is outdated or broken."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from backends.index import schema

_BUSY_SECONDS = 5.0


class IndexUnavailable(Exception):
    """The index cannot be used; `str()` says why in one line. Searches then read the store, more slowly."""


@dataclass(frozen=True, slots=True)
class Cache:
    """Where one store's index lies. `version` covers the labelling rules: a change of them makes the file obsolete."""

    folder: Path
    key: str
    version: str

    @classmethod
    def of(cls, folder: Path, *, store_id: str, label: str, table: str, version: str) -> Cache:
        seed = "\n".join((store_id, label, table))
        return cls(folder, hashlib.sha256(seed.encode("utf-8", "backslashreplace")).hexdigest()[:32], version)

    @property
    def path(self) -> Path:
        return self.folder / f"{self.key}.index.db"

    @property
    def full_version(self) -> str:
        return f"{schema.VERSION}:{self.version}"

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open it for writing. Raises IndexUnavailable, also if another process is the writer."""
        with faults(self.path):
            self._make_folder()
            lock = os.open(self.folder / f"{self.key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(lock)
            with faults(self.path):
                connection = self._opened() or self._new()
                for setting in schema.WRITER_SETTINGS:
                    connection.execute(setting)
            try:
                yield connection
            except IndexUnavailable as problem:
                if _is_broken(problem.__cause__):
                    self.remove()  # the next writer makes a new one
                raise
            finally:
                connection.close()
        finally:
            os.close(lock)

    @property
    def is_kept(self) -> bool:
        """Whether a process is its writer now."""
        try:
            lock = os.open(self.folder / f"{self.key}.lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            _lock(lock)
        except IndexUnavailable:
            return True
        finally:
            os.close(lock)
        return False

    def reading(self) -> sqlite3.Connection | None:
        """None if there is no index of this version."""
        with faults(self.path):
            connection = self._opened()
            if connection is not None:
                connection.execute("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, text, row)")
                connection.execute("PRAGMA query_only = 1")
            return connection

    def remove(self) -> None:
        for tail in ("", "-wal", "-shm", "-journal"):
            self.path.with_name(self.path.name + tail).unlink(missing_ok=True)

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.folder.stat().st_mode & 0o077:
            self.folder.chmod(0o700)

    def _opened(self) -> sqlite3.Connection | None:
        """None if the file is missing, of another version, unfinished or broken."""
        if not self.path.exists():
            return None
        connection = _connect(self.path)
        try:
            if _version(connection) == self.full_version:
                _set(connection)
                return connection
        except sqlite3.Error as problem:
            if not _is_broken(problem):
                connection.close()
                raise
        connection.close()
        return None

    def _new(self) -> sqlite3.Connection:
        self.remove()
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = _connect(self.path)
        connection.execute("PRAGMA journal_mode = WAL")
        _set(connection)
        connection.execute("BEGIN")
        for statement in schema.TABLES:
            connection.execute(statement)
        start = {
            "version": self.full_version,
            "next_high": str(schema.ORIGIN),
            "next_low": str(schema.ORIGIN),
            "text_low": str(schema.ORIGIN),
        }
        connection.executemany("INSERT INTO meta VALUES (?, ?)", start.items())
        connection.execute("COMMIT")
        return connection


def default_folder(environ: dict[str, str] | os._Environ[str]) -> Path:
    home = environ.get("XDG_CACHE_HOME")
    # The XDG specification says to ignore a relative path.
    return (Path(home) if home and home.startswith("/") else Path.home() / ".cache") / "dlq-console"


@contextmanager
def faults(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as problem:
        raise IndexUnavailable(f"the index {path} cannot be used: {problem}") from problem


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _set(connection: sqlite3.Connection) -> None:
    for setting in schema.SETTINGS:
        connection.execute(setting)


def _version(connection: sqlite3.Connection) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
    return None if row is None else str(row[0])


def _is_broken(problem: BaseException | None) -> bool:
    """Whether the file is broken or unfinished, not merely locked or on a full disk."""
    if not isinstance(problem, sqlite3.Error):
        return False
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "no such table: meta" in str(problem)


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise IndexUnavailable("another console keeps the index of this store") from None


T = TypeVar("T")


class IndexThread:
    """Runs one connection on a thread of its own, for callers on an event loop."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def run(self, work: Callable[[], T]) -> T:
        # A cancelled caller must not leave the connection in the middle of a statement for the next one.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._executor, work))

    def close(self) -> None:
        self._executor.shutdown(wait=True)
