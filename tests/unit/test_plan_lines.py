"""What a gate lists of a plan: none is left out, and what is blocked is seen before a long list of what goes."""

from __future__ import annotations

from backends.records import Entry
from console.render.line import plain, trusted, wrap
from console.render.plan import PageRow, every_one, plan_page, resend_page, said_lines
from console.services.replay.guards import Guard
from console.services.replay.outcome import EntryOutcome
from console.services.replay.plan import Blocked, ReplayPlan
from console.services.resend.plan import ResendPlan, ResendRoute


def test_the_blocked_ones_stand_behind_the_first_few_and_all_are_there() -> None:
    sent = [PageRow((trusted(f"s{n}"),), f"s{n}") for n in range(5)]
    blocked = [PageRow((trusted(f"b{n}"),), f"b{n}") for n in range(3)]
    listed = [plain(one.line) for one in every_one(sent, blocked, 2)]
    assert listed == ["s0", "s1", " … and 3 more to send, below", "b0", "b1", "b2", "s2", "s3", "s4"]
    assert [plain(one.line) for one in every_one(sent, [], 2)] == ["s0", "s1", "s2", "s3", "s4"]
    assert [plain(one.line) for one in every_one(sent[:2], blocked, 2)] == ["s0", "s1", "b0", "b1", "b2"]


def test_a_replay_of_messages_names_every_one_it_leaves_out() -> None:
    names, values = ("id", "queue", "failure_reason"), ("7", "orders", "rejected")
    going = tuple(Entry("outbox", f"g{n}", "pending", (), (str(n),), names, values) for n in range(9))
    left = tuple(EntryOutcome(f"left-{n}", "refused", None, detail="in doubt") for n in range(9))
    plan = ResendPlan(going, left, (ResendRoute("orders", "outbox", 9),))
    text = "\n".join(plain(one.line) for one in resend_page(plan, rows=3))
    assert all(f"left-{n}" in text for n in range(9))
    assert all(f"g{n}" in text for n in range(9))


def test_a_reason_that_says_its_code_is_not_preceded_by_it() -> None:
    guards = (Guard("in-doubt", "in doubt: reconcile or settle it first"), Guard("stale", "95m old, limit 15m"))
    held = ReplayPlan("paper", False, (), (), (Blocked("dlq_1", guards),), (), "")
    for told in (plain(plan_page(held, {}, rows=3)[-1].line), [*said_lines(held, {})][-1]):
        assert "in doubt: reconcile or settle it first; stale: 95m old, limit 15m" in told
        assert "in-doubt" not in told


def test_why_a_message_stays_is_wrapped_beneath_its_id() -> None:
    left = (EntryOutcome("left-1", "refused", None, detail="in doubt: reconcile or settle it first"),)
    row = next(one for one in resend_page(ResendPlan((), left), rows=3) if one.entry_id == "left-1")
    first, *rest = [plain(one) for one in wrap(row.line, 30)]
    assert first.startswith(" ✗ left-1")
    assert rest
    assert all(one.startswith("   ") for one in rest)
