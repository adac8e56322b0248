"""Writes entries, a batch's outcomes or the audit trail to a file that only its owner can read."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from errno import EEXIST
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from backends.records import AuditEvent, readable
from console.render.event import pairs
from console.render.line import line, trusted, untrusted
from console.screens.frame import FramedScreen
from console.services.layout_fields import exported

if TYPE_CHECKING:
    from backends.records import Entry
    from console.app import ConsoleApp
    from console.services.browse.queue_order import View

_MOST_TRIES = 100


async def export_view(app: ConsoleApp, view: View) -> None:
    session = app.session
    if session is None:
        return
    store = session.store

    async def parts() -> AsyncIterator[list[str]]:
        async for entries in session.queue_order.chosen(view):
            whole = await store.many(tuple(entry.id for entry in entries if entry.clipped))
            yield [_entry(whole.get(entry.id, entry)) for entry in entries]

    await _export(app, "entries", "entries", parts())


async def export_audit(app: ConsoleApp) -> None:
    session = app.session
    if session is None:
        return
    store = session.store

    async def parts() -> AsyncIterator[list[str]]:
        async for events in store.audit():
            yield [_event(event) for event in events]

    await _export(app, "audit", "events", parts())


async def export_batch(app: ConsoleApp) -> None:
    run = app.activity.run
    if run is None:
        return
    lines = [
        json.dumps(
            {
                "dlq_id": readable(ended.entry_id),
                "outcome": ended.outcome,
                "venue_order_id": ended.venue_order_id,
                "client_order_id": ended.client_order_id,
                "mode": ended.mode,
                "detail": ended.detail,
            }
        )
        for ended in run.landed
    ]

    async def parts() -> AsyncIterator[list[str]]:
        yield lines

    await _export(app, run.kind, "outcomes", parts())


async def _export(app: ConsoleApp, what: str, unit: str, parts: AsyncIterator[list[str]]) -> None:
    stem = Path.cwd() / f"dlq-{what}-{app.now().strftime('%Y%m%dT%H%M%SZ')}"
    path, written = stem, 0
    try:
        path, file = await asyncio.to_thread(new_file, stem)
        with file:
            async for lines in parts:
                await asyncio.to_thread(file.write, "".join(f"{text}\n" for text in lines))
                written += len(lines)
            await asyncio.to_thread(file.flush)
    except OSError as problem:
        _screen(app).warn(f"{path} cannot be written: {problem.strerror}")
        return
    _screen(app).show_notice(line(trusted(f"{written:,} {unit} written to ", "good"), untrusted(str(path), limit=300)))


def new_file(stem: Path) -> tuple[Path, TextIO]:
    """A file that was not there before: another user may have planted one of that name, or a link to somewhere else."""
    for number in range(_MOST_TRIES):
        path = stem.with_name(f"{stem.name}{f'-{number}' if number else ''}.jsonl")
        try:
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        return path, os.fdopen(opened, "w", encoding="utf-8")
    raise FileExistsError(EEXIST, "too many files of that name are there", str(stem))


def _entry(entry: Entry) -> str:
    return json.dumps({name: _stored(value) for name, value in exported(entry).items()} | {"state": entry.state})


def _stored(value: object) -> object:
    return value if value is None or isinstance(value, int | float) else readable(value)


def _event(event: AuditEvent) -> str:
    return json.dumps(pairs(event) | {"seq": event.seq, "hash": event.hash.hex()})


def _screen(app: ConsoleApp) -> FramedScreen:
    return app.screen if isinstance(app.screen, FramedScreen) else app.queue
