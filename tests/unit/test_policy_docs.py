"""docs/policy.md names every key, and its commands run as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from backends.ledger.policy import KEYS
from console.cli.main import run
from console.cli.parser import build_parser
from tests.support.orders import row, sqlite_store

TEXT = (Path(__file__).parent.parent.parent / "docs" / "policy.md").read_text()
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]


def test_the_table_has_every_key_in_order() -> None:
    assert tuple(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)) == KEYS


def test_its_commands_are_commands() -> None:
    assert len(COMMANDS) == 7
    for command in COMMANDS:
        name, *words = shlex.split(command)
        assert name == "dlq"
        build_parser().parse_args(words)


def test_its_policies_can_be_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = sqlite_store(tmp_path / "orders.db", [row(0)])
    config = tmp_path / "config.toml"
    config.write_text(f'[stores.prod]\nurl = "{target}"\n')
    for command in COMMANDS:
        if command.startswith("dlq policy"):
            assert run([*shlex.split(command)[1:], "--config", str(config)]) == 0, command
    capsys.readouterr()
    assert run(["policy", "--db", "prod", "--config", str(config)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "environment=live",
        "max_notional={ USD = 20000, JPY = 3000000, default = 20000 }",
        "four_eyes_over=100000",
    ]
