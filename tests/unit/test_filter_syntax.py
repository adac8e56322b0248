"""The filter line's grammar."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.records import OPEN_STATES, STATES, Filter
from console.services.browse.filter_syntax import (
    ExpressionError,
    parse_expression,
    split_held,
    unknown_fields,
    with_field,
)
from console.services.triage.triage import Query

NOW = datetime(2026, 4, 18, 15, 0, tzinfo=UTC)


def test_the_example_of_the_manual() -> None:
    query = parse_expression("venue:alpaca state:in_doubt age>1h !timeout some text", NOW)
    assert query == Query(
        Filter(
            states=frozenset({"in_doubt"}),
            venue="alpaca",
            until=NOW - timedelta(hours=1),
            terms=("some", "text"),
            without=("timeout",),
        )
    )


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", Filter()),
        ("   ", Filter()),
        ("age<15m", Filter(since=NOW - timedelta(minutes=15))),
        ("state:all", Filter(states=frozenset(STATES))),
        ("state:open", Filter(states=OPEN_STATES)),
        ("state:pending,dismissed", Filter(states=frozenset({"pending", "dismissed"}))),
        ("state:in-doubt", Filter(states=frozenset({"in_doubt"}))),
        ("side:buy market:AAPL account:main", Filter(side="buy", market="AAPL", account="main")),
        ("RuntimeError: 429", Filter(terms=("RuntimeError:", "429"))),
        ('"two words"', Filter(terms=("two words",))),
        ('!"two words"', Filter(without=("two words",))),
        ('account:"desk one"', Filter(account="desk one")),
        ("since:8h until:2026-04-18", Filter(since=NOW - timedelta(hours=8), until=datetime(2026, 4, 18, tzinfo=UTC))),
        ("foo:bar", Filter(terms=("foo:bar",))),
    ],
)
def test_words_and_what_they_ask_for(text: str, where: Filter) -> None:
    assert parse_expression(text, NOW) == Query(where)


def test_what_the_classification_answers() -> None:
    query = parse_expression("category:transient group:abc", NOW)
    assert (query.category, query.group, query.by_class) == ("transient", "abc", True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("!", "! needs a text"),
        ("venue:", "venue: needs a value"),
        ("venue:a venue:b", "there twice"),
        ("state:broken", "state is one of"),
        ("category:odd", "category is one of"),
        ("age>soon", "write age>1h"),
        ("since:soon", "is no time"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, says: str) -> None:
    with pytest.raises(ExpressionError, match=says):
        parse_expression(text, NOW)


@given(st.text(max_size=80))
def test_any_text_is_a_query_or_a_clear_no(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        parse_expression(text, NOW)


def test_a_field_is_set_once() -> None:
    assert with_field("venue:alpaca group:old x", "group", "new") == "venue:alpaca x group:new"
    assert with_field("", "account", "desk one") == 'account:"desk one"'


def test_what_is_held_stands_first() -> None:
    first, second = split_held(Query())
    assert first.where.states == {"in_doubt", "in_flight"}
    assert second.where.states == {"pending"}
    assert len(split_held(parse_expression("state:dismissed", NOW))) == 1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("venue:alpaca state:all timeout", ()),
        ("error:timeout", ("error",)),
        ("foo:bar !baz:1 venue:x", ("foo", "baz")),
        ('"foo:bar"', ()),
        ("14:30 foo: age>1h", ()),
    ],
)
def test_a_word_that_looks_like_a_field_and_is_none_is_named(text: str, names: tuple[str, ...]) -> None:
    assert unknown_fields(text) == names
