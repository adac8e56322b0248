"""dlq secrets check: whose account answers, and the exit code of each way it can end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from console.cli.main import run
from console.services.replay import venue_pool
from tests.support.http_server import full_port
from venues import BadCredentials, Credentials, Mode, Readiness, Route, VenueError, WrongMode

GOOD = Readiness(True, True, "market open", account_usable=True)
NUMBERS = '[venues.alpaca.accounts.hedge]\nlive_number = "{}"\n'


@dataclass
class Client:
    """Answers what the test says; the account is known once it is open."""

    seen: Readiness
    tells: str | None
    opening: VenueError | None = None
    account: str | None = None
    host: str = "api.alpaca.markets"
    profile: Any = field(default_factory=lambda: type("P", (), {"tells_account": True})())

    async def open(self) -> None:
        if self.opening:
            raise self.opening
        self.account = self.tells

    async def probe(self) -> Readiness:
        return self.seen

    async def aclose(self) -> None: ...


Check = Callable[..., tuple[int, str, str]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Run the verb against a client; `keys` are what connect was given."""

    def checked(*words: str, client: Client | None = None, config: str = "") -> tuple[int, str, str]:
        def connect(kind: str, mode: Mode, credentials: Credentials, route: Route) -> Client | None:
            assert (kind, mode) == ("alpaca", "live")
            connected.append(credentials.reveal("api_key"))
            return client

        connected: list[str] = []
        folder = tmp_path / "secrets"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = tmp_path / "config.toml"
        path.write_text(f"credentials_dir = {json.dumps(str(folder))}\n{config}")
        for prefix in ("alpaca.live", "alpaca.hedge.live"):
            for name in ("api_key", "secret_key"):
                (folder / f"{prefix}.{name}").touch(0o600)
                (folder / f"{prefix}.{name}").write_text(prefix)
        if client is not None:
            monkeypatch.setattr(venue_pool, "connect", connect)
        code = run(["secrets", "check", "alpaca", *words, "--live", "--config", str(path)])
        out, err = capsys.readouterr()
        wanted = "alpaca.hedge.live" if "hedge" in words else "alpaca.live"
        assert set(connected) <= {wanted}
        return code, out, err

    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    return checked


def test_the_venue_s_own_account_is_told(check: Check) -> None:
    said = "account 123456789 at api.alpaca.markets: ok: market open\n"
    assert check(client=Client(GOOD, "123456789")) == (0, f"alpaca live {said}", "")
    hedge = check("--account", "hedge", client=Client(GOOD, "123456789"))
    assert hedge == (0, f"alpaca live of account hedge: {said}", "")
    assert check(client=Client(GOOD, None)) == (0, "alpaca live at api.alpaca.markets: ok: market open\n", "")


def test_what_the_venue_says_is_shown_safely(check: Check) -> None:
    code, out, _ = check(client=Client(Readiness(True, False, "a\x1b[2J\nb", account_usable=True), "1\n2"))
    assert (code, out.count("\n"), "\x1b" in out) == (0, 1, False)


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (Readiness(True, False, "the keys were refused", account_usable=False), 1),
        (Readiness(True, False, "no such mode", account_usable=True, really_paper=True), 1),
        (Readiness(True, True, "live indeed", account_usable=True, really_paper=False), 0),
        (Readiness(True, False, "market closed", account_usable=True), 0),
        (Readiness(True, False, "no answer about the account"), 4),
        (Readiness(False, False, "ConnectError"), 4),
    ],
)
def test_a_probe_ends_with_the_code_of_what_it_found(check: Check, seen: Readiness, code: int) -> None:
    ended, out, _ = check(client=Client(seen, None))
    assert (ended, "NOT ok" in out, out.count("\n")) == (code, code != 0, 1)


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (WrongMode("this is a paper account"), 1),
        (BadCredentials("api_key: malformed"), 4),
        (VenueError("cannot be reached"), 4),
    ],
)
def test_a_client_that_does_not_open_ends_in_one_line(check: Check, problem: VenueError, code: int) -> None:
    ended, out, err = check(client=Client(GOOD, None, opening=problem))
    assert (ended, out, err) == (code, "", f"dlq: alpaca live: {problem}\n")


def test_another_account_than_the_config_names_is_refused(check: Check) -> None:
    assert check("--account", "hedge", client=Client(GOOD, "1"), config=NUMBERS.format("1"))[0] == 0
    code, out, err = check("--account", "hedge", client=Client(GOOD, "1"), config=NUMBERS.format("2"))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "live_number = 2 for hedge" in err
    gone = Client(Readiness(False, False, "ConnectError"), None)
    assert check("--account", "hedge", client=gone, config=NUMBERS.format("2"))[0] == 4


def test_what_is_not_set_is_no_refusal_of_the_venue(check: Check) -> None:
    code, out, err = check("--account", "other")
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert "dlq secrets set alpaca --account other --live" in err


def test_a_venue_that_does_not_answer_is_no_refusal(check: Check) -> None:
    with full_port() as url:
        code, _, _ = check(config=f'[venues.alpaca]\nlive_endpoint = "{url}"\ntimeout = 1\n')
    assert code == 4


def test_the_default_account_may_use_the_venue_s_own(check: Check) -> None:
    config = '[venues.alpaca]\ndefault_account = "main"\n'
    code, out, _ = check("--account", "main", client=Client(GOOD, "1"), config=config)
    assert (code, out.startswith("alpaca live of account main: account 1 at ")) == (0, True)
