"""Hostile strings through every printed path: nothing acts on a terminal, in a spreadsheet, or in Prometheus.

A sample by default; DLQ_HOSTILE is the number of strings.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.conftest import Dlq, Ran
from tests.support.hostile_rows import acts, texts
from tests.support.orders import CAPTURED, add_sqlite, row, sqlite_store

ASKED = int(os.environ.get("DLQ_HOSTILE", "400"))
COLUMNS = ("venue_name", "account_id", "market_id", "side", "order_type", "client_order_id", "error", "action_json")
SHEET = (
    "=1+1",
    "+1",
    "-1+1",
    "@SUM(1)",
    "\t=1+1",
    "\r=1+1",
    " =1+1",
    "\n=1",
    "＝1+1",
    '"=1',
    "'=1",
    "=cmd|' /C calc'!A0",
)
LABELS = ('"} 1\ndlq_depth{venue="x"} 9', "\\", '\\"', "\n# HELP dlq_depth x", "a\x00b", "{}", "\u2028dlq_up 0")
LONG = "\x1b[31m" + "x" * 1_000_000


def strings(count: int) -> Iterator[bytes]:
    chance, source = random.Random(count), texts()
    for number in range(count):
        piece = next(source)
        if number % 3 == 1:
            piece = chance.choice((*SHEET, *LABELS)).encode() + piece
        elif number % 3 == 2:
            piece = bytes(chance.randrange(256) for _ in range(12)) + piece
        yield piece


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Every string is in one row at least, in a column of its own."""
    path = tmp_path / "orders.db"
    sqlite_store(path)
    names = ("dlq_id", "captured_at", "quantity", "price", *COLUMNS)
    marks = ", ".join(["CAST(? AS TEXT)", "?", "?", "?"] + ["CAST(? AS TEXT)"] * len(COLUMNS))
    source = strings(ASKED)
    with closing(sqlite3.connect(path)) as connection:
        for number in range(0, ASKED, len(COLUMNS) + 1):
            held = [next(source, b"") for _ in range(len(COLUMNS) + 1)]
            values = (b"%d " % number + held[0], CAPTURED.isoformat(), 1.0, 2.0, *held[1:])
            connection.execute(f"INSERT INTO order_dlq ({', '.join(names)}) VALUES ({marks})", values)
        connection.execute("UPDATE order_dlq SET retry_count = 99 WHERE rowid % 5 = 0")
        connection.commit()
    return str(path)


def calm(ran: Ran) -> Ran:
    assert ran.code in (0, 1, 2, 4, 5), ran.err[-300:]
    odd = sorted(f"U+{ord(one):04X}" for one in set(ran.out + ran.err) if acts(one) and one != "\n")
    assert not odd, odd
    return ran


@pytest.mark.parametrize(
    "words",
    [
        *(("list", "--all"), ("list", "--all", "--json"), ("groups", "--all"), ("groups", "--all", "--json")),
        *(("check",), ("check", "--json"), ("doctor",), ("doctor", "--json"), ("export", "--format", "jsonl")),
        *(("report", "--since", "300w"), ("report", "--since", "300w", "--json"), ("audit", "export")),
    ],
)
def test_every_verb_is_calm(dlq: Dlq, store: str, words: tuple[str, ...]) -> None:
    ran = calm(dlq(*words, "--db", store))
    if "--json" in words or "jsonl" in words:
        for line in ran.out.splitlines():
            json.loads(line)


def test_no_cell_of_a_sheet_acts(dlq: Dlq, store: str) -> None:
    ran = calm(dlq("export", "--format", "csv", "--db", store))
    cells = [cell for line in csv.reader(io.StringIO(ran.out)) for cell in line]
    assert len(cells) > ASKED
    for cell in cells:
        assert not cell.lstrip().startswith(("=", "+", "-", "@", "＝")), cell[:40]


def test_metrics_are_parsed_as_they_were_meant(dlq: Dlq, store: str) -> None:
    with closing(sqlite3.connect(store)) as connection:
        add_sqlite(connection, (row(number, venue_name=text) for number, text in enumerate(LABELS)))
        connection.commit()
    ran = calm(dlq("metrics", "--db", store))
    depth = [family for family in text_string_to_metric_families(ran.out) if family.name == "dlq_depth"]
    assert len(depth) == 1
    assert not [one for one in depth[0].samples if one.labels.get("venue") == "x"]


def test_acts_and_their_records_are_calm(dlq: Dlq, store: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        rows = connection.execute("SELECT CAST(dlq_id AS BLOB) FROM order_dlq WHERE rowid <= 6").fetchall()
    ids = [raw.decode() for (raw,) in rows if b"\0" not in raw and raw.decode("utf-8", "ignore").encode() == raw]
    evil = "".join(text.decode("utf-8", "ignore").replace("\0", "") for text in strings(30))
    for entry in ids:
        calm(dlq("dismiss", entry, "--reason", "other", "--note", evil, "--operator", evil, "--yes", "--db", store))
        for words in (("show", entry), ("show", entry, "--json"), ("restore", entry, "--note", evil, "--yes")):
            calm(dlq(*words, "--db", store))
        calm(dlq("replay", entry, "--paper", "--dry-run", "--db", store))
    for words in (("audit", "export"), ("audit", "verify"), ("report", "--since", "300w"), ("halt", "--note", evil)):
        calm(dlq(*words, "--db", store))
    calm(dlq("doctor", "--db", store))
    calm(dlq("archive", "--before", "2027-01-01", "--out", str(tmp_path / "\x1b[2Ja.zip"), "--db", store))
    calm(dlq("archive", "--verify", str(tmp_path / "\x1b[2Ja.zip")))


@pytest.mark.parametrize("text", [*map(bytes.decode, list(strings(1))), LONG[:2000], *SHEET, *LABELS[:2]])
def test_a_message_that_names_what_was_given_is_calm(dlq: Dlq, store: str, tmp_path: Path, text: str) -> None:
    given = text.replace("\0", "")
    asked = (
        *(("show", given), ("list", "--table", given), ("list", "--filter", f"{given}:x"), ("list", "--since", given)),
        *(("list", "--state", given), ("replay", "x", "--paper", "--venue", given), ("secrets", "list", given)),
        *(("audit", "verify", "--head", given), ("metrics", "--listen", given), ("approve", given), ("help", given)),
        *(("archive", "--verify", given), ("policy", "set", given), (given,), ("completions", given)),
    )
    for one in asked:
        calm(dlq(*one, "--db", store) if one[0] not in ("secrets", "help", "completions") else dlq(*one))
    config = tmp_path / "config.toml"
    for body in (
        f"{json.dumps(given)} = 1",
        f"[stores.{json.dumps(given)}]\nurl = 3",
        f"[venues.{json.dumps(given)}]\nx = 1",
    ):
        config.write_text(body)
        assert calm(dlq("list", "--config", str(config), "--db", store)).code == 2
    path = tmp_path / f"{given.replace('/', '')[:100]}.db"
    for words in (("list",), ("init",), ("doctor",), ("index",), ("halt",)):
        calm(dlq(*words, "--db", str(path)))
