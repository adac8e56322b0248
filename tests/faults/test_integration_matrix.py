"""A sample of the integration matrix in every suite, and that it sees calls that go again and a yes that is invented.

The whole matrix is `python -m tests.faults.integration_matrix`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from backends.records import Attempt
from backends.store import Result
from console.services.replay.outcome import EntryOutcome
from console.services.resend.hub_list import HubLook
from console.services.resend.orphans import OrphanedCalls
from tests.faults.integration_matrix import ANSWERS, ASKED, FAULTS, CallCell, Cell, Figures, HubCell, cells, run_all
from tests.faults.integration_matrix import sampled as spread
from tests.support.databases import Databases

EVERY = cells()
SAMPLE = 36


@pytest.fixture
def targets(postgres_databases: Databases) -> Iterator[tuple[str, str]]:
    names = postgres_databases.take(), postgres_databases.take()
    yield postgres_databases.address(names[0]), postgres_databases.address(names[1])
    for name in names:
        postgres_databases.give_back(name)


async def run(every: Sequence[Cell], targets: tuple[str, str]) -> Figures:
    return await run_all(every, *targets)


def test_it_is_large_enough() -> None:
    assert (len(EVERY) >= 1000, len(ANSWERS) >= 15, len(ASKED) >= 15, len(FAULTS) >= 5) == (True,) * 4


async def test_no_call_goes_again_after_a_yes_and_no_yes_is_invented(targets: tuple[str, str]) -> None:
    figures = await run(spread(EVERY, SAMPLE), targets)
    assert figures.violations == []
    assert (figures.cells, figures.again, figures.invented) == (SAMPLE, 0, 0)


async def test_it_sees_a_call_that_goes_again(targets: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a call whose end nobody recorded had failed."""

    async def failed(self: Any, attempt: Attempt) -> EntryOutcome:
        await self._store.settle(attempt, Result("rejected", error="counted as failed"), self._actor, self._why())
        return EntryOutcome(attempt.entry_id, "rejected", None)

    monkeypatch.setattr(OrphanedCalls, "_one", failed)
    figures = await run([CallCell("200", "killed before the record", "keep")], targets)
    assert (figures.again, len(figures.violations)) == (1, 1)


async def test_it_sees_a_yes_that_is_invented(targets: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every 404 meant that the entry is gone."""

    async def gone(*_: object) -> None:
        return None

    monkeypatch.setattr(HubLook, "listed", gone)
    figures = await run([HubCell("202", "", "404 everywhere", "none")], targets)
    assert figures.invented == 1
