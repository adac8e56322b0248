"""Dead-letter queues in databases: attach to one, read it, act on it with an audit trail, or write to it as an engine.

Importing this does no I/O and loads neither SQLAlchemy nor a driver; `open_store` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dlq_sink.error import ActRefused, BadTarget, CommitUnknown, DuplicateEntry, NotADLQ, StoreError, Unreachable

if TYPE_CHECKING:
    from dlq_sink import DLQSink, InMemoryDLQ, PostgresDLQ, SQLiteDLQ
    from dlq_sink.record import DeadLetteredOrder, new_dlq_id

    from backends.layouts.columns import Options
    from backends.store import Store

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
# Where the rest is. Imported when asked for, as every module of this package waits for what is imported here.
_ELSEWHERE = {
    **dict.fromkeys(("DLQSink", "InMemoryDLQ", "SQLiteDLQ", "PostgresDLQ"), "dlq_sink"),
    **dict.fromkeys(("DeadLetteredOrder", "new_dlq_id"), "dlq_sink.record"),
    "Store": "backends.store",
}


async def open_store(
    target: str,
    *,
    read_only: bool = False,
    table: str | None = None,
    password: str | None = None,
    options: Mapping[str, object] | Options | None = None,
    one_reader: bool = False,
) -> Store:
    """Attach to the dead-letter queue at a path, `sqlite:///path` or `postgresql://user@host/db`.

    `one_reader`: for who asks one thing after another. Otherwise what is quick need not wait for a long scan.
    `options` holds the config's settings for layouts that others own, such as `outbox_table`, parsed or raw.
    """
    from dataclasses import replace

    from backends.layouts.columns import Options, read_options
    from backends.sql.store import open_sql_store
    from backends.target import PostgresTarget, parse_target

    parsed = parse_target(target)
    if isinstance(parsed, PostgresTarget) and parsed.password is None and password is not None:
        parsed = replace(parsed, password=password)
    known = options if isinstance(options, Options) else read_options(options or {})
    return await open_sql_store(parsed, read_only=read_only, table=table, options=known, one_reader=one_reader)


def __getattr__(name: str) -> object:
    if (module := _ELSEWHERE.get(name)) is not None:
        from importlib import import_module

        return getattr(import_module(module), name)
    raise AttributeError(f"module 'backends' has no attribute {name!r}")
