"""What an engine, a database role or a file holds does nothing to whoever looks: it is inert, bounded, or refused."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import threading
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.attacks.conftest import COMMAND, FIRST, GIVEN, SECONDS, Desk, add, sql
from tests.support.http_server import Loopback, Received, reply

EVIL = "\x1b]0;owned\x07\x1b[2J"
SIGNATURE = "4f0c9d3e" * 8
MOST_BYTES = 600_000_000


def test_looking_runs_no_function_of_another_role(desk: Desk, postgres_target: str) -> None:
    """It lies in `public` and fits the column better than the server's own; the server counts its calls."""
    add(postgres_target)
    triggers = "SELECT tgname FROM pg_trigger WHERE tgrelid = 'order_dlq'::regclass AND NOT tgisinternal"
    for (name,) in sql(postgres_target, triggers):
        sql(postgres_target, f'DROP TRIGGER "{name}" ON order_dlq')
    for column in ("market_id", "error"):
        sql(postgres_target, f"ALTER TABLE order_dlq ALTER COLUMN {column} TYPE varchar")
    name = postgres_target.rpartition("/")[2]
    evil, ops = f"evil_{name}", f"ops_{name}"
    for role in (evil, ops):
        sql(postgres_target, f'CREATE ROLE "{role}" LOGIN')
    sql(postgres_target, f'GRANT CREATE ON SCHEMA public TO "{evil}"')
    sql(postgres_target, f'GRANT SELECT ON order_dlq TO "{ops}"')
    sql(postgres_target, f'ALTER ROLE "{ops}" IN DATABASE "{name}" SET track_functions = \'all\'')
    planter = postgres_target.replace("//postgres@", f"//{evil}@")
    for kind in ("varchar", "text"):
        told = "RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$"
        sql(planter, f"CREATE FUNCTION public.octet_length(a {kind}) {told}")
        told = "RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN a; END $$"
        sql(planter, f"CREATE FUNCTION public.substr(a {kind}, b integer, c integer) {told}")
    looking = postgres_target.replace("//postgres@", f"//{ops}@")
    for words in (("list", "--all"), ("list", "--search", "AAPL"), ("show", FIRST), ("groups",), ("doctor",)):
        desk(*words, "--read-only", "--db", looking, timeout=SECONDS)
    assert sql(postgres_target, "SELECT funcname, calls FROM pg_stat_user_functions WHERE calls > 0") == []


_HUB = (
    'CREATE TABLE integration_dlq (id uuid PRIMARY KEY, "providerId" text NOT NULL, "providerName" text, '
    '"originalRequest" jsonb NOT NULL, error text NOT NULL, attempts int NOT NULL, "tenantId" text, '
    '"createdAt" timestamptz NOT NULL, "lastRetryAt" timestamptz, "deletedAt" timestamptz)'
)
_ESCAPES = ("/../../admin/keys", "/%2e%2e/%2e%2e/admin/keys", "/a/..%2f..%2f..%2fadmin/keys")


def test_a_stored_call_leaves_neither_its_path_nor_its_methods(desk: Desk, postgres_db: str) -> None:
    sql(postgres_db, _HUB)
    calls = [("GET", path) for path in _ESCAPES] + [("TRACE", "/x"), ("CONNECT", "/x")]
    ids = [f"00000000-0000-0000-0000-{number:012d}" for number in range(len(calls))]
    for one, (method, path) in zip(ids, calls, strict=True):
        stored = json.dumps({"method": method, "path": path, "headers": {}, "body": None})
        kept = f"'{one}', 'prov-1', 'Acme Pay', '{stored}', 'HTTP 503', 6, 'tenant-1', now()"
        sql(postgres_db, f"INSERT INTO integration_dlq VALUES ({kept})")
    received = _called(desk, postgres_db, ids)
    assert [(one.method, one.target) for one in received] == []


def _called(desk: Desk, target: str, ids: list[str]) -> list[Received]:
    """What a provider hears while these are replayed, and that it is there: one harmless call comes through."""

    async def run() -> list[Received]:
        async with Loopback(lambda _: reply(200, {})) as provider:
            desk.config = (
                f'[stores.desk]\nurl = "{target}"\non_success = "soft-delete"\n'
                f'[providers.prov-1]\nbase_url = "{provider.url}/tenant-a/v1"\n'
            )
            fine = "00000000-0000-0000-0000-0000000000ff"
            stored = json.dumps({"method": "GET", "path": "/fine", "headers": {}, "body": None})
            kept = f"'{fine}', 'prov-1', 'Acme Pay', '{stored}', 'HTTP 503', 6, 'tenant-1', now()"
            await asyncio.to_thread(sql, target, f"INSERT INTO integration_dlq VALUES ({kept})")
            await asyncio.to_thread(desk, "replay", fine, *ids, "--yes", "--json", "--db", "desk")
            paths = [one.target for one in provider.requests]
            assert "/tenant-a/v1/fine" in paths, paths
            return [one for one in provider.requests if one.target != "/tenant-a/v1/fine"]

    return asyncio.run(run())


# The venue's name in a metric; the names of tables where one must be chosen, is not found, or was chosen.
PRINTED = {
    "a metric": ("metrics", "--table", "order_dlq"),
    "several tables": ("list",),
    "no such table": ("list", "--table", f"x{EVIL}"),
    "the attach report": ("doctor", "--table", EVIL),
}


@pytest.mark.parametrize("words", PRINTED.values(), ids=PRINTED)
def test_nothing_printed_acts_on_the_terminal(desk: Desk, sqlite_target: str, words: tuple[str, ...]) -> None:
    add(sqlite_target, venue_name=EVIL)
    sql(sqlite_target, f'CREATE TABLE "{EVIL}" AS SELECT * FROM order_dlq WHERE false')
    ran = desk(*words, "--db", sqlite_target)
    assert "owned" in ran.out + ran.err
    assert not {"\x1b", "\x07"} & set(ran.out + ran.err)


def test_a_key_of_the_config_does_not_act_on_the_terminal(desk: Desk, sqlite_target: str) -> None:
    desk.config = f"{json.dumps(EVIL)} = 1\n"
    ran = desk("list", "--db", sqlite_target)
    assert "owned" in ran.err
    assert not {"\x1b", "\x07"} & set(ran.err)


def test_a_read_only_replay_sends_nothing_and_reads_no_secret(desk: Desk, sqlite_target: str) -> None:
    add(sqlite_target)

    async def run() -> int:
        async with Loopback(lambda _: reply(200, {})) as venue:
            desk.trading(venue.url, sqlite_target)
            words = ("replay", FIRST, "--live", "--yes", "--read-only", "--db", "desk")
            assert (await asyncio.to_thread(desk, *words)).code == 4
            return venue.connections

    assert asyncio.run(run()) == 0


def bounded(desk: Desk, *words: str) -> tuple[int | None, int]:
    """Exit code within the time, and the most memory it had."""
    command = [*COMMAND, *desk.words(*words)]
    none = subprocess.DEVNULL
    process = subprocess.Popen(command, env=desk.environ, cwd=desk.folder, stdout=none, stderr=none)
    clock = threading.Timer(SECONDS, process.kill)
    clock.start()
    _, status, used = os.wait4(process.pid, 0)
    clock.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return (process.returncode if process.returncode >= 0 else None), used.ru_maxrss * 1024


def _pipe(desk: Desk) -> tuple[str, ...]:
    os.mkfifo(desk.folder / "pipe")
    return ("list", "--db", str(desk.folder / "pipe"))


def _deep_config(desk: Desk) -> tuple[str, ...]:
    desk.config = "x = " + "[" * 20_000
    return ("list", "--db", str(desk.folder / "orders.db"))


def _bundle(desk: Desk) -> tuple[str, ...]:
    path = desk.folder / "old.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bundle:
        for name in ("entries.jsonl", "attempts.jsonl", "audit.jsonl", "manifest.json", "SHA256SUMS"):
            with bundle.open(name, "w", force_zip64=True) as file:
                for _ in range(400 if name == "manifest.json" else 0):
                    file.write(b"0" * 1_000_000)
    return ("archive", "--verify", str(path))


_BUT_TWO = (
    "dlq_id, captured_at, venue_name, account_id, side, quantity, order_type, price, client_order_id, retry_count, "
    "dismissed, action_json"
)


def _endless(desk: Desk) -> tuple[str, ...]:
    """Its first row never comes: one column is the sum of numbers without end."""
    target = str(desk.folder / "orders.db")
    add(target)
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT sum(i) FROM n"
    sql(target, f"CREATE VIEW v AS SELECT {_BUT_TWO}, error, ({numbers}) AS market_id FROM order_dlq")
    return ("list", "--db", target, "--table", "v")


def _generated(desk: Desk) -> tuple[str, ...]:
    """A few bytes of file whose column is computed, and would be half a gigabyte for each entry."""
    target = str(desk.folder / "orders.db")
    sql(target, f"CREATE TABLE big AS SELECT {_BUT_TWO}, market_id FROM order_dlq")
    add(target)
    sql(target, f"INSERT INTO big SELECT {_BUT_TWO}, market_id FROM order_dlq")
    sql(target, "ALTER TABLE big ADD COLUMN error TEXT AS (hex(zeroblob(250000000))) VIRTUAL")
    return ("list", "--db", target, "--table", "big")


BOMBS = {
    "a pipe": (_pipe, 5),
    "a deep config": (_deep_config, 2),
    "a bundle": (_bundle, 1),
    "a generated column": (_generated, 5),
}
if GIVEN:  # of this tree it is held with a shorter limit, in tests/cli/test_hostile_sqlite.py: nothing to wait for
    BOMBS["an endless view"] = (_endless, 5)


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_made_to_hang_or_fill_ends_with_its_code(desk: Desk, sqlite_target: str, name: str) -> None:
    make, wanted = BOMBS[name]
    code, used = bounded(desk, *make(desk))
    assert code == wanted
    assert used < MOST_BYTES


def test_a_store_whose_text_is_no_text_is_no_bug_of_ours(desk: Desk, sqlite_target: str) -> None:
    add(sqlite_target)
    held = b"cut\xe2\x80"
    for (name,) in sql(sqlite_target, "SELECT name FROM sqlite_master WHERE type = 'trigger'"):
        sql(sqlite_target, f'DROP TRIGGER "{name}"')
    for place in ("error", "market_id", "dlq_id"):
        sql(sqlite_target, f"UPDATE order_dlq SET {place} = CAST(? AS TEXT)", held)
        for words in (("list", "--all"), ("groups",), ("metrics",), ("export", "--format", "csv")):
            ran = desk(*words, "--db", sqlite_target)
            assert ran.code in (0, 1, 5), (place, words, ran.err[-300:])
    with closing(sqlite3.connect(sqlite_target)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = CAST(replace(CAST(sql AS BLOB), CAST('market_id' AS BLOB), ?) AS TEXT) "
            "WHERE name = 'order_dlq'",
            (b"market\xff\xfe",),
        )
        connection.commit()
    for words in (("list", "--all"), ("doctor",)):
        ran = desk(*words, "--db", sqlite_target)
        assert ran.code in (2, 5), (words, ran.err[-300:])


def test_a_config_that_others_may_write_is_not_taken(desk: Desk, sqlite_target: str) -> None:
    path = desk.folder / "shared.toml"
    path.write_text("[limits]\nmax_batch = 1\n")
    path.chmod(0o666)
    assert desk("list", "--db", sqlite_target, "--config", str(path)).code == 2


def test_a_folder_of_secrets_that_others_may_write_is_not_taken(desk: Desk, exchange: str, sqlite_target: str) -> None:
    add(sqlite_target)
    desk.trading(exchange, sqlite_target)
    Path(desk.folder / "secrets").chmod(0o777)
    ran = desk("replay", FIRST, "--paper", "--yes", "--json", "--db", "desk")
    assert "accepted" not in ran.out
    assert ran.code != 0


@pytest.mark.parametrize("misspelt", ["[limit]\nfour_eyes_over = 1\n", "four_eyes_over = 1\n"])
def test_a_misspelt_limit_is_an_error(desk: Desk, sqlite_target: str, misspelt: str) -> None:
    """Where it is passed over, there is no limit, and nobody knows."""
    desk.config = misspelt
    assert desk("list", "--db", sqlite_target).code == 2


def test_no_cell_of_an_exported_sheet_is_a_formula(desk: Desk, sqlite_target: str) -> None:
    for number, sign in enumerate("=+-@", 1):
        add(sqlite_target, number, market_id=f'{sign}HYPERLINK("x")')
    out = desk("export", "--format", "csv", "--db", sqlite_target).out
    assert out.count("HYPERLINK") == 4
    assert not any(f"{before}{sign}HYPERLINK" in out for before in (",", ',"') for sign in "=+-@")


def test_a_signature_in_a_stored_error_is_not_printed(desk: Desk, sqlite_target: str) -> None:
    add(sqlite_target, error=f"binance GET https://api.example/v3/order?timestamp=17&signature={SIGNATURE} 401")
    for words in (("list",), ("show", FIRST), ("export", "--format", "jsonl"), ("groups",)):
        ran = desk(*words, "--db", sqlite_target)
        assert (ran.code, SIGNATURE in ran.out + ran.err) == (0, False), words
