"""For engines: keep every order that could not be placed, and a witness of every order that is being placed.

Importing this loads nothing else; each name loads what it needs when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself would be a third of what importing this costs
if TYPE_CHECKING:
    from dlq_sink.capture.decorator import dead_letters
    from dlq_sink.capture.report import PrometheusMetrics
    from dlq_sink.capture.submit import submit_or_dead_letter
    from dlq_sink.contract import DLQSink
    from dlq_sink.error import (
        ActRefused,
        BadEntry,
        BadTarget,
        CommitUnknown,
        DuplicateEntry,
        NotADLQ,
        SinkClosed,
        StoreError,
        Unreachable,
    )
    from dlq_sink.memory import InMemoryDLQ
    from dlq_sink.postgres import PostgresDLQ
    from dlq_sink.record import DeadLetteredOrder, new_dlq_id
    from dlq_sink.sqlite import SQLiteDLQ
    from dlq_sink.witness.submission import intent

__all__ = [
    "ActRefused",
    "BadEntry",
    "BadTarget",
    "CommitUnknown",
    "DLQSink",
    "DeadLetteredOrder",
    "DuplicateEntry",
    "InMemoryDLQ",
    "NotADLQ",
    "PostgresDLQ",
    "PrometheusMetrics",
    "SQLiteDLQ",
    "SinkClosed",
    "StoreError",
    "Unreachable",
    "dead_letters",
    "intent",
    "new_dlq_id",
    "submit_or_dead_letter",
]
_MODULE_OF = {
    **dict.fromkeys(__all__, "error"),
    "DLQSink": "contract",
    "DeadLetteredOrder": "record",
    "InMemoryDLQ": "memory",
    "PostgresDLQ": "postgres",
    "PrometheusMetrics": "capture.report",
    "SQLiteDLQ": "sqlite",
    "dead_letters": "capture.decorator",
    "intent": "witness.submission",
    "new_dlq_id": "record",
    "submit_or_dead_letter": "capture.submit",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'dlq_sink' has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(f"dlq_sink.{_MODULE_OF[name]}")
    except ModuleNotFoundError as missing:
        if missing.name != "asyncpg":
            raise
        module = import_module("dlq_sink.libpq.missing_driver")  # says so when it is used, not when it is imported
    found: object = getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
