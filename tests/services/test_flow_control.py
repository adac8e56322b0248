"""The breaker as a machine, the pace as arithmetic, the exit code as a table."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.services.replay.flow_control import (
    FAILURES,
    OPEN_SECONDS,
    Breaker,
    Pace,
    unless_stopped,
    wait_unless_stopped,
)
from console.services.replay.outcome import EntryOutcome, OutcomeKind, exit_code, not_begun

WORDS: tuple[OutcomeKind, ...] = (
    "accepted",
    "rejected",
    "unknown",
    "not_sent",
    "refused",
    "skipped",
    "superseded",
    "planned",
)


def after(*signals: str, start: Breaker | None = None, now: float = 0.0) -> Breaker:
    breaker = start or Breaker()
    for signal in signals:
        breaker = breaker.succeeded() if signal == "good" else breaker.failed(now)
    return breaker


def test_five_failures_in_a_row_open_it() -> None:
    assert after(*["bad"] * 4).state == "closed"
    opened = after(*["bad"] * 5)
    assert (opened.state, opened.room) == ("open", 0)


def test_a_definite_answer_ends_the_run_of_failures() -> None:
    assert after(*["bad"] * 4, "good", *["bad"] * 4).state == "closed"


def test_half_open_after_its_time_lets_one_through_and_closes_after_two() -> None:
    opened = after(*["bad"] * 5)
    assert opened.at(OPEN_SECONDS - 0.1).state == "open"
    half = opened.at(OPEN_SECONDS)
    assert (half.state, half.room) == ("half-open", 1)
    assert after("good", start=half).state == "half-open"
    assert after("good", "good", start=half) == Breaker()


def test_any_failure_reopens_a_half_open_one() -> None:
    half = after(*["bad"] * 5).at(OPEN_SECONDS)
    for signals in (("bad",), ("good", "bad")):
        again = after(*signals, start=half, now=100.0)
        assert (again.state, again.opened_at) == ("open", 100.0)


@given(st.lists(st.sampled_from(["good", "bad"]), max_size=20))
def test_there_is_never_room_for_a_sixth_failure(signals: list[str]) -> None:
    breaker = Breaker()
    for signal in signals:
        worst = after(*["bad"] * breaker.room, start=breaker)
        assert breaker.room <= FAILURES
        assert breaker.room == 0 or worst.state == "open"
        breaker = after(signal, start=breaker)


@given(st.integers(1, 60_000), st.lists(st.floats(0, 5), max_size=30))
def test_turns_are_never_closer_than_the_rate_allows(per_minute: int, pauses: list[float]) -> None:
    now = 0.0
    pace = Pace(per_minute, lambda: now)
    turns = []
    for pause in pauses:
        now += pause
        turns.append(now + pace.book())
    assert all(later - earlier >= 60 / per_minute - 1e-9 for earlier, later in itertools.pairwise(turns))


def test_an_unused_rate_is_not_saved_up() -> None:
    now = 100.0
    pace = Pace(60, lambda: now)
    assert [pace.book() for _ in range(3)] == [0.0, 1.0, 2.0]
    now = 200.0
    assert [pace.book() for _ in range(2)] == [0.0, 1.0]


def test_a_slow_down_moves_every_later_turn() -> None:
    pace = Pace(60, lambda: 0.0)
    pace.hold(30)
    assert [pace.book() for _ in range(2)] == [30.0, 31.0]
    pace.hold(1)
    assert pace.book() == 32.0


def test_no_rate_is_no_wait() -> None:
    pace = Pace(None, lambda: 0.0)
    assert [pace.book() for _ in range(3)] == [0.0] * 3


def told(words: tuple[OutcomeKind, ...]) -> list[EntryOutcome]:
    return [EntryOutcome("dlq_1", word, "paper") for word in words]


@pytest.mark.parametrize("words", [words for size in (1, 2, 3) for words in itertools.combinations(WORDS[:7], size)])
def test_the_exit_code_of_every_combination(words: tuple[OutcomeKind, ...]) -> None:
    expected = 3 if "unknown" in words else 1 if "rejected" in words else 0
    if not expected and {"not_sent", "refused", "skipped"} & set(words):
        expected = 4
    assert exit_code(told(words)) == expected


def test_the_exit_code_of_a_dry_run() -> None:
    assert exit_code(told(("planned", "refused")), dry_run=True) == 0
    assert exit_code(told(("refused",)), dry_run=True) == 4
    assert exit_code([], dry_run=True) == 4
    assert exit_code([]) == 0


async def test_a_wait_ends_with_its_time_or_when_it_is_stopped() -> None:
    stopped, waits = asyncio.Event(), []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            stopped.set()
            await asyncio.Event().wait()

    async with asyncio.timeout(20):
        assert await wait_unless_stopped(3, stopped, sleep)
        assert await wait_unless_stopped(0, stopped, sleep)
        assert not await wait_unless_stopped(5, stopped, sleep)
        assert not await wait_unless_stopped(7, stopped, sleep)
    assert waits == [3, 5]


async def test_stopping_cancels_the_work_and_errors_of_the_work_are_raised() -> None:
    stopped, ended = asyncio.Event(), asyncio.Event()

    async def work() -> int:
        try:
            stopped.set()
            await asyncio.Event().wait()
        finally:
            ended.set()
        return 1

    async def answers() -> int:
        return 7

    async def fails() -> int:
        raise ValueError("no")

    async with asyncio.timeout(20):
        assert await unless_stopped(answers(), stopped) == 7
        with pytest.raises(ValueError, match="no"):
            await unless_stopped(fails(), stopped)
        assert await unless_stopped(work(), stopped) is None
        assert ended.is_set()


def test_a_halt_refuses_what_a_stop_or_a_breaker_skips() -> None:
    assert not_begun("a", "halt") == EntryOutcome("a", "not_sent", None, detail="halt: nothing was sent")
    assert not_begun("a", "stopped", "live", "k") == EntryOutcome(
        "a", "skipped", "live", None, "k", "stopped: nothing was sent"
    )
    assert not_begun("a", "breaker open").outcome == "skipped"
