"""Every guard, by the case it is there for and the nearest case it must let through."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from backends.records import Halt
from console.services.replay.command import Command, Problem
from console.services.replay.guards import (
    BLOCKS,
    OVERRIDABLE,
    BusyOrder,
    Facts,
    Guard,
    OrderFacts,
    Replayed,
    VenueFacts,
    likeness,
    refusal,
)
from console.services.replay.plan import plan
from console.services.replay.venue_pool import VenueAccount
from console.settings.config import Limits
from tests.support.planning import AT, NOW, command, entry, facts
from tests.support.venue.in_process import PROFILE, READY
from venues import MarketView, Quote, Readiness, Refused, SentTerms, Terms

HALT = Halt("2026-04-18T14:59:00Z", "ann", "venue melts")


def codes(one: Command | Problem, known: Facts) -> set[str]:
    made = plan([entry(one)], known)
    return {guard.code for blocked in made.blocked for guard in blocked.guards}


def venue(**changes: object) -> dict[VenueAccount, VenueFacts]:
    known = VenueFacts("fake", "fake.test", PROFILE, READY, None, has_lookup=True)
    return dict.fromkeys(AT, replace(known, **changes))  # type: ignore[arg-type]  # tests name fields of VenueFacts


def aged(**age: float) -> Command:
    return command(captured_at=NOW - timedelta(**age))


def readiness(**changes: object) -> dict[VenueAccount, VenueFacts]:
    return venue(readiness=replace(READY, **changes))  # type: ignore[arg-type]  # tests name fields of Readiness


def _shut(hours: float) -> dict[VenueAccount, VenueFacts]:
    return readiness(market_open=False, session_close=(NOW + timedelta(hours=hours)).isoformat())


def _seen(bid: str, ask: str, *, number: int = 1, seconds: int = 1, **more: str) -> dict[str, object]:
    """The market of entry `number`."""
    quote = Quote(Decimal(bid), Decimal(ask), NOW - timedelta(seconds=seconds))
    position = Decimal(more["position"]) if "position" in more else None
    view = MarketView(quote, position, currency=more.get("currency", "USD"))
    return {"orders": {command(number).entry_id: OrderFacts(view=view)}}


STRICT = replace(PROFILE, sends=SentTerms())
LARGE = Limits(stale_after=timedelta(days=9))
BOTH = {**venue(), VenueAccount("other", "main"): venue()[AT[0]]}
PAPER = frozenset({"paper"})
SHUT = readiness(ready=False, market_open=False, closed=True)
CASES: dict[str, tuple[Command | Problem, dict[str, object], str | None]] = {
    "all is well": (command(), {}, None),
    "halt": (command(), {"halt": HALT}, "halt"),
    "in doubt": (command(), {"states": {command().entry_id: "in_doubt"}}, "in-doubt"),
    "in flight": (command(), {"states": {command().entry_id: "in_flight"}}, "in-doubt"),
    "replayed": (command(), {"states": {command().entry_id: "replayed"}}, "settled"),
    "dismissed": (command(), {"states": {command().entry_id: "dismissed"}}, "settled"),
    "claimed": (command(), {"claims": {command().entry_id: "bob"}}, "claimed"),
    "unparsable": (Problem("dlq_1", "unparsable", "duplicate key"), {"states": {}}, "unparsable"),
    "not preparable": (
        command(),
        {"refusals": {command().entry_id: Guard("unparsable", "it would be rounded")}},
        "unparsable",
    ),
    "unknown venue": (command(venue="nowhere"), {}, "unknown-venue"),
    "unknown account": (command(), {"venues": venue(problem=Guard("unknown-account", "no keys"))}, "unknown-account"),
    "not a managed account": (
        command(),
        {"refusals": {command().entry_id: Guard("unknown-account", "account U2: this gateway has U1")}},
        "unknown-account",
    ),
    "no answer while it was opened": (
        command(),
        {"venues": venue(problem=Guard("not-ready", "no answer"))},
        "not-ready",
    ),
    "live from a paper store": (command(), {"mode": "live", "paper_store": True}, "paper-store"),
    "replayed in paper, asked for live": (
        command(),
        {"mode": "live", "states": {command().entry_id: "replayed"}, "accepted": {command().entry_id: PAPER}},
        "replayed-in-paper",
    ),
    "reopened, asked for paper again": (command(), {"accepted": {command().entry_id: PAPER}}, "settled"),
    "reopened, asked for live": (command(), {"mode": "live", "accepted": {command().entry_id: PAPER}}, None),
    "a cancel while its order is in doubt": (
        command(verb="cancel"),
        {"busy": {command().key: (BusyOrder("dlq_other", "new", in_doubt=True),)}},
        None,
    ),
    "a cancel while its order is in flight": (
        command(verb="cancel"),
        {"busy": {command().key: (BusyOrder("dlq_other", "new", in_doubt=False),)}},
        "in-doubt",
    ),
    "a cancel while another cancel is in doubt": (
        command(verb="cancel"),
        {"busy": {command().key: (BusyOrder("dlq_other", "cancel", in_doubt=True),)}},
        "in-doubt",
    ),
    "an old cancel": (replace(aged(hours=30), action=command(verb="cancel").action), {}, None),
    "a cancel tried often": (command(verb="cancel", retry_count=99), {"failures": {command().entry_id: 9}}, None),
    "a cancel of a great quantity": (
        command(verb="cancel", quantity=Decimal(9)),
        {"limits": Limits(max_quantity=Decimal(1))},
        None,
    ),
    "a cancel while the market is shut": (command(verb="cancel"), {"venues": SHUT}, None),
    "a cancel at a venue that does not answer": (
        command(verb="cancel"),
        {"venues": readiness(reachable=False, ready=False)},
        "not-ready",
    ),
    "what trades round the clock, while equities are shut": (
        command(),
        {"venues": SHUT, "orders": {command().entry_id: OrderFacts(has_hours=False)}},
        None,
    ),
    "the session has closed since it was planned": (
        aged(hours=5),
        {"limits": LARGE, "venues": readiness(session_close=(NOW - timedelta(seconds=1)).isoformat())},
        "stale",
    ),
    "no paper mode": (command(), {"venues": venue(problem=Guard("no-paper-mode", "none"))}, "no-paper-mode"),
    "another entry of its order is in doubt": (
        command(),
        {"busy": {command().key: (BusyOrder("dlq_other", "new", in_doubt=True),)}},
        "in-doubt",
    ),
    "its own attempt is no other": (
        command(),
        {"busy": {command().key: (BusyOrder(command().entry_id, "new", in_doubt=True),)}},
        None,
    ),
    "its cancel has gone out": (command(), {"replayed": Replayed(heads={command().key: (2, "dlq_9")})}, "superseded"),
    "its like has gone out": (command(), {"replayed": Replayed(heads={command().key: (0, "dlq_9")})}, "duplicate"),
    "it has gone out itself": (command(), {"replayed": Replayed(heads={command().key: (0, command().entry_id)})}, None),
    "its rival may have arrived": (command(rival="dlq_9"), {}, "may-have-arrived"),
    "stale by age": (aged(minutes=15, seconds=1), {}, "stale"),
    "old, but not too old": (aged(minutes=15), {}, None),
    "no age": (command(captured_at=None), {}, "stale"),
    "from the future": (aged(seconds=-61), {}, "stale"),
    "clocks a little apart": (aged(seconds=-59), {}, None),
    "day order after 24 h": (aged(hours=24, seconds=1), {"limits": LARGE}, "stale"),
    "day order within 24 h": (aged(hours=24), {"limits": LARGE}, None),
    "day order, session closed since": (
        aged(hours=5),
        {"limits": LARGE, "venues": readiness(session_close=(NOW + timedelta(hours=20)).isoformat())},
        "stale",
    ),
    "day order, same session": (
        aged(hours=5),
        {"limits": LARGE, "venues": readiness(session_close=(NOW + timedelta(hours=18)).isoformat())},
        None,
    ),
    "day order, captured out of hours just now": (
        aged(minutes=15),
        {"limits": LARGE, "venues": _shut(hours=40)},
        "not-ready",
    ),
    "gtc has no day": (replace(aged(hours=30), action=command(time_in_force="gtc").action), {"limits": LARGE}, None),
    "ioc ends by age alone": (
        replace(aged(hours=30), action=command(time_in_force="ioc").action),
        {"limits": LARGE},
        None,
    ),
    "stated expiry passed": (command(terms=Terms(expire_at=NOW - timedelta(seconds=1))), {}, "stale"),
    "stated expiry ahead": (command(terms=Terms(expire_at=NOW + timedelta(seconds=9))), {}, None),
    "retry limit": (command(retry_count=10), {}, "retry-limit"),
    "below it": (command(retry_count=9), {}, None),
    "poison": (command(), {"failures": {command().entry_id: 3}}, "poison"),
    "not yet poison": (command(), {"failures": {command().entry_id: 2}}, None),
    "notional": (command(quantity=Decimal(5001)), {}, "notional"),
    "just within": (command(quantity=Decimal(5000)), {}, None),
    "cents are cents": (command(quantity=Decimal(5001), price_unit="cents"), {}, None),
    "a cancel has no notional": (command(quantity=Decimal(5001), verb="cancel"), {}, None),
    "quantity": (command(2), {"limits": Limits(max_quantity=Decimal(1))}, "notional"),
    "market order without a price": (command(price=None, order_type="market"), {}, None),
    "the same in live cannot be valued": (command(price=None, order_type="market"), {"mode": "live"}, "notional"),
    "in live with a quote": (command(price=None, order_type="market"), {"mode": "live", **_seen("9.99", "10")}, None),
    "in live with a quote, too big": (
        command(price=None, order_type="market", quantity=Decimal(5001)),
        {"mode": "live", **_seen("9.99", "10")},
        "notional",
    ),
    "in live with an old quote": (
        command(price=None, order_type="market"),
        {"mode": "live", **_seen("9.99", "10", seconds=61)},
        "notional",
    ),
    "a currency that no limit names": (
        command(),
        {"mode": "live", "limits": Limits(max_notional={"EUR": Decimal(9)}), **_seen("9.99", "10", currency="JPY")},
        "notional",
    ),
    "a limit of its own currency": (
        command(),
        {"limits": Limits(max_notional={"USD": Decimal(9), "default": Decimal(99)}), **_seen("9.99", "10")},
        "notional",
    ),
    "through the market": (command(price=Decimal("10.6")), _seen("9.99", "10"), "price-drift"),
    "at the bound": (command(price=Decimal("10.5")), _seen("9.99", "10"), None),
    "far on its own side": (command(price=Decimal(1)), _seen("9.99", "10"), None),
    "through it, but only reduces": (command(price=Decimal("10.6")), _seen("9.99", "10", position="-1"), None),
    "through it, and turns the position": (
        command(2, price=Decimal("10.6")),
        _seen("9.99", "10", position="-1", number=2),
        "price-drift",
    ),
    "a cancel has no price": (command(price=Decimal(99), verb="cancel"), _seen("9.99", "10"), None),
    "a term that is not sent": (
        command(),
        {"refusals": {command().entry_id: refusal(Refused("hidden cannot be sent to fake", unsent=("hidden",)))}},
        "unsent-terms",
    ),
    "a key that nobody knows": (command(extra={"iceberg": 1}), {"venues": venue(profile=STRICT)}, "unmapped-terms"),
    "one inside params": (command(params={"iceberg": 1}), {"venues": venue(profile=STRICT)}, "unmapped-terms"),
    "a term inside params": (command(params={"reduceOnly": True}), {"venues": venue(profile=STRICT)}, None),
    "a label of the config": (
        command(extra={"Ice_Berg": 1}),
        {"venues": venue(profile=STRICT), "limits": Limits(labels=("iceberg",))},
        None,
    ),
    "a cancel's unknown keys": (
        command(extra={"iceberg": 1}, verb="cancel"),
        {"venues": venue(profile=STRICT)},
        None,
    ),
    "unreachable": (command(), {"venues": readiness(reachable=False, ready=False)}, "not-ready"),
    "not ready": (command(), {"venues": readiness(ready=False)}, "not-ready"),
    "market closed": (command(), {"venues": readiness(market_open=False)}, "not-ready"),
    "account blocked": (command(), {"venues": readiness(account_usable=False)}, "not-ready"),
    "no paper account in paper": (command(), {"venues": readiness(really_paper=False)}, "not-ready"),
    "a live account in live": (command(), {"mode": "live", "venues": readiness(really_paper=False)}, None),
    "not probed": (command(), {"venues": venue(readiness=None)}, None),
    "may have arrived, can be asked": (command(may_have_arrived=True), {}, None),
    "may have arrived, no own id": (command(may_have_arrived=True, own_id=False), {}, "may-have-arrived"),
    "may have arrived, no look-up": (
        command(may_have_arrived=True),
        {"venues": venue(has_lookup=False)},
        "may-have-arrived",
    ),
    "may have arrived, at a venue that cannot be used": (
        command(may_have_arrived=True),
        {"venues": dict.fromkeys(AT, VenueFacts("fake", problem=Guard("unknown-venue", "no venue fake")))},
        "unknown-venue",
    ),
    "sent to another venue, whose own can be asked": (
        command(may_have_arrived=True, venue="other"),
        {"venues": BOTH},
        None,
    ),
    "sent to another venue, whose own cannot be asked": (
        command(may_have_arrived=True, venue="other"),
        {"venues": {**BOTH, **venue(has_lookup=False)}},
        "may-have-arrived",
    ),
    "sent to another venue, its own is not known": (
        command(may_have_arrived=True, venue="other"),
        {"venues": {**BOTH, **venue(problem=Guard("unknown-venue", "gone"))}},
        "may-have-arrived",
    ),
    "a cancel that may have arrived": (command(may_have_arrived=True, own_id=False, verb="cancel"), {}, None),
    "duplicate of a replayed one": (
        command(),
        {"replayed": Replayed(likes=frozenset({likeness(command())}))},
        "duplicate",
    ),
    "a cancel duplicates nothing": (
        command(verb="cancel"),
        {"replayed": Replayed(likes=frozenset({likeness(command(verb="cancel"))}))},
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_guard_stops_its_case_and_no_other(name: str) -> None:
    one, known, code = CASES[name]
    assert codes(one, facts([one], **known)) == ({code} if code else set())


def test_every_code_of_the_contract_is_among_the_cases() -> None:
    told = {code for _, _, code in CASES.values()}
    assert set(OVERRIDABLE) <= told
    assert set(BLOCKS) - told == {"max-batch"}  # of a batch, not of an entry: see the plan's tests


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[2] in OVERRIDABLE])
def test_an_override_lets_it_through_and_is_written_down(name: str) -> None:
    one, known, code = CASES[name]
    made = plan([entry(one)], facts([one], **known, overrides=frozenset({code})))
    assert [step.overridden for step in made.steps] == [(code,)]
    assert made.overrides == {code}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[2] and case[2] not in OVERRIDABLE])
def test_no_override_lifts_a_block(name: str) -> None:
    one, known, code = CASES[name]
    assert codes(one, facts([one], **known, overrides=frozenset({*OVERRIDABLE, *BLOCKS, str(code)}))) == {code}


def test_reasons_are_said() -> None:
    held = plan([entry(command())], facts([command()], halt=HALT)).blocked[0]
    assert (held.entry_id, held.guards) == (command().entry_id, (Guard("halt", "halt set by ann: venue melts"),))
    skewed = facts([aged(hours=1)], skew=timedelta(seconds=90))
    assert plan([entry(command())], skewed).blocked[0].text == (
        "stale: 1h old, limit 15m (this machine's clock and the store's are 90 s apart)"
    )


def test_several_guards_are_all_named() -> None:
    one = replace(aged(hours=1), retry_count=10)
    assert codes(one, facts([one], failures={one.entry_id: 4})) == {"stale", "retry-limit", "poison"}


def test_what_is_settled_needs_no_further_reason() -> None:
    one = replace(aged(hours=1), retry_count=10)
    assert codes(one, facts([one], states={one.entry_id: "replayed"})) == {"settled"}


@pytest.mark.parametrize("seen", [{"account_usable": False}, {"really_paper": False}])
def test_keys_that_are_not_taken_name_the_command_that_sets_others(seen: dict[str, bool]) -> None:
    (blocked,) = plan([entry(command())], facts([command()], venues=readiness(**seen))).blocked
    assert "dlq secrets set fake --account" in blocked.text
    assert blocked.text.endswith(" --paper")


def test_a_readiness_without_words_is_still_shown() -> None:
    known = {"venues": venue(readiness=Readiness(True, False, "clock: HTTP 503"))}
    assert plan([entry(command())], facts([command()], **known)).blocked[0].text == "not-ready: fake: clock: HTTP 503"
