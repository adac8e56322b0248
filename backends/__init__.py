"""Dead-letter queues in databases: attach to one, read it, act on it with an audit trail, or write to it as an engine.

Importing this does no I/O and loads neither SQLAlchemy nor a driver; `open_store` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from backends.records import DeadLetteredOrder, new_dlq_id
from backends.store import (
    ActRefused,
    BadTarget,
    CommitUnknown,
    DuplicateEntry,
    NotADLQ,
    Store,
    StoreError,
    Unreachable,
)
from backends.target import parse_target

if TYPE_CHECKING:
    from dlq_sink import DLQSink, InMemoryDLQ, PostgresDLQ, SQLiteDLQ

    from backends.layouts.columns import Options

__all__ = [
    "ActRefused",
    "BadTarget",
    "CommitUnknown",
    "DLQSink",
    "DeadLetteredOrder",
    "DuplicateEntry",
    "InMemoryDLQ",
    "NotADLQ",
    "PostgresDLQ",
    "SQLiteDLQ",
    "Store",
    "StoreError",
    "Unreachable",
    "new_dlq_id",
    "open_store",
]
_SINKS = ("DLQSink", "InMemoryDLQ", "SQLiteDLQ", "PostgresDLQ")


async def open_store(
    target: str,
    *,
    read_only: bool = False,
    table: str | None = None,
    password: str | None = None,
    options: Mapping[str, object] | Options | None = None,
) -> Store:
    """Attach to the dead-letter queue at a path, `sqlite:///path` or `postgresql://user@host/db`.

    `options` holds the config's settings for layouts that others own, such as `outbox_table`, parsed or raw.
    """
    from dataclasses import replace

    from backends.layouts.columns import Options, read_options
    from backends.sql.store import open_sql_store
    from backends.target import PostgresTarget

    parsed = parse_target(target)
    if isinstance(parsed, PostgresTarget) and parsed.password is None and password is not None:
        parsed = replace(parsed, password=password)
    known = options if isinstance(options, Options) else read_options(options or {})
    return await open_sql_store(parsed, read_only=read_only, table=table, options=known)


def __getattr__(name: str) -> object:
    if name in _SINKS:
        import dlq_sink

        return getattr(dlq_sink, name)
    raise AttributeError(f"module 'backends' has no attribute {name!r}")
