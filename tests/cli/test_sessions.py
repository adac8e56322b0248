"""How many sessions of a Postgres server a verb takes: one to read, and one more to act."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.command import Console
from tests.support.owner_session import in_session
from tests.support.store import PostgresRig, order_row

_ROWS = 8
RIGHTS = (
    "SELECT, UPDATE (dismissed, retry_count) ON order_dlq",
    "USAGE ON SCHEMA dlq_console",
    "SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA dlq_console",
)


@pytest.fixture
def limited(postgres_db: str, tmp_path: Path) -> Callable[[int], Console]:
    """The console of a role that may have so many sessions at a time, on a store with a ledger."""
    rig = PostgresRig(postgres_db)
    now = datetime.now(UTC) - timedelta(seconds=5)
    asyncio.run(rig.make([order_row(n, captured_at=now, quantity=n + 1.0) for n in range(_ROWS)]))
    first = Console(tmp_path, rig.target, "").inline(
        "dismiss", "dlq_0000000000000000", "--reason", "duplicate", "--yes"
    )
    assert first.code == 0, first.err

    def made(most: int) -> Console:
        async def role() -> str:
            target = await rig.role(f"least{most}", *RIGHTS)
            await rig.sql(f'ALTER ROLE "least{most}_{postgres_db.rpartition("/")[2]}" CONNECTION LIMIT {most}')
            return target

        return Console(tmp_path, asyncio.run(role()), "")

    return made


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("list", "--filter", "error:x"),
        ("show", "dlq_0000000000000001"),
        ("groups",),
        ("check",),
        ("metrics",),
        ("report",),
        ("audit", "verify"),
        ("index",),
    ],
    ids=" ".join,
)
def test_a_verb_that_only_reads_takes_one_session(limited: Callable[[int], Console], words: tuple[str, ...]) -> None:
    ran = limited(1).inline(*words, "--read-only")
    assert ran.code in (0, 1), ran.err
    assert "connection" not in ran.err


def test_a_verb_that_acts_takes_one_more(limited: Callable[[int], Console], postgres_db: str) -> None:
    words = ("dismiss", "dlq_0000000000000001", "dlq_0000000000000002", "--reason", "duplicate", "--yes")
    operator = limited(2)
    refused = operator.inline(*words)
    assert refused.code == 4, refused.err
    asyncio.run(in_session(postgres_db, lambda owner: owner.execute(refused.err.partition("\n")[2])))
    ran = operator.inline(*words)
    assert ran.code == 0, ran.err
    assert "dismissed" in ran.out
