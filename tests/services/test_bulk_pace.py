"""What the console does so that an engine beside it waits as little as can be."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from dlq_sink import PostgresDLQ, SQLiteDLQ
from dlq_sink.sqlite import _ASKING_SECONDS

from backends import open_store
from backends.guarded_connection import GuardedConnection
from backends.ledger.schema import create_statements
from backends.records import Filter, Selection
from console.services.triage.bulk_pace import BulkPace
from tests.support.sink import entry
from tests.support.store import ACTOR, sqlite_rig, why


def test_a_bulk_act_takes_smaller_steps_once_somebody_else_wrote() -> None:
    pace = BulkPace(holds_all=True)
    for _ in range(20):
        pace.next(0.001, contended=False)
    alone = pace.size
    pace.next(0.015, contended=True)
    assert pace.size < alone
    pace.next(0.015, contended=False)  # it was seen once: for the rest of the act
    assert pace.size < alone / 2
    for _ in range(20):
        pace.next(1.0, contended=False)
    assert pace.size == 50


def test_alone_a_step_comes_near_the_longest_that_the_file_may_be_held() -> None:
    pace = BulkPace(holds_all=True)
    for _ in range(20):
        pace.next(pace.size * 0.000_010, contended=False)  # ten microseconds an entry: 2000 in 20 ms
    assert 1500 < pace.size <= 2000


def test_what_an_act_leaves_free_counts_as_a_pause_only_while_nobody_else_writes() -> None:
    pace = BulkPace(holds_all=True)
    whole = pace.pause_after(0.010)
    assert 0 < pace.pause_after(0.010, 0.003) < whole
    pace.next(0.010, contended=True)
    assert pace.pause_after(0.010, 0.003) == pace.pause_after(0.010) > whole


def test_between_two_steps_a_sink_that_waits_gets_the_file() -> None:
    pace = BulkPace(holds_all=True)
    assert pace.pause_after(0.0) > _ASKING_SECONDS
    pace.next(0.3, contended=True)
    assert pace.pause_after(0.3) == pytest.approx(0.2)


def test_where_only_rows_are_locked_a_step_is_long_until_somebody_else_writes() -> None:
    pace = BulkPace(holds_all=False)
    for _ in range(20):
        pace.next(pace.size * 0.000_020, contended=False)
    alone = pace.size
    assert alone > 1000
    assert pace.pause_after(0.030) == 0.0, "nobody is waited for"
    for _ in range(20):
        pace.next(pace.size * 0.000_020, contended=True)
    assert pace.size < 300, "an engine's server works for one as for the other"
    assert pace.pause_after(0.006) > 0.003


@pytest.mark.parametrize("beside", [False, True])
async def test_a_bulk_act_on_postgres_notices_who_else_writes(postgres_db: str, beside: bool) -> None:
    with PostgresDLQ(postgres_db) as sink:
        for _ in range(300):
            sink.write(entry())
        store = await open_store(postgres_db)
        seen = (await store.page(Filter(), limit=300)).entries
        await store.dismiss(Selection.of(list(seen[:100])), ACTOR, why())
        if beside:
            sink.write(entry())
        second = await store.dismiss(Selection.of(list(seen[100:200])), ACTOR, why())
        third = await store.restore(Selection.of(list(seen[:0])), ACTOR, why())
        await store.aclose()
    assert (second.contended, third.contended) == (beside, False)


async def test_a_first_act_works_out_its_ledger_before_it_holds_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiling it takes longer than writing it."""
    path, held = tmp_path / "orders.db", []
    with SQLiteDLQ(path) as sink:
        sink.write(one := entry())
    create_statements.cache_clear()
    run = GuardedConnection.execute_fetchall

    async def watched(self: GuardedConnection, sql: str, parameters: Any = ()) -> Any:
        if sql == "BEGIN IMMEDIATE":
            held.append(create_statements.cache_info().currsize)
        return await run(self, sql, parameters)

    monkeypatch.setattr(GuardedConnection, "execute_fetchall", watched)
    store = await open_store(str(path))
    await store.note(one.dlq_id, ACTOR, why(note="seen"))
    await store.aclose()
    assert held == [1]


async def test_a_step_tells_how_long_it_kept_others_out_and_leaves_no_long_log(tmp_path: Path) -> None:
    """A commit that had to write back a long log would count as a time in which nobody else could write."""
    rig = sqlite_rig(tmp_path)
    await rig.make(2500)
    store = await rig.open()
    began = time.monotonic()
    result = await store.dismiss(Selection.of((await store.page(Filter(), limit=5000)).entries), ACTOR, why())
    assert len(result.done) == 2500
    assert result.held is not None
    assert 0 < result.held < time.monotonic() - began
    await store.note(result.done[0], ACTOR, why(note="waits for what the act left to do"))
    with closing(sqlite3.connect(f"file:{rig.target}?immutable=1", uri=True)) as file:  # the file without its log
        assert file.execute("SELECT count(*) FROM order_dlq WHERE dismissed = 1").fetchone() == (2500,)
    await rig.aclose()


GIVING_WAY = """
import os, sys
from console.cli.main import run
for verb in ("list", "groups", "groups"):
    assert run([verb, "--db", sys.argv[1]], own_process=True) == 0
    print(os.getpriority(os.PRIO_PROCESS, 0), file=sys.stderr)
"""


def test_verbs_that_read_whole_stores_give_way_to_an_engine_on_the_same_machine(tmp_path: Path) -> None:
    with SQLiteDLQ(tmp_path / "orders.db") as sink:
        sink.write(entry())
    ran = subprocess.run(
        [sys.executable, "-c", GIVING_WAY, str(tmp_path / "orders.db")],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {name: str(tmp_path) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME")},
    )
    own = os.getpriority(os.PRIO_PROCESS, 0)
    lower = str(min(19, own + 10))
    assert ran.stderr.split() == [str(own), lower, lower]


EARLY = """
import os, sys
from console.priority import give_way_early
give_way_early(sys.argv[1:])
print(os.getpriority(os.PRIO_PROCESS, 0), "console.cli.main" in sys.modules)
"""
SERVER, FILE = "postgresql://ops@db/trading", "orders.db"


@pytest.mark.parametrize(
    ("words", "gives_way"),
    [
        (("groups", "--db", FILE), True),
        (("audit", "verify", "--db", SERVER), True),
        (("dismiss", "--db", SERVER, "--filter", "error:429"), True),
        (("restore", "x", "--db", SERVER), True),
        (("dismiss", "--db", FILE, "--filter", "error:429"), False),  # it holds the file that the engine waits for
        (("index", "--follow", "--with-parent", "--db", FILE), False),  # its parent says so
        (("replay", "x", "--db", SERVER), False),
        (("halt", "--db", SERVER), False),
        ((), False),
    ],
)
def test_a_verb_gives_way_before_it_loads_the_program_but_not_while_it_holds_a_file(
    words: tuple[str, ...], gives_way: bool
) -> None:
    environ = {name: held for name, held in os.environ.items() if name != "DLQ_DB"}
    ran = subprocess.run([sys.executable, "-c", EARLY, *words], capture_output=True, text=True, check=True, env=environ)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert ran.stdout.split() == [str(min(19, own + 10) if gives_way else own), "False"]


WATCHED = """
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "console.cli.main":
            print(os.getpriority(os.PRIO_PROCESS, 0), file=sys.stderr)
sys.meta_path.insert(0, Watch())
from console.__main__ import main
main()
"""


@pytest.mark.parametrize(("words", "gives_way"), [(("groups",), True), (("list",), False), ((), False)])
def test_the_program_is_loaded_at_the_priority_of_its_verb(
    tmp_path: Path, words: tuple[str, ...], gives_way: bool
) -> None:
    whole = [sys.executable, "-c", WATCHED, *words, "--db", str(tmp_path / "none.db")]
    environ = os.environ | {name: str(tmp_path) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    ran = subprocess.run(whole, capture_output=True, text=True, check=False, env=environ, stdin=subprocess.DEVNULL)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert ran.stderr.split()[0] == str(min(19, own + 10) if gives_way else own)
