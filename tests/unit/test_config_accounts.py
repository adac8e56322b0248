"""What the config says of accounts, options, tenants and limits, and limits that change while the console runs."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pytest

from console.settings.config import AccountConfig, Config, ConfigError, Limits, amount_in, load_config
from console.settings.limits import LimitsInForce


def load(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load_config(str(path), {})


def test_the_accounts_of_a_venue_are_read(tmp_path: Path) -> None:
    text = """
[venues.alpaca]
default_account = "main"
[venues.alpaca.accounts.hedge]
paper_number = "PA3XXXXXXX"
live_number = "123456789"
[venues.alpaca.accounts."client/a.1"]
[venues.kalshi]
"""
    config = load(tmp_path, text)
    alpaca = config.venue("alpaca")
    assert alpaca.default_account == "main"
    hedge = AccountConfig(paper_number="PA3XXXXXXX", live_number="123456789")
    assert alpaca.accounts == {"hedge": hedge, "client/a.1": AccountConfig()}
    assert (config.venue("kalshi").default_account, config.venue("kalshi").accounts) == (None, {})


def test_the_options_of_an_exchange_are_read_as_they_are(tmp_path: Path) -> None:
    text = '[venues."ccxt:binance"]\noptions = { defaultType = "swap", deep = { a = [1, 2] } }\n'
    config = load(tmp_path, text + '[venues.mine]\ntype = "ccxt:okx"\noptions = { x = true }\n')
    assert config.venue("ccxt:binance").options == {"defaultType": "swap", "deep": {"a": [1, 2]}}
    assert config.venue("mine").options == {"x": True}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('default_account = ""', "venues.alpaca.default_account must not be empty"),
        ("default_account = 7", "venues.alpaca.default_account has the wrong type"),
        ("accounts = 7", "venues.alpaca.accounts must be a table"),
        ("accounts = { a = 7 }", "venues.alpaca.accounts.a must be a table"),
        ('accounts = { "" = {} }', "venues.alpaca.accounts: the name of an account must not be empty"),
        ("accounts = { a = { live_number = 123 } }", "venues.alpaca.accounts.a.live_number has the wrong type"),
        ('accounts = { a = { paper_number = "" } }', "venues.alpaca.accounts.a.paper_number must not be empty"),
        ('accounts = { a = { number = "1" } }', "venues.alpaca.accounts.a.number is not a setting"),
        ('options = { defaultType = "swap" }', "venues.alpaca.options is for ccxt venues only"),
        ("options = 1", "venues.alpaca.options must be a table"),
    ],
)
def test_what_is_wrong_with_an_account_is_named_at_its_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(tmp_path, f"[venues.alpaca]\n{text}\n")


@pytest.mark.parametrize("text", ["0", "3601", "-1", "1.5", "true", '"60"'])
def test_plan_seconds_is_a_whole_number_up_to_an_hour(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"limits\.plan_seconds"):
        load(tmp_path, f"[limits]\nplan_seconds = {text}\n")


def test_plan_seconds_is_read(tmp_path: Path) -> None:
    assert [load(tmp_path, f"[limits]\nplan_seconds = {n}\n").limits.plan_seconds for n in (1, 3600)] == [1, 3600]
    assert load(tmp_path, "").limits.plan_seconds == 60


def test_only_the_names_of_tenants_count(tmp_path: Path) -> None:
    text = '[providers.acme]\nbase_url = "https://x"\n[providers.acme.tenants]\na = "Client A"\n"b.1" = {}\n'
    config = load(tmp_path, text + '[providers.acme.tenants.c]\n[providers.other]\nbase_url = "https://y"\n')
    assert config.providers["acme"].tenants == frozenset({"a", "b.1", "c"})
    assert config.providers["other"].tenants is None
    empty = load(tmp_path, '[providers.acme]\nbase_url = "https://x"\n[providers.acme.tenants]\n')
    assert empty.providers["acme"].tenants == frozenset()


@pytest.mark.parametrize(
    ("text", "says"), [("7", "must be a table"), ('["a"]', "must be a table"), ('{ "" = 1 }', "empty")]
)
def test_tenants_are_a_table(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"providers\.acme\.tenants.*{says}"):
        load(tmp_path, f'[providers.acme]\nbase_url = "https://x"\ntenants = {text}\n')


def test_a_limit_that_is_lowered_counts_at_once(tmp_path: Path) -> None:
    config = load(tmp_path, "[limits]\nmax_batch = 9\n")
    limits = LimitsInForce(config)
    assert limits.current() == config.limits
    assert limits.current().max_batch == 9
    (tmp_path / "config.toml").write_text("[limits]\nmax_batch = 3\n")
    assert limits.current().max_batch == 3
    other = tmp_path / "other.toml"
    other.write_text("[limits]\nmax_batch = 2\n")
    other.replace(tmp_path / "config.toml")
    assert limits.current().max_batch == 2


def test_a_file_that_changed_before_it_was_asked_counts(tmp_path: Path) -> None:
    config = load(tmp_path, "[limits]\nmax_batch = 9\n")
    path = tmp_path / "config.toml"
    before = path.stat()
    path.write_text("[limits]\nmax_batch = 8\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert LimitsInForce(config).current().max_batch == 8


@pytest.mark.parametrize("text", ["[limits]\nmax_batch = 0\n", "[limits", "[limits]\nmax_bach = 1\n", None])
def test_limits_that_cannot_be_read_are_no_limits(tmp_path: Path, text: str | None) -> None:
    limits = LimitsInForce(load(tmp_path, "[limits]\nmax_batch = 9\n"))
    limits.current()
    path = tmp_path / "config.toml"
    path.unlink() if text is None else path.write_text(text)
    for _ in range(2):
        with pytest.raises(ConfigError):
            limits.current()
    path.write_text("[limits]\nmax_batch = 1\n")
    assert limits.current().max_batch == 1


def test_an_unchanged_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = LimitsInForce(load(tmp_path, "[limits]\nmax_batch = 9\n"))
    limits.current()
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"not TOML")
    assert limits.current().max_batch == 9


def test_without_a_file_the_limits_are_those_given() -> None:
    assert LimitsInForce(Config(limits=Limits(max_batch=4))).current() == Limits(max_batch=4)


def test_limits_are_read_in_one_currency_or_in_several(tmp_path: Path) -> None:
    text = """
[venues.alpaca]
data_endpoint = "http://127.0.0.1:18080"
[limits]
max_notional = { usd = 50000, JPY = 7500000.5, default = 9 }
four_eyes_over = 1000
max_drift = 0.1
quote_seconds = 5
labels = ["desk", "book"]
"""
    config = load(tmp_path, text)
    limits = config.limits
    assert limits.max_notional == {"USD": Decimal(50000), "JPY": Decimal("7500000.5"), "default": Decimal(9)}
    assert [amount_in(limits.max_notional, name) for name in ("usd", "JPY", "CHF", None)] == [
        Decimal(50000),
        Decimal("7500000.5"),
        Decimal(9),
        Decimal(9),
    ]
    assert amount_in(limits.four_eyes_over, "CHF") == Decimal(1000)
    assert (limits.max_drift, limits.quote_seconds, limits.labels) == (Decimal("0.1"), 5, ("desk", "book"))
    assert config.venue("alpaca").data_endpoint == "http://127.0.0.1:18080"
    assert (Limits().max_drift, Limits().quote_seconds, Limits().labels) == (Decimal("0.05"), 60, ())


@pytest.mark.parametrize(
    "line",
    [
        "max_notional = {}",
        'max_notional = { USD = "much" }',
        "four_eyes_over = { USD = -1 }",
        "max_drift = 5",
        "max_drift = -0.1",
        "quote_seconds = 0",
        "quote_seconds = 4000",
        "labels = [1]",
        'labels = "desk"',
    ],
)
def test_a_limit_that_would_be_none_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match="limits"):
        load(tmp_path, f"[limits]\n{line}\n")
