"""doctor names what a config, secrets or a ledger of version 0.1 still need, each with its remedy."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Dlq
from tests.support.orders import row, sqlite_store

# Every key that a config of 0.1 could have.
OLD_CONFIG = """
theme = "dark"
reasons = ["desk-closed"]
credentials_dir = "{secrets}"
[stores.prod]
url = "{store}"
mode = "paper"
[venues.alpaca]
timeout = 10.0
paper_endpoint = "http://127.0.0.1:18080"
live_endpoint = "http://127.0.0.1:18080"
rate_per_minute = 200
visibility_seconds = 60
[limits]
max_batch = 50
max_notional = 20000
four_eyes_over = 90000
stale_after = "15m"
poison_after = 3
retry_limit = 10
duplicate_window = "15m"
[alerts]
depth = 100
oldest = "30m"
dominance = 0.5
[views]
old = "venue:kalshi age>1h"
[keymap]
dismiss = "D"
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store, a config and secrets as 0.1 left them; the config's path."""
    store = sqlite_store(tmp_path / "orders.db", [row(1), row(2, account_id="hedge"), row(3, account_id=None)])
    secrets = tmp_path / "secrets"
    secrets.mkdir(mode=0o700)
    for name in ("alpaca.paper.api_key", "alpaca.paper.secret_key"):
        (secrets / name).write_text("x")
        (secrets / name).chmod(0o600)
    config = tmp_path / "config.toml"
    config.write_text(OLD_CONFIG.format(secrets=secrets, store=store))
    config.chmod(0o600)
    return config


def _findings(dlq: Dlq, config: Path) -> dict[str, list[dict[str, Any]]]:
    ran = dlq("doctor", "--db", "prod", "--config", str(config), "--json")
    assert ran.code == 0, ran.err
    found: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(ran.out)["findings"]:
        assert set(one) == {"code", "text", "remedy"}
        found.setdefault(one["code"], []).append(one)
    return found


def test_a_config_of_0_1_is_told_what_to_change(dlq: Dlq, old: Path) -> None:
    found = _findings(dlq, old)
    (environment,) = found["environment-absent"]
    assert "[stores.prod]" in environment["remedy"]
    hedge, main = found["account-without-secrets"]
    assert "dlq secrets set alpaca --account hedge --paper" in hedge["remedy"]
    assert 'default_account = "main" into [venues.alpaca]' in main["remedy"]
    assert "limits-meaning" not in found  # its ledger is not of 0.1
    shown = dlq("doctor", "--db", "prod", "--config", str(old)).out
    assert "finding    environment-absent: " in shown
    assert "put default_account" in shown


def test_once_it_is_changed_doctor_is_content(dlq: Dlq, old: Path) -> None:
    text = old.read_text()
    text = text.replace('mode = "paper"', 'mode = "paper"\nenvironment = "live"')
    text = text.replace("timeout = 10.0", 'timeout = 10.0\ndefault_account = "main"')
    old.write_text(text)
    (old.parent / "secrets" / "alpaca.hedge.paper.api_key").write_text("x")
    found = _findings(dlq, old)
    assert not {"environment-absent", "account-without-secrets", "limits-meaning"} & set(found)


def test_a_policy_may_say_the_environment_instead(dlq: Dlq, old: Path) -> None:
    assert dlq("policy", "set", "environment=live", "--db", "prod", "--config", str(old)).code == 0
    assert "environment-absent" not in _findings(dlq, old)


def test_a_ledger_of_0_1_is_named_with_what_its_limits_mean_now(dlq: Dlq, old: Path) -> None:
    store = old.parent / "orders.db"
    script = Path(__file__).parent.parent / "data" / "ledgers" / "v1_9c3d3c4.sqlite.sql"
    for one in old.parent.glob("orders.db*"):
        one.unlink()
    with closing(sqlite3.connect(store)) as connection:
        connection.executescript(script.read_text())
    found = _findings(dlq, old)
    assert "ledger-older" in found
    (limits,) = found["limits-meaning"]
    assert "max_notional = 20000 and four_eyes_over = 90000" in limits["text"]
    assert "USD" in limits["remedy"]
