"""Writes entries, a batch's outcomes or the audit trail to a file that only its owner can read."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from backends.records import AuditEvent, readable
from console.render.event import pairs
from console.render.line import line, trusted, untrusted
from console.screens.frame import FramedScreen
from console.services.layout_fields import exported

if TYPE_CHECKING:
    from backends.records import Entry
    from console.app import ConsoleApp
    from console.services.browse.queue_order import View


async def export_view(app: ConsoleApp, view: View) -> None:
    session = app.session
    if session is None:
        return
    path = _path(app, "entries")
    written = 0
    async for entries in session.queue_order.chosen(view):
        whole = await session.store.many(tuple(entry.id for entry in entries if entry.clipped))
        lines = [_entry(whole.get(entry.id, entry)) for entry in entries]
        if not await _append(app, path, lines):
            return
        written += len(lines)
    _told(app, f"{written:,} entries", path)


async def export_audit(app: ConsoleApp) -> None:
    session = app.session
    if session is None:
        return
    path = _path(app, "audit")
    written = 0
    async for events in session.store.audit():
        if not await _append(app, path, [_event(event) for event in events]):
            return
        written += len(events)
    _told(app, f"{written:,} events", path)


async def export_batch(app: ConsoleApp) -> None:
    run = app.activity.run
    if run is None:
        return
    path = _path(app, run.kind)
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
    if await _append(app, path, lines):
        _told(app, f"{len(lines):,} outcomes", path)


def _path(app: ConsoleApp, what: str) -> Path:
    return Path.cwd() / f"dlq-{what}-{app.now().strftime('%Y%m%dT%H%M%SZ')}.jsonl"


def _entry(entry: Entry) -> str:
    return json.dumps({name: _stored(value) for name, value in exported(entry).items()} | {"state": entry.state})


def _stored(value: object) -> object:
    return value if value is None or isinstance(value, int | float) else readable(value)


def _event(event: AuditEvent) -> str:
    return json.dumps(pairs(event) | {"seq": event.seq, "hash": event.hash.hex()})


async def _append(app: ConsoleApp, path: Path, lines: Iterable[str]) -> bool:
    try:
        await asyncio.to_thread(_write, path, "".join(f"{text}\n" for text in lines))
    except OSError as problem:
        _screen(app).warn(f"{path} cannot be written: {problem.strerror}")
        return False
    return True


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _told(app: ConsoleApp, what: str, path: Path) -> None:
    _screen(app).show_notice(line(trusted(f"{what} written to ", "good"), untrusted(path.name, limit=300)))


def _screen(app: ConsoleApp) -> FramedScreen:
    return app.screen if isinstance(app.screen, FramedScreen) else app.queue
