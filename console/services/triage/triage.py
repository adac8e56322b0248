"""Classified entries, and the acts that need no venue: dismiss, restore, undo, note, halt, resume, refuse.

Knows the store contract and the error classification; neither SQL nor screens nor venues.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from backends.criterion import Criterion
from backends.layouts.mask import masked_error
from backends.records import ActContext, Actor, Ancestor, Attempt, AuditEvent, Entry, Filter, Note, RowKey, Selection
from backends.store import ActRefused, RepeatedId, Store, TellsApart
from console.clock import Clock
from console.services.errors.fingerprint import READ_LENGTH
from console.services.layout_fields import LAYOUTS, stored_error
from console.services.triage.classified_entry import UNKNOWN as UNKNOWN
from console.services.triage.classified_entry import ClassifiedEntry as ClassifiedEntry
from console.services.triage.classified_entry import classified as classified
from console.services.triage.marks import MarkFacts, MarkLimits, UsualLimits, mark_facts
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.services.triage.last_act import LastActs
    from console.services.triage.poison import Poison

Worth = Callable[[Entry], Decimal | None]  # an order's value, where it can be told without asking a venue
_PAGE = 500
_NAMED = 5  # entries of one id that an error names


@dataclass(frozen=True, slots=True)
class Query:
    """A filter the store evaluates, and what only the console knows of an entry, which is evaluated here.

    `category`, `group` and `mark` are short for a criterion with one literal value.
    """

    where: Filter = field(default_factory=Filter)
    category: str | None = None
    group: str | None = None
    mark: str | None = None
    classes: tuple[Criterion, ...] = ()  # of category, group, mark, reason, operator, operation and notional
    facts: MarkFacts | None = None  # what marks are judged by; `Triage.resolved` reads it
    acts: LastActs | None = field(default=None, compare=False)  # what reason and operator are judged by; likewise
    worth: Worth | None = field(default=None, compare=False)  # an order's value

    @property
    def by_class(self) -> bool:
        return bool(self.classes) or not (self.category is self.group is self.mark is None)

    @property
    def by_mark(self) -> bool:
        return self.mark is not None or any(one.field == "mark" for one in self.classes)

    @property
    def by_act(self) -> bool:
        return any(one.field in ("reason", "operator", "operation") for one in self.classes)

    @property
    def ids(self) -> tuple[str, ...] | None:
        """The only entries that can match, where that is known: the poisoned ones are few."""
        return tuple(self.facts.poisoned) if self.facts is not None and self.mark == "poison" else None


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an act on many entries."""

    done: tuple[str, ...]
    changed: tuple[tuple[str, str], ...]
    stopped: bool = False
    operation: str = ""


@dataclass(frozen=True, slots=True)
class History:
    entry: ClassifiedEntry
    attempts: tuple[Attempt, ...]
    events: tuple[AuditEvent, ...]
    notes: tuple[Note, ...]
    unrecorded: int  # retries from before the ledger existed
    ancestors: tuple[Ancestor, ...] = ()  # of a message that came back, oldest first
    group_notes: tuple[Note, ...] = ()  # on the group that the entry belongs to


Progress = Callable[[int, int], None]


GROUP_SUBJECT = "group:"  # what the name of a note's subject begins with, where it is a group


def group_subject(fingerprint: str) -> str:
    return f"{GROUP_SUBJECT}{fingerprint}"


async def uncut(store: Store, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Reads whole errors where the page cut them: a traceback names its exception at the end."""
    cut = tuple(entry.id for entry in entries if entry.clipped and len(stored_error(entry)) >= READ_LENGTH)
    if not cut:
        return entries
    whole = await store.many(cut)
    return tuple(whole.get(entry.id, entry) for entry in entries)


async def few_of(store: Store, query: Query) -> list[Entry]:
    """The matches among the entries that the query names, whole, in no order."""
    from console.services.browse.filter_match import fits

    found: list[Entry] = []
    ids = query.ids or ()
    for start in range(0, len(ids), _PAGE):
        found += (await store.many(ids[start : start + _PAGE])).values()
    return [entry for entry in found if fits(entry, query.where) and matches(classified(entry), query)]


def standing(row_key: RowKey) -> tuple[str, ...]:
    """A sort key for any row key, whatever types its parts have."""
    return tuple(f"{part:020d}" if isinstance(part, int) else str(part) for part in row_key)


def _shown(attempt: Attempt) -> Attempt:
    """Without credentials: an attempt of an earlier version has its error as the venue's library said it."""
    return replace(attempt, error=masked_error(attempt.error)) if attempt.error else attempt


def recorded_retries(events: tuple[AuditEvent, ...]) -> int:
    """How many of these audit events raised the retry count."""
    count = 0
    for event in events:
        try:
            after = json.loads(event.body).get("after")
        except (ValueError, AttributeError):
            continue  # `dlq audit verify` reports a damaged body
        count += isinstance(after, dict) and "retry_count" in after
    return count


def matches(row: ClassifiedEntry, query: Query) -> bool:
    if query.mark is not None and not (query.facts is not None and query.facts.has(row, query.mark)):
        return False
    if query.category not in (None, row.category) or query.group not in (None, row.fingerprint):
        return False
    return all(_holds(row, asked, query) for asked in query.classes)


def _fits(entry: Entry, query: Query) -> bool:
    return matches(classified(entry), query)


def _holds(row: ClassifiedEntry, asked: Criterion, query: Query) -> bool:
    match asked.field:
        case "category":
            return asked.fits_texts([row.category])
        case "group":
            return asked.fits_texts([row.fingerprint])
        case "mark":
            return asked.fits_texts(query.facts.marks(row) if query.facts is not None else ())
        case "notional":
            return asked.fits_number(query.worth(row.entry) if query.worth is not None else None)
        case name:
            act = query.acts.of(row.entry.id) if query.acts is not None else None
            if act is None:
                return asked.fits_texts(())
            reason = act.reason if row.entry.state == "dismissed" else None
            told = {"operator": act.operator, "operation": act.operation, "reason": reason or ""}
            return asked.fits_texts([told[name]])


class Triage:
    def __init__(
        self,
        store: Store,
        actor: Actor,
        clock: Clock,
        limits: MarkLimits | None = None,
        worth: Worth | None = None,
    ) -> None:
        self.store = store
        self.actor = actor
        self.worth = worth
        self._acts: LastActs | None = None
        self.limits: MarkLimits = limits or UsualLimits()
        self._clock = clock
        self._last_dismissed: tuple[str, ...] = ()

    async def mark_facts(self) -> MarkFacts:
        return await mark_facts(self.store, self.limits, self._clock())

    async def resolved(self, query: Query) -> Query:
        """The query with what its marks, acts and values are judged by."""
        query = replace(query, worth=query.worth or self.worth)
        if query.by_mark and query.facts is None:
            query = replace(query, facts=await self.mark_facts())
        return replace(query, acts=await self.last_acts()) if query.by_act else query

    async def last_acts(self) -> LastActs:
        if self._acts is None:
            from console.services.triage.last_act import LastActs

            self._acts = LastActs()
        await self._acts.read(self.store)
        return self._acts

    async def stream(
        self, query: Query, *, whole: bool = True, limit: int | None = None
    ) -> AsyncIterator[ClassifiedEntry]:
        """Every match in insertion order, then the intents that match.

        Reads page by page, so that no read transaction stays open.
        """
        query = await self.resolved(query)
        if query.ids is not None:
            for row in (await self._few(query))[:limit]:
                yield row
            return
        place: RowKey | None = None
        left = limit
        while left is None or left > 0:
            size = _PAGE if left is None or query.by_class else min(_PAGE, left)
            page = await self.store.page(query.where, limit=size, after=place)
            for entry in await uncut(self.store, page.entries) if query.by_class else page.entries:
                if query.by_class and not matches(classified(entry), query):
                    continue
                full = (await self.store.get(entry.id) or entry) if whole and entry.clipped else entry
                yield classified(full)
                if left is not None:
                    left -= 1
                    if left <= 0:
                        return
            if not page.more:
                break
            place = page.entries[-1].row_key
        for entry in (await self._intents(query, whole=whole))[:left]:
            yield classified(entry)

    async def _intents(self, query: Query, *, whole: bool) -> list[Entry]:
        """What engines left open: after the entries, oldest first."""
        from console.services.browse.engine_intent import intents_of

        found = [one for one in await intents_of(self.store, query.where) if not query.by_class or _fits(one, query)]
        cut = [entry.id for entry in found if whole and entry.clipped]
        full = await self.store.many(tuple(cut)) if cut else {}
        return [full.get(entry.id, entry) for entry in found]

    async def _few(self, query: Query) -> list[ClassifiedEntry]:
        """The matches among the entries that the query names."""
        found = await few_of(self.store, query)
        return [classified(entry) for entry in sorted(found, key=lambda entry: standing(entry.row_key))]

    async def select(self, query: Query, *, most: int | None = None) -> tuple[Entry, ...]:
        """The entries that match now, as a fixed set."""
        return tuple([row.entry async for row in self.stream(query, whole=False, limit=most)])

    async def chosen(self, ids: tuple[str, ...]) -> tuple[dict[str, Entry], tuple[str, ...]]:
        """(entries by id, ids that do not exist)."""
        found: dict[str, Entry] = {}
        for start in range(0, len(ids), _PAGE):
            found |= await self.store.many(ids[start : start + _PAGE])
        missing = tuple(entry_id for entry_id in ids if entry_id not in found)
        await self._check_told_apart(missing)
        return found, missing

    async def _check_told_apart(self, ids: tuple[str, ...]) -> None:
        """Raises RepeatedId for an id that several rows have: nobody can tell which of them is meant."""
        store = self.store
        if not isinstance(store, TellsApart):
            return
        for entry_id in ids:
            if names := await store.named(entry_id):
                these = ", ".join(safe(name, 80) for name in names[:_NAMED])
                raise RepeatedId(f"{len(names)} entries have the id {safe(entry_id, 80)}: say which, {these}")

    async def history(self, entry_id: str) -> History | None:
        from console.services.triage.gone import gone_entry
        from console.services.triage.lineage import ancestors_of

        entry = await self.store.get(entry_id)
        if entry is None:
            await self._check_told_apart((entry_id,))
        attempts = await self.store.attempts(entry_id)
        events = await self.store.events(entry_id)
        if entry is None:
            entry = gone_entry(self.store.info, entry_id, attempts, events)
        if entry is None:
            return None
        counted = entry.get("retry_count")
        earlier = max(0, counted - recorded_retries(events)) if isinstance(counted, int) else 0
        shown = tuple(map(_shown, attempts))
        line = await ancestors_of(self.store, entry_id)
        back = {entry_id: len(line)} if line else {}
        known = self.store.info.ledger_is_readable
        facts = MarkFacts(await self.poisoned((entry,)), self._clock(), self.limits, back, known)
        row, notes = ClassifiedEntry(entry, facts), await self.store.notes(entry_id)
        of_group = await self.store.notes(group_subject(row.fingerprint))
        return History(row, shown, events, notes, earlier, line, of_group)

    async def dismiss(
        self,
        selection: Selection,
        *,
        reason: str,
        note: str | None = None,
        progress: Progress | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Done:
        why = self._why(reason=reason, note=note)
        report = await self._in_chunks(selection, self.store.dismiss, why, progress=progress, stop=stop)
        self._last_dismissed = report.done or self._last_dismissed
        return report

    async def restore(
        self,
        selection: Selection,
        *,
        note: str | None = None,
        progress: Progress | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Done:
        why = self._why(reason="restored", note=note)
        return await self._in_chunks(selection, self.store.restore, why, progress=progress, stop=stop)

    async def clear(self, ids: tuple[str, ...], *, note: str) -> Done:
        """What failed until now no longer counts towards poison."""
        why = self._why(reason="poison-cleared", note=note)
        await self.store.clear(ids, self.actor, why)
        return Done(ids, (), operation=why.operation)

    async def poisoned(self, entries: Sequence[Entry]) -> dict[str, Poison]:
        from console.services.triage.poison import poison_among

        return await poison_among(self.store, entries, self.limits.poison_after)

    async def restorable(self, entries: Sequence[Entry]) -> tuple[list[Entry], list[tuple[str, str]]]:
        """(what a restore reopens: dismissed, or replayed in paper alone; the others, each with the reason)."""
        replayed = tuple(entry.id for entry in entries if entry.state == "replayed")
        attempts = await self.store.attempts_of(replayed) if replayed else {}
        live = {one for one, its in attempts.items() if any(_stands_live(attempt) for attempt in its)}
        back = [entry for entry in entries if entry.state in ("dismissed", "replayed") and entry.id not in live]
        there = {entry.id for entry in back}
        has_modes = LAYOUTS[self.store.info.layout].has_modes
        sent = "is replayed in live: it stands at the venue" if has_modes else "is replayed: that cannot be taken back"
        why = dict.fromkeys(live, sent)
        left = [one for one in entries if one.id not in there]
        return back, [(one.id, why.get(one.id, f"is {one.state}, not dismissed")) for one in left]

    async def undo(self) -> Done | None:
        """Restores what this console dismissed last; None if there is nothing to undo."""
        if not self._last_dismissed:
            return None
        entries, _ = await self.chosen(self._last_dismissed)
        back = Selection.of([entry for entry in entries.values() if entry.state == "dismissed"])
        self._last_dismissed = ()
        return await self.restore(back, note="undo")

    async def note(self, entry_id: str, text: str) -> None:
        await self.store.note(entry_id, self.actor, self._why(note=text))

    async def halt(self, note: str) -> None:
        await self.store.halt(self.actor, self._why(note=note))

    async def resume(self, note: str) -> None:
        await self.store.resume(self.actor, self._why(note=note))

    async def refuse(self, what: str, ids: tuple[str, ...], because: str) -> None:
        """Records a refusal in the audit chain, if this store can be written."""
        if self.store.info.read_only:
            return
        try:
            await self.store.record(
                f"refused-{what}", ids[:1000], self.actor, self._why(reason="refused", note=because)
            )
        except ActRefused:
            return  # this role may not create a ledger; the refusal holds without a record

    def _why(self, *, reason: str | None = None, note: str | None = None) -> ActContext:
        return ActContext(at=self._clock(), operation=uuid.uuid4().hex, reason=reason, note=note)

    async def _in_chunks(
        self,
        selection: Selection,
        act: Callable[..., object],
        why: ActContext,
        *,
        progress: Progress | None,
        stop: Callable[[], bool],
    ) -> Done:
        from console.services.triage.bulk_pace import BulkPace  # a list does without

        done: list[str] = []
        changed: list[tuple[str, str]] = []
        start, stopped = 0, False
        pace = BulkPace(holds_all=self.store.info.dialect == "sqlite")
        while start < len(selection):
            if stop():
                stopped = True
                break
            chunk = Selection(selection.picks[start : start + pace.size])
            began = time.monotonic()
            result = await act(chunk, self.actor, replace(why, at=self._clock()))  # type: ignore[misc]  # one of two store methods
            took = time.monotonic() - began
            held = took if result.held is None else result.held
            done += result.done
            changed += result.changed
            start += len(chunk)
            pace.next(held, contended=result.contended)
            if progress is not None:
                progress(start, len(selection))
            if start < len(selection):
                import asyncio  # the first rows are classified without a loop

                await asyncio.sleep(pace.pause_after(held, took - held))
        return Done(tuple(done), tuple(changed), stopped, why.operation)


def _stands_live(attempt: Attempt) -> bool:
    return attempt.outcome == "accepted" and attempt.mode == "live" and not attempt.rehearsal
