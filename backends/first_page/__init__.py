"""The first page of a store, read with the bare driver before SQLAlchemy is loaded.

Chooses the table, looks for the ledger and selects as the store itself does, by the same functions. Answers None for
what it cannot read: the store then reads the page and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable

from dlq_sink.error import StoreError

from backends.first_page.page import FirstPage
from backends.target import SQLiteTarget, Target

__all__ = ["FirstPage", "read_first_page"]


def read_first_page(
    target: Target, *, limit: int, table: str | None = None, loaded: Callable[[], None] = lambda: None
) -> FirstPage | None:
    """`loaded` is called once everything is imported and only the database is waited for."""
    try:
        if isinstance(target, SQLiteTarget):
            from backends.first_page import sqlite

            loaded()
            return sqlite.read(target, limit, table)
        from backends.first_page import postgres

        loaded()
        return postgres.read(target, limit, table)
    except StoreError:
        return None
