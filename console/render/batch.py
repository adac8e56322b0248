"""Lines of a batch: how far it is, one row an order, and what became of the row under the cursor. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from backends.records import Entry
from console.render.line import HANG, Cell, Line, Tone, clip, fit, joined, line, spread, trusted, untrusted, width
from console.render.value import OUTCOMES, many, name, order
from console.services import layout_fields as of
from console.services.errors.summary import summarise
from console.services.replay.outcome import spoken
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.services.replay.background_run import RunProgress
    from console.services.replay.outcome import EntryOutcome

REAL = "real"  # the mode of a batch whose layout has neither paper nor live
_SHORTEST_BAR, _LONGEST_BAR = 4, 40
_FIRST = ("unknown", "rejected", "not_sent", "skipped", "refused", "accepted", "superseded")
_NEXT: Mapping[str, str] = {
    "unknown": "{reconcile} asks the venue, its order beside ours; {settle} settles by what you saw",
    "rejected": "read the reason, then dismiss",
    "not_sent": "nothing went out: replay again when the venue is ready",
    "skipped": "nothing went out",
    "refused": "nothing went out: see the reason",
}
_NEXT_REAL: Mapping[str, str] = {
    "unknown": "{reconcile} looks what is known of it; {settle} settles by what you saw",
    "rejected": "read the answer, then replay again or dismiss",
    "not_sent": "nothing went out: replay again later",
}
_NO_OUTCOME = "no outcome was told: the queue shows how it stands"


class ReportRow(NamedTuple):
    """An entry of the batch. `ended` is None for one that has no outcome yet."""

    entry_id: str
    ended: EntryOutcome | None
    entry: Entry | None  # None where it could not be read
    is_held: bool = False  # the plan kept it back
    is_full: bool = False  # only because the batch had no room
    is_unsent: bool = False  # it would have gone and did not


class ReportKeys(NamedTuple):
    """The keys as they are mapped here."""

    reconcile: str = "C"
    settle: str = "S"
    mark: str = "M"
    replay: str = "R"


def headline(run: RunProgress, size: int) -> Line:
    """`PAPER · stopped, 34 not sent  ████░░░░  16 of 50 sent`: the bar is what was sent of what would go."""
    kind = "rehearsal · " if run.scope.rehearsal else "reconcile · " if run.kind == "reconcile" else ""
    word = f"{kind}{_state_word(run)}"
    left = line(untrusted(run.mode.upper(), "strong", limit=20), trusted(f" · {word} "))
    done, planned = run.done, max(run.planned, run.done)
    sent = done - run.found
    told = f"{sent:,} of {planned:,} {'sent' if run.kind == 'replay' else 'settled'}"
    there = f", {run.found:,} there already" if run.found else ""
    right = line(trusted(f" {told}", "strong"), trusted(f"{there}  {run.seconds:.0f} s", "dim"))
    room = min(_LONGEST_BAR, size - width(left) - width(right) - 1)
    if room < _SHORTEST_BAR or not planned:
        return spread(left, right, size)
    filled = room * done // planned
    bar = (trusted("█" * filled, "accent"), trusted("░" * (room - filled), "dim"))
    return spread(left, (*bar, *right), size)


def _state_word(run: RunProgress) -> str:
    if not run.over:
        return "stopping" if run.stopping else "sending" if run.kind == "replay" else "asking"
    unsent = f", {len(run.unsent):,} not sent" if run.unsent else ""
    if run.problem:
        missing = len(run.missing)
        return f"ended early{unsent}{f', {missing:,} without an outcome' if missing else ''}"
    if run.stopping and (run.unsent or run.done < run.planned):
        return f"stopped{unsent}"
    return f"done{unsent}"


def head_lines(
    run: RunProgress, size: int, *, waiting: str, keys: ReportKeys, most: int, elsewhere: bool
) -> list[Line]:
    """The headline, the outcomes counted, what it waits for, and what can be done next. `most`: a batch's limit."""
    lines = [headline(run, size), clip(_counted(run), size)]
    if run.problem:
        lines.append(line(trusted("it ended early: ", "danger"), HANG, untrusted(run.problem, "danger", limit=300)))
    if waiting:
        lines.append(line(trusted("waiting  ", "warning"), HANG, untrusted(waiting, limit=300)))
    if elsewhere:
        lines.append(line(trusted("on another store: ", "warning"), untrusted(run.store, "strong", limit=60)))
    elif run.over and (hint := _next_steps(run, keys, most)):
        lines.append(line(trusted("→ ", "accent"), HANG, trusted(hint)))
    if run.scope.rehearsal and run.over:
        lines.append(line(trusted("A rehearsal: recorded, and every entry stays as it was.", "dim")))
    return lines


def _counted(run: RunProgress) -> Line:
    """`in doubt 1 · rejected 2 · not sent 34 · accepted 13 · held 2: stale 1, notional 1`"""
    unsent, held = run.unsent, run.held
    tally = Counter(one.outcome for one in run.landed if one.outcome in ("unknown", "rejected", "accepted"))
    parts: list[tuple[str, int, Tone]] = [
        (spoken(word), tally[word], OUTCOMES[word]) for word in ("unknown", "rejected")
    ]
    parts += [("not sent", len(unsent), "warning"), ("accepted", tally["accepted"], "good")]
    if run.kind == "reconcile":
        absent = run.tally["not_sent"]
        parts = [*parts[:2], ("absent", absent, "warning"), parts[3], ("left alone", run.tally["skipped"], "dim")]
    parts.append(("superseded", run.tally["superseded"], "dim"))
    if not run.over and run.missing:
        parts.append(("to go", len(run.missing), "dim"))
    shown = [line(trusted(f"{word} ", "dim"), trusted(f"{count:,}", tone)) for word, count, tone in parts if count]
    if held:
        why = Counter((one.detail or "").partition(":")[0] for one in held)
        reasons = ", ".join(f"{safe(code, 30)} {count:,}" for code, count in why.most_common(4) if code)
        shown.append(
            line(trusted("held ", "dim"), trusted(f"{len(held):,}", "warning"), trusted(f": {reasons}", "dim"))
        )
    return joined(shown, " · ") or line(trusted("nothing has landed yet", "dim"))


def _next_steps(run: RunProgress, keys: ReportKeys, most: int) -> str:
    steps = []
    if doubted := len(run.doubted):
        steps.append(f"{keys.reconcile} asks about {doubted:,} in doubt")
    if run.unsent:
        steps.append(f"{keys.mark} marks {len(run.unsent):,} not sent")
    elif run.held:
        steps.append(f"{keys.mark} marks {len(run.held):,} held")
    if left := len(run.left):
        of = f" of {left:,} left" if left > most else ""
        where = f" in {safe(run.scope.origin, 80)}" if run.scope.origin else ""
        steps.append(f"{keys.replay} plans the next {min(left, most):,}{of}{where}")
    return " · ".join(steps)


def report_rows(run: RunProgress) -> list[ReportRow]:
    """What needs a person first: in doubt, rejected, not sent; what the batch had no room for last."""
    from console.services.replay.background_run import is_full

    held, unsent = run.scope.held_ids, {id(one) for one in run.unsent}
    rows = [
        ReportRow(
            one.entry_id, one, run.entries.get(one.entry_id), one.entry_id in held, is_full(one), id(one) in unsent
        )
        for one in run.landed
    ]
    rows += [ReportRow(one, None, run.entries.get(one)) for one in run.missing]
    return sorted(rows, key=_rank)


def _rank(row: ReportRow) -> int:
    if row.is_full:
        return len(_FIRST) + 1
    return len(_FIRST) if row.ended is None else _index(row.ended.outcome)


def _index(outcome: str) -> int:
    return _FIRST.index(outcome) if outcome in _FIRST else len(_FIRST)


class _Widths(NamedTuple):
    order: int
    place: int
    detail: int


def _widths(size: int) -> _Widths:
    wanted, place = (27, 13) if size < 100 else (36, 18) if size < 150 else (48, 26)
    return _Widths(wanted, place, max(8, size - 1 - _OUTCOME - wanted - place - 4))


_OUTCOME = 11


def report_header(size: int, layout: str) -> Line:
    sizes, words = _widths(size), of.LAYOUTS[layout].words
    place = f"{words.origin} {words.whose}".strip().upper()
    titles = (fit(words.one.upper(), sizes.order), fit(place, sizes.place), fit("WHAT BECAME OF IT", sizes.detail))
    return line(trusted(f" {fit('OUTCOME', _OUTCOME)}{'  '.join(titles)}", "dim"))


def report_line(row: ReportRow, size: int, *, over: bool, kind: str = "replay") -> Line:
    """`in doubt   SELL 40 NVDA @ 118.20 day   alpaca main   no answer in 10 s`"""
    sizes, (word, tone) = _widths(size), _word(row, over=over, kind=kind)
    what = safe(row.entry_id, 60) if row.entry is None else order(row.entry, sizes.order)
    is_first = row.ended is not None and row.ended.outcome == "unknown"
    return (
        trusted(f" {fit(word, _OUTCOME)}", tone),
        Cell(f"{fit(what, sizes.order)}  ", "strong" if is_first else "plain"),
        Cell(f"{fit(place_of(row.entry), sizes.place)}  ", "dim"),
        Cell(fit(_short(row), sizes.detail), "plain" if is_first else "dim"),
    )


def _word(row: ReportRow, *, over: bool, kind: str) -> tuple[str, Tone]:
    if row.ended is None:
        return ("no outcome", "danger") if over else ("to go", "dim")
    outcome = row.ended.outcome
    if row.is_held and outcome == "refused":
        return "held", "dim" if row.is_full else "warning"
    if kind == "reconcile" and outcome == "not_sent":
        return "absent", "warning"
    if row.is_unsent and outcome == "skipped":
        return spoken("not_sent"), OUTCOMES["not_sent"]
    return spoken(outcome), OUTCOMES.get(outcome, "plain")


def place_of(entry: Entry | None) -> str:
    """`alpaca main`: where it goes, and with whose credentials."""
    if entry is None:
        return ""
    whose = entry.text("account_id") if of.layout_of(entry).has_modes else of.text(entry, "tenantId")
    return " ".join(part for part in (safe(of.origin(entry), 40), safe(whose, 40)) if part)


def _short(row: ReportRow) -> str:
    """What became of it, then what it made: of the two, the id can be cut."""
    if row.ended is None:
        return ""
    detail = safe(summarise(row.ended.detail or "").line, 400)
    return "  ".join(part for part in (detail, _made(row.ended)) if part)


def _made(ended: EntryOutcome) -> str:
    """What it made at the other side: `order 83ca1585`, `row 19`."""
    made = "row" if ended.mode is None else "order"
    return f"{made} {safe(ended.venue_order_id, 80)}" if ended.venue_order_id else ""


def story(row: ReportRow, run: RunProgress, *, whole: str, worth: str, keys: ReportKeys) -> list[Line]:
    """Everything about one row. `whole`: the order with all its terms; `worth`: what it is worth."""
    what = whole or (order(row.entry) if row.entry else safe(row.entry_id, 60))
    where = " · ".join(part for part in (worth, place_of(row.entry)) if part)
    word, tone = _word(row, over=run.over, kind=run.kind)
    lines = [line(trusted(what, "strong"), trusted(f" · {where}" if where else "", "dim"))]
    ended = row.ended
    if ended is None:
        lines.append(line(trusted(word, tone), trusted(f": {_NO_OUTCOME}" if run.over else "")))
    else:
        lines.append(line(trusted(word, tone), trusted(": " if ended.detail else ""), HANG, *_detail(ended)))
        known = (_made(ended), f"account {safe(ended.account, 40)}" if ended.account else "", *map(_note, ended.notes))
        lines += [line(trusted(text, "dim")) for text in [" · ".join(filter(None, known))] if text]
    ids = [safe(row.entry_id, 80)] if safe(row.entry_id, 80) != what else []
    if ended is not None and ended.client_order_id and ended.mode is not None:
        ids.append(f"client order id {name(ended.client_order_id)}")
    lines += [line(trusted(" · ".join(ids), "dim"))] if ids else []
    if ended is not None and (hint := _hint(row, run.mode, keys)):
        lines.append(line(trusted("→ ", "accent"), HANG, trusted(hint if run.over else f"after the batch: {hint}")))
    return lines


def _note(text: str) -> str:
    return safe(text, 200)


def _detail(ended: EntryOutcome) -> Iterable[Cell]:
    return (untrusted(ended.detail, limit=1000),) if ended.detail else ()


def _hint(row: ReportRow, mode: str, keys: ReportKeys) -> str:
    assert row.ended is not None  # only an outcome has a next step
    if row.is_full:
        return f"{keys.replay} plans the next batch"
    hints = {**_NEXT, **_NEXT_REAL} if mode == REAL else _NEXT
    return hints.get(row.ended.outcome, "").format(**keys._asdict())


def marked_words(unsent: int, held: int) -> str:
    """What was marked in the queue, and why those."""
    if unsent:
        return f"{many(unsent, 'entry')} not sent marked in the queue: esc goes there"
    return f"all were sent; {many(held, 'entry')} held marked in the queue: esc goes there"
