"""The stores that figures are taken on: order rows like an engine's, seeded, cached under `.bench/`.
Knows the order layout and nothing of the console. `python -m bench.data 1000000` makes the SQLite file.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import asyncpg

from backends.layouts import orders

CACHE: Final = Path(__file__).parent.parent / ".bench"
VERSION: Final = 2  # of the data: a change of it makes the cached files again
BEGIN: Final = datetime(2026, 3, 1, tzinfo=UTC)
SPAN: Final = timedelta(days=30)
RARE: Final = "zebrafish-7"  # in one of 100,000 errors
COMMON: Final = "insufficient"
EVERYWHERE: Final = "limit"  # in every action
ABSENT: Final = "quokka"
TWO_COMMON: Final = "er"
TWO_ABSENT: Final = "@@"
DISMISSED: Final = 0.1

VENUES: Final = ("alpaca", "kalshi", "binance", "hyperliquid", "polymarket", "ibkr")
ACCOUNTS: Final = tuple(f"desk-{n:02}" for n in range(1, 13))
MARKETS: Final = (
    *(f"{a}{b}{c}" for a in "AGMSTX" for b in "ACEIOU" for c in "BDKLP"),
    *(f"{base}/{quote}" for base in ("BTC", "ETH", "SOL", "DOGE", "XRP", "ADA") for quote in ("USDT", "USDC", "EUR")),
    *(f"KXBTC-26NOV{day}-T{level}000" for day in range(10, 20) for level in range(90, 110, 4)),
)
_HEADS: Final = (
    "RuntimeError: HTTP 429 after {n} attempts for account {account}; retry-after {n} s, request {uuid}",
    "RuntimeError: HTTP 503 from https://{host}/v2/orders (request {uuid}) for {market}, gave up after {n} attempts",
    'APIError: {{"buying_power":"{usd}","code":40310000,"cost_basis":"{usd}","message":"insufficient buying power"}}',
    'APIError: {{"code":40010001,"message":"qty must be > 0","request_id":"{uuid}"}} while sending {coid}',
    "TimeoutError: no answer to {coid} within {n} s; the venue may have taken the order, account {account}",
    "ConnectionResetError: [Errno 104] Connection reset by peer while writing order {coid} to {host}",
    "RiskRejected: order notional {usd} exceeds the limit {usd} for account {account} in market {market}",
    'ccxt.base.errors.InsufficientFunds: binance {{"code":-2010,"msg":"Account has insufficient balance."}} ({uuid})',
    'ccxt.base.errors.InvalidOrder: binance {{"code":-1013,"msg":"Filter failure: LOT_SIZE"}} for {market} {uuid}',
    'ccxt.base.errors.DDoSProtection: binance 418 I\'m a teapot {{"code":-1003,"msg":"Way too much request weight"}}',
    'kalshi.ApiException: (409) Reason: Conflict body: {{"error":{{"code":"market_closed","message":"shut"}}}} {uuid}',
    'kalshi.ApiException: (400) Reason: Bad Request body: {{"code":"invalid_price","message":"price out of range"}}',
    "hyperliquid.ClientError: (422, None, 'Failed to deserialize the JSON body into the target type', {n}) {uuid}",
    "hyperliquid: Order must have minimum value of $10. asset={n} cloid={hex} for account {account} at {iso}",
    "PolyApiException[status_code=400, error_message={{'error': 'not enough balance / allowance', 'id': '{uuid}'}}]",
    "ib_async: Error 201, reqId {n}: Order rejected - reason: We are unable to accept your order for {market} {uuid}",
)
_TAILS: Final = (
    "",
    " while stepping the live loop of engine {host} (session {uuid}), after {n} ms in the queue of the gateway",
    " (strategy carry, attempt {n} of {n}, opened {iso}, correlation {uuid}, gateway {host}, worker {n})",
)
_FRAMES: Final = ("submit", "send", "request", "read_answer", "raise_for_status", "decode", "acquire", "connect")
_SHAPES: Final = 40


def _templates() -> tuple[str, ...]:
    """Forty texts of 100 to 1000 characters; the later half stands behind a stack of varying depth."""
    made: list[str] = []
    for number in range(_SHAPES):
        text = _HEADS[number % len(_HEADS)]
        if number >= len(_HEADS):
            text = f"{text.partition(':')[0]}: stage {'abcdefghijklmnopqrstuvwx'[number - len(_HEADS)]} " + text
            text += _TAILS[number % len(_TAILS)]
        depth = number % 9
        if depth > 2:
            frames = "".join(
                f'  File "/srv/engine/venues/client.py", line {{n}}, in {_FRAMES[(number + level) % 8]}_{number}\n'
                "    return await self._transport.forward(request)\n"
                for level in range(depth)
            )
            text = f"Traceback (most recent call last):\n{frames}{text}"
        made.append(text)
    return tuple(made)


TEMPLATES: Final = _templates()
_WEIGHTS: Final = tuple(accumulate(1 / (rank + 3) for rank in range(_SHAPES)))
_HOSTS: Final = ("api.alpaca.markets", "api2.binance.com", "external-api.kalshi.com", "gw-3.internal")


def rows(count: int, *, start: int = 0, seed: int = 7) -> Iterator[tuple[Any, ...]]:
    """Rows in the layout's order with Python's values; `start` continues where an earlier call ended."""
    rng = random.Random(f"{seed}:{start}")
    shapes = range(_SHAPES)
    for number in range(start, start + count):
        shape = rng.choices(shapes, cum_weights=_WEIGHTS)[0]
        bits = rng.getrandbits(256)
        spelled = f"{bits:064x}"
        account, market = ACCOUNTS[bits % 12], MARKETS[(bits >> 8) % len(MARKETS)]
        side = "buy" if bits & 1 else "sell"
        quantity, price = float((bits >> 20) % 900 + 1), None if (bits >> 4) % 8 == 0 else ((bits >> 32) % 99_900) / 100
        coid = f"mm-{spelled[:12]}"
        captured = BEGIN + SPAN * (number / 1_000_000) + timedelta(microseconds=number % 997)
        error = TEMPLATES[shape].format(
            n=(bits >> 16) % 9_000 + 100,
            uuid=f"{spelled[:8]}-{spelled[8:12]}-{spelled[12:16]}-{spelled[16:20]}-{spelled[20:32]}",
            hex=spelled[8:40],
            usd=f"{(bits >> 60) % 9_999_999 / 100:.2f}",
            coid=coid,
            host=_HOSTS[(bits >> 70) % 4],
            iso=captured.isoformat(),
            account=account,
            market=market,
        )
        if number % 100_000 == 31_337:
            error += f" [{RARE}]"
        action = (
            f'{{"action": "new", "venue_name": "{VENUES[shape % 6]}", "account_id": "{account}", '
            f'"market_id": "{market}", "side": "{side}", "quantity": {quantity}, "order_type": "limit", '
            f'"price": {"null" if price is None else price}, "client_order_id": "{coid}", "time_in_force": "day"}}'
        )
        yield (
            f"dlq_{spelled[40:56]}",
            captured,
            VENUES[shape % 6],
            account,
            market,
            side,
            quantity,
            "market" if price is None else "limit",
            price,
            coid,
            error[:1000],
            (bits >> 90) % 4 if (bits >> 92) % 5 == 0 else 0,
            rng.random() < DISMISSED,
            action,
        )


def for_sqlite(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (row[0], row[1].isoformat(), *row[2:12], int(row[12]), row[13])


INSERT: Final = (
    f"INSERT INTO {orders.DEFAULT_TABLE} ({', '.join(orders.COLUMNS)}) VALUES ({', '.join('?' * len(orders.COLUMNS))})"
)


def sqlite_file(count: int) -> Path:
    """The cached file of this many rows. Look, do not write: `sqlite_copy` is for that."""
    path = CACHE / f"orders-{count}-v{VERSION}.db"
    if path.exists():
        return path
    CACHE.mkdir(exist_ok=True)
    making = path.with_suffix(".making")
    making.unlink(missing_ok=True)
    table, *rest = orders.sqlite_ddl(orders.DEFAULT_TABLE)
    with closing(sqlite3.connect(making)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(table)
        connection.executemany(INSERT, map(for_sqlite, rows(count)))
        connection.commit()
        for statement in rest:
            connection.execute(statement)
        connection.commit()
        connection.execute("PRAGMA journal_mode = WAL")
    making.rename(path)
    return path


def sqlite_copy(count: int, to: Path) -> Path:
    """A copy that may be written to."""
    with closing(sqlite3.connect(sqlite_file(count))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(shutil.copyfile(sqlite_file(count), to))


async def fill_postgres(dsn: str, count: int) -> None:
    """The same rows in an empty database, by COPY."""
    table, *rest = orders.postgres_ddl(orders.DEFAULT_TABLE)
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(table)
        await connection.copy_records_to_table(
            orders.DEFAULT_TABLE, records=rows(count), columns=list(orders.COLUMNS), timeout=600
        )
        for statement in rest:
            await connection.execute(statement)
        await connection.execute(f"VACUUM ANALYZE {orders.DEFAULT_TABLE}", timeout=600)
    finally:
        await connection.close()


async def postgres_database(admin_dsn: str, count: int) -> str:
    """A new database `orders_<count>` of that server, filled; `admin_dsn` has {db} in it."""
    name = f"orders_{count}"
    connection = await asyncpg.connect(admin_dsn.replace("{db}", "postgres"))
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    dsn = admin_dsn.replace("{db}", name)
    await fill_postgres(dsn, count)
    return dsn


def _main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    began = time.perf_counter()
    path = sqlite_file(count)
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB, {time.perf_counter() - began:.1f} s")
    if len(sys.argv) > 2:
        asyncio.run(postgres_database(sys.argv[2], count))


if __name__ == "__main__":
    _main()
