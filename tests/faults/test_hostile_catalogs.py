"""Random mixtures of traps in a Postgres catalog: every verb that looks ends as it should, and no trap is called.

DLQ_CATALOGS says how many; `make faults` asks for 500.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import Console
from tests.support.hostile_catalog import COLUMNS, REFUSED, SHADOWS, HostileCatalog, Trap

_MANY = int(os.environ.get("DLQ_CATALOGS", "5"))
_ALONE = ("view", "view over a view", "operator of a view", "query in a view")  # the store is then no table any more
_VERBS = (
    ("list",), ("show", "dlq_0000000000000001"), ("groups",), ("check",), ("metrics",), ("doctor", "--json"),
    ("export", "--format", "jsonl"), ("list", "--search", "429"), ("report", "--since", "8h"),
)  # fmt: skip


@pytest.fixture
def catalog(postgres_db: str) -> Iterator[HostileCatalog]:
    made = HostileCatalog(postgres_db)
    asyncio.run(made.prepare())
    yield made
    asyncio.run(made.restore())


def mixture(chance: random.Random) -> list[Trap]:
    traps = chance.sample(SHADOWS, chance.randint(1, len(SHADOWS)))
    traps += chance.sample(COLUMNS, chance.randint(0, len(COLUMNS)))
    if chance.random() < 0.4:
        (refused,) = chance.sample(REFUSED, 1)
        alone = refused.name in _ALONE
        traps = [trap for trap in traps if not (alone and trap in COLUMNS)] + [refused]
    # The planted tables of the catalog are needed by nobody who plants, and would be in the way of who comes later.
    return sorted(traps, key=lambda trap: trap.name in ("catalog tables", "types"))


def test_no_trap_of_any_mixture_is_called(catalog: HostileCatalog, tmp_path: Path) -> None:
    for number in range(_MANY):
        traps = mixture(chance := random.Random(number))
        told = f"catalog {number}: {', '.join(trap.name for trap in traps)}"
        asyncio.run(catalog.plant(traps))
        for verb in _VERBS if _MANY < 100 else chance.sample(_VERBS, 4):
            target = catalog.admin if chance.random() < 0.2 and not _is_policy(traps) else catalog.looking
            words = (*verb, "--read-only") if chance.random() < 0.5 else verb
            ran = Console(tmp_path, target, "http://127.0.0.1:9").inline(*words, "--table", "shop.order_dlq")
            refused = any(trap.refused for trap in traps) and verb[0] != "doctor"
            assert ran.code in ((5,) if refused else (0, 1) if verb == ("check",) else (0,)), (told, words, ran.err)
            assert "Traceback" not in ran.err, (told, words)
        assert asyncio.run(catalog.calls()) == {}, told


def _is_policy(traps: list[Trap]) -> bool:
    """Policies do not apply to a superuser, who may look."""
    return any(trap.name in ("policy", "ledger") for trap in traps)
