"""Orders through the command line and through the session behind the screens: one input, one outcome, one record."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from console.services.evidence import reconcile as reconciling
from console.services.replay.batch import ReplayBatch
from console.services.triage.triage import Triage
from tests.support.exchange import Exchange, in_thread
from tests.support.intent import intent_row, make_intents
from tests.support.orders import row, sqlite_store
from tests.support.parity import Act, Case, Side, params, traces
from tests.support.session import BOB, ident

ONE, TWO, THREE = (ident(number) for number in (1, 2, 3))
KEYS = {f"alpaca.{mode}.{name}": "practice" for mode in ("paper", "live") for name in ("api_key", "secret_key")}
HOUR = timedelta(hours=1)
LIVE = {"environment": "live"}
Sides = Callable[..., tuple[Side, Side]]


COLLECTED = datetime.now(UTC)  # the cases below are made of rows of this moment


@pytest.fixture
def exchanges() -> Iterator[tuple[Exchange, Exchange]]:
    """One for each side: an order id is taken only once."""
    with ExitStack() as stack:
        yield stack.enter_context(in_thread()), stack.enter_context(in_thread())


@pytest.fixture
def sides(tmp_path: Path, exchanges: tuple[Exchange, Exchange], monkeypatch: pytest.MonkeyPatch) -> Sides:
    monkeypatch.setattr(reconciling, "_BETWEEN_SECONDS", 0.0)  # between look-ups that show nothing

    def made(rows: list[dict[str, Any]], **given: Any) -> tuple[Side, Side]:
        since = datetime.now(UTC) - COLLECTED  # a long run makes no order stale
        rows = [{**one, "captured_at": one["captured_at"] + since} for one in rows]
        command, session = (tmp_path / name for name in ("command", "session"))
        return _side(command, rows, exchanges[0], **given), _side(session, rows, exchanges[1], **given)

    return made


def _side(
    folder: Path,
    rows: list[dict[str, Any]],
    exchange: Exchange,
    *,
    limits: dict[str, Any] | None = None,
    store: dict[str, Any] | None = None,
    window: float = 60.0,
    intents: tuple[dict[str, Any], ...] = (),
) -> Side:
    folder.mkdir()
    endpoints = {"paper_endpoint": exchange.url, "live_endpoint": exchange.url}
    venue = endpoints | {"timeout": 3.0, "visibility_seconds": window, "rate_per_minute": 60_000}
    venue |= {"default_account": "main"}
    sections = "\n".join(["[venues.alpaca]", *_pairs(venue), "[limits]", *_pairs(limits or {})])
    target = sqlite_store(folder / "orders.db", rows)
    if intents:
        make_intents(target, *intents)
    return Side(folder, target, store or {}, sections, KEYS)


def _pairs(table: dict[str, Any]) -> list[str]:
    return [f"{name} = {json.dumps(value)}" for name, value in table.items()]


def order(number: int, *, ago: timedelta = timedelta(seconds=5), **given: object) -> dict[str, Any]:
    values = {"captured_at": datetime.now(UTC) - ago, "quantity": float(number), "price": 18.0}
    return row(number, **(values | given))


def orders(*rows: dict[str, Any], **given: Any) -> dict[str, Any]:
    """What the two sides are made of."""
    return {"rows": list(rows), **given}


LEFT_OPEN = orders(order(1), intents=(intent_row(2, venue_name="alpaca", price=18.0),))


def counted_up(side: Side) -> None:
    """Somebody else's retry of the first."""
    with closing(sqlite3.connect(side.target)) as connection, connection:
        connection.execute("UPDATE order_dlq SET retry_count = retry_count + 1 WHERE dlq_id = ?", (ONE,))


def dismissed_elsewhere(side: Side) -> None:
    with closing(sqlite3.connect(side.target)) as connection, connection:
        connection.execute("UPDATE order_dlq SET dismissed = 1 WHERE dlq_id = ?", (ONE,))


def restored_elsewhere(side: Side) -> None:
    with closing(sqlite3.connect(side.target)) as connection, connection:
        connection.execute("UPDATE order_dlq SET dismissed = 0 WHERE dlq_id = ?", (ONE,))


def dismiss(*ids: str, **given: Any) -> Act:
    return Act("dismiss", ids, **given)


def settle(entry_id: str, claimed: str) -> Act:
    return Act("settle", (entry_id,), reason=claimed, note="seen in its web page")


def restore(*ids: str, **given: Any) -> Act:
    return Act("restore", ids, **given)


def replay(*ids: str, **given: Any) -> Act:
    return Act("replay", ids, **({"mode": "paper"} | given))


def plan(*ids: str, **given: Any) -> Act:
    return Act("plan", ids, **({"mode": "paper"} | given))


def reconcile(*ids: str, **given: Any) -> Act:
    return Act("reconcile", ids, **({"mode": "paper"} | given))


HALT = Act("halt", note="venue trouble")
RESUME = Act("resume", note="all clear")
APPROVE = Act("approve", actor=BOB)
SENT = ("intent", "outcome")

DISMISS = {
    "two of them": Case(
        dismiss(ONE, TWO, reason="other", note="sent by hand"), 0, {ONE: "dismissed", TWO: "dismissed"}, ("dismiss",),
        given=orders(order(1), order(2)),
    ),
    "dismissed already": Case(
        dismiss(ONE, TWO), 4, {ONE: "left", TWO: "dismissed"}, ("dismiss",), (dismiss(ONE),),
        orders(order(1), order(2)),
    ),
    "replayed already": Case(dismiss(ONE), 4, {ONE: "left"}, (), (replay(ONE),), orders(order(1))),
    "counted up meanwhile": Case(
        dismiss(ONE, TWO), 4, {ONE: "left", TWO: "dismissed"}, ("dismiss",),
        given=orders(order(1), order(2)), meanwhile=(Triage, "dismiss", counted_up),
    ),
    "dismissed meanwhile": Case(
        dismiss(ONE), 4, {ONE: "left"}, (), given=orders(order(1)), meanwhile=(Triage, "dismiss", dismissed_elsewhere),
    ),
    "in doubt": Case(
        dismiss(ONE), 4, {ONE: "left"}, ("refused-dismiss",), (replay(ONE),), orders(order(1, market_id="DROP")),
    ),
}  # fmt: skip
RESTORE = {
    "two of them": Case(
        restore(ONE, TWO, note="too soon"), 0, {ONE: "restored", TWO: "restored"}, ("restore",),
        (dismiss(ONE, TWO),), orders(order(1), order(2)),
    ),
    "one not dismissed": Case(
        restore(ONE, TWO), 4, {ONE: "restored", TWO: "left"}, ("restore",), (dismiss(ONE),),
        orders(order(1), order(2)),
    ),
    "restored meanwhile": Case(
        restore(ONE), 4, {ONE: "left"}, (), (dismiss(ONE),), orders(order(1)),
        (Triage, "restore", restored_elsewhere),
    ),
    "replayed in paper": Case(
        restore(ONE), 0, {ONE: "restored"}, ("restore",), (replay(ONE),), orders(order(1)),
    ),
    "replayed in live": Case(restore(ONE), 4, {ONE: "left"}, (), (replay(ONE, mode="live"),), orders(order(1))),
}  # fmt: skip
PLAN = {
    "two, the older superseded": Case(
        plan(ONE, TWO, THREE), 0, {ONE: "superseded", TWO: "planned", THREE: "planned"},
        given=orders(*(order(n, action_json='{"order_key": "k"}') for n in (1, 2)), order(3)),
    ),
    "stale": Case(plan(ONE, TWO), 0, {ONE: "refused", TWO: "planned"}, given=orders(order(1, ago=HOUR), order(2))),
    "stale, overridden": Case(
        plan(ONE, overrides=("stale",), note="still wanted"), 0, {ONE: "planned"}, given=orders(order(1, ago=HOUR)),
    ),
    "unknown venue": Case(plan(ONE), 4, {ONE: "refused"}, given=orders(order(1, venue_name="nowhere"))),
    "halted": Case(plan(ONE), 4, {ONE: "refused"}, (), (HALT,), orders(order(1))),
}  # fmt: skip
REPLAY = {
    "accepted": Case(replay(ONE, note="asked for"), 0, {ONE: "accepted"}, SENT, given=orders(order(1))),
    "live": Case(replay(ONE, mode="live"), 0, {ONE: "accepted"}, SENT, given=orders(order(1))),
    "rehearsed": Case(replay(ONE), 0, {ONE: "accepted"}, SENT, given=orders(order(1), store=LIVE)),
    "rejected": Case(replay(ONE), 1, {ONE: "rejected"}, SENT, given=orders(order(1, market_id="REJECT"))),
    "without an answer": Case(replay(ONE), 3, {ONE: "unknown"}, SENT, given=orders(order(1, market_id="DROP"))),
    "superseded": Case(
        replay(ONE, TWO), 0, {ONE: "superseded", TWO: "accepted"}, (*SENT, "dismiss"),
        given=orders(*(order(n, action_json='{"order_key": "k"}') for n in (1, 2))),
    ),
    "stale": Case(
        replay(ONE, TWO), 4, {ONE: "refused", TWO: "accepted"}, ("refused-replay", *SENT),
        given=orders(order(1, ago=HOUR), order(2)),
    ),
    "stale, overridden": Case(
        replay(ONE, overrides=("stale",), note="still wanted"), 0, {ONE: "accepted"}, SENT,
        given=orders(order(1, ago=HOUR)),
    ),
    "unknown venue": Case(
        replay(ONE), 4, {ONE: "refused"}, ("refused-replay",), given=orders(order(1, venue_name="nowhere")),
    ),
    "no paper mode": Case(
        replay(ONE), 4, {ONE: "refused"}, ("refused-replay",), given=orders(order(1, venue_name="polymarket")),
    ),
    "over the batch's limit": Case(
        replay(ONE, TWO), 4, {ONE: "accepted", TWO: "refused"}, ("refused-replay", *SENT),
        given=orders(order(1), order(2), limits={"max_batch": 1}),
    ),
    "dismissed already": Case(
        replay(ONE), 4, {ONE: "skipped"}, ("refused-replay",), (dismiss(ONE),), orders(order(1)),
    ),
    "in doubt": Case(
        replay(ONE), 4, {ONE: "refused"}, ("refused-replay",), (replay(ONE),), orders(order(1, market_id="DROP")),
    ),
    "halted": Case(replay(ONE), 4, {ONE: "refused"}, ("refused-replay",), (HALT,), orders(order(1))),
    "counted up meanwhile": Case(
        replay(ONE), 4, {ONE: "skipped"}, (), given=orders(order(1)), meanwhile=(ReplayBatch, "run", counted_up),
    ),
    "needs a second person": Case(
        replay(ONE), 4, {ONE: "refused"}, ("ask-approval",), given=orders(order(1), limits={"four_eyes_over": 10}),
    ),
    "an override in live needs a second person": Case(
        replay(ONE, mode="live", overrides=("stale",), note="still wanted"), 4, {ONE: "refused"}, ("ask-approval",),
        given=orders(order(1, ago=HOUR)),
    ),
    "approved by a second person": Case(
        replay(ONE), 0, {ONE: "accepted"}, SENT, (replay(ONE), APPROVE),
        orders(order(1), limits={"four_eyes_over": 10}),
    ),
}  # fmt: skip
RECONCILE = {
    "found": Case(
        reconcile(ONE), 0, {ONE: "accepted"}, ("reconcile",), (replay(ONE),), orders(order(1, market_id="DROP")),
    ),
    "found while halted": Case(
        reconcile(ONE), 0, {ONE: "accepted"}, ("reconcile",), (replay(ONE), HALT), orders(order(1, market_id="DROP")),
    ),
    "absent": Case(
        reconcile(ONE), 4, {ONE: "not_sent"}, ("reconcile",), (replay(ONE),),
        orders(order(1, market_id="LOST"), window=0),
    ),
    "not found yet": Case(
        reconcile(ONE), 3, {ONE: "unknown"}, ("lookup",), (replay(ONE),), orders(order(1, market_id="LOST")),
    ),
    "not in doubt": Case(reconcile(ONE), 4, {ONE: "skipped"}, given=orders(order(1))),
    "an engine's intent that is absent": Case(reconcile(TWO), 4, {TWO: "not_sent"}, ("reconcile",), given=LEFT_OPEN),
    "absent in live": Case(
        reconcile(ONE, mode="live"), 4, {ONE: "not_sent"}, ("reconcile",), (replay(ONE, mode="live"),),
        orders(order(1, market_id="LOST"), window=0),
    ),
}  # fmt: skip
SETTLE = {
    "absent in paper": Case(
        settle(ONE, "absent"), 0, {ONE: "not_sent"}, ("reconcile",), (replay(ONE),), orders(order(1, market_id="LOST")),
    ),
    "accepted in paper, as the venue says": Case(
        settle(ONE, "accepted"), 0, {ONE: "accepted"}, ("reconcile",), (replay(ONE),),
        orders(order(1, market_id="DROP")),
    ),
    "absent, though the venue has it": Case(
        settle(ONE, "absent"), 4, {ONE: "refused"}, (), (replay(ONE),), orders(order(1, market_id="DROP")),
    ),
    "in live it needs a second person": Case(
        settle(ONE, "absent"), 4, {ONE: "refused"}, ("ask-approval",), (replay(ONE, mode="live"),),
        orders(order(1, market_id="LOST")),
    ),
    "in live, approved": Case(
        settle(ONE, "absent"), 0, {ONE: "not_sent"}, ("reconcile",),
        (replay(ONE, mode="live"), settle(ONE, "absent"), APPROVE), orders(order(1, market_id="LOST")),
    ),
    "not in doubt": Case(settle(ONE, "absent"), 4, {ONE: "refused"}, given=orders(order(1))),
    "an engine's intent": Case(
        settle(TWO, "absent"), 0, {TWO: "not_sent"}, ("reconcile",),
        given=LEFT_OPEN | {"store": {"environment": "paper"}},
    ),
}  # fmt: skip
OVER = {"limits": {"four_eyes_over": 10}}
TWO_PEOPLE = {
    "approve": Case(APPROVE, 0, {}, ("approve",), (replay(ONE),), orders(order(1), **OVER)),
    "approve one's own plan": Case(
        Act("approve"), 4, {}, ("refused-approval",), (replay(ONE),), orders(order(1), **OVER),
    ),
    "approve what nobody put up": Case(APPROVE, 2, given=orders(order(1))),
    "halt": Case(HALT, 0, {}, ("halt",), given=orders(order(1))),
    "halt once more": Case(HALT, 0, {}, ("halt",), (Act("halt", note="earlier"),), orders(order(1))),
    "resume": Case(RESUME, 0, {}, ("resume",), (HALT,), orders(order(1))),
    "resume where nothing is halted": Case(RESUME, 4, given=orders(order(1))),
    "resume in live needs a second person": Case(
        RESUME, 4, {}, ("ask-approval",), (HALT,), orders(order(1), store=LIVE),
    ),
    "resume in live, approved": Case(
        RESUME, 0, {}, ("resume",), (HALT, RESUME, APPROVE), orders(order(1), store=LIVE),
    ),
    "resume what somebody else resumed": Case(
        RESUME, 4, {}, (), (HALT,), orders(order(1)), since=(Act("resume", note="was first", actor=BOB),),
    ),
    "resume in live, approved for an earlier halt": Case(
        RESUME, 4, {}, ("ask-approval",), (HALT, RESUME, APPROVE), orders(order(1), store=LIVE),
        since=(Act("halt", note="worse now", actor=BOB),),
    ),
    "resume in live, approved by the same person": Case(
        RESUME, 4, {}, ("ask-approval",), (HALT, RESUME, Act("approve")), orders(order(1), store=LIVE),
    ),
}  # fmt: skip


def check(case: Case, sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both faces do the very same, and it is what it should be."""
    command, session = traces(case, *sides(**case.given), monkeypatch)
    assert command.truth == case.truth
    assert session == command


@pytest.mark.parametrize("case", params(DISMISS))
def test_dismiss(sides: Sides, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    check(case, sides, monkeypatch)


@pytest.mark.parametrize("case", params(RESTORE))
def test_restore(sides: Sides, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    check(case, sides, monkeypatch)


@pytest.mark.parametrize("case", params(PLAN))
def test_plan(sides: Sides, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    check(case, sides, monkeypatch)


@pytest.mark.parametrize("case", params(REPLAY))
def test_replay(sides: Sides, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    check(case, sides, monkeypatch)


@pytest.mark.parametrize("case", params(RECONCILE))
def test_reconcile(sides: Sides, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    check(case, sides, monkeypatch)


@pytest.mark.parametrize("case", params(SETTLE))
def test_settle(sides: Sides, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    check(case, sides, monkeypatch)


@pytest.mark.parametrize("case", params(TWO_PEOPLE))
def test_halt_resume_approve(sides: Sides, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    check(case, sides, monkeypatch)
