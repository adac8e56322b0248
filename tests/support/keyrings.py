"""Keyring backends for tests: one in a file of the test's own, one that fails, and plaintext ones to be refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend


class FileKeyring(KeyringBackend):
    """Like a desktop keyring, but for one test: DLQ_TEST_VAULT names its file.

    Only a test that names it gets it: keyring chooses among all the classes it has heard of.
    """

    priority = -2

    def _read(self) -> dict[str, str]:
        path = Path(os.environ["DLQ_TEST_VAULT"])
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def _write(self, items: dict[str, str]) -> None:
        Path(os.environ["DLQ_TEST_VAULT"]).write_text(json.dumps(items))

    def get_password(self, service: str, username: str) -> str | None:
        Path(f"{os.environ['DLQ_TEST_VAULT']}.read").touch()  # it was asked
        return self._read().get(f"{service}|{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._write(self._read() | {f"{service}|{username}": password})

    def delete_password(self, service: str, username: str) -> None:
        items = self._read()
        del items[f"{service}|{username}"]
        self._write(items)


class PlaintextKeyring(FileKeyring):
    """Named as the one of keyrings.alt is."""


class UnderAnotherName(PlaintextKeyring):
    pass


class BrokenKeyring(FileKeyring):
    """Its file or bus has gone, and it says so in its own way."""

    def get_password(self, service: str, username: str) -> str | None:
        raise ConnectionError(f"{service} {username}")
