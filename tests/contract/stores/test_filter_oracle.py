"""Every filter means the same in SQLite, in Postgres, in memory, in the index, and to an oracle of the rows alone.

The oracle below is written from the description of the language and shares no code with the console.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.filter_match import fits
from backends.records import Entry, Filter, number
from backends.sql.store import SQLStore
from backends.store import Store
from console.services.browse.filter_syntax import parse_expression
from console.services.browse.search import Search, required_texts
from console.services.triage.triage import Query, Triage
from tests.support.index import indexed
from tests.support.store import ACTOR, BASE, Rig, SQLiteRig, order_row, sqlite_rig

NOW = BASE + timedelta(hours=3)
EXAMPLES = int(os.environ.get("DLQ_EXAMPLES", "15"))

VENUES = ("alpaca", "Alpaca", "kalshi", "ccxt:binance", "börse", "BÖRSE", "Straße", "strasse", "K")
ACCOUNTS = (None, "", "main", "MAIN", "desk one", "a,b", "a*b", "100%", "x_y")
MARKETS = ("AAPL", "BTC/USDT", "МОСКВА", "москва", "ΟΔΟΣ", "οδος", "İstanbul", "fees_%", "back\\slash")
ERRORS = (
    "",
    "HTTP 429 after 3 attempts",
    "http 503: Timeout",
    "ReadTimeout: 100% of x_y",
    "ЗАЯВКА отклонена",
    "Überweisung [fehlt] *?",
    "line one\nline two: timeout",
    'said "no", then \\ closed',
    "long " + "x" * 5000 + " needle",
)
ACTIONS: tuple[str, ...] = (
    "",
    "not json",
    "[1]",
    json.dumps({"action": "new", "time_in_force": "Day", "price": 180.50, "reduce_only": True}),
    json.dumps({"action": "CANCEL", "price": "180.5", "tags": ["x"], "stop_loss": {"stop_price": 170}}),
    json.dumps({"action": "replace", "price": 180, "note": None, "a.b": "dotted"}),
    json.dumps({"price": 0.1, "note": "", "a": {"b": "path"}, "reduce_only": False}),
    r'{"\u0061ction": "c\u0061ncel", "time\u005fin_force": "d\u0061y", "\u0061": {"b": "p\u0061th"}}',
    '{"action": "canc\u212ael", "time_in_force": "DAY", "tags": "x"}',
)
PRICES = (None, 180.0, 0.1, 1e-7, 92641.25)
QUANTITIES = (1.0, 100.0, 0.3, 2500000.0)


def rows() -> list[dict[str, object]]:
    return [
        order_row(
            n,
            captured_at=NOW - timedelta(minutes=n * 7, microseconds=n),
            venue_name=VENUES[n % len(VENUES)],
            account_id=ACCOUNTS[(n // 2) % len(ACCOUNTS)],
            market_id=MARKETS[(n * 5) % len(MARKETS)],
            side=("buy", "sell", "SELL")[n % 3],
            quantity=QUANTITIES[n % 4],
            order_type=("limit", "market", "Stop")[n % 3],
            price=PRICES[(n * 3) % 5],
            client_order_id=None if n % 6 == 0 else f"C-{n}",
            error=ERRORS[(n * 7) % len(ERRORS)],
            retry_count=n % 4,
            dismissed=n % 5 == 0,
            action_json=ACTIONS[(n * 4) % len(ACTIONS)],
        )
        for n in range(72)
    ]


# The oracle.

_WORD = re.compile(r'(?:"(?:\\["\\]|[^"])*"|[^\s"])+')
_FIELD = re.compile(r"([!-]?)([A-Za-z][A-Za-z0-9_.]*)(>=|<=|:|>|<)(.*)", re.DOTALL)
_UNITS = {"": 1, "k": 1000, "m": 1000000, "b": 1000000000}
_TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
Row = dict[str, Any]


def _unquoted(raw: str) -> list[str]:
    """The characters; one that stood in quotes is written as a pair with a mark before it."""
    found, quoted, chars = [], False, iter(raw)
    for char in chars:
        if char == '"':
            quoted = not quoted
        elif quoted:
            found.append("\0" + (next(chars) if char == "\\" and raw[raw.index(char) :] else char))
        else:
            found.append(char)
    return found


def _plain(chars: list[str]) -> str:
    return "".join(char[-1] for char in chars)


def _regex(chars: list[str]) -> re.Pattern[str]:
    return re.compile("".join(".*" if char == "*" else re.escape(char[-1].casefold()) for char in chars), re.DOTALL)


def _alternatives(raw: str) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for char in _unquoted(raw):
        found.append([]) if char == "," else found[-1].append(char)
    return found


def _decimal(value: object) -> Decimal | None:
    return None if value is None else Decimal(repr(value))


def _text_is(choice: list[str], value: object, *, contains: bool) -> bool:
    folded = str(value).casefold()
    if contains and "*" not in choice:
        return _plain(choice).casefold() in folded
    return _regex(choice).fullmatch(folded) is not None


def _in_action(row: Row, key: str) -> object:
    try:
        action = json.loads(row["action_json"])
    except ValueError:
        return None
    if not isinstance(action, dict):
        return None
    if key in action:
        return action[key]
    value: Any = action
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _action_is(row: Row, key: str, choice: list[str]) -> bool:
    value = _in_action(row, key)
    if value is None or value == "":
        return choice == []
    if isinstance(value, dict | list) or choice == []:
        return False
    if isinstance(value, bool):
        return _text_is(choice, "true" if value else "false", contains=False)
    if isinstance(value, int | float):
        asked = _plain(choice)
        return re.fullmatch(r"-?\d+(\.\d+)?", asked) is not None and Decimal(asked) == _decimal(value)
    return _text_is(choice, value, contains=False)


def _verb(row: Row) -> str:
    told = _in_action(row, "action")
    return told if isinstance(told, str) and told else "new"


def _values(row: Row, name: str) -> list[object]:
    columns = {"venue": "venue_name", "account": "account_id", "market": "market_id", "type": "order_type"}
    columns |= {"side": "side", "error": "error", "cid": "client_order_id"}
    held = {"id": [row["dlq_id"], row["client_order_id"]], "verb": [_verb(row)]}.get(name)
    return [one for one in (held or [row[columns[name]]]) if one not in (None, "")]


_NUMBERS: dict[str, Callable[[Row], Decimal | None]] = {
    "qty": lambda row: _decimal(row["quantity"]),
    "price": lambda row: _decimal(row["price"]),
    "tries": lambda row: _decimal(row["retry_count"]),
}


def _amount(text: str) -> Decimal:
    unit = text[-1].lower() if text[-1].lower() in "kmb" else ""
    return Decimal(text[: len(text) - len(unit)]) * _UNITS[unit]


def _compared(left: Any, sign: str, right: Any) -> bool:
    found: dict[str, bool] = {">": left > right, ">=": left >= right, "<": left < right, "<=": left <= right}
    return found[sign]


def _word_holds(row: Row, raw: str) -> bool:
    found = _FIELD.fullmatch(raw)
    if found is None:
        denied, text = raw.startswith("!"), _plain(_unquoted(raw.removeprefix("!"))).casefold()
        ids = [str(one).casefold() for one in _values(row, "id")]
        seen = text in row["error"].casefold() or text in row["market_id"].casefold() or text in ids
        return seen is not denied
    denied, name, sign, value = bool(found[1]), found[2], found[3], found[4]
    return _field_holds(row, name if name.startswith("action.") else name.lower(), sign, value) is not denied


def _field_holds(row: Row, name: str, sign: str, value: str) -> bool:
    if name == "state":
        state = "dismissed" if row["dismissed"] else "pending"
        return any(_plain(one).lower() in (state, "all") for one in _alternatives(value))
    if name in ("since", "until"):
        at = datetime.fromisoformat(_plain(_unquoted(value))).replace(tzinfo=UTC)
        captured: datetime = row["captured_at"]
        return captured >= at if name == "since" else captured < at
    if name == "age":
        seconds = Decimal(value[:-1]) * _TIMES[value[-1].lower()]
        age = Decimal((NOW - row["captured_at"]) // timedelta(microseconds=1)) / 1000000
        return _compared(age, sign, seconds)
    if name in _NUMBERS:
        held = _NUMBERS[name](row)
        if sign != ":":
            return held is not None and _compared(held, sign, _amount(value))
        wanted = [_plain(one) for one in _alternatives(value)]
        return any(held is None if one == "" else held == _amount(one) for one in wanted)
    choices = _alternatives(value)
    if name.startswith("action."):
        return any(_action_is(row, name.removeprefix("action."), one) for one in choices)
    values = _values(row, name)
    if not values:
        return [] in choices
    contains = name == "error"
    return any(_text_is(one, value, contains=contains) for one in choices if one for value in values)


def oracle(row: Row, line: str) -> bool:
    raws = _WORD.findall(line)
    if not any(raw.lower().startswith("state:") for raw in raws) and row["dismissed"]:
        return False
    return all(_word_holds(row, raw) for raw in raws)


# The expressions.


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _single() -> Iterator[str]:
    """One field with each of its values, whole and in part, in another case, quoted or with a star."""
    of: dict[str, tuple[str, ...]] = {
        "venue": VENUES,
        "account": tuple(filter(None, ACCOUNTS)),
        "market": MARKETS,
        "side": ("buy", "SELL"),
        "type": ("limit", "STOP"),
        "verb": ("new", "Cancel", "replace"),
        "error": ("timeout", "TIMEOUT", "заявка", "ÜBER", "100%", "x_y", "needle", "[fehlt] *?", '"no"', "two: t"),
        "id": ("dlq_0000000000000003", "c-4"),
        "cid": ("C-5", "c-5", "C"),
        "action.time_in_force": ("day", "DAY"),
        "action.price": ("180.5", "180.50", "180", "0.1", "x"),
        "action.reduce_only": ("true", "FALSE"),
        "action.a.b": ("path", "dotted"),
        "action.stop_loss.stop_price": ("170", "171"),
        "action.tags": ("x",),
    }
    for name, values in of.items():
        for value in values:
            yield f"{name}:{_quoted(value)}"
            yield f"!{name}:{_quoted(value.swapcase())}"
            yield f"{name}:{_quoted(value[:2])}*"
            yield f"-{name}:*{_quoted(value[-2:])}"
        yield f'{name}:""'
        yield f'!{name}:""'
        yield f"{name}:*"
        yield f"{name}:{_quoted(values[0])},{_quoted(values[-1])}"


TEXTS = (
    "timeout",
    "TimeOut",
    "429",
    "МОСКВА",
    "οδοσ",
    "btc",
    "%",
    "x_y",
    "back\\slash",
    "c-4",
    "C-",
    "dlq_",
    "ß",
    "-x",
)
COMPARED = [
    *(
        f"{name}{sign}{value}"
        for name in ("qty", "price", "tries")
        for sign in (":", ">", ">=", "<", "<=")
        for value in ("1", "0.3")
    ),
    *(f"!price{sign}0.1" for sign in (":", ">", ">=", "<", "<=")),
    *(f"age{sign}{span}" for sign in (">", ">=", "<", "<=") for span in ("70m", "1.5h", "3h", "0s", "1w")),
    "qty>1k",
    "qty>=2.5M",
    "qty:2.5m",
    "price:0.0000001",
    'price:""',
    '!price:""',
    'price:"",180',
    "price>90k price<1b",
]
MOMENTS = [
    f"{name}:{at}" for name in ("since", "until") for at in ("2026-04-18T14:32:15", "2026-04-18T16:22:14.999990")
]
STATED = ["state:all", "state:dismissed", "state:pending", "state:all !state:dismissed"]
MANY = [
    f"id:{','.join(f'c-{n}' for n in range(1200))}",
    f"!venue:alpaca,{','.join(f'v{n}' for n in range(600))} qty:1",
    " ".join(f"!word{n}" for n in range(600)),
    f"qty:{','.join(map(str, range(600)))} !timeout",
]
LINES = [
    *_single(),
    *TEXTS,
    *(f"!{word}" for word in TEXTS),
    *COMPARED,
    *MOMENTS,
    *STATED,
    *MANY,
    *(f"{a} {b} state:all" for a, b in itertools.product(("venue:alpaca", "!side:buy", "error:time*"), COMPARED[:12])),
    "venue:kalshi side:sell notional>50k age>1h !timeout".replace("notional>50k", "qty>50"),
]


def test_there_are_many_expressions() -> None:
    assert len(set(LINES)) >= 300


def ids_of(entries: object) -> list[str]:
    return sorted(entry.id for entry in entries)  # type: ignore[attr-defined]


async def check(store: Store, kept: list[Row], every: tuple[Entry, ...], line: str) -> None:
    query = parse_expression(line, NOW)
    expected = sorted(str(row["dlq_id"]) for row in kept if oracle(row, line))
    found = (await store.page(query.where, limit=500)).entries
    assert ids_of(found) == expected, line
    assert ids_of(entry for entry in every if fits(entry, query.where)) == expected, f"in memory: {line}"
    if len(line) % 3 == 0:  # a sample, as a count takes as long as everything else here
        assert sum((await store.counts(query.where)).by_state.values()) == len(expected), f"counted: {line}"


async def whole(store: Store) -> tuple[Entry, ...]:
    page = await store.page(parse_expression("state:all", NOW).where, limit=500)
    return tuple((await store.many(tuple(entry.id for entry in page.entries))).values())


async def test_every_expression_means_the_same(store_rig: Rig) -> None:
    kept = rows()
    await store_rig.make(kept)
    store = await store_rig.open()
    every = await whole(store)
    for line in LINES:
        await check(store, kept, every, line)


async def test_an_index_changes_no_answer(store_rig: Rig) -> None:
    kept = rows()
    await store_rig.make(kept)
    columns = {"venue": "venue_name", "account": "account_id", "market": "market_id", "cid": "client_order_id"}
    for column in columns.values():
        await store_rig.sql(f"CREATE INDEX by_{column} ON order_dlq ({column})")
    store = await store_rig.open()
    every = await whole(store)
    asked = [line for line in LINES if line.startswith(tuple(columns))]
    assert len(asked) > 30
    for line in asked:
        await check(store, kept, every, line)


async def test_pages_and_steps_reach_the_same_entries(store_rig: Rig) -> None:
    """Whether page by page in either direction, or in steps of a few rows."""
    kept = rows()
    await store_rig.make(kept)
    store = await store_rig.open()
    for line in LINES[::25]:
        where = parse_expression(line, NOW).where
        expected = sorted(str(row["dlq_id"]) for row in kept if oracle(row, line))
        assert ids_of(await paged(store, where)) == ids_of(await stepped(store, where)) == expected, line


async def paged(store: SQLStore, where: Filter) -> list[Entry]:
    found: list[Entry] = []
    while True:
        page = await store.page(where, limit=3, after=found[-1].row_key if found else None, newest_first=True)
        found += page.entries
        if not page.more:
            return found


async def stepped(store: SQLStore, where: Filter) -> list[Entry]:
    found: list[Entry] = []
    after, looked = None, 0
    while True:
        got = await store.scan(where, most=7, after=after)
        found += got.entries
        after, looked = got.reached, looked + got.looked
        if not got.more:
            there = await store.counts(Filter(states=where.states))
            assert looked == sum(there.by_state.values()), "each row is looked at once"
            return found


async def test_the_index_finds_what_the_store_finds(tmp_path: Path) -> None:
    rig = sqlite_rig(tmp_path)
    kept = rows()
    await rig.make(kept)
    store = await rig.open()
    index = await indexed(store, tmp_path / "cache")
    await index.settle()
    asked = 0
    for line in LINES:
        where = parse_expression(line, NOW).where
        if not required_texts(where):
            continue
        asked += 1
        got = await Search(store, index.reader).find(where, limit=500, budget=60)
        assert ids_of(got.entries) == sorted(str(row["dlq_id"]) for row in kept if oracle(row, line)), line
        assert got.source == "index"
    assert asked >= 30
    await index.reader.aclose()
    await rig.aclose()


_PART = st.text(alphabet='aAbB,*:"\\ %_!-<>1ßẞſKΣσςİiЖж', max_size=6)
_NAME = st.sampled_from(["venue", "account", "market", "error", "cid", "id", "side", "action.k"])
_WORDS = st.one_of(
    st.builds(lambda no, name, part: f"{no}{name}:{_quoted(part)}", st.sampled_from(["", "!", "-"]), _NAME, _PART),
    st.builds(
        lambda no, name, a, b: f"{no}{name}:{_quoted(a)}*{_quoted(b)}", st.sampled_from(["", "!"]), _NAME, _PART, _PART
    ),
    st.builds(lambda no, part: f"{no}{_quoted(part)}", st.sampled_from(["", "!"]), _PART),
    st.builds(
        lambda name, sign, value: f"{name}{sign}{value}",
        st.sampled_from(["qty", "price", "tries"]),
        st.sampled_from([":", ">", ">=", "<", "<="]),
        st.decimals(-10, 10, places=3).map(lambda value: f"{value:f}"),
    ),
)


@given(
    texts=st.lists(st.tuples(_PART, _PART, _PART, _PART, st.none() | st.floats(-9, 9)), min_size=1, max_size=6),
    line=st.lists(_WORDS, min_size=1, max_size=3, unique_by=lambda word: re.split("[:<>]", word)[0]).map(" ".join),
)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
async def test_generated_expressions_mean_the_same(
    store_rig: Rig, texts: list[tuple[str, str, str, str, float | None]], line: str
) -> None:
    store = await emptied(store_rig)
    kept = [
        order_row(
            n,
            venue_name=a,
            account_id=b,
            market_id=c,
            error=d,
            price=price,
            action_json=json.dumps({"k": a}, ensure_ascii=n % 2 == 0),
        )
        for n, (a, b, c, d, price) in enumerate(texts)
    ]
    await store_rig.fill(kept)
    await check(store, kept, await whole(store), line)


_OPENED: dict[int, SQLStore] = {}  # of the rig in use; opening one for each example would take most of the time


async def emptied(rig: Rig) -> SQLStore:
    if id(rig) not in _OPENED:
        _OPENED.clear()
        await rig.make(0)
        if isinstance(rig, SQLiteRig):
            for kind in ("del", "upd", "ins"):
                await rig.sql(f"DROP TRIGGER order_dlq_worm_{kind}")
        else:
            await rig.sql("ALTER TABLE order_dlq DISABLE TRIGGER USER")
        for name in ("venue_name", "client_order_id"):
            await rig.sql(f"CREATE INDEX by_{name} ON order_dlq ({name})")
        _OPENED[id(rig)] = await rig.open()
    await rig.sql("DELETE FROM order_dlq")
    return _OPENED[id(rig)]


async def test_a_value_of_the_console_joins_the_rest(store_rig: Rig) -> None:
    kept = [order_row(n, quantity=float(n), price=10.0, action_json="") for n in range(1, 9)]
    await store_rig.make(kept)
    triage = Triage(await store_rig.open(), ACTOR, lambda: NOW, worth=_worth)
    for line, least in (("notional>50", 6), ("notional>=50 age>1m", 5), ("notional>0.05k", 6), ("!notional<50", 5)):
        query: Query = parse_expression(line, NOW)
        assert [entry.get("quantity") for entry in await triage.select(query)] == list(map(float, range(least, 9))), (
            line
        )


def _worth(entry: Entry) -> Decimal | None:
    quantity, price = number(entry.get("quantity")), number(entry.get("price"))
    return None if quantity is None or price is None else quantity * price


@pytest.mark.parametrize("line", ['error:"a"', '!error:"a"', '"a"', '!"a"', 'account:"7"', "error:*", 'error:""'])
async def test_values_that_are_no_text(sqlite_store: SQLiteRig, line: str) -> None:
    """A NUL, bytes that are no UTF-8, and numbers, as only SQLite holds them: each is judged as it is shown."""
    await sqlite_store.make([order_row(n) for n in range(6)])
    await sqlite_store.sql("DROP TRIGGER order_dlq_worm_upd")
    odd = ("'x' || char(0) || 'a'", "CAST(x'ff61' AS TEXT)", "CAST(x'80' AS TEXT)", "x'0061'", "'A'", "''")
    for n, value in enumerate(odd):
        await sqlite_store.sql(f"UPDATE order_dlq SET error = {value}, account_id = 7 WHERE dlq_id LIKE '%{n}'")
    store = await sqlite_store.open()
    where = parse_expression(line, NOW).where
    every = await whole(store)
    found = (await store.page(where, limit=99)).entries
    assert ids_of(found) == ids_of(entry for entry in every if fits(entry, where)), line
    assert sum((await store.counts(where)).by_state.values()) == len(found), line
