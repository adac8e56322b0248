"""What stands of an entry and what to do next, from its state, its last attempt and only then its first error. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from backends.records import Attempt, AuditEvent, Entry, parse_time
from console.services.errors.category import classify
from console.services.layout_fields import layout_of, stored_error
from console.services.replay.outcome import spoken
from console.services.triage.marks import may_have_arrived
from console.services.triage.triage import UNKNOWN, ClassifiedEntry
from console.text.durations import long_age

Weight = Literal["plain", "good", "dim", "warning", "danger"]
KeyNames = Mapping[str, str]  # a key's id → how it is spelled on this keyboard
DEFAULT_KEYS: KeyNames = {
    "replay": "R", "dismiss": "D", "reconcile": "C", "settle": "S", "restore": "U", "groups": "f", "note": "N",
}  # fmt: skip
KEY_LETTERS = {letter: name for name, letter in DEFAULT_KEYS.items()}
# Rules whose errors say that nothing left the engine.
_UNSENT_RULES = frozenset({"tls", "not-submitted", "held-back", "breaker", "not-connected", "clock"})
_NAMED_KEY = re.compile(r"\(([A-Z])\)")
_ACTING_KEY = re.compile(r"(^|[,;:] )\(([A-Z])\)(?= (?:asks|settles))")  # the key is the sentence's subject
_VERB = re.compile(r"\b(replay|dismiss)\b(?! \(| asks)")


class Advice(NamedTuple):
    """`facts` may hold a venue's or an operator's words: untrusted."""

    verdict: str
    weight: Weight
    facts: tuple[str, ...]
    step: str


class EntryPast(NamedTuple):
    """What is known of an entry beside its row."""

    attempts: Sequence[Attempt] = ()
    events: Sequence[AuditEvent] = ()
    now: datetime | None = None


_NOTHING_KNOWN = EntryPast()


def advise(row: ClassifiedEntry, told: EntryPast = _NOTHING_KNOWN, keys: KeyNames = DEFAULT_KEYS) -> Advice:
    """The verdict, what it rests on, and the next step with the keys as they are on this keyboard."""
    if row.state == UNKNOWN:
        facts = ("whether it was sent again, dismissed or is in doubt: the ledger cannot be read",)
        return Advice("UNKNOWN", "warning", facts, "let an owner give this role the grants that dlq doctor prints")
    match row.entry.state:
        case "in_doubt":
            made = _in_doubt(row, told)
        case "in_flight":
            made = _in_flight(row, told)
        case "replayed":
            made = _replayed(row, told)
        case "dismissed":
            made = _dismissed(told)
        case "pending":
            made = _pending(row, told)
    return made._replace(step=_keyed(made.step, keys))


def next_step(row: ClassifiedEntry, attempts: Sequence[Attempt] = (), keys: KeyNames = DEFAULT_KEYS) -> str:
    return advise(row, EntryPast(attempts), keys).step


def _in_doubt(row: ClassifiedEntry, told: EntryPast) -> Advice:
    last, has_modes = _last(told.attempts, open_only=True), layout_of(row.entry).has_modes
    facts = _try(last, told.now, outcome=False, mode=has_modes) if last is not None else ()
    if not has_modes:
        step = "reconcile (C) or settle (S): a retry has no known end; nothing else until then"
        return Advice("IN DOUBT", "danger", facts, step)
    words = _newest_words(last, told.events)
    if words.startswith("conflict"):
        step = "another order has its id: look at the venue, then settle (S) by what you saw; (C) asks again"
        return Advice("IN DOUBT", "danger", (*facts, words), step)
    if "dlq secrets" in words:
        step = "fix the keys as said here; (C) asks the venue then; or look there and settle (S) by what you saw"
        return Advice("IN DOUBT", "danger", (*facts, words), step)
    if "cannot be asked" in words or "no credentials" in words:
        step = "the venue cannot be asked from here: look there, then settle (S) by what you saw"
        return Advice("IN DOUBT", "danger", (*facts, words), step)
    step = "(C) asks the venue, (S) settles it by what you saw; nothing else until then"
    return Advice("IN DOUBT", "danger", (*facts, words) if words else facts, step)


def _in_flight(row: ClassifiedEntry, told: EntryPast) -> Advice:
    last, has_modes = _last(told.attempts, open_only=True), layout_of(row.entry).has_modes
    facts = _try(last, told.now, outcome=False, mode=has_modes) if last is not None else ()
    ask = "(C) asks the venue, (S) settles it" if has_modes else "reconcile (C) or settle (S)"
    if last is not None and told.now is not None and last.lease_until and last.lease_until < told.now.timestamp():
        return Advice("IN FLIGHT", "warning", (*facts, "its owner is gone"), ask)
    return Advice("IN FLIGHT", "warning", facts, f"wait: it is being sent; if its owner is gone: {ask}")


def _replayed(row: ClassifiedEntry, told: EntryPast) -> Advice:
    accepted = [one for one in told.attempts if one.outcome == "accepted" and not one.rehearsal]
    fields = layout_of(row.entry)
    if not accepted:
        return Advice("REPLAYED", "good", (), "nothing to do: it was sent and accepted")
    last = next((one for one in accepted if one.mode == "live"), accepted[-1])
    order = (f"{fields.result} {last.venue_order_id}",) if last.venue_order_id else ()
    facts = (*order, *_try(last, told.now, outcome=False, mode=fields.has_modes))
    if not fields.has_modes:
        return Advice("REPLAYED", "good", facts, "nothing to do: it was handed over again")
    if all(one.mode == "paper" for one in accepted):
        return Advice("REPLAYED", "good", facts, "nothing to do: accepted on paper; restore (U) reopens it")
    return Advice("REPLAYED", "good", facts, "nothing to do: its order stands at the venue")


def _dismissed(told: EntryPast) -> Advice:
    step = "nothing to do; restore (U) takes the dismissal back"
    body = next((body for body in map(_body, reversed(told.events)) if body.get("kind") == "dismiss"), None)
    if body is None:
        return Advice("DISMISSED", "dim", ("not from this console",) if told.now is not None else (), step)
    who, at, note = body.get("who"), parse_time(body.get("at")), body.get("note")
    name = str(who.get("operator", "?")) if isinstance(who, dict) else "?"
    ago = f" {long_age(at, told.now)} ago" if at is not None and told.now is not None else ""
    why = str(body.get("reason") or "no reason")
    return Advice("DISMISSED", "dim", (f"by {name}{ago}", f"{why}: {note}" if note else why), step)


def _pending(row: ClassifiedEntry, told: EntryPast) -> Advice:
    fields = layout_of(row.entry)
    last = _last([one for one in told.attempts if not one.rehearsal])
    made = _first_error(row) if fields.has_modes else Advice("WAITS", "plain", (), fields.again)
    if last is not None and last.outcome in ("rejected", "not_sent", "accepted"):
        made = _after(row, last, made, told.now) if fields.has_modes else _handed_back(last, made, told.now)
    made = _rehearsed(made, _last(told.attempts), told.now)
    if row.poison is not None:
        step = f"{row.poison.text}: fix the cause, then restore (U) with a note clears the mark; or dismiss (D)"
        return Advice(made.verdict, "warning", (*made.facts, "poison"), step)
    stale = row.facts is not None and row.facts.has(row, "stale")
    return made._replace(facts=(*made.facts, "stale")) if stale else made


def _first_error(row: ClassifiedEntry) -> Advice:
    """Nobody tried it from here: the engine's error is all that is known."""
    read = classify(stored_error(row.entry))
    step = _named(read.note, row.entry) or "read the error, then replay (R) or dismiss (D)"
    if may_have_arrived(row):
        return Advice("MAY HAVE ARRIVED", "warning", (row.category,), step)
    if read.rule in _UNSENT_RULES or read.category == "transient":
        return Advice("NEVER SENT", "plain", (row.category,), step.removeprefix("never sent: "))
    # What is no matter of business may have been refused by the engine's own checks as well.
    refused = read.category == "business"
    return Advice("REFUSED BY THE VENUE" if refused else "NO ORDER STANDS", "plain", (row.category,), step)


def _after(row: ClassifiedEntry, last: Attempt, first: Advice, now: datetime | None) -> Advice:
    """After a try that ended, its answer counts and not the error before it."""
    read = classify(last.error or "")
    facts = (*first.facts[:1], *_try(last, now), *((last.error,) if last.error else ()))
    match last.outcome:
        case "accepted":
            step = "accepted on paper and taken back: replay (R) when it should go out again, or dismiss (D)"
            return Advice("RESTORED", "plain", facts, step)
        case "not_sent":
            later = read.rule in ("rate-limit", "paused", "breaker", "not-connected")
            step = read.note if later else "it is not at the venue: replay (R) sends it, or dismiss (D)"
            return Advice("NOT SENT", "plain", facts, step)
        case _:
            if read.rule == "credentials":
                return Advice("REFUSED BY THE VENUE", "warning", facts, _new_keys(row.entry, last))
            known = read.reach == "no" and read.rule != "unknown"
            step = read.note if known else "read the reason, then dismiss (D), or correct it at its source"
            return Advice("REFUSED BY THE VENUE", "warning", facts, step)


def _handed_back(last: Attempt, first: Advice, now: datetime | None) -> Advice:
    """A message or call that was tried again and came to nothing."""
    return first._replace(facts=(*_try(last, now, mode=False), *((last.error,) if last.error else ())))


def _rehearsed(made: Advice, last: Attempt | None, now: datetime | None) -> Advice:
    """A rehearsal changes nothing of the entry, but tells what would come."""
    if last is None or not last.rehearsal:
        return made
    facts = (*made.facts, *_try(last, now))
    match last.outcome:
        case "accepted":
            step = "rehearsed on paper and accepted: replay (R) in live when it should go out"
            return made._replace(facts=facts, step=step)
        case "unknown" | None:
            return made._replace(facts=facts, step="its rehearsal is in doubt: (C) asks the venue, (S) settles it")
        case _:
            return made._replace(facts=(*facts, *((last.error,) if last.error else ())))


def _last(attempts: Sequence[Attempt], *, open_only: bool = False) -> Attempt | None:
    """The newest attempt; with `open_only` the newest without a known end, the live one first."""
    if not open_only:
        return attempts[-1] if attempts else None
    held = [one for one in attempts if one.outcome in (None, "unknown") and not one.rehearsal]
    return next((one for one in reversed(held) if one.mode == "live"), held[-1] if held else None)


def _try(attempt: Attempt, now: datetime | None, *, outcome: bool = True, mode: bool = True) -> tuple[str, ...]:
    """`try 2 PAPER rejected 6m ago by oncall`"""
    at = parse_time(attempt.started_at)
    words = (
        f"try {attempt.attempt_no:d}",
        attempt.mode.upper() if mode else "",
        "rehearsal" if attempt.rehearsal else "",
        spoken(attempt.outcome) if outcome else "",
        f"{long_age(at, now)} ago" if at is not None and now is not None else "",
        f"by {attempt.operator}",
    )
    return (" ".join(filter(None, words)),)


def _newest_words(last: Attempt | None, events: Sequence[AuditEvent]) -> str:
    """What the last look-up or the attempt itself says of its end."""
    for body in map(_body, reversed(events)):
        if body.get("kind") == "lookup" and isinstance(body.get("note"), str):
            return str(body["note"]).removeprefix("look-up failed: ")
        if body.get("kind") in ("outcome", "settle", "intent", "late-outcome"):
            break
    return (last.error or "") if last is not None else ""


def _body(event: AuditEvent) -> Mapping[str, object]:
    try:
        body = json.loads(event.body)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _keyed(step: str, keys: KeyNames) -> str:
    """The step with this keyboard's keys: `(C) asks …` becomes `C asks …`, `replay` becomes `replay (R)`."""
    step = _VERB.sub(lambda found: f"{found[1]} ({DEFAULT_KEYS[found[1]]})", step, count=2)
    step = _ACTING_KEY.sub(lambda found: f"{found[1]}{_spelled(found[2], keys)}", step)
    return _NAMED_KEY.sub(lambda found: f"({_spelled(found[1], keys)})", step)


def _spelled(letter: str, keys: KeyNames) -> str:
    name = KEY_LETTERS.get(letter)
    return letter if name is None else keys.get(name, letter)


def _named(step: str, entry: Entry) -> str:
    """The step with the entry's venue and account in the commands it names."""
    if "VENUE" not in step:
        return step
    from console.text.shell import shell_word  # the first frame does without it

    venue, account = entry.text("venue_name"), entry.text("account_id")
    whose = f" --account {shell_word(account)}" if account and not account.startswith("-") else ""
    return step.replace("VENUE", f"{shell_word(venue)}{whose}") if venue else step


def _new_keys(entry: Entry, last: Attempt) -> str:
    from console.text.shell import set_command

    command = set_command(last.venue, entry.text("account_id") or None, "live" if last.mode == "live" else "paper")
    return f"the venue did not take the keys: {command} sets others; then replay (R)"


def difference(before: Attempt, after: Attempt, *, keeps_id: bool = True) -> str:
    """What changed between two attempts; "" where request and answer were the same.

    `keeps_id`: a further attempt carries the same id, so another one tells something. A call's key is always fresh.
    """
    changes = []
    if before.payload_hash != after.payload_hash:
        changes.append("another request")
    if keeps_id and before.client_order_id != after.client_order_id:
        changes.append("another client order id")
    if before.mode != after.mode:
        changes.append(f"{before.mode} → {after.mode}")
    if before.outcome != after.outcome:
        changes.append(f"{spoken(before.outcome)} → {spoken(after.outcome)}")
    elif before.error != after.error:
        changes.append("another error")
    return ", ".join(changes)
