"""The `dlq` command on an outbox's store, for tests that do not run in a loop of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.command import Console, Ran
from tests.support.outbox import OutboxRig, dead_row

BAD = "ValueError('still bad')"


class Desk:
    """The command on an outbox's store."""

    def __init__(self, target: str, folder: Path) -> None:
        self.rig = OutboxRig(target)
        self.console = Console(folder, target, "http://127.0.0.1:9")

    def __call__(self, *words: str) -> Ran:
        return self.console.inline(*words)

    def replay(self, entry_id: str, error: str = BAD) -> str:
        """Replay it; it fails again. → its new id"""
        ran = self("replay", entry_id, "--json")
        assert ran.outcomes == {entry_id: "accepted"}, ran
        return self.fail_again(error)

    def fail_again(self, error: str = BAD) -> str:
        (made,) = asyncio.run(self.rig.fail_again(error))
        return made

    def sql(self, statement: str) -> None:
        asyncio.run(self.rig.sql(statement))

    @classmethod
    def made(cls, target: str, folder: Path) -> Desk:
        """Of two dead letters."""
        desk = cls(target, folder)
        asyncio.run(desk.rig.tables())
        asyncio.run(desk.rig.dead(dead_row(1, last_exception=BAD), 2))
        return desk
