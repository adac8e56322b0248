"""Writes entries, a batch's outcomes or the audit trail to a file that only its owner can read."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
from collections.abc import AsyncIterator, Sequence
from errno import EEXIST
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from backends.records import readable
from console.render.evidence.event import EVENT_COLUMNS, event_cells
from console.render.line import line, trusted, untrusted
from console.screens.frame import FramedScreen
from console.services.layout_fields import exported
from console.services.triage.trail import event_body

if TYPE_CHECKING:
    from backends.records import Entry
    from console.app import ConsoleApp
    from console.services.browse.queue_order import View
    from console.services.triage.trail_filter import TrailQuery

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


async def export_audit(app: ConsoleApp, query: TrailQuery | None) -> None:
    """As JSON Lines, whole; and as a table, one row an event."""
    session = app.session
    if session is None:
        return
    store, stem = session.store, _stem(app, "audit")

    async def events() -> AsyncIterator[list[dict[str, object]]]:
        async for block in store.audit():
            told = [event_body(event) | {"seq": event.seq, "hash": event.hash.hex()} for event in block]
            yield [one for one in told if query is None or query.matches(one, None)]

    written = await _write(app, stem, ".jsonl", ([json.dumps(one) for one in part] async for part in events()))
    if written is None:
        return
    table = await _write(app, stem, ".csv", _table(events()))
    if table is not None:
        _said(app, written.rows, "events", written.path, table.path)


async def _table(parts: AsyncIterator[list[dict[str, object]]]) -> AsyncIterator[list[str]]:
    yield [_csv(EVENT_COLUMNS)]
    async for events in parts:
        yield [_csv(event_cells(one)) for one in events]


def _csv(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


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


class _Written(NamedTuple):
    path: Path
    rows: int


async def _export(app: ConsoleApp, what: str, unit: str, parts: AsyncIterator[list[str]]) -> None:
    written = await _write(app, _stem(app, what), ".jsonl", parts)
    if written is not None:
        _said(app, written.rows, unit, written.path)


def _stem(app: ConsoleApp, what: str) -> Path:
    return Path.cwd() / f"dlq-{what}-{app.now().strftime('%Y%m%dT%H%M%SZ')}"


async def _write(app: ConsoleApp, stem: Path, suffix: str, parts: AsyncIterator[list[str]]) -> _Written | None:
    """Write the lines to a new file; None where that failed, which the screen then says."""
    path, written = stem, 0
    try:
        path, file = await asyncio.to_thread(new_file, stem, suffix)
        with file:
            async for lines in parts:
                await asyncio.to_thread(file.write, "".join(f"{text}\n" for text in lines))
                written += len(lines)
            await asyncio.to_thread(file.flush)
    except OSError as problem:
        _screen(app).warn(f"{path} cannot be written: {problem.strerror}")
        return None
    return _Written(path, written)


def _said(app: ConsoleApp, rows: int, unit: str, path: Path, other: Path | None = None) -> None:
    also = f" and {other.suffix}" if other is not None and other.stem == path.stem else f" and {other}" if other else ""
    where = untrusted(f"{path}{also}", limit=300)
    _screen(app).show_notice(line(trusted(f"{rows:,} {unit} written to ", "good"), where))


def new_file(stem: Path, suffix: str = ".jsonl") -> tuple[Path, TextIO]:
    """A file that was not there before: another user may have planted one of that name, or a link to somewhere else."""
    for number in range(_MOST_TRIES):
        path = stem.with_name(f"{stem.name}{f'-{number}' if number else ''}{suffix}")
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


def _screen(app: ConsoleApp) -> FramedScreen:
    return app.screen if isinstance(app.screen, FramedScreen) else app.queue
