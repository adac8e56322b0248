"""A store that the config does not know: typed in, or given by --db. Has no settings, and a name without a password."""

from __future__ import annotations

from dlq_sink.error import BadTarget

from backends.target import PostgresTarget, parse_target
from console.settings.config import StoreConfig


def typed_store(target: str) -> StoreConfig:
    return StoreConfig(name=shown_name(target), url=target)


def shown_name(target: str) -> str:
    """What may be shown of a target: a path as it is, a database by its label, and nothing of what cannot be read."""
    try:
        parsed = parse_target(target)
    except BadTarget:
        return "a target that cannot be read"
    return parsed.label if isinstance(parsed, PostgresTarget) else target
