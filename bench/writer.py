"""An engine that writes entries at a steady rate and remembers every failure: `python -m bench.writer TARGET RATE
SECONDS START`. Ends early when a line comes on stdin. Prints what happened as JSON. Knows nothing of the console.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import asyncpg

from backends.layouts import orders
from bench.data import INSERT, for_sqlite, rows

_POSTGRES = (
    f"INSERT INTO {orders.DEFAULT_TABLE} ({', '.join(orders.COLUMNS)}) "
    f"VALUES ({', '.join(f'${n}' for n in range(1, len(orders.COLUMNS) + 1))})"
)


class Log:
    def __init__(self) -> None:
        self.times: list[float] = []
        self.failures: list[str] = []

    def told(self) -> dict[str, Any]:
        times = sorted(self.times) or [0.0]
        return {
            "writes": len(self.times),
            "failures": len(self.failures),
            "first_failure": self.failures[:1],
            "p50_ms": round(times[len(times) // 2] * 1000, 2),
            "p99_ms": round(times[int(len(times) * 0.99)] * 1000, 2),
            "max_ms": round(times[-1] * 1000, 2),
        }


async def _steadily(
    write: Callable[[tuple[Any, ...]], Awaitable[None]], log: Log, args: tuple[float, float, int]
) -> None:
    rate, seconds, start = args
    stop = threading.Event()

    def wait_for_word() -> None:
        sys.stdin.readline()
        stop.set()

    threading.Thread(target=wait_for_word, daemon=True).start()
    began = time.monotonic()
    for number, row in enumerate(rows(int(rate * seconds), start=start)):
        wait = began + number / rate - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        if stop.is_set():
            return
        at = time.perf_counter()
        try:
            await write(row)
        except (sqlite3.Error, asyncpg.PostgresError, OSError) as problem:
            log.failures.append(str(problem))
        log.times.append(time.perf_counter() - at)


async def _sqlite(path: str, log: Log, args: tuple[float, float, int]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:  # five seconds of patience, as by default

        async def write(row: tuple[Any, ...]) -> None:
            connection.execute(INSERT, for_sqlite(row))

        await _steadily(write, log, args)


async def _postgres(dsn: str, log: Log, args: tuple[float, float, int]) -> None:
    connection = await asyncpg.connect(dsn)

    async def write(row: tuple[Any, ...]) -> None:
        await connection.execute(_POSTGRES, *row)

    try:
        await _steadily(write, log, args)
    finally:
        await connection.close()


def _main() -> None:
    target, rate, seconds, start = sys.argv[1:5]
    log = Log()
    engine = _postgres if target.startswith("postgres") else _sqlite
    asyncio.run(engine(target, log, (float(rate), float(seconds), int(start))))
    print(json.dumps(log.told()))


if __name__ == "__main__":
    _main()
