"""The filter language, sentence by sentence: what each word becomes, and which lines are errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from backends.criterion import Criterion, Pattern
from backends.records import OPEN_STATES, STATES
from console.services.browse.filter_syntax import (
    FIELDS,
    ExpressionError,
    parse_expression,
    quote,
    split_held,
    with_field,
)
from console.services.browse.filter_words import words

NOW = datetime(2026, 4, 18, 15, 0, tzinfo=UTC)


def text(word: str, *, negated: bool = False) -> Criterion:
    return Criterion("text", (Pattern.literal(word),), negated=negated)


def is_(field: str, *values: str, negated: bool = False) -> Criterion:
    return Criterion(field, tuple(Pattern(tuple(value.split("*"))) for value in values), negated=negated)


def number(field: str, sign: str, limit: str, *, negated: bool = False) -> Criterion:
    return Criterion(field, sign=sign, limit=Decimal(limit), negated=negated)  # type: ignore[arg-type]


def age(sign: str, seconds: float, *, negated: bool = False) -> Criterion:
    return Criterion("age", sign=sign, limit=NOW - timedelta(seconds=seconds), negated=negated)  # type: ignore[arg-type]


ROWS: list[tuple[str, list[Criterion]]] = [
    ("", []),
    ("   ", []),
    ("timeout", [text("timeout")]),
    ("TimeOut  429", [text("timeout"), text("429")]),
    ("-2010", [text("-2010")]),
    ("-timeout", [text("-timeout")]),
    ("12:30", [text("12:30")]),
    ("<html>", [text("<html>")]),
    ("HTTP/1.1", [text("http/1.1")]),
    ("a,b", [text("a,b")]),
    ("a*b", [text("a*b")]),
    ("back\\slash", [text("back\\slash")]),
    ("!timeout", [text("timeout", negated=True)]),
    ("!-2010", [text("-2010", negated=True)]),
    ('"venue:x"', [text("venue:x")]),
    ('!"venue:x y"', [text("venue:x y", negated=True)]),
    ('"say \\"no\\" \\\\ x"', [text('say "no" \\ x')]),
    ('""', [text("")]),
    ("venue:alpaca", [is_("venue", "alpaca")]),
    ("VENUE:Alpaca", [is_("venue", "alpaca")]),
    ("venue:a,b", [is_("venue", "a", "b")]),
    ('venue:"a,b"', [is_("venue", "a,b")]),
    ("venue:ccxt:binance", [is_("venue", "ccxt:binance")]),
    ("venue:ccxt:*", [is_("venue", "ccxt:*")]),
    ("!venue:kalshi", [is_("venue", "kalshi", negated=True)]),
    ("-venue:kalshi -venue:ibkr", [is_("venue", "kalshi", negated=True), is_("venue", "ibkr", negated=True)]),
    ('account:""', [is_("account", "")]),
    ('!account:""', [is_("account", "", negated=True)]),
    ('account:"",main', [is_("account", "", "main")]),
    ('account:"desk one"', [is_("account", "desk one")]),
    ('account:desk" "one', [is_("account", "desk one")]),
    ("market:STRASSE", [is_("market", "strasse")]),
    ("market:Straße", [is_("market", "strasse")]),
    ("error:ЗАЯВКА", [is_("error", "заявка")]),
    ("action.time_in_force:DAY", [is_("action.time_in_force", "day")]),
    ("Action.timeInForce:day", [is_("action.timeInForce", "day")]),
    ("action.a.b:1 action.A.b:2", [is_("action.a.b", "1"), is_("action.A.b", "2")]),
    ("qty:100", [Criterion("qty", numbers=(Decimal(100),))]),
    ("price:1.5k,-2", [Criterion("price", numbers=(Decimal(1500), Decimal(-2)))]),
    ('price:""', [Criterion("price", (Pattern(("",)),))]),
    ("qty>100", [number("qty", ">", "100")]),
    ("price>=0.5 price<=2", [number("price", ">=", "0.5"), number("price", "<=", "2")]),
    ("tries<3", [number("tries", "<", "3")]),
    ("!tries>2 !tries>5", [number("tries", ">", "2", negated=True), number("tries", ">", "5", negated=True)]),
    ("qty>2M", [number("qty", ">", "2000000")]),
    ("qty>1.5b", [number("qty", ">", "1500000000")]),
    ("age>1h", [age("<", 3600)]),
    ("age<15m age>=90S", [age(">", 900), age("<=", 90)]),
    ("age>2d", [age("<", 2 * 86400)]),
    ("age>1.5w", [age("<", 1.5 * 604800)]),
    ("!age>1h", [age("<", 3600, negated=True)]),
]


@pytest.mark.parametrize(("line", "expected"), ROWS)
def test_a_line_means(line: str, expected: list[Criterion]) -> None:
    assert list(parse_expression(line, NOW).where.criteria) == expected


@pytest.mark.parametrize("far", ["3000000d", "99999999999d", "9" * 30 + "w"])
def test_an_age_that_no_date_reaches_is_the_first_or_the_last_date(far: str) -> None:
    older, younger = (parse_expression(line, NOW).where.criteria[0] for line in (f"age>{far}", f"age<-{far}"))
    assert (older.sign, older.limit) == ("<", datetime.min.replace(tzinfo=UTC))
    assert (younger.sign, younger.limit) == (">", datetime.max.replace(tzinfo=UTC))


def test_what_only_the_console_knows_stands_apart_from_the_row() -> None:
    query = parse_expression("category:Transient group:ABC mark:poison notional>50k operator:on* !reason:test", NOW)
    assert (query.category, query.group, query.mark) == ("transient", "abc", "poison")
    assert query.where.criteria == ()
    assert query.classes == (
        number("notional", ">", "50000"),
        is_("operator", "on*"),
        is_("reason", "test", negated=True),
    )
    assert parse_expression("category:schema,business", NOW).classes == (is_("category", "schema", "business"),)


@pytest.mark.parametrize(
    ("line", "states"),
    [
        ("", OPEN_STATES),
        ("state:open", OPEN_STATES),
        ("state:all", frozenset(STATES)),
        ("state:ALL", frozenset(STATES)),
        ("state:Pending", {"pending"}),
        ("state:in-doubt,dismissed", {"in_doubt", "dismissed"}),
        ("state:in_*", {"in_doubt", "in_flight"}),
        ("!state:pending", {"in_doubt", "in_flight"}),
        ("!state:dismissed", OPEN_STATES),
        ("state:all -state:dismissed -state:replayed", OPEN_STATES),
    ],
)
def test_states(line: str, states: frozenset[str]) -> None:
    assert parse_expression(line, NOW).where.states == states


def test_a_verb_has_its_own_states_until_the_line_requires_some() -> None:
    closed = frozenset({"dismissed", "replayed"})
    assert parse_expression("venue:x", NOW, closed).where.states == closed  # type: ignore[arg-type]
    assert parse_expression("state:open", NOW, closed).where.states == OPEN_STATES  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("8h", "2026-04-18T07:00:00+00:00"),
        ("8H", "2026-04-18T07:00:00+00:00"),
        ("03:00", "2026-04-18T03:00:00+00:00"),
        ("15:00", "2026-04-18T15:00:00+00:00"),
        ("15:01", "2026-04-17T15:01:00+00:00"),
        ("2026-04-18", "2026-04-18T00:00:00+00:00"),
        ("2026-04-18T14:32:15", "2026-04-18T14:32:15+00:00"),
        ("2026-04-18t14:32:15z", "2026-04-18T14:32:15+00:00"),
        ("2026-04-18T14:32:15+02:00", "2026-04-18T12:32:15+00:00"),
        ('"2026-04-18 14:32"', "2026-04-18T14:32:00+00:00"),
    ],
)
def test_moments(value: str, moment: str) -> None:
    where = parse_expression(f"since:{value} until:{value}", NOW).where
    assert where.since == where.until == datetime.fromisoformat(moment)


ERRORS = [
    ("venue:", "needs a value"),
    ("!venue:", "needs a value"),
    ("age>", "needs a value"),
    ('venue:"x', "not closed"),
    ('say "x', "not closed"),
    ('don"t', "not closed"),
    ("!", "needs a text"),
    ("venue:a,", "missing at a comma"),
    ("venue:,a", "missing at a comma"),
    ("venue:a venue:b", "twice"),
    ("Venue:a VENUE:b", "twice"),
    ("state:open state:all", "twice"),
    ("since:8h since:9h", "twice"),
    ("price>1 price>=2", "twice"),
    ("price:1 price:2", "twice"),
    ("action.k:1 action.k:2", "twice"),
    ("age:1h", "age>1h"),
    ("venue>5", "cannot be compared"),
    ("since>8h", "cannot be compared"),
    ("action.price>5", "cannot be compared"),
    ("age>5", "length of time"),
    ("age>1h,2h", "length of time"),
    ("age>1k", "length of time"),
    ("age>1\u017f", "length of time"),
    ("since:1\u017f", "is not a time"),
    ("qty>1\u212a", "takes a number"),
    ("age>" + "9" * 200 + "w", "length of time"),
    ("price>1,2", "takes a number"),
    ("price>1*", "takes a number"),
    ("price>1e5", "takes a number"),
    ("price>.5", "takes a number"),
    ("price>5.", "takes a number"),
    ("price>+5", "takes a number"),
    ("price>５", "takes a number"),
    ("price>1h", "takes a number"),
    ("price:*", "takes a number"),
    ("!since:8h", "cannot be excluded"),
    ("-until:8h", "cannot be excluded"),
    ("since:soon", "since:soon is not a time: write since:8h"),
    ("since:24:00", "since:24:00 is not a time: write since:8h"),
    ("until:2026-02-30", "until:2026-02-30 is not a time: write until:8h"),
    ("state:lost", "no state lost"),
    ("category:funny", "no category funny"),
    ("mark:x", "no mark x"),
    ("action.:x", "needs a key"),
    ("http://x", "no field http"),
]


@pytest.mark.parametrize(("line", "says"), ERRORS)
def test_errors_instead_of_guesses(line: str, says: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        parse_expression(line, NOW)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("venu:x", "venue"),
        ("try>2", "tries"),
        ("quantity>5", "qty"),
        ("symbol:X", "market"),
        ("states:open", "state"),
        ("!acount:x", "account"),
        ("eror:x", "error"),
    ],
)
def test_an_unknown_field_names_the_nearest_and_the_way_to_search_it(line: str, meant: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        parse_expression(line, NOW)
    said = str(raised.value)
    assert f"did you mean {meant}?" in said
    assert "put it in quotes to search it as text" in said
    remedy = said.rpartition(": ")[2]
    [criterion] = parse_expression(remedy, NOW).where.criteria
    assert criterion == text(line.removeprefix("!"), negated=line.startswith("!"))


def test_every_field_is_understood() -> None:
    values = {"state": "open", "category": "schema", "mark": "stale", "since": "8h", "until": "8h", "age": ""}
    for name in FIELDS:
        line = "age>1h" if name == "age" else f"{name}:{values.get(name, '1')}"
        assert parse_expression(line, NOW)


@pytest.mark.parametrize("value", ["", "a b", 'q"uote', "back\\", "a,b", "x*", "venue:x", "!", '\\"', "ß"])
def test_a_quoted_value_is_that_value(value: str) -> None:
    [word] = words(f"venue:{quote(value)}")
    assert (word.text, word.has_star, len(word.choices)) == (value, False, 1)
    [word] = words(quote(value))
    assert (word.name, word.text) == ("", value)


def test_a_field_is_set_in_a_line() -> None:
    assert with_field("venue:alpaca group:old x", "group", "new") == "venue:alpaca x group:new"
    assert with_field("!group:old Group:x", "group", "new") == "!group:old group:new"
    assert with_field("", "account", "desk one") == 'account:"desk one"'


def test_held_entries_are_a_part_of_their_own() -> None:
    held, free = split_held(parse_expression("", NOW))
    assert held.where.states == frozenset({"in_doubt", "in_flight"})
    assert free.where.states == frozenset({"pending"})
    assert len(split_held(parse_expression("state:dismissed", NOW))) == 1
