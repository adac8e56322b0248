"""The README and the page of keys say what is so: the keys are the registry's, the commands exist."""

from __future__ import annotations

from pathlib import Path

from console.cli.usage.verb import VERBS
from console.keymap import table

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def test_the_key_table_is_the_registrys() -> None:
    text = (ROOT / "docs" / "keys.md").read_text()
    between = text.split("<!-- keys -->")[1].split("<!-- /keys -->")[0]
    assert between.strip() == table().strip()


def test_every_command_of_the_contract_is_there() -> None:
    contract = {"list", "show", "replay", "reconcile", "dismiss", "restore", "approve", "secrets", "audit", "metrics"}
    contract |= {"check", "halt", "resume", "doctor", "export", "groups", "report", "archive", "practice", "init"}
    contract |= {"demo", "serve", "completions", "help", "settle", "ask", "index", "policy"}
    assert contract <= set(VERBS)


def test_the_two_commands_come_first() -> None:
    first_screen = "\n".join(README.read_text().splitlines()[:20])
    assert "make demo" in first_screen
    assert "make test" in first_screen
