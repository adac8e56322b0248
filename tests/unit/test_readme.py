"""The README says what is so: its key table is the registry's, its commands exist."""

from __future__ import annotations

from pathlib import Path

from console.cli.completion import words
from console.cli.parser import build_parser
from console.keymap import table

README = Path(__file__).parent.parent.parent / "README.md"


def test_the_key_table_is_the_registrys() -> None:
    text = README.read_text()
    between = text.split("<!-- keys -->")[1].split("<!-- /keys -->")[0]
    assert between.strip() == table().strip()


def test_every_command_of_the_contract_is_there() -> None:
    contract = {"list", "show", "replay", "reconcile", "dismiss", "restore", "approve", "secrets", "audit", "metrics"}
    contract |= {"check", "halt", "resume", "doctor", "export", "groups", "report", "archive", "practice", "init"}
    contract |= {"demo", "serve", "completions", "help", "settle", "ask", "index", "policy"}
    assert contract <= set(words(build_parser()))


def test_the_two_commands_come_first() -> None:
    first_screen = "\n".join(README.read_text().splitlines()[:20])
    assert "make demo" in first_screen
    assert "make test" in first_screen
