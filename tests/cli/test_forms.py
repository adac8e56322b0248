"""Lists as tables and CSV, and --watch: as wide as the terminal, inert, and only where they make sense."""

from __future__ import annotations

import csv
import io
import os
import re
import signal
from pathlib import Path

import pytest
from rich.cells import cell_len

from console.cli.printing.table import TextColumn, TextTable
from tests.cli.conftest import Dlq, Make
from tests.support.orders import row, sqlite_store
from tests.support.terminal.pty import Size, Terminal

WILD = [
    row(1, error="=HYPERLINK(1)", market_id="東京証券取引所東京証券取引所東京証券"),
    row(2, error="@SUM(1)\nsecond line \x1b[31m", account_id="+house"),
    row(3, error="short"),
]


@pytest.mark.parametrize("columns", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("verb", ["list", "groups", "check"])
def test_a_table_is_never_wider_than_the_terminal(
    dlq: Dlq, make: Make, monkeypatch: pytest.MonkeyPatch, columns: int, verb: str
) -> None:
    target = make(WILD)
    monkeypatch.setenv("COLUMNS", str(columns))
    ran = dlq(verb, "--db", target, "-o", "table")
    lines = ran.out.splitlines()
    assert len(lines) >= 2, ran.err
    assert max(map(cell_len, lines)) <= columns
    assert "\x1b" not in ran.out
    if verb == "list":
        assert len(lines) == 4  # a head, and one line for each entry
        assert [line.split()[0] for line in lines[1:]] == [f"dlq_{n:016x}" for n in (1, 2, 3)]


def test_a_table_that_nobody_looks_at_is_not_cut(dlq: Dlq, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    long = "RuntimeError: " + "x" * 300
    assert long in dlq("list", "--db", make([row(1, error=long)]), "-o", "table").out


def test_later_rows_are_cut_to_the_widths_of_the_first() -> None:
    table = TextTable([TextColumn("A", least=2), TextColumn("B")], 10)
    lines = [line for n in range(500) for line in table.add(["x" * (n % 20), "ok"])] + list(table.finish())
    assert len(lines) == 501
    assert max(map(len, lines)) <= 10


@pytest.mark.parametrize("verb", ["list", "groups", "check", "approve"])
def test_csv_cells_are_inert_and_the_columns_are_jsons(dlq: Dlq, make: Make, verb: str) -> None:
    target = make(WILD)
    read = list(csv.reader(io.StringIO(dlq(verb, "--db", target, "-o", "csv").out)))
    assert read[0]
    assert {len(line) for line in read} == {len(read[0])}
    for cell in (cell for line in read for cell in line):
        assert not re.match(r"\s*[=+@]", cell)
    documents = dlq(verb, "--db", target, "-o", "json").rows
    assert [list(one) for one in documents] == [list(one) for one in dlq(verb, "--db", target, "--json").rows]
    if verb in ("groups", "check"):
        assert set(read[0]) == set(documents[0])
    if verb == "list":
        assert read == list(csv.reader(io.StringIO(dlq("export", "--db", target, "--format", "csv").out)))


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("list", "--json", "-o", "csv"), "say one of them"),
        (("list", "--watch"), "stdout is not one"),
        (("groups", "--watch"), "stdout is not one"),
        (("list", "--watch", "--json"), "leave out json"),
        (("list", "-o", "yaml"), "there are: json csv table"),
    ],
)
def test_forms_that_do_not_go_together(dlq: Dlq, tmp_path: Path, words: tuple[str, ...], remedy: str) -> None:
    ran = dlq(*words, "--db", sqlite_store(tmp_path / "orders.db", [row(1)]))
    assert (ran.code, ran.out) == (2, "")
    assert remedy in ran.err


@pytest.mark.parametrize("verb", ["list", "groups"])
def test_watch_repaints_on_change_and_leaves_the_terminal_as_it_was(dlq: Dlq, tmp_path: Path, verb: str) -> None:
    target = sqlite_store(tmp_path / "orders.db", [row(1, error="first failure"), row(2, error="second failure")])
    words, environ = [verb, "--watch", "--db", target], {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    with Terminal(words, environ, Size(100, 12), is_forked=True) as terminal:
        terminal.shows("first failure", "second failure", "Ctrl-C ends")
        assert dlq("dismiss", f"dlq_{1:016x}", "--reason", "test", "--db", target).code == 0
        terminal.hides("first failure")
        terminal.resize(Size(60, 12))
        terminal.signal(signal.SIGINT)
        assert terminal.ended() == 130
        assert terminal.raw.rstrip().endswith(b"dlq: stopped")
        assert b"\x1b[?25h\x1b[?1049l" in terminal.raw
