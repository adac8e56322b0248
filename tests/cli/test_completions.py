"""Completions, each script sourced in the shell it is for."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from console.cli.usage.completion import FILES, answer, script
from tests.support.terminal.pty import ROOT, Terminal

CONFIG = """
reasons = ["risk-off"]
[stores.prod]
url = "prod.db"
[stores.pilot]
url = "pilot.db"
[stores."$(touch planted)"]
url = "x.db"
[venues.house]
type = "ccxt:binance"
"""
# What is typed, and what must be offered for its last word.
CASES: Sequence[tuple[str, set[str]]] = (
    ("dlq rec", {"reconcile"}),
    ("dlq --db prod rest", {"restore"}),
    ("dlq list --st", {"--state"}),
    ("dlq list --state in_", {"in_doubt", "in_flight"}),
    ("dlq groups --category t", {"transient"}),
    ("dlq dismiss --reason m", {"market-closed"}),
    ("dlq dismiss --reason risk", {"risk-off"}),
    ("dlq replay --override st", {"stale"}),
    ("dlq replay --override stale,may", {"stale,may-have-arrived"}),
    ("dlq list --db p", {"prod", "pilot"}),
    ("dlq list --venue h", {"house", "hyperliquid"}),
    ("dlq secrets set alp", {"alpaca"}),
    ("dlq audit v", {"verify"}),
    ("dlq help dem", {"demo"}),
    ("dlq completions z", {"zsh"}),
    ("dlq export --format j", {"jsonl"}),
    ("dlq policy set max_b", {"max_batch="}),
    ("dlq list -o t", {"table"}),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "xdg" / "dlq-console"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "config.toml").write_text(CONFIG)
    (folder / "config.toml").chmod(0o600)
    for name in ("bash", "zsh", "fish"):
        (tmp_path / f"dlq.{name}").write_text(script(name))
    (tmp_path / "orders.db").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    return tmp_path


def _words(lines: Sequence[str]) -> set[str]:
    return {line.partition("\t")[0] for line in lines}


@pytest.mark.parametrize(("typed", "offered"), CASES)
def test_each_place_offers_its_words(home: Path, typed: str, offered: set[str]) -> None:
    assert home
    assert _words(answer("zsh", typed.split()[1:])) - {FILES} == offered


def test_a_verb_offers_its_own_options_and_the_global_ones(home: Path) -> None:
    assert home
    flags = _words(answer("fish", ["settle", "--"]))
    assert {"--as", "--order", "--note", "--db", "--read-only", "--help"} <= flags
    assert "--reason" not in flags
    assert _words(answer("fish", ["list", "--db", ""])) == {"prod", "pilot", FILES}


def test_bash_gets_what_follows_the_colon(home: Path) -> None:
    assert home
    assert _words(answer("bash", ["dlq list --venue ccxt:"])) == {""}
    assert _words(answer("bash", ["dlq policy set max_batch="])) == {""}


def test_a_config_that_cannot_be_read_only_leaves_its_names_out(home: Path) -> None:
    broken = home / "broken.toml"
    broken.write_text("[")
    assert _words(answer("zsh", ["--config", str(broken), "list", "--db", "p"])) == {FILES}


_BASH = """
source "$1"; shift
for line in "$@"; do
  COMP_LINE=$line COMP_POINT=${#line}; read -ra COMP_WORDS <<<"$line"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _dlq
  printf '%s\\n' "${COMPREPLY[@]}" --end--
done
"""
_FISH = "source $argv[1]; for line in $argv[2..-1]; complete -C $line; echo --end--; end"
# A few lines are enough for a shell: the words themselves are checked above.
SHOWN = [CASES[number] for number in (0, 3, 6, 8, 10)] + [("dlq archive --verify ord", {"orders.db"})]


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_bash_and_fish_complete_with_it(home: Path, shell: str) -> None:
    program = shutil.which(shell) or pytest.skip(f"{shell} is not installed")
    words = ["--norc", "-c", _BASH, "test"] if shell == "bash" else ["--no-config", "-c", _FISH]
    environ = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [program, *words, str(home / f"dlq.{shell}"), *(typed for typed, _ in SHOWN)],
        cwd=home,
        env=environ,
        text=True,
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert ran.stderr == ""
    told = [_words(part.split("\n")) - {""} for part in ran.stdout.split("--end--\n")[:-1]]
    assert told == [offered for _, offered in SHOWN]
    assert not (home / "planted").exists()


def test_zsh_completes_with_it(home: Path) -> None:
    program = shutil.which("zsh") or pytest.skip("zsh is not installed")
    environ = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT), "PS1": "ready> ", "ZDOTDIR": str(home)}
    with Terminal([program, "-f", "-i"], environ) as terminal:
        terminal.shows("ready>")
        terminal.type(f"cd {home}; autoload -Uz compinit; compinit -u -D; source dlq.zsh; clear; echo sourced\r")
        terminal.shows("sourced")
        terminal.type("dlq dismiss --reason mark\t")
        terminal.shows("--reason market-closed")
        terminal.type("--db pi\t")
        terminal.shows("--db pilot")
        terminal.type("--override\x15dlq list --state in_\t\t")
        terminal.shows("in_flight")
        terminal.type("\x15dlq archive --verify ord\t")
        terminal.shows("--verify orders.db")
    assert not (home / "planted").exists()
