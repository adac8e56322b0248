"""A shift by the keyboard alone, from choosing the store to leaving: store and venue agree with what was shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.exchange import Exchange
from tests.support.terminal.console import Desk, fresh
from tests.support.terminal.pty import Terminal

BULK = 500
SENT = ("AAPL", "MSFT", "DROP")


def _rows() -> list[dict[str, object]]:
    bulk = [fresh(number, account_id="bulk") for number in range(100, 100 + BULK)]
    return bulk + [fresh(number, market_id=market) for number, market in enumerate(SENT, start=1)]


def _filter(terminal: Terminal, text: str, count: int) -> None:
    terminal.press("/")
    terminal.shows("filter: ▏")
    terminal.press(*text, "enter")
    terminal.shows(f"filter: {text}", f"{count} of {BULK + len(SENT)} match")


def _dismiss_and_undo(terminal: Terminal, states: Callable[[], list[str]]) -> None:
    _filter(terminal, "account:bulk", BULK)
    terminal.press("a")
    terminal.shows(f"{BULK} entries marked")
    terminal.press("D")
    terminal.opened(f"Dismiss {BULK} entries")
    terminal.press("6", *str(BULK), "enter")
    terminal.shows(f"{BULK} dismissed", f"pending {len(SENT)} ")
    assert states().count("dismissed") == BULK
    terminal.press("z")
    terminal.shows(f"{BULK} restored", f"pending {BULK + len(SENT)} ")
    assert states().count("dismissed") == 0
    terminal.back("filter: account:bulk")


def _replay(terminal: Terminal, states: Callable[[], list[str]]) -> None:
    _filter(terminal, "account:main", len(SENT))
    terminal.press("a")
    terminal.shows(f"{len(SENT)} entries marked")
    terminal.press("R")
    terminal.opened(f"Replay {len(SENT)} entries · PAPER", f"type {len(SENT)} to send")
    terminal.press(*str(len(SENT)), "enter")
    terminal.shows("PAPER · done", "in doubt", "C asks about 1 in doubt")
    assert sorted(states())[:1] == ["in_doubt"]
    assert states().count("replayed") == len(SENT) - 1
    terminal.back("PAPER · done")
    terminal.shows("in doubt 1")


def _reconcile(terminal: Terminal) -> None:
    terminal.press("C")
    terminal.shows("PAPER · reconcile · done", "accepted")
    terminal.back("PAPER · reconcile · done")
    terminal.shows("in doubt 0", f"pending {BULK} ")


def test_a_shift_by_the_keyboard_alone(tmp_path: Path, venue: Exchange) -> None:
    desk = Desk.at(tmp_path, venue, _rows())

    def states() -> list[str]:
        return list(desk.states().values())

    with desk.choose() as terminal:
        terminal.shows("Attach to a store", "desk")
        terminal.press("enter")
        terminal.shows(f"pending {BULK + len(SENT)} ", "PAPER", "operator")
        _dismiss_and_undo(terminal, states)
        _replay(terminal, states)
        _reconcile(terminal)
        terminal.press("A")
        terminal.shows("WHAT BECAME OF IT")
        terminal.press("v")
        terminal.shows("the chain holds", "Keep this head elsewhere")
        shown = terminal.text
        terminal.back("the chain holds")
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.is_restored()
    verified = desk.console("audit", "verify")
    assert verified.code == 0
    assert verified.out.split()[-1] in shown
    assert states().count("replayed") == len(SENT)
    assert states().count("pending") == BULK
    assert sorted(order["client_order_id"] for order in venue.orders) == [f"cid-{n}" for n in range(1, len(SENT) + 1)]
    assert len(venue.posts) == len(SENT)
