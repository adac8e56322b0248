"""The producer's side: where an engine writes its dead-lettered orders. Needs no ledger and loads no SQLAlchemy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.sink.contract import DLQSink, SinkClosed
from backends.sink.memory import InMemoryDLQ
from backends.sink.sqlite import SQLiteDLQ
from backends.store import BadEntry

if TYPE_CHECKING:
    from backends.sink.postgres import PostgresDLQ

__all__ = ["BadEntry", "DLQSink", "InMemoryDLQ", "PostgresDLQ", "SQLiteDLQ", "SinkClosed"]


def __getattr__(name: str) -> object:
    # Only who writes to Postgres pays for loading its driver.
    if name == "PostgresDLQ":
        from backends.sink.postgres import PostgresDLQ

        return PostgresDLQ
    raise AttributeError(f"module 'backends.sink' has no attribute {name!r}")
