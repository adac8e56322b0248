"""Values of a policy as text and back, and which of policy and config counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from backends.ledger.policy import KEYS, changed, digest
from console.services.triage.own_approval import own_answer, own_counts, way_out
from console.settings.config import Config, Limits
from console.settings.limits import LimitsInForce
from console.settings.policy import BadPolicy, parse_change, read_policy, stricter
from console.settings.second_person import SecondPerson

WORDS = [
    ("environment=live", "live"),
    ('environment="paper"', '"paper"'),
    ("max_batch=5", "5"),
    ("max_notional=1000.50", "1000.5"),
    ("max_notional={ USD = 50000, JPY = 7500000, default = 50000 }", "{ USD = 50000, JPY = 7500000, default = 50000 }"),
    ("max_drift=0.01", "0.01"),
    ("stale_after=5m", "5m"),
    ('stale_after="5m"', '"5m"'),
    ("labels=[]", "[]"),
    ('labels=["desk", "book"]', '["desk", "book"]'),
    ("labels=[desk,book]", '["desk", "book"]'),
    ('second_person="delay 60s"', '"delay 60s"'),
    ("second_person=delay 240s", '"delay 240s"'),
    ("second_person=other", "other"),
    ("allow_userns=true", "true"),
    (" max_batch = 7 ", "7"),
]


@pytest.mark.parametrize(("word", "kept"), WORDS)
def test_a_value_is_kept_as_it_is_printed_and_read_the_same(word: str, kept: str) -> None:
    key, text = parse_change(word)
    assert text == kept
    assert parse_change(f"{key}={text}") == (key, text)
    assert read_policy({key: kept}).rows == {key: kept}


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("max_bach=3", "did you mean max_batch?"),
        (
            "duplicate_window=5m",
            "is not a policy key; it is a limit of the config alone; the policy's keys: environment",
        ),
        ("colour=red", "is not a policy key; there are: environment, max_batch"),
        ("max_batch", "KEY=VALUE"),
        ("max_batch=0", "at least 1"),
        ("max_batch=2.5", "wrong type"),
        ("max_batch=true", "wrong type"),
        ("max_batch=1\nmax_drift=0", "is not a value"),
        ("max_quantity=nan", "an amount"),
        ("max_quantity=-1", "an amount"),
        ("max_drift=5", "share from 0 to 1"),
        ("max_notional={}", "limits nothing"),
        ("max_notional={ USD = inf }", "an amount"),
        ("stale_after=5", "wrong type"),
        ("stale_after=soon", "not a length of time"),
        ("stale_after=365001d", "at most 365000d"),
        ("stale_after=99999999999999999d", "at most 365000d"),
        ("environment=liev", "did you mean live?"),
        ("labels=desk", "wrong type"),
        ("second_person=othr", "did you mean other?"),
        ("second_person=delay 59s", "the nearest is delay 60s"),
        ("second_person=delay 5m", "the nearest is delay 240s"),
        ("second_person=delay soon", "not a length of time"),
        ("allow_userns=1", "true or false"),
        ("plan_seconds=4000", "at most 3600"),
    ],
)
def test_what_no_policy_can_hold_is_refused_and_the_nearest_named(word: str, says: str) -> None:
    with pytest.raises(BadPolicy) as refused:
        parse_change(word)
    assert says in str(refused.value)


def test_an_empty_value_takes_the_key_away() -> None:
    assert parse_change("max_batch=") == ("max_batch", None)
    assert changed({"labels": "[]", "max_batch": "5"}, {"max_batch": None}) == {"labels": "[]"}


def test_every_key_can_be_set() -> None:
    assert {parse_change(word)[0] for word, _ in WORDS} <= set(KEYS)
    own = dict.fromkeys(("max_quantity", "four_eyes_over", "quote_seconds", "poison_after", "retry_limit"), "5")
    assert read_policy({**own, "plan_seconds": "30"}).limits.plan_seconds == 30


def test_a_digest_is_of_every_key_and_value() -> None:
    assert digest({"a": "1", "b": "2"}) == digest({"b": "2", "a": "1"})
    assert len({digest({}), digest({"a": "1"}), digest({"a": "2"}), digest({"b": "1"})}) == 4


D = Decimal
USD = {"USD": D(10), "default": D(5)}


@pytest.mark.parametrize(
    ("own", "floor", "made"),
    [
        (D(10), "5", D(5)),
        (D(5), "10", D(5)),
        (USD, "7", {"USD": D(7), "default": D(5)}),
        (D(7), "{ USD = 10, default = 5 }", {"USD": D(7), "default": D(5)}),
        (USD, "{ USD = 20, JPY = 3 }", {"USD": D(10), "JPY": D(3)}),  # without a default: other currencies have none
        (USD, "{ JPY = 3, default = 9 }", {"USD": D(9), "JPY": D(3), "default": D(5)}),
        ({"USD": D(10)}, "{ EUR = 3 }", {}),  # each leaves out what the other names: nothing can be valued
    ],
)
def test_of_two_amounts_the_smaller_counts_per_currency(own: Any, floor: str, made: Any) -> None:
    limits = stricter(Limits(max_notional=own), read_policy({"max_notional": floor}))
    assert limits.max_notional == made


def test_the_stricter_counts_and_labels_are_the_policys_alone() -> None:
    own = Limits(max_batch=5, max_quantity=None, stale_after=timedelta(minutes=1), labels=("desk",))
    rows = {"max_batch": "9", "max_quantity": "3", "stale_after": "2m", "labels": '["book"]', "poison_after": "2"}
    assert stricter(own, read_policy(rows)) == replace(own, max_quantity=D(3), labels=("book",), poison_after=2)
    assert stricter(own, read_policy({})) == own


@pytest.mark.parametrize(
    ("policy", "config", "environment", "refuses"),
    [
        (None, None, None, False),
        ("live", None, "live", False),
        ("live", "paper", "live", True),
        ("paper", "live", "paper", True),
        (None, "paper", "paper", True),
        (None, "live", "live", False),
    ],
)
def test_the_environment_is_the_policys_and_a_paper_config_still_refuses_live(
    policy: str | None, config: str | None, environment: str | None, refuses: bool
) -> None:
    limits = LimitsInForce(Config(), config)
    limits.take({"environment": policy} if policy else {})
    assert (limits.environment, limits.refuses_live) == (environment, refuses)


def test_each_value_in_force_names_where_it_comes_from() -> None:
    limits = LimitsInForce(Config(limits=Limits(max_batch=7, retry_limit=5)), "paper")
    limits.take({"environment": "live", "max_batch": "3", "retry_limit": "9", "max_drift": "0.5", "stale_after": "5m"})
    told = {rule.key: str(rule) for rule in limits.rules()}
    assert told["environment"] == "environment=live (the store's policy; the config says paper)"
    assert told["max_batch"] == "max_batch=3 (the store's policy; the config says 7)"
    assert told["retry_limit"] == "retry_limit=5 (the config)"
    assert told["max_drift"] == "max_drift=0.05 (the default)"
    assert told["stale_after"] == "stale_after=5m (the store's policy)"
    assert limits.by_policy() == tuple(told[key] for key in ("environment", "max_batch", "stale_after"))


@pytest.mark.parametrize("rows", [{"max_batch": "none"}, {"max_bach": "3"}, {"environment": "5"}, {"labels": "{"}])
def test_rows_that_no_policy_can_hold_leave_no_limit_standing(rows: dict[str, str]) -> None:
    limits = LimitsInForce(Config())
    limits.take(rows)
    for asked in (limits.current, limits.rules, lambda: limits.environment, lambda: limits.digest):
        with pytest.raises(BadPolicy, match="dlq policy set"):
            asked()


@pytest.mark.parametrize(
    ("delay", "asked_ago", "typed", "answer"),
    [
        (None, 100.0, True, "own"),
        (60, 59.9, True, "early"),
        (60, 60.0, True, "may"),
        (60, 100.0, False, "untyped"),
        (60, -5.0, True, "early"),
    ],
)
def test_the_asker_approves_only_after_the_policys_delay(
    delay: int | None, asked_ago: float, typed: bool, answer: str
) -> None:
    assert own_answer(SecondPerson(delay), asked_ago, typed=typed) == answer


@pytest.mark.parametrize(
    ("delay", "asked_ago", "approved_ago", "counts"),
    [(None, 200.0, 10.0, False), (60, 200.0, 10.0, True), (60, 65.0, 10.0, False), (120, 200.0, 100.0, False)],
)
def test_an_own_approval_counts_by_the_policy_in_force_now(
    delay: int | None, asked_ago: float, approved_ago: float, counts: bool
) -> None:
    assert own_counts(SecondPerson(delay), asked_ago, approved_ago) is counts


@pytest.mark.parametrize("delay", [None, 90])
def test_who_wants_a_second_person_is_told_of_the_key(delay: int | None) -> None:
    assert "second_person" in way_out(SecondPerson(delay))
