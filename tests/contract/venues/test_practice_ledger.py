"""The ledger is on disk before anybody is answered: it outlives a kill, and an exchange started on it goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.practice_wire import (
    ALPACA,
    ALPACA_KEYS,
    BINANCE,
    DIALECTS,
    Ask,
    Dialect,
    SteppedClock,
    alpaca_order,
    connect,
    hear,
    order_ids,
)
from venues.practice import PracticeError, PracticeExchange

ROOT = Path(__file__).parents[3]


@contextmanager
def running(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The exchange as a process of its own, and the URL it printed first."""
    process = subprocess.Popen(
        [sys.executable, "-m", "venues.practice", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait(timeout=20)
        process.stdout.close()
        process.stderr.close()


def lines(path: Path, kind: str) -> list[dict[str, Any]]:
    return [row for row in map(json.loads, path.read_text().splitlines()) if row["type"] == kind]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
async def test_what_was_booked_survives_kill_9_in_every_format(tmp_path: Path, dialect: Dialect) -> None:
    path = tmp_path / "ledger.jsonl"
    with running("--ledger", path) as (process, url):
        answered = order_ids((await hear(url, dialect.place())).json())
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=20)
    assert [str(row["order_id"]) for row in lines(path, "order")] == answered
    with running("--ledger", path) as (_, url):
        assert set(answered) <= set(order_ids((await hear(url, dialect.find())).json()))
        assert order_ids((await hear(url, dialect.place())).json()) == []
        assert len((await hear(url, Ask("GET", "/practice/orders", {}))).json()) == 1


async def test_every_acknowledged_order_is_in_the_ledger_after_kill_9_under_load(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    acknowledged: list[str] = []
    enough = asyncio.Event()

    async def customer(name: int, url: str) -> None:
        reader, writer = await connect(url)
        for number in range(10_000):
            ask = alpaca_order(f"c{name}-{number}", "AAPL")
            try:
                writer.write(ask.encode(close=False))
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                order = json.loads(await reader.readexactly(size))
            except (ConnectionError, asyncio.IncompleteReadError):
                break
            acknowledged.append(order["id"])
            if len(acknowledged) == 200:
                enough.set()
        writer.transport.abort()

    with running("--ledger", path) as (process, url):
        customers = [asyncio.create_task(customer(name, url)) for name in range(8)]
        await asyncio.wait_for(enough.wait(), 60)
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.wait_for(asyncio.gather(*customers), 60)
    booked = {row["order_id"] for row in lines(path, "order")}
    assert len(acknowledged) >= 200
    assert set(acknowledged) <= booked
    assert [row["n"] for row in lines(path, "request")] == list(range(1, len(booked) + 1))


async def test_an_order_whose_answer_was_dropped_is_in_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    async with PracticeExchange(ledger=path) as exchange:
        exchange.fault("AAPL", "accept_then_drop")
        await hear(exchange.url, ALPACA.place())
        (request,), (order,) = lines(path, "request"), lines(path, "order")
    assert request["booked"] is True
    assert request["order_id"] == order["order_id"]


async def test_a_request_line_says_what_came_in(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ask = ALPACA.place()
    async with PracticeExchange(ledger=path) as exchange:
        placed = (await hear(exchange.url, ask)).json()
    (line,) = lines(path, "request")
    at = line.pop("at")
    assert at.endswith("+00:00")
    assert line == {
        "type": "request",
        "n": 1,
        "venue": "alpaca",
        "kind": "new",
        "method": "POST",
        "path": "/v2/orders",
        "query": "",
        "body": ask.body,
        "client_order_id": "dlq-1",
        "symbol": "AAPL",
        "booked": True,
        "order_id": placed["id"],
        "fault": None,
    }


async def test_credentials_are_not_in_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ask = ALPACA.place()
    keys = {"APCA-API-KEY-ID": "canary-key", "APCA-API-SECRET-KEY": "canary-secret"}
    async with PracticeExchange(ledger=path) as exchange:
        await hear(exchange.url, Ask(ask.method, ask.target, keys, ask.body))
    assert "dlq-1" in path.read_text()
    assert "canary" not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("fsync", [True, False])
async def test_one_fsync_for_each_order_and_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: bool
) -> None:
    synced: list[int] = []
    real = os.fsync

    def watched(file: int) -> None:
        real(file)
        synced.append(os.fstat(file).st_size)

    monkeypatch.setattr(os, "fsync", watched)
    path = tmp_path / "ledger.jsonl"
    async with PracticeExchange(ledger=path, fsync=fsync) as exchange:
        await hear(exchange.url, ALPACA.place())
        assert synced == ([path.stat().st_size] if fsync else [])
        await hear(exchange.url, ALPACA.find())
        assert len(synced) == fsync


async def test_a_restart_goes_on_where_the_ledger_ends(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    async with PracticeExchange(ledger=path) as exchange:
        first = (await hear(exchange.url, ALPACA.place())).json()
        await hear(exchange.url, Ask("DELETE", f"/v2/orders/{first['id']}", ALPACA_KEYS))
        before = exchange.orders
    async with PracticeExchange(ledger=path) as exchange:
        assert exchange.orders == before
        assert exchange.orders[0].state == "cancelled"
        await hear(exchange.url, ALPACA.place("dlq-2"))
        assert [line["n"] for line in exchange.received] == [1, 2, 3]


@pytest.mark.parametrize("kept", [True, False])
async def test_whole_number_ids_stay_unique_over_restarts(tmp_path: Path, kept: bool) -> None:
    clock = SteppedClock()
    seen: list[str] = []
    for number in range(3):
        clock.step(0 if kept else 1)
        async with PracticeExchange(ledger=tmp_path / "ledger" if kept else None, clock=clock) as exchange:
            seen += order_ids((await hear(exchange.url, BINANCE.place(f"dlq-{number}"))).json())
    assert len(set(seen)) == 3


async def test_half_a_line_at_the_end_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    async with PracticeExchange(ledger=path) as exchange:
        await hear(exchange.url, ALPACA.place())
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"order","order_')
    async with PracticeExchange(ledger=path) as exchange:
        assert len(exchange.orders) == 1
        assert path.read_bytes() == whole
        await hear(exchange.url, ALPACA.place("dlq-2"))
    assert len(lines(path, "order")) == 2


@pytest.mark.parametrize(
    "content",
    ["nonsense\n", "[]\n", '{"type": "order"}\n', "[" * 100_000 + "\n", "SQLite format 3\0", '{}\n{"type":"re\0', "{x"],
)
def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text(content)
    with pytest.raises(PracticeError, match=r"ledger\.jsonl"):
        PracticeExchange(ledger=path)
    assert path.read_text() == content


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_ends_cleanly_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    with running("--ledger", tmp_path / "ledger") as (process, url):
        assert (await hear(url, ALPACA.probe())).status == 200
        process.send_signal(number)
        assert process.wait(timeout=20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


async def test_it_ends_while_a_client_is_kept_waiting(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with running("--ledger", path) as (process, url):
        _, writer = await connect(url)
        writer.write(ALPACA.place(symbol="TIMEOUT").encode())
        async with asyncio.timeout(20):
            while not path.read_text():
                await asyncio.sleep(0.005)
        process.terminate()
        assert await asyncio.to_thread(process.wait, 20) == 0
        writer.transport.abort()
        await asyncio.sleep(0)


async def test_it_listens_on_loopback_only_and_where_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with running("--port", str(port)) as (process, url):
        assert url == f"http://127.0.0.1:{port}"
        mine = {link for fd in Path(f"/proc/{process.pid}/fd").iterdir() if (link := _target(fd))}
        rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        bound = {row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in mine}
        assert bound == {"0100007F"}


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def test_a_taken_port_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running("--port", str(port)) as (process, url):
            assert process.wait(timeout=20) == 2
            assert process.stderr is not None
            assert (url, process.stderr.read().count("\n")) == ("", 1)


async def test_script_sets_faults_before_the_first_request(tmp_path: Path) -> None:
    script = tmp_path / "faults.json"
    script.write_text(json.dumps([{"symbol": "AAPL", "on": "order", "fault": "http_500", "times": 1}]))
    with running("--script", script) as (_, url):
        assert (await hear(url, ALPACA.place())).status == 500
        assert (await hear(url, ALPACA.place())).status == 200


def test_a_pipe_is_neither_a_ledger_nor_a_script(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(PracticeError, match="it is not a file"):
        PracticeExchange(ledger=pipe)
    with pytest.raises(PracticeError, match="it is not a file"):
        PracticeExchange(script=pipe)


NO_FAULT = '[{"symbol": "AAPL", "fault": "no_such_fault"}]'


@pytest.mark.parametrize("content", ["{}", "nonsense", NO_FAULT, "[" * 100_000, " " * 10_000_001])
def test_a_bad_script_is_refused(tmp_path: Path, content: str) -> None:
    script = tmp_path / "faults.json"
    script.write_text(content)
    with pytest.raises(PracticeError, match=r"faults\.json"):
        PracticeExchange(script=script)
