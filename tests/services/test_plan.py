"""The plan as a function: collapse against a naive reference, waves, cap and hash; the order of asking is all one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from console.services.replay.command import Command, Problem
from console.services.replay.guards import OVERRIDABLE, Facts, OrderFacts, VenueFacts
from console.services.replay.plan import ReplayPlan, collapse, plan
from console.services.replay.venue_pool import VenueAccount
from console.settings.config import Limits
from tests.support.planning import AT, NOW, command, entry, entry_id, facts
from tests.support.venue.in_process import PROFILE, READY
from venues import Terms, Verb

_STRENGTH = ("new", "replace", "cancel")


def _commands() -> st.SearchStrategy[list[Command | Problem]]:
    verbs: st.SearchStrategy[Verb] = st.sampled_from(("new", "replace", "cancel"))
    one = st.tuples(
        verbs,
        st.sampled_from("abcd"),
        st.sampled_from((1, 2)),
        st.booleans(),
        st.sampled_from(("main", None)),
        st.integers(0, 19),
    )

    def build(parts: list[tuple[Verb, str, int, bool, str | None, int]]) -> list[Command | Problem]:
        made: list[Command | Problem] = []
        for number, (verb, key, size, fresh, account, oddity) in enumerate(parts):
            if oddity == 0:
                made.append(Problem(entry_id(number), "unparsable", "duplicate key"))
                continue
            age = timedelta(minutes=1 if fresh else 60)
            quantity = Decimal(size if oddity > 1 else 99_999)
            more = {"quantity": quantity, "account_id": account, "captured_at": NOW - age}
            made.append(command(number, verb=verb, key=key, **more))
        return made

    return st.lists(one, max_size=30).map(build)


def _known(commands: Sequence[Command | Problem], states: Sequence[str], cap: int) -> Facts:
    told = {one.entry_id: state for one, state in zip(commands, states, strict=True)}
    return facts(commands, states=told, limits=Limits(max_batch=cap))


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Command | Problem], Facts]:
    commands = draw(_commands())
    state = st.sampled_from(("pending", "pending", "pending", "in_doubt", "replayed", "dismissed"))
    states = [draw(state) for _ in commands]
    known = _known(commands, states, draw(st.integers(1, 12)))
    return commands, replace(known, overrides=frozenset(draw(st.sets(st.sampled_from(OVERRIDABLE)))))


def _naive(commands: Sequence[Command]) -> dict[tuple[str, str, str], str]:
    """The reference: of each logical order the strongest command, of equals the latest."""
    winners: dict[tuple[str, str, str], str] = {}
    for key in {one.key for one in commands}:
        group = [one for one in commands if one.key == key]
        best = max(_STRENGTH.index(one.action.verb) for one in group)
        winners[key] = [one for one in group if _STRENGTH.index(one.action.verb) == best][-1].entry_id
    return winners


@given(_commands())
def test_collapse_equals_the_naive_reference(made: list[Command | Problem]) -> None:
    commands = [one for one in made if isinstance(one, Command)]
    kept, superseded = collapse(commands)
    winners = _naive(commands)
    assert {one.key: one.entry_id for one in kept} == winners
    keys = {one.entry_id: one.key for one in commands}
    assert all(one.by == winners[keys[one.entry_id]] for one in superseded)
    assert sorted([one.entry_id for one in kept] + [one.entry_id for one in superseded]) == sorted(keys)


@given(cases(), st.randoms(use_true_random=False))
def test_a_plan_is_the_same_in_whatever_order_its_entries_come(
    case: tuple[list[Command | Problem], Facts], chance: random.Random
) -> None:
    commands, known = case
    entries = [entry(one, row_key=number) for number, one in enumerate(commands)]
    made = plan(entries, known)
    shuffled = entries * 2  # twice the same entry is one entry
    chance.shuffle(shuffled)
    assert plan(shuffled, known) == made


@given(cases())
def test_no_entry_is_lost_and_no_order_has_two_commands(case: tuple[list[Command | Problem], Facts]) -> None:
    commands, known = case
    made = plan([entry(one, row_key=number) for number, one in enumerate(commands)], known)
    named = [step.command.entry_id for step in made.steps]
    named += [one.entry_id for one in made.superseded] + [one.entry_id for one in made.blocked]
    assert sorted(named) == sorted(one.entry_id for one in commands)
    assert made.size == len(commands)
    keys = [step.command.key for step in made.steps]
    assert len(keys) == len(set(keys))
    assert len(made.steps) <= known.limits.max_batch
    sent = {step.command.entry_id for step in made.steps}
    assert all(one.by in sent for one in made.superseded)
    assert all(known.states[step.command.entry_id] == "pending" for step in made.steps)


@given(cases())
def test_waves_are_one_then_five_then_the_rest(case: tuple[list[Command | Problem], Facts]) -> None:
    commands, known = case
    made = plan([entry(one, row_key=number) for number, one in enumerate(commands)], known)
    count = len(made.steps)
    assert [step.wave for step in made.steps] == [0 if n == 0 else 1 if n <= 5 else 2 for n in range(count)]
    assert sum(made.wave_sizes) == count
    assert made.wave_sizes[:2] == ((1, min(5, count - 1)) if count > 1 else (1,) * count)


def _made(*commands: Command, **known: object) -> ReplayPlan:
    return plan([entry(one) for one in commands], facts(commands, **known))


def test_the_cap_names_what_is_left_out() -> None:
    made = _made(*(command(number) for number in range(1, 61)))
    assert len(made.steps) == 50
    assert [blocked.guards[0].code for blocked in made.blocked] == ["max-batch"] * 10
    assert [blocked.entry_id for blocked in made.blocked] == [entry_id(number) for number in range(51, 61)]


def test_what_is_superseded_by_a_blocked_command_waits_with_it() -> None:
    made = _made(command(1, key="k"), command(2, key="k", verb="replace", captured_at=None))
    assert not made.steps
    assert not made.superseded
    assert {blocked.entry_id: blocked.guards[0].code for blocked in made.blocked} == {
        entry_id(1): "superseded",
        entry_id(2): "stale",
    }


def test_a_settled_command_supersedes_nothing() -> None:
    new, cancel = command(1, key="k"), command(2, key="k", verb="cancel")
    known = facts([new, cancel], states={new.entry_id: "pending", cancel.entry_id: "dismissed"})
    made = plan([entry(new), entry(cancel)], known)
    assert [step.command.entry_id for step in made.steps] == [new.entry_id]


def test_the_second_of_two_like_orders_is_a_duplicate() -> None:
    made = _made(command(1, quantity=Decimal(5)), command(2, quantity=Decimal(5)))
    assert [step.command.entry_id for step in made.steps] == [entry_id(1)]
    assert made.blocked[0].guards[0].code == "duplicate"


def test_a_cancel_is_no_order_that_a_new_one_could_repeat() -> None:
    made = _made(command(1, verb="cancel", key="a", quantity=Decimal(5)), command(2, key="b", quantity=Decimal(5)))
    assert [step.command.entry_id for step in made.steps] == [entry_id(1), entry_id(2)]


def test_exposure_is_told_by_venue_account_and_market() -> None:
    made = _made(
        command(1),
        command(2, side="sell"),
        command(3, market_id="MSFT"),
        command(4, price=None, order_type="market"),
        command(5, verb="cancel"),
    )
    lines = {(line.account, line.market): line for line in made.exposure}
    aapl = lines["main", "AAPL"]
    assert (aapl.orders, aapl.gross, aapl.net, aapl.unpriced) == (4, Decimal(30), Decimal(-10), 1)
    assert (made.gross, made.net) == ({"": Decimal(60)}, {"": Decimal(20)})


def test_only_what_an_override_would_send_can_be_overridden() -> None:
    old, poor = (command(n, captured_at=NOW - timedelta(hours=1)) for n in (1, 2))
    states = {old.entry_id: "pending", poor.entry_id: "in_doubt"}
    assert _made(old, poor, states=states).overridable == {"stale"}
    assert "stale" in _made(poor, states=states).blocked[0].text
    assert _made(poor, states=states).overridable == frozenset(), "in doubt, it would stay all the same"


def test_four_eyes_over_the_limit_and_for_overrides_in_live() -> None:
    big = Limits(four_eyes_over=Decimal(9))
    assert _made(command(1), limits=big).needs_second == "gross 10 is over 9"
    stale = command(1, captured_at=None)
    assert _made(stale, overrides=frozenset({"stale"})).needs_second is None
    assert _made(stale, mode="live", overrides=frozenset({"stale"})).needs_second == "overrides stale"
    assert _made(command(1), mode="live", overrides=frozenset({"stale"})).needs_second is None


def test_a_second_person_reads_how_much_and_why() -> None:
    assert _made(command(1), limits=Limits(four_eyes_over=Decimal(9))).summary == "1 paper order, gross 10 (over 9)"
    stale = [command(n, captured_at=None) for n in (1, 2)]
    made = _made(*stale, mode="live", overrides=frozenset({"stale", "duplicate"}))
    assert made.summary == "2 live orders, gross 30 (overrides stale)"


def _elsewhere(host: str) -> dict[VenueAccount, VenueFacts]:
    return dict.fromkeys(AT, VenueFacts("fake", host, PROFILE, READY, None, has_lookup=True))


def test_the_hash_covers_ids_versions_commands_and_mode_but_no_time() -> None:
    base = _made(command(1)).hash
    assert _made(command(1), at=NOW + timedelta(minutes=3)).hash == base
    assert _made(command(1, captured_at=NOW)).hash == base
    others = [
        _made(command(2)),
        _made(command(1, version=(1, 0))),
        _made(command(1, price=Decimal(11))),
        _made(command(1, time_in_force="gtc")),
        _made(command(1, client_order_id="other")),
        _made(command(1), mode="live"),
        _made(command(1), command(2)),
        _made(command(1), command(2, key="key-1", verb="cancel")),
        _made(command(1, price_unit="cents")),
        _made(command(1, terms=Terms(post_only=True))),
        _made(command(1), orders={command(1).entry_id: OrderFacts("PA9")}),
        _made(command(1, retry_count=10), overrides=frozenset({"retry-limit"})),
        _made(command(1), venues=_elsewhere("other.test")),
    ]
    assert len({base, *(made.hash for made in others)}) == len(others) + 1


def test_ten_thousand_entries_are_planned() -> None:
    commands = [command(number) for number in range(1, 10_001)]
    made = plan([entry(one) for one in commands], facts(commands, limits=Limits(max_batch=10_000)))
    assert len(made.steps) == 10_000 - sum(1 for one in commands if one.action.quantity > 5000)
