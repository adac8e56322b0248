"""Whose secrets are read, from where: an account's own set, whole, from one place, and never anybody else's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote_to_bytes

import keyring
import pytest
from keyring.backend import KeyringBackend

from console.settings.secret_names import SetName, encoded, hub_set, provider_set, venue_set
from console.settings.secrets import Vault
from venues import BadCredentials, MissingCredentials, Mode, SecretSet

HOSTILE = ("..", "/", "paper", "live", "a.b", "b.paper", "%41", "A", "ü", "a\nb", "x" * 300, " ", "\udc80", "../../etc")
PAIR = ("api_key", "secret_key")


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

    def keep(self, service: str, **fields: str) -> None:
        self.items |= {(f"dlq-console/{service}", name): value for name, value in fields.items()}


Windows.__module__ = "keyring.backends.Windows"


@pytest.fixture
def backend() -> Iterator[Windows]:
    backend = Windows()
    before = keyring.get_keyring()
    keyring.set_keyring(backend)
    yield backend
    keyring.set_keyring(before)


def pair(name: str) -> dict[str, str]:
    return {"api_key": f"{name}-key", "secret_key": f"{name}-secret"}


def alpaca(account: str | None, mode: Mode = "live", *, venue: str = "alpaca", venue_too: bool = False) -> SecretSet:
    return SecretSet(venue, "alpaca", account, mode, venue_too)


def values(vault: Vault, wanted: SecretSet) -> tuple[str, ...]:
    held = vault.credentials(wanted)
    return tuple(held.reveal(name) for name in held.fields())


def files(folder: Path, prefix: str, fields: Mapping[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, value in fields.items():
        path = folder / f"{prefix}.{name}"
        path.touch(0o600)
        path.write_text(value)


def test_long_keys_are_kept_in_parts(backend: Windows) -> None:
    vault, at = Vault(None, {}), venue_set("kalshi", None, "live")
    fields = ("api_key_id", "private_key")
    long = "".join(chr(33 + number % 90) for number in range(3247))
    vault.write(at, "private_key", long)
    kept = vault.kept(at, fields)
    assert kept is not None
    assert (kept.credentials.reveal("private_key"), kept.missing) == (long, ("api_key_id",))
    vault.write(at, "private_key", "short")
    assert list(backend.items) == [("dlq-console/kalshi/live", "private_key")]
    assert vault.delete(at, "private_key")
    assert backend.items == {}


def test_paper_never_reads_live(backend: Windows) -> None:
    backend.keep("alpaca/live", **pair("x"))
    backend.keep("alpaca/a/live", **pair("a"))
    vault = Vault(None, {})
    with pytest.raises(MissingCredentials, match="dlq secrets set alpaca --paper"):
        vault.credentials(alpaca(None, "paper"))
    with pytest.raises(MissingCredentials, match="dlq secrets set alpaca --account a --paper"):
        vault.credentials(alpaca("a", "paper", venue_too=True))
    assert values(vault, alpaca(None)) == ("x-key", "x-secret")


def test_every_account_has_its_own(backend: Windows) -> None:
    backend.keep("alpaca/live", **pair("own"))
    backend.keep("alpaca/a/live", **pair("a"))
    backend.keep("alpaca/b/live", **pair("b"))
    vault = Vault(None, {})
    for account, name in ((None, "own"), ("", "own"), ("a", "a"), ("b", "b")):
        assert values(vault, alpaca(account)) == (f"{name}-key", f"{name}-secret")
    for account in ("c", "A", "a/live", "a.live", "live"):
        with pytest.raises(MissingCredentials):
            vault.credentials(alpaca(account))


def test_a_default_account_uses_the_venue_s_set_only_where_it_has_nothing_of_its_own(backend: Windows) -> None:
    backend.keep("alpaca/live", **pair("own"))
    vault = Vault(None, {})
    assert values(vault, alpaca("main", venue_too=True)) == ("own-key", "own-secret")
    backend.keep("alpaca/main/live", api_key="main-key")
    with pytest.raises(MissingCredentials, match=r"secret_key of alpaca live of account main is not set in keyring .*"):
        vault.credentials(alpaca("main", venue_too=True))
    backend.keep("alpaca/main/live", secret_key="main-secret")
    assert values(vault, alpaca("main", venue_too=True)) == ("main-key", "main-secret")


def test_a_venue_of_a_name_of_its_own_never_uses_those_of_its_kind(backend: Windows, tmp_path: Path) -> None:
    backend.keep("alpaca/live", **pair("kind"))
    files(tmp_path, "alpaca.live", pair("kind"))
    vault = Vault(tmp_path, {})
    with pytest.raises(MissingCredentials, match="dlq secrets set fund-b --live"):
        vault.credentials(alpaca(None, venue="fund-b"))
    backend.keep("fund-b/live", api_key="b-key")
    with pytest.raises(MissingCredentials, match="secret_key of fund-b live is not set in keyring"):
        vault.credentials(alpaca(None, venue="fund-b"))


def test_a_set_comes_whole_from_the_first_place_that_has_any_of_it(backend: Windows, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    backend.keep("alpaca/a/live", **pair("ring"))
    files(second, "alpaca.a.live", pair("second"))
    files(first, "alpaca.a.live", {"secret_key": "first"})
    vault = Vault(first, {"CREDENTIALS_DIRECTORY": str(second)})
    with pytest.raises(MissingCredentials, match=f"api_key of .* is not set in {first}/alpaca.a.live"):
        vault.credentials(alpaca("a"))
    (first / "alpaca.a.live.secret_key").unlink()
    assert values(vault, alpaca("a")) == ("second-key", "second-secret")
    (second / "alpaca.a.live.api_key").write_text("\n")
    with pytest.raises(MissingCredentials, match="api_key of"):
        vault.credentials(alpaca("a"))
    for name in PAIR:
        (second / f"alpaca.a.live.{name}").unlink()
    assert values(vault, alpaca("a")) == ("ring-key", "ring-secret")


@pytest.mark.parametrize("account", HOSTILE)
def test_any_account_can_have_secrets_and_nobody_else_s(backend: Windows, tmp_path: Path, account: str) -> None:
    vault = Vault(tmp_path, {})
    for other in (*HOSTILE, None):
        if other != account:
            for name in PAIR:
                vault.write(venue_set("alpaca", other, "live"), name, f"other {other!r}")
    with pytest.raises(MissingCredentials) as missing:
        vault.credentials(alpaca(account))
    assert str(missing.value).isprintable()
    vault.write(venue_set("alpaca", account, "live"), "api_key", "k")
    vault.write(venue_set("alpaca", account, "live"), "secret_key", "s")
    assert values(vault, alpaca(account)) == ("k", "s")
    if len(account) < 200:
        files(tmp_path, venue_set("alpaca", account, "live").prefix, pair("file"))
        assert values(vault, alpaca(account)) == ("file-key", "file-secret")
        assert {path.parent for path in tmp_path.rglob("*")} == {tmp_path}


def test_no_two_sets_share_a_name() -> None:
    accounts = (None, *HOSTILE)
    venues = ("a", "a.b", "a/b", "ccxt:x", "ccxt%3Ax", "%61", "ü", "..", "a.b.paper")
    modes: tuple[Mode, ...] = ("paper", "live")
    sets = [venue_set(venue, account, mode) for venue in venues for account in accounts for mode in modes]
    others = [provider_set(name, tenant) for name in venues for tenant in accounts]
    for group in (sets, others, [hub_set(name) for name in venues]):
        assert len({one.service for one in group}) == len(group)
        assert len({one.prefix for one in group}) == len(group)


def test_names_are_as_documented() -> None:
    assert venue_set("ccxt:binance", "main", "live").service == "dlq-console/ccxt:binance/main/live"
    assert venue_set("ccxt:binance", "main", "live").prefix == "ccxt%3Abinance.main.live"
    assert venue_set("binance.us", None, "paper").service == "dlq-console/binance.us/paper"
    assert venue_set("a b", "ü:1.x/y", "live").service == "dlq-console/a%20b/%C3%BC%3A1%2Ex%2Fy/live"
    assert provider_set("Acme Pay", "t.1").service == "dlq-console/provider/Acme%20Pay/t%2E1"
    assert (hub_set("desk").service, hub_set("desk").prefix) == ("dlq-console/hub/desk", "hub.desk")
    assert encoded("\udcff") == "%FF"
    assert unquote_to_bytes(encoded("a\nb/ü")) == "a\nb/ü".encode()


def test_names_of_the_first_version_are_read_where_the_encoded_ones_are_absent(
    backend: Windows, tmp_path: Path
) -> None:
    vault = Vault(tmp_path, {})
    spaced = alpaca(None, venue="my fund")
    backend.keep("my fund/live", **pair("old"))
    assert values(vault, spaced) == ("old-key", "old-secret")
    backend.keep("my%20fund/live", **pair("new"))
    assert values(vault, spaced) == ("new-key", "new-secret")
    for venue in ("ccxt:binance", "binance.us"):
        files(tmp_path, f"{venue}.live", pair(venue))
        assert values(vault, alpaca(None, venue=venue))[0] == f"{venue}-key"
    files(tmp_path, "ccxt%3Abinance.live", {"api_key": "half"})
    with pytest.raises(MissingCredentials, match="secret_key"):
        vault.credentials(alpaca(None, venue="ccxt:binance"))


@pytest.mark.parametrize("venue", ["alpaca.b", "fund.b", "ccxt%3Abinance.b"])
def test_a_name_of_the_first_version_that_is_an_account_s_now_is_only_that(
    backend: Windows, tmp_path: Path, venue: str
) -> None:
    vault = Vault(tmp_path, {}, known=("fund",))
    files(tmp_path, f"{venue}.live", pair("b"))
    with pytest.raises(MissingCredentials):
        vault.credentials(alpaca(None, venue=venue))
    owner = venue.removesuffix(".b").replace("%3A", ":")
    assert values(vault, alpaca("b", venue=owner)) == ("b-key", "b-secret")


def test_a_slash_of_the_first_version_never_leads_to_an_account(backend: Windows, tmp_path: Path) -> None:
    backend.keep("alpaca/b/live", **pair("b"))
    (tmp_path / "inside").mkdir()
    files(tmp_path, "x.live", pair("outside"))
    for venue in ("alpaca/b", "../x"):
        with pytest.raises(MissingCredentials):
            Vault(tmp_path / "inside", {}).credentials(alpaca(None, venue=venue))


def test_what_is_missing_is_told_with_its_two_remedies(backend: Windows) -> None:
    with pytest.raises(MissingCredentials) as missing:
        Vault(None, {}).credentials(SecretSet("ccxt:binance", "alpaca", "it's 1\n", "live"))
    text = str(missing.value)
    assert r"dlq secrets set ccxt:binance --account $'it\'s 1\x0a' --live" in text
    assert r"""default_account = "it's 1\u000A" into [venues."ccxt:binance"]""" in text
    with pytest.raises(MissingCredentials, match="--account=-x --live") as missing:
        Vault(None, {}).credentials(alpaca("-x"))
    assert 'default_account = "-x" into [venues.alpaca]' in str(missing.value)


def test_a_venue_without_secrets_needs_none(backend: Windows) -> None:
    assert Vault(None, {}).credentials(SecretSet("ibkr", "ibkr", "U1", "live")).fields() == ()
    assert backend.asked == []


def test_a_name_that_is_no_text_is_refused(backend: Windows) -> None:
    with pytest.raises(BadCredentials, match="not text"):
        Vault(None, {}).credentials(alpaca("\ud800"))


@pytest.mark.parametrize("kind", ["hub", "store", "provider"])
def test_a_venue_never_reads_what_is_kept_for_others(backend: Windows, kind: str) -> None:
    backend.keep(f"{kind}/live", **pair("theirs"))
    with pytest.raises(BadCredentials, match=f"a venue cannot be called {kind}"):
        Vault(None, {}).credentials(alpaca(None, venue=kind))


def test_tenants_have_authorizations_of_their_own(backend: Windows, tmp_path: Path) -> None:
    backend.keep("provider/acme", authorization="all")
    backend.keep("provider/acme/t%2E1", authorization="one")
    vault = Vault(tmp_path, {})
    files(tmp_path, "provider.acme.t-2", {"authorization": "two"})

    def told(tenant: str | None) -> str | None:
        held = vault.authorization("acme", tenant)
        return None if held is None else held.reveal("authorization")

    assert [told(tenant) for tenant in (None, "", "t.1", "t-2", "t-3")] == ["all", "all", "one", "two", None]
    files(tmp_path, "provider.acme.t-2", {"authorization": ""})
    with pytest.raises(BadCredentials, match="is empty"):
        told("t-2")


def test_a_file_of_the_first_version_that_is_a_tenant_s_now_is_only_that(backend: Windows, tmp_path: Path) -> None:
    files(tmp_path, "provider.a.b", {"authorization": "x"})
    assert Vault(tmp_path, {}, known=("a",)).authorization("a.b") is None
    assert Vault(tmp_path, {}, known=("c",)).authorization("a.b") is not None
    assert SetName(("provider", "a.b"), 1).prefixes(()) == ("provider.a%2Eb", "provider.a.b")
