"""The policy and the hour's limit at the moment an order goes: changed meanwhile, or passed by two consoles."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from backends.records import ActContext, Actor
from backends.store import ActRefused, Intent, SentOrder, Store
from console import clock
from console.services.evidence import payload
from console.services.policy import checked
from console.services.replay.batch import ReplayBatch
from console.services.replay.outcome import EntryOutcome
from console.services.replay.plan import ReplayPlan, plan
from console.services.replay.preflight import Preflight, ReplayRequest
from console.services.replay.sent_amounts import SendingRules, SentAmounts, added_up
from console.settings.config import Config, Limits
from console.settings.limits import LimitsInForce
from tests.services.conftest import Make
from tests.support.session import ANN, BOB, Stage, fresh, ident
from tests.support.store import why
from venues import OrderAction, Prepared

At = Callable[..., Awaitable[Stage]]
NOW = datetime.now(UTC)
LAX = Config(limits=Limits(stale_after=timedelta(hours=9)))


class Sender:
    """Plans and sends as the session does, stopping at points of the test's choice."""

    def __init__(self, stage: Stage, actor: Actor = ANN) -> None:
        self.stage, self.actor = stage, actor
        self.limits = LimitsInForce(LAX)

    async def plan(self, *numbers: int) -> ReplayPlan:
        limits = await checked(self.limits, self.stage.store)
        preflight = Preflight(self.stage.store, self.stage.at_desk(), limits, clock.now, actor=self.actor)
        entries = await self.stage.entries(numbers)
        return plan(entries, await preflight.facts(entries, ReplayRequest("paper")))

    async def send(self, made: ReplayPlan, at: Callable[[str], None] = lambda _: None) -> dict[str, EntryOutcome]:
        batch = ReplayBatch(
            self.stage.store,
            self.stage.at_desk(),
            self.actor,
            clock.now,
            limits=self.limits.current,
            rules=SendingRules(self.stage.store, self.limits, self.actor),
            at=at,
        )
        return {one.entry_id: one for one in await batch.run(made)}


async def test_a_policy_made_stricter_after_the_confirmation_holds(make_both: Make, at: At) -> None:
    stage = await at(make_both(2))
    sender = Sender(stage)
    made = await sender.plan(1, 2)
    assert made.count == 2
    await stage.store.set_policy({"max_notional": "15"}, ANN, why())
    ended = await sender.send(made)
    assert {one: ended[one].outcome for one in ended} == {ident(1): "accepted", ident(2): "not_sent"}
    assert "over 15 per order" in (ended[ident(2)].detail or "")
    assert len(stage.venue.posts) == 1


async def test_a_policy_that_cannot_be_used_at_the_moment_holds_everything(make_both: Make, at: At) -> None:
    stage = await at(make_both(1))
    sender = Sender(stage)
    made = await sender.plan(1)
    await stage.store.set_policy({"max_notional": "all"}, ANN, why())
    ended = (await sender.send(made))[ident(1)]
    assert (ended.outcome, stage.venue.posts) == ("not_sent", [])
    assert "cannot be read" in (ended.detail or "")
    with pytest.raises(ActRefused, match="max_notional"):
        await sender.plan(1)


async def test_an_intent_under_another_policy_is_refused(make_both: Make, at: At) -> None:
    """The policy is compared inside the transaction of the intent: nothing passes between reading it and sending."""
    stage = await at(make_both(1))
    sender = Sender(stage)
    made = await sender.plan(1)
    rules = SendingRules(stage.store, sender.limits, ANN)
    rules.refresh = _asleep  # type: ignore[method-assign]  # as if it had been read just before the change
    await stage.store.set_policy({"max_notional": "1000"}, ANN, why())
    batch = ReplayBatch(stage.store, stage.at_desk(), ANN, clock.now, limits=sender.limits.current, rules=rules)
    (ended,) = await batch.run(made)
    assert (ended.outcome, stage.venue.posts) == ("not_sent", [])
    assert (ended.detail or "").startswith("policy:")
    assert await stage.attempts(1) == ()
    assert (await sender.send(await sender.plan(1)))[ident(1)].outcome == "accepted", "its claim was given back"


async def _asleep() -> None: ...


async def test_two_consoles_that_pass_the_plan_together_do_not_pass_the_hour(make_both: Make, at: At) -> None:
    """Each order is worth 20 of 30: both plans are made before either is sent."""
    stage = await at(make_both([fresh(2), fresh(3, quantity=2.0, side="sell")]))
    await stage.store.set_policy({"four_eyes_over": "30"}, ANN, why())
    other = await at(stage.target, venue=stage.venue)
    senders = (Sender(stage), Sender(other))
    plans = [await sender.plan(number) for sender, number in zip(senders, (2, 3), strict=True)]
    assert [made.needs_second for made in plans] == [None, None]
    ended = [one for both in await asyncio.gather(*map(Sender.send, senders, plans)) for one in both.values()]
    assert len(stage.venue.posts) <= 1
    assert sorted(one.outcome for one in ended) in (["accepted", "not_sent"], ["not_sent", "not_sent"])
    assert any((one.detail or "").startswith("four-eyes:") for one in ended)


async def test_the_hour_is_counted_again_after_the_intent(
    make_both: Make, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another console's intent is committed between this one's count and its own intent."""
    stage = await at(make_both([fresh(2), fresh(3, quantity=2.0, side="sell")]))
    await stage.store.set_policy({"four_eyes_over": "30"}, ANN, why())
    sender = Sender(stage)
    made = await sender.plan(2)
    rules = SendingRules(stage.store, sender.limits, ANN)
    counts: list[bool] = []
    over = rules.over

    async def counted(*given: Any, is_intended: bool) -> str | None:
        counts.append(is_intended)
        found = await over(*given, is_intended=is_intended)
        if not is_intended:
            await _intend(stage.store, await stage.entry(3))
        return found

    monkeypatch.setattr(rules, "over", counted)
    batch = ReplayBatch(stage.store, stage.at_desk(), ANN, clock.now, limits=sender.limits.current, rules=rules)
    (ended,) = await batch.run(made)
    assert (ended.outcome, stage.venue.posts, counts) == ("not_sent", [], [False, True])
    assert [one.outcome for one in await stage.attempts(2)] == ["not_sent"]


async def _intend(store: Store, entry: Any, notional: str = "20") -> None:
    claim = await store.claim(entry.id, entry.version, ANN, 60, mode="paper")
    intent = Intent("paper", "fake", "cid", b"{}", "hash", notional=Decimal(notional), currency="USD")
    now = await store.clock()
    attempt = await store.intend(claim, intent, ANN, ActContext(now, "op"))  # type: ignore[arg-type]
    assert hasattr(attempt, "attempt_no"), attempt


async def test_only_what_one_identity_sent_in_this_mode_counts(make_both: Make, at: At) -> None:
    stage = await at(make_both(2))
    await _intend(stage.store, await stage.entry(1))
    now = await stage.store.clock()
    mine = await stage.store.sent_since(now - timedelta(hours=1), "paper", ANN)
    assert [(one.notional, one.currency) for one in mine] == [(Decimal(20), "USD")]
    labelled = Actor("another label", ANN.os_user, "another host", "test")
    assert await stage.store.sent_since(now - timedelta(hours=1), "paper", labelled) == mine
    assert await stage.store.sent_since(now - timedelta(hours=1), "live", ANN) == ()
    assert await stage.store.sent_since(now + timedelta(minutes=1), "paper", ANN) == ()
    others = await stage.store.sent_since(now - timedelta(hours=1), "paper", BOB)
    on_postgres = stage.store.info.dialect == "postgresql"
    assert others == (mine if on_postgres else ()), "on Postgres the login role, on SQLite the OS user"


def _kept() -> bytes:
    action = OrderAction("new", "AAPL", "buy", Decimal(3), "limit", Decimal(7), "key")
    return payload.encode(Prepared("new", "cid", "POST", "/orders", b"{}", action, {}))


def test_attempts_of_an_earlier_version_count_by_their_own_price() -> None:
    sent = added_up([SentOrder(None, None, _kept()), SentOrder(Decimal(5), "USD"), SentOrder(None, None, b"?")], NOW)
    assert sent == SentAmounts({"": Decimal(21), "USD": Decimal(5)}, unvalued=1)


def test_an_order_of_the_hour_that_nobody_can_value_needs_a_second_person_in_live() -> None:
    sent = SentAmounts({}, unvalued=1)
    assert sent.over({"USD": Decimal(1)}, Decimal(10), is_live=False) is None
    assert "no known value" in (sent.over({"USD": Decimal(1)}, Decimal(10), is_live=True) or "")


async def test_every_layouts_intent_names_the_policy(make_both: Make, at: At) -> None:
    stage = await at(make_both(1))
    await stage.store.set_policy({"max_batch": "3"}, ANN, why())
    await _intend(stage.store, await stage.entry(1))
    bodies = [json.loads(event.body) for event in await stage.store.events(ident(1))]
    assert [len(one["policy"]) for one in bodies if one["kind"] == "intent"] == [32]
