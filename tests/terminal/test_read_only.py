"""The auditor's console in a terminal: acting keys do nothing, the banner says so, what could send is not loaded."""

from __future__ import annotations

from pathlib import Path

from tests.support.exchange import Exchange
from tests.support.terminal.console import Desk, fresh
from tests.support.terminal.entry import COLLECTING
from tests.support.terminal.pty import pasted

_ACTING = "DRCUzNPHm!b"


def test_read_only_acts_on_nothing_and_loads_no_venue(tmp_path: Path, venue: Exchange) -> None:
    desk = Desk.at(tmp_path, venue, [fresh(1), fresh(2)])
    before = desk.query("SELECT * FROM order_dlq")
    loaded = tmp_path / "modules.txt"
    environ = {"DLQ_TEST_ENTRY": "modules", "DLQ_TEST_OUT": str(loaded)}
    with desk.open("--read-only", module="tests.support.terminal.entry", environ=environ) as terminal:
        terminal.shows("READ-ONLY", "pending 2 ", "row 1 · 2 open")
        for key in _ACTING:
            terminal.type(f"{key}1\r")
            terminal.type(pasted("1\r"))
            terminal.pump(0.5)  # longer than a gate is deaf
            terminal.type("1\r")
            assert "esc cancels" not in terminal.text
            terminal.press("esc")
            terminal.pump(0.2)
        terminal.press("A")
        terminal.shows("WHAT BECAME OF IT", "no act is recorded yet")
        terminal.press("v")
        terminal.shows("READ-ONLY", "the chain holds: 0 events")
        terminal.back("the chain holds")
        terminal.press("q")
        assert terminal.ended() == 0
    modules = loaded.read_text().split("\n")
    assert COLLECTING in modules, "collecting garbage is put off while the screens load, and no longer"
    assert "console.app" in modules
    assert [name for name in modules if name == "venues" or name.startswith(("venues.", "httpx", "keyring"))] == []
    assert desk.is_untouched()
    assert desk.query("SELECT * FROM order_dlq") == before
    assert venue.posts == []
