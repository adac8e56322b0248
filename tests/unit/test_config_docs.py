"""The page about accounts and secrets is true: its config loads, its commands exist, its names are those in use."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from console.cli.parser import build_parser
from console.settings.config import Config, load_config
from console.settings.secret_names import SetName, hub_set, provider_set, venue_set

PAGE = (Path(__file__).parents[2] / "docs" / "accounts.md").read_text("utf-8")
SETS = {
    "`alpaca`, entries without an account": venue_set("alpaca", None, "live"),
    "`alpaca`, account `hedge`": venue_set("alpaca", "hedge", "live"),
    "`ccxt:binance`, account `desk 1`": venue_set("ccxt:binance", "desk 1", "paper"),
    "provider `acme`": provider_set("acme"),
    "provider `acme`, tenant `client-a`": provider_set("acme", "client-a"),
    "hub of the store `prod`": hub_set("prod"),
}


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (snippet,) = snippets("toml")
    path = tmp_path / "config.toml"
    path.write_text(snippet)
    return load_config(str(path), {})


def test_the_config_loads_and_says_what_the_page_says(config: Config) -> None:
    alpaca = config.venue("alpaca")
    assert (alpaca.default_account, alpaca.accounts["hedge"].live_number) == ("main", "123456789")
    assert config.venue("ccxt:binance").options == {"defaultType": "swap"}
    assert config.providers["acme"].tenants == frozenset({"client-a", "client-b"})
    assert config.limits.plan_seconds == 60


def test_the_commands_exist() -> None:
    lines = [line.partition("#")[0] for text in snippets("sh") for line in text.splitlines() if line.startswith("dlq ")]
    assert len(lines) >= 6
    for line in lines:
        words = shlex.split(line.partition("<")[0])
        assert build_parser().parse_args(words[1:]).verb == "secrets"


@pytest.mark.parametrize(("shown", "at"), SETS.items())
def test_the_names_are_those_in_use(shown: str, at: SetName) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {shown} |")]
    service, file = re.findall(r"`([^`]*)`", row)[-2:]
    assert service == at.service
    assert file.rpartition(".")[0] == at.prefix
