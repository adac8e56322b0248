"""A desk in a terminal: a store with fresh orders, a venue, the console on them, and what became of it afterwards."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.command import Console
from tests.support.exchange import Exchange
from tests.support.orders import row, sqlite_store
from tests.support.terminal.pty import USUAL, Size, Terminal


def fresh(number: int, **given: object) -> dict[str, Any]:
    """A row captured a moment ago, unlike the others in its quantity."""
    captured = datetime.now(UTC) - timedelta(seconds=30)
    return row(number, captured_at=captured, quantity=float(number), price=10.0, **given)


@dataclass(frozen=True, slots=True)
class Desk:
    console: Console
    path: Path

    @classmethod
    def at(cls, folder: Path, venue: Exchange | None, rows: Iterable[Mapping[str, Any]], **more: Any) -> Desk:
        path = folder / "orders.db"
        sqlite_store(path, rows)
        return cls(Console(folder, str(path), venue.url if venue else "http://127.0.0.1:9", **more), path)

    def open(
        self,
        *given: str,
        size: Size = USUAL,
        module: str = "console",
        environ: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
    ) -> Terminal:
        """The console on the store; `under`: a program that runs it."""
        words = [*under, sys.executable, "-m", module, *self.console.words(*given)]
        # An editor that returns at once: what another program would paint is not the console's.
        quiet = dict.fromkeys(("EDITOR", "VISUAL", "PAGER"), "true")
        return Terminal(words, self.console.environ | quiet | dict(environ or {}), size)

    def choose(self, size: Size = USUAL) -> Terminal:
        """The console without a store: it asks which."""
        words = [sys.executable, "-m", "console", "--config", str(self.console.config())]
        return Terminal(words, self.console.environ, size)

    def states(self) -> dict[str, str]:
        return {one["dlq_id"]: one["state"] for one in self.console("list", "--all", "--json").rows}

    def query(self, statement: str) -> Sequence[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as connection:
            return connection.execute(statement).fetchall()

    @property
    def tables(self) -> set[str]:
        return {name for (name,) in self.query("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def is_untouched(self) -> bool:
        """Nothing was ever done here: not even our own tables were made."""
        return not any(name.startswith("console_") for name in self.tables)
