"""Sinks: where an engine writes its dead-lettered orders. They use no ledger and load no SQLAlchemy."""

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
    # Loads the Postgres driver only for engines that use it.
    if name == "PostgresDLQ":
        from backends.sink.postgres import PostgresDLQ

        return PostgresDLQ
    raise AttributeError(f"module 'backends.sink' has no attribute {name!r}")
