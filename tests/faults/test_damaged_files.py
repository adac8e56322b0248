"""Damaged and hostile SQLite files through every verb: a code of the contract, no bug, and nothing that acts.

A sample by default; DLQ_DAMAGED is the number of files, and with it every verb meets every file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.damaged_store import FIRST, KINDS, Damage, ran
from tests.support.hostile_rows import acts

VERBS = (
    *(("list", "--all"), ("list", "--all", "--json"), ("show", FIRST), ("show", FIRST, "--json"), ("groups",)),
    *(("check",), ("metrics",), ("doctor",), ("export", "--format", "csv"), ("export", "--format", "jsonl")),
    *(("report", "--since", "8h"), ("report", "--since", "8h", "--json"), ("audit", "verify"), ("audit", "export")),
    *(("dismiss", FIRST, "--reason", "test", "--yes"), ("restore", FIRST, "--yes"), ("halt",), ("approve",)),
    *(("archive", "--before", "2027-01-01", "--out", "{out}"), ("replay", FIRST, "--paper", "--dry-run")),
)
ASKED = os.environ.get("DLQ_DAMAGED")
FILES = int(ASKED or 84)


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("DLQ_CONFIG", raising=False)


@pytest.fixture(scope="module")
def damage(tmp_path_factory: pytest.TempPathFactory) -> Damage:
    return Damage(tmp_path_factory.mktemp("sound"))


def some(number: int) -> Iterator[tuple[str, ...]]:
    """Every verb, or two that change with the number."""
    turn = number // len(KINDS)
    yield from (
        VERBS if ASKED else (VERBS[(turn * 2 + number) % len(VERBS)], VERBS[(turn * 2 + number + 7) % len(VERBS)])
    )


@pytest.mark.parametrize("part", range(4))
def test_a_damaged_file_ends_with_a_code_of_the_contract(tmp_path: Path, damage: Damage, part: int) -> None:
    path = tmp_path / "x.db"
    for number in range(part, FILES, 4):
        kind = damage.make(number, path)
        for verb in some(number):
            words = [word.format(out=tmp_path / f"{number}.zip") for word in verb]
            code, out, err = ran(*words, "--db", str(path))
            told = f"{number} {kind} {words}: {code} {err[-300:]!r}"
            assert code in (0, 1, 2, 3, 4, 5), told
            assert "Traceback" not in out + err, told
            assert not [one for one in set(out + err) if acts(one) and one != "\n"], told


def test_an_event_whose_hash_is_no_blob(tmp_path: Path, damage: Damage) -> None:
    """Among two thousand damaged files this one ended with a bug's code: two pages of the file were swapped."""
    path = tmp_path / "x.db"
    damage.make(1274, path)
    code, out, err = ran("audit", "export", "--db", str(path))
    assert (code, "Traceback" in out + err) == (5, False), err


def test_a_damaged_index_is_never_worse_than_none(tmp_path: Path, damage: Damage) -> None:
    """The local index is a cache: whatever lies there, the verbs count without it."""
    path = tmp_path / "orders.db"
    damage.sound(path)
    assert ran("index", "--db", str(path))[0] == 0
    (index,) = (tmp_path / "XDG_CACHE_HOME" / "dlq-console").glob("*.index.db")
    with closing(sqlite3.connect(index)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = index.read_bytes()
    for number in range(int(ASKED or 120) // 10):
        for tail in ("-wal", "-shm"):
            index.with_name(index.name + tail).unlink(missing_ok=True)
        index.write_bytes(damage.bytes_of(number, whole))
        for verb in (("groups",), ("check",), ("list",), ("index",)):
            code, out, err = ran(*verb, "--db", str(path))
            assert code in (0, 1, 4), (number, verb, code, err)
            assert "Traceback" not in out + err
