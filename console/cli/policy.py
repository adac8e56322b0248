"""The verb policy: prints what the store's owner has set, or sets it."""

from __future__ import annotations

import uuid

from backends.records import ActContext
from backends.store import ActRefused
from console.cli.context import DONE, Context, say
from console.cli.parser import UsageError
from console.settings.config import ConfigError
from console.settings.policy import parse_change, read_policy
from console.text.untrusted import safe


async def policy_verb(context: Context) -> int:
    args = context.args
    if args.what is None:
        async with context.store() as store:
            rows = await store.policy()
        _tell(rows)
        return DONE
    changes = _changes(args.changes)
    async with context.store() as store:
        if store.info.read_only:
            raise ActRefused("read-only: no policy is set")
        why = ActContext(at=context.now(), operation=uuid.uuid4().hex, reason="policy")
        rows = await store.set_policy(changes, context.actor, why)
    _tell(rows)
    return DONE


def _changes(words: list[str]) -> dict[str, str | None]:
    if not words:
        raise UsageError("policy set takes KEY=VALUE, or KEY= to take a key away")
    changes: dict[str, str | None] = {}
    for key, value in map(parse_change, words):
        if key in changes:
            raise UsageError(f"{key} is there twice")
        changes[key] = value
    return changes


def _tell(rows: object) -> None:
    assert isinstance(rows, dict)
    for key, value in rows.items():
        print(f"{safe(key)}={safe(value)}")
    if not rows:
        say("no policy is set on this store: the config's limits count")
        return
    try:
        read_policy(rows)
    except ConfigError as problem:
        say(f"{problem}: nothing is replayed here until its owner mends that with dlq policy set KEY=VALUE, or KEY=")
