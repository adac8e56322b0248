"""Long secrets on Windows are kept in parts and come back whole; credentials go by name, then by kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend

from console.settings.secrets import Vault
from venues import BadCredentials


class Windows(KeyringBackend):
    """Refuses what Windows' credential manager refuses."""

    priority = 5

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], str] = {}
        self.asked: list[tuple[str, str]] = []

    def get_password(self, service: str, username: str) -> str | None:
        self.asked.append((service, username))
        return self.items.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        assert len(password.encode("utf-16-le")) <= 2560, "the credential manager takes no more"
        self.items[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.items[service, username]


Windows.__module__ = "keyring.backends.Windows"


@pytest.fixture
def backend() -> Iterator[Windows]:
    backend = Windows()
    before = keyring.get_keyring()
    keyring.set_keyring(backend)
    yield backend
    keyring.set_keyring(before)


def test_long_keys_are_kept_in_parts(backend: Windows) -> None:
    vault = Vault(None, {})
    long = "".join(chr(33 + number % 90) for number in range(3247))
    vault.write("kalshi", "live", "private_key", long)
    assert vault.read("kalshi", "live", "private_key") == long
    vault.write("kalshi", "live", "private_key", "short")
    assert vault.read("kalshi", "live", "private_key") == "short"
    assert list(backend.items) == [("dlq-console/kalshi/live", "private_key")]
    assert vault.delete("kalshi", "live", "private_key")
    assert backend.items == {}


def test_paper_never_reads_live(backend: Windows) -> None:
    vault = Vault(None, {})
    for field in ("api_key", "secret_key"):
        vault.write("alpaca", "live", field, "x")
    with pytest.raises(BadCredentials, match="dlq secrets set alpaca --paper"):
        vault.credentials("alpaca", "alpaca", "paper")
    assert vault.credentials("alpaca", "alpaca", "live").reveal("api_key") == "x"


def test_a_named_venue_has_its_own_secrets_or_those_of_its_kind(backend: Windows, tmp_path: Path) -> None:
    vault = Vault(tmp_path, {})
    for field in ("api_key", "secret_key"):
        vault.write("alpaca", "paper", field, "kind")
    assert vault.credentials("alpaca-hedge", "alpaca", "paper").reveal("api_key") == "kind"
    vault.write("alpaca-hedge", "paper", "api_key", "own")
    assert vault.credentials("alpaca-hedge", "alpaca", "paper").reveal("api_key") == "own"
