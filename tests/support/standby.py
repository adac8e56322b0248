"""A real streaming standby of a test's Postgres, made by pg_basebackup."""

from __future__ import annotations

import os

from tests.support.postgres import _NOBODY, Postgres, _free_port


class Standby(Postgres):
    def __init__(self, primary: Postgres) -> None:
        super().__init__()
        self._primary = primary

    def start(self) -> Standby:
        self._bin = self._binaries()
        if self._as_root:
            os.chown(self._home, _NOBODY, _NOBODY)
            self._home.chmod(0o755)
        copy = [self._bin / "pg_basebackup", "-D", self._home / "data", "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        self._run([*copy, "-h", "127.0.0.1", "-p", self._primary.port, "-U", "postgres"])
        self.port = _free_port()
        self.up()
        return self

    @property
    def is_possible(self) -> bool:
        return (self._binaries() / "pg_basebackup").exists()
