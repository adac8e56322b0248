"""A bulk act that is stopped says how many are done, and the lines it prints go on and back."""

from __future__ import annotations

import re
import shlex
import signal

import pytest

from console.cli.printing.progress import ProgressBar, progress_text
from tests.cli.conftest import Dlq, Make, Ran
from tests.support.orders import row

MANY = 1800


@pytest.fixture
def pressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, once the first transaction of an act is done."""
    shown = ProgressBar.__call__
    left = [signal.SIGINT]

    def press(self: ProgressBar, done: int, total: int | None = None) -> None:
        shown(self, done, total)
        if (total or 0) > 1 and left:
            signal.raise_signal(left.pop())

    monkeypatch.setattr(ProgressBar, "__call__", press)


def _states(dlq: Dlq, target: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in dlq("list", "--all", "--json", "--db", target).rows:
        found[one["state"]] = found.get(one["state"], 0) + 1
    return found


def _told(ran: Ran) -> tuple[int, list[str], str]:
    """How many are done, the words of the way back, and the --expect of the way on."""
    done = re.search(r"^dlq: stopped: ([\d,]+) of 1,800 entries are (?:dismissed|restored),", ran.err, re.M)
    on = re.search(r"^dlq: to go on: the same command with --expect (\d+)$", ran.err, re.M)
    back = re.search(r"^dlq: to go back: (dlq .+)$", ran.err, re.M)
    assert done, ran.err
    assert on, ran.err
    assert back, ran.err
    return int(done[1].replace(",", "")), shlex.split(back[1])[1:], on[1]


@pytest.mark.usefixtures("pressed")
def test_a_stopped_dismiss_prints_the_line_that_takes_it_back(dlq: Dlq, make: Make) -> None:
    target = make([row(n) for n in range(1, MANY + 1)])
    assert dlq("dismiss", f"dlq_{1:016x}", "--reason", "test", "--db", target).code == 0  # not of this act
    assert dlq("restore", f"dlq_{1:016x}", "--db", target).code == 0
    words = ("dismiss", "--venue", "alpaca", "--reason", "test", "--yes", "--db", target)
    ran = dlq(*words, "--expect", str(MANY))
    done, back, rest = _told(ran)
    assert ran.code == 130
    assert 0 < done < MANY
    assert len(ran.out.splitlines()) == done  # what is done is told, entry by entry
    assert _states(dlq, target) == {"dismissed": done, "pending": MANY - done}
    again = dlq(*words, "--expect", rest)
    assert (again.code, len(again.out.splitlines())) == (0, MANY - done)
    ran = dlq(*back)
    assert (ran.code, len(ran.out.splitlines())) == (0, done)
    assert _states(dlq, target) == {"dismissed": MANY - done, "pending": done}
    assert dlq("audit", "verify", "--db", target).code == 0


@pytest.mark.usefixtures("pressed")
def test_a_stopped_restore_goes_on(dlq: Dlq, make: Make) -> None:
    target = make([row(n, dismissed=True) for n in range(1, MANY + 1)])
    ran = dlq("restore", "--venue", "alpaca", "--db", target, "--expect", str(MANY))
    done, back, rest = _told(ran)
    assert (ran.code, back[0]) == (130, "dismiss")
    assert _states(dlq, target) == {"dismissed": MANY - done, "pending": done}
    assert dlq("restore", "--venue", "alpaca", "--db", target, "--expect", rest).code == 0
    assert _states(dlq, target) == {"pending": MANY}


def test_a_password_is_not_in_the_line_to_paste(dlq: Dlq, postgres_db: str, pressed: None) -> None:
    from tests.support.orders import postgres_store

    assert pressed is None
    target = postgres_store(postgres_db, [row(n) for n in range(1, MANY + 1)])
    secret = re.sub(r"//([^@:]+)@", r"//\1:hunter2@", target)
    ran = dlq("dismiss", "--venue", "alpaca", "--reason", "test", "--yes", "--db", secret, "--expect", str(MANY))
    assert ran.code == 130
    assert "hunter2" not in ran.err
    assert "with the same --db" in ran.err


def test_restore_selects_among_what_is_closed(dlq: Dlq, make: Make) -> None:
    target = make([row(1), row(2), row(3)])
    ids = [f"dlq_{n:016x}" for n in (1, 2)]
    assert dlq("dismiss", *ids, "--reason", "stale", "--db", target).code == 0
    asked = dlq("restore", "--filter", "reason:stale", "--db", target)
    assert (asked.code, asked.out) == (2, "")
    assert "--expect 2" in asked.err
    assert dlq("restore", "--filter", "reason:stale", "--expect", "3", "--db", target).code == 2
    ran = dlq("restore", "--filter", "reason:stale", "--expect", "2", "--db", target, "--json")
    assert [(one["dlq_id"], one["outcome"]) for one in ran.rows] == [(one, "restored") for one in ids]
    assert _states(dlq, target) == {"pending": 3}


def test_progress_is_one_line_with_figures() -> None:
    bar = "[############        ]"
    assert progress_text("dismissing", 31_000, 50_000, 10) == f"dismissing  {bar} 31,000 of 50,000  3,100/s"
    assert progress_text("exporting", 1200, None, 2) == "exporting  1,200  600/s"
