"""Follows a message that came back to the dead letters it was replayed from. Never writes.

A replay leaves two traces: the header of the new outbox row, and in the ledger the id of that row, which the message
keeps as its original_id. Either is enough. Neither counts unless queue and payload are the same: a consumer may hand a
message's headers on to another message. Each step up is a few queries for all messages together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from backends.layouts import outbox
from backends.layouts.mask import masked_text
from backends.ledger import audit_chain as chain
from backends.ledger.names import SCHEMA
from backends.records import CLIP, Ancestor, Attempt, AuditEvent, Filter, parse_time, storable
from backends.sql.connection import Connection
from backends.sql.other import naming
from backends.sql.other.select import FilterQuestion, Select
from backends.sql.other.twins import TwinReads, had_failed
from backends.sql.text.query import CompiledQuery
from backends.store import Failures

_DEEPEST = 100  # steps that are followed up
_CHUNK = 1000  # messages in one query
_LONGEST_ID = 200  # of what a header says


@dataclass(frozen=True, slots=True)
class _Message:
    """One dead letter, from its row or, where that is deleted, from the record of its replay."""

    entry_id: str
    born: str | None = None
    original_id: str | None = None  # the outbox row that failed
    queue: str | None = None
    replay_of: str | None = None  # the header
    digest: str | None = None  # of the payload
    reason: str | None = None
    error: str | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class _Step:
    """From a message up to the one it was replayed from."""

    parent: _Message
    replay: Attempt | None  # None: the ledger does not know it

    @property
    def told(self) -> Ancestor:
        one, sent = self.parent, self.replay
        by, at = (sent.operator, sent.started_at) if sent else (None, None)
        failed = parse_time(one.born)
        return Ancestor(
            one.entry_id, failed.isoformat() if failed else one.born, one.reason, one.error, at, by, one.gone
        )


def referred(header: str | None, table: str) -> str | None:
    """The entry of this table that a replay's header names."""
    told = header or ""
    return told.removeprefix(f"{table}:")[:_LONGEST_ID] or None if told.startswith(f"{table}:") else None


class LineageReads(TwinReads):
    async def lineage(self, ids: Sequence[str]) -> dict[str, tuple[Ancestor, ...]]:
        found: dict[str, list[Ancestor]] = {}
        for start in range(0, len(ids), _CHUNK):
            chunk = ids[start : start + _CHUNK]
            heads = await self._messages(await self._returning(chunk))
            if not heads and len(chunk) == 1:  # somebody looks at one message, whose row may be deleted
                heads = await self._recorded(chunk)
            await self._climb(heads, found)
        return {entry_id: tuple(reversed(line)) for entry_id, line in found.items()}

    async def _climb(self, heads: dict[str, _Message], found: dict[str, list[Ancestor]]) -> None:
        """Step by step, all messages at once; a chain that comes back to itself ends there."""
        met = {entry_id: {entry_id} for entry_id in heads}
        for _ in range(_DEEPEST):
            steps = await self._steps(tuple(heads.values())) if heads else {}
            above: dict[str, _Message] = {}
            for entry_id, head in heads.items():
                step = steps.get(head.entry_id)
                if step is None or step.parent.entry_id in met[entry_id]:
                    continue
                met[entry_id].add(step.parent.entry_id)
                found.setdefault(entry_id, []).append(step.told)
                above[entry_id] = replace(step.parent, digest=step.parent.digest or head.digest)
            if not above:
                return
            heads = above

    async def _steps(self, messages: Sequence[_Message]) -> dict[str, _Step]:
        """One step up from each message that came back."""
        made = await self._makers([one.original_id for one in messages if one.original_id is not None])
        table = self._table.found.name
        ups: dict[str, tuple[str, Attempt | None]] = {}
        for one in messages:
            maker = next((attempt for attempt in made.get(one.original_id or "", ()) if _made(attempt, one)), None)
            above = maker.entry_id if maker else referred(one.replay_of, table)
            if above is not None:
                ups[one.entry_id] = (above, maker)
        parents = await self._above(dict(ups.values()))
        sent = await self.attempts_of(tuple({above for above, maker in ups.values() if maker is None}))
        steps = {}
        for one in messages:
            above, maker = ups.get(one.entry_id, ("", None))
            if (parent := parents.get(above)) is not None and (maker is not None or _is_same(parent, one)):
                steps[one.entry_id] = _Step(parent, maker or _last_sent(sent.get(above, ())))
        return steps

    async def _makers(self, rows: Sequence[str]) -> dict[str, list[Attempt]]:
        """The replays that made these rows of the outbox, the latest first."""
        if not rows:
            return {}
        attempt = self._book.attempt
        made: dict[str, list[Attempt]] = {}
        for one in await self._attempts(
            (attempt.c.state == "accepted", attempt.c.venue_order_id.in_(rows)), attempt.c.id
        ):
            made.setdefault(one.venue_order_id or "", []).insert(0, one)
        return made

    async def _above(self, asked: Mapping[str, Attempt | None]) -> dict[str, _Message]:
        """The messages of these ids: their rows, else what the record of their replay kept."""
        found = await self._messages(tuple(asked))
        for entry_id in asked.keys() - found.keys():
            # The id was one row's alone when it was replayed; several have it now.
            if names := await self.named(entry_id) if self._table.ids_repeat else ():
                attempt = asked[entry_id]
                name = had_failed(names, attempt.started_at if attempt else "")
                if (one := (await self._messages((name,))).get(name)) is not None:
                    found[entry_id] = one
        missing = [entry_id for entry_id in asked if entry_id not in found]
        told = await self._recorded(missing) if missing else {}
        return found | {one: told.get(one, _Message(one, gone=True)) for one in missing}

    async def _messages(self, ids: Sequence[str]) -> dict[str, _Message]:
        """By entry id, as their rows are now."""
        select = Select(self._table, with_ledger=False)
        if not (own := self._own_ids(select, ids)):
            return {}
        query = self._facts(select, own)

        async def work(link: Connection) -> Sequence[Any]:
            return await link.fetch(query, {})

        rows = await self._quick.run(work)
        repeated = naming.repeated([row[0] for row in rows])
        named = [(f"{row[0]}{naming.suffix(row[1])}" if row[0] in repeated else str(row[0]), row) for row in rows]
        asked = frozenset(ids)
        return {name: _message(name, row) for name, row in named if name in asked}

    def _facts(self, select: Select, own: Sequence[str]) -> CompiledQuery:
        ask = FilterQuestion()
        shown = (
            *(
                select.identity,
                select.born,
                self._table.text("original_id"),
                self._table.text("queue"),
                self._replay_of(),
            ),
            f"encode(sha256({self._table.sql('payload')}), 'hex')",
            *(self._table.text("failure_reason"), f"substr({self._table.text('last_exception')}, 1, {2 * CLIP})"),
        )
        return ask.query(f"SELECT {', '.join(shown)} FROM {self._table.found.quoted} t WHERE {select.among(own, ask)}")

    def _replay_of(self) -> str:
        """The header of a replay; never fails, whatever the headers hold."""
        kind = self._table.part("headers").type if self._table.actual("headers") else ""
        if not kind.startswith("json"):
            return "CAST(NULL AS text)"
        headers = self._table.sql("headers")
        found = f"CASE {kind}_typeof({headers}) WHEN 'object' THEN {headers} ->> '{outbox.REPLAY_HEADER}' END"
        if kind == "jsonb":
            return found
        # The type json may hold a NUL, which Postgres cannot hand out.
        text = f"CAST({headers} AS text)"
        return (
            f"CASE WHEN strpos({text}, '{outbox.REPLAY_HEADER}') > 0 AND strpos({text}, '\\u0000') = 0 THEN {found} END"
        )

    async def _recorded(self, ids: Sequence[str]) -> dict[str, _Message]:
        """What the records of their replays keep of deleted messages."""
        audit, few = self._book.audit, self._book.audit_entry
        source = self._table.found.shown
        marks = chain.marks(source, ids)

        def asked() -> sa.Executable | None:
            if not self._found.has("audit_entry", "mark"):
                return None  # a ledger of version 0.1, which kept no more of a message than its row
            of = sa.select(audit.c.seq, audit.c.body, audit.c.hash).join(few, few.c.seq == audit.c.seq)
            return of.where(few.c.mark.in_(marks)).order_by(audit.c.seq)

        events = [AuditEvent(row[0], bytes(row[1]), bytes(row[2])) for row in await self._ledger_rows(asked)]
        told = (_of_record(event, source) for event in events)
        return {one.entry_id: one for one in told if one is not None and one.entry_id in ids}

    async def came_back(self) -> dict[str, int]:
        return {entry_id: len(line) for entry_id, line in (await self.lineage(await self._returning())).items()}

    async def _returning(self, ids: Sequence[str] | None = None) -> tuple[str, ...]:
        """Those of these entries that have a trace of a replay; without ids of all that are open."""

        async def work(link: Connection, as_text: bool) -> tuple[str, ...]:
            select = await self._look(link, as_text=as_text)
            own = self._own_ids(select, ids)
            found = [await link.fetch(self._traced(select, own, trace), {}) for trace in self._traces(select)]
            rows = list(dict.fromkeys((row[0], row[1]) for some in found for row in some))
            repeated = await self._repeated(link, select, [(None, row[0]) for row in rows])
            named = (f"{own}{naming.suffix(born)}" if own in repeated else own for own, born in rows)
            return tuple(name for name in named if ids is None or name in asked)

        asked = frozenset(ids or ())
        return await self._read(self._slow if ids is None else self._quick, work)

    def _own_ids(self, select: Select, ids: Sequence[str] | None) -> list[str] | None:
        """The rows' own ids that entries of these names may have."""
        if ids is None:
            return None
        keys = (key for one in ids for key in (naming.possible(one) if self._table.ids_repeat else (one,)))
        return list(dict.fromkeys(filter(select.is_plain_id, keys)))

    def _traces(self, select: Select) -> list[str]:
        """What a replay leaves in a row; each asked for by itself, so that an index on it is of use."""
        is_jsonb = bool(self._table.actual("headers")) and self._table.part("headers").type == "jsonb"
        header = f"{self._table.sql('headers')} ? '{outbox.REPLAY_HEADER}'"
        traces = [header if is_jsonb else f"{self._replay_of()} IS NOT NULL"]
        if select.with_ledger:
            kind = self._table.part("original_id").type
            made = f"SELECT {_as_number(kind)} FROM {SCHEMA}.attempt a WHERE a.source = {select.source}"
            traces.append(f"{self._table.sql('original_id')} IN ({made} AND a.state = 'accepted')")
        return traces

    def _traced(self, select: Select, own: Sequence[str] | None, trace: str) -> CompiledQuery:
        """Looks the state up only for the few rows that have the trace."""
        ask = FilterQuestion()
        which = select.conditions(Filter(), ask) if own is None else [select.among(own, ask)]
        rows = f"{select.rows(each=True)} WHERE {' AND '.join((trace, *which))}"
        return ask.query(f"SELECT {select.identity}, {select.born} {rows}")

    async def failing(self, least: int, ids: tuple[str, ...] | None = None) -> dict[str, Failures]:
        """A message's tries are the dead letters it was before: a replay of its own is always a new message."""
        asked = await self._returning() if ids is None else ids
        lines = await self.lineage(asked)
        known = {one.entry_id for line in lines.values() for one in line}
        cleared = await self._cleared(tuple(known | set(asked))) if asked else {}
        found = {entry_id: failures(lines.get(entry_id, ()), entry_id, cleared.keys()) for entry_id in asked}
        return {entry_id: one for entry_id, one in found.items() if len(one.errors) >= least}


def _as_number(kind: str) -> str:
    """The row that a replay made, in the type of the dead letters' original_id."""
    if not kind.startswith(("bigint", "integer", "smallint")):
        return f"CAST(a.venue_order_id AS {kind})"
    return "CASE WHEN a.venue_order_id ~ '^[0-9]{1,18}$' THEN CAST(a.venue_order_id AS bigint) END"


def failures(line: Sequence[Ancestor], entry_id: str, cleared: Iterable[str]) -> Failures:
    """What a person cleared of a message, or of one it came from, counts no more, nor does anything before it."""
    done = frozenset(cleared)
    if entry_id in done:
        return Failures((), is_cleared=True)
    last = max((place for place, one in enumerate(line) if one.entry_id in done), default=-1)
    return Failures(tuple(one.error or one.reason or "" for one in line[last + 1 :]))


def _message(name: str, row: Sequence[Any]) -> _Message:
    _, born, original_id, queue, replay_of, digest, reason, error = row
    return _Message(
        name, born, original_id, queue, replay_of, digest, reason, None if error is None else masked_text(error)
    )


def _of_record(event: AuditEvent, source: str) -> _Message | None:
    """The message that this event says was put into the outbox again."""
    try:
        body = json.loads(event.body)
        told, name = body["message"], body["entries"][0]
        mine = body["source"] == source and body["kind"] == "outcome" and isinstance(told, dict)
    except (ValueError, KeyError, IndexError, TypeError):
        return None  # another event, or a damaged one, which `dlq audit verify` reports
    if not mine or not isinstance(name, str):
        return None
    kept = {key: str(value) for key, value in told.items() if value is not None}
    return _Message(
        name,
        born=kept.get("failed_at"),
        original_id=kept.get("original_id"),
        queue=kept.get("queue"),
        replay_of=kept.get("replay_of"),
        reason=kept.get("failure_reason"),
        error=kept.get("last_exception"),
        gone=True,
    )


def _made(attempt: Attempt, message: _Message) -> bool:
    """Whether this replay made the outbox row that failed; an outbox made anew counts its rows from one again."""
    same = message.digest is None or attempt.payload_hash == message.digest
    return same and attempt.venue == storable(message.queue or "")


def _is_same(parent: _Message, message: _Message) -> bool:
    """What is not known of a deleted message does not count against it."""
    pairs = ((parent.queue, message.queue), (parent.digest, message.digest))
    return all(one is None or other is None or one == other for one, other in pairs)


def _last_sent(attempts: Sequence[Attempt]) -> Attempt | None:
    return next((one for one in reversed(attempts) if one.outcome == "accepted"), None)
