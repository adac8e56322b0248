"""What the chain says of attempts, notes, approvals, halt and policy, to compare the ledger's tables with. Pure.

Memory grows with what is open, not with the chain: what is done is added up, and only named if the sums differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backends.ledger.evidence import digest, moment_of, told
from backends.ledger.names import ASK_SECONDS
from backends.records import Chained, Halt, storable

ATTEMPT = (
    "source", "entry_id", "attempt_no", "mode", "venue", "client_order_id", "payload_hash", "rehearsal", "account",
    "key_digest", "operator", "os_user", "state", "holds", "venue_order_id", "error",
)  # fmt: skip
NOTE = ("source", "entry_id", "at", "operator", "text")
APPROVAL = (
    "plan_hash", "asked_by", "asked_at", "summary", "approved_by", "approved_at", "kind", "document", "request",
    "state", "asked_event", "approved_event",
)  # fmt: skip
Row = tuple[Any, ...]
_KIND = b'"kind":"'
_STATE, _HOLDS = ATTEMPT.index("state"), ATTEMPT.index("holds")
_REHEARSAL = ATTEMPT.index("rehearsal")
_HELD = ("submitting", "in_doubt", "accepted")
_OPEN = ("submitting", "in_doubt")
_ENDS = {"accepted": "accepted", "rejected": "rejected", "unknown": "in_doubt", "not_sent": "not_sent"}
_MOMENT = 0.001  # seconds: a time kept as a number


class ChainRecord:
    """Fed with the whole chain. With a `part` (which, of how many) it also keeps those done attempts and notes."""

    def __init__(self, part: tuple[int, int] | None = None) -> None:
        self._part = part
        self.open: dict[Row, Row] = {}
        self.done: dict[Row, Row] = {}
        self.done_sum = self.done_count = 0
        self.notes: Counter[Row] = Counter()
        self.notes_sum = self.notes_count = 0
        self.approvals: dict[str, dict[str, Any]] = {}
        self.halt: Halt | None = None
        self.switches: list[int] = []
        self.policy: dict[str, str] | None = None  # None: nobody ever set one
        self.odd: list[str] = []
        self._takes: Mapping[bytes, Callable[[int, Mapping[str, Any]], None]] = {
            b"intent": self._intent,
            b"outcome": self._outcome,
            b"reconcile": self._outcome,
            b"note": self._note,
            b"halt": self._switch,
            b"resume": self._switch,
            b"ask-approval": self._ask,
            b"approve": self._approve,
            b"self-approved": self._approve,
            b"withdrawn": self._withdraw,
            b"policy": self._policy,
        }

    def feed(self, events: Sequence[Chained]) -> None:
        takes = self._takes
        for seq, body, _ in events:
            # The last one: what the database itself wrote stands behind what it was told.
            at = body.rfind(_KIND) + len(_KIND)
            take = takes.get(body[at : body.find(b'"', at)])
            if take is not None:
                try:
                    take(seq, told(body))
                except (KeyError, IndexError, TypeError, ValueError, AttributeError):
                    self.odd.append(f"event {seq} cannot be read")

    def _intent(self, _: int, event: Mapping[str, Any]) -> None:
        key, who = _key(event), event["who"]
        rehearsal = int(bool(event.get("rehearsal")))
        sent = (_text(event.get("mode")), _text(event.get("venue")), _text(event.get("client_order_id")) or "")
        used = (
            _text(event.get("payload_hash")),
            rehearsal,
            _text(event.get("account")),
            _text(event.get("key_digest")),
        )
        by = (_text(who.get("operator")), _text(who.get("os_user")))
        self.open[key] = (*key, *sent, *used, *by, "submitting", None if rehearsal else 1, None, None)

    def _outcome(self, seq: int, event: Mapping[str, Any]) -> None:
        key = _key(event)
        if event.get("origin") == "intent":
            self._intent(seq, event)  # the engine began it, and only its end is on record
        began = self.open.pop(key, None)
        if began is None:
            self.odd.append(f"event {seq} ends attempt {key[2]} of {key[1]}, which was not under way")
            return
        state = _ENDS[event["outcome"]]
        if state == "not_sent" and event["kind"] == "reconcile":
            state = "absent"
        # A message that went into an outbox is held by its row, not by its attempt.
        holds = 1 if state in _HELD and not began[_REHEARSAL] and "outbox" not in event else None
        row = (*began[:_STATE], state, holds, _text(event.get("venue_order_id")), _text(event.get("error")))
        if state in _OPEN:
            self.open[key] = row
        else:
            self.done_sum += hash(row)
            self.done_count += 1
            if self._part is not None and in_part(key, self._part):
                self.done[key] = row

    def _note(self, _: int, event: Mapping[str, Any]) -> None:
        operator = event["operator"] if "operator" in event else event["who"]["operator"]
        entry, text = _text(_first(event)), _text(event.get("note") or "")
        row = (_text(event["source"]), entry, event["at"], _text(operator), text)
        self.notes_sum += hash(row)
        self.notes_count += 1
        if self._part is not None and in_part(row, self._part):
            self.notes[row] += 1

    def _switch(self, seq: int, event: Mapping[str, Any]) -> None:
        self.switches.append(seq)
        self.halt = None
        if event["kind"] == "halt":
            operator = event["operator"] if "operator" in event else event["who"]["operator"]
            self.halt = Halt(str(event["at"]), _text(operator) or "", _text(event.get("note") or "") or "")

    def _ask(self, seq: int, event: Mapping[str, Any]) -> None:
        if "document" not in event:
            return  # of an earlier version: it has lapsed
        before, at = self.approvals.get(event["plan"]), moment_of(event)
        if (
            before
            and before["state"] == "open"
            and before["approved_at"] is not None
            and at is not None
            and at - before["approved_at"] <= ASK_SECONDS
        ):
            return
        asked = {"plan_hash": event["plan"], "asked_by": event.get("asker") or _os_user(event), "asked_at": at}
        kept = {"summary": event["summary"], "kind": event["asked_for"], "document": event["document"]}
        none = {"approved_by": None, "approved_at": None, "approved_event": None}
        self.approvals[event["plan"]] = {
            **asked, **kept, **none, "request": event["request"], "state": "open", "asked_event": seq,
        }  # fmt: skip

    def _approve(self, seq: int, event: Mapping[str, Any]) -> None:
        asked = self.approvals.get(event["plan"])
        if asked is not None and event.get("asked_event") == asked["asked_event"]:
            by = event.get("approver") or _os_user(event)
            asked.update(approved_by=by, approved_at=moment_of(event), approved_event=seq)

    def _withdraw(self, _: int, event: Mapping[str, Any]) -> None:
        asked = self.approvals.get(event["plan"])
        if asked is not None and event.get("asked_event") == asked["asked_event"]:
            asked["state"] = "withdrawn"

    def _policy(self, _: int, event: Mapping[str, Any]) -> None:
        self.policy = {str(key): str(value) for key, value in event["after"].items()}


def is_open(row: Row) -> bool:
    return row[_STATE] in _OPEN


def in_part(key: object, part: tuple[int, int]) -> bool:
    return hash(key) % part[1] == part[0]


def attempt_difference(row: Row | None, said: Row | None) -> str:
    """One line: what the table and the chain say of one attempt."""
    known = row or said
    assert known is not None, "one of the two says something"
    name = f"attempt {known[2]} of {known[1]}"
    if said is None:
        return f"{name}: the chain does not know it"
    if row is None:
        return f"{name}: the table has lost it; the chain says {said[_STATE]}"
    fields = [
        f"{field} is {_shown(has)}, the chain says {_shown(want)}"
        for field, has, want in zip(ATTEMPT, row, said, strict=True)
        if has != want
    ]
    return f"{name}: {'; '.join(fields)}"


def approval_differences(rows: Sequence[Row], record: ChainRecord) -> list[str]:
    found, left = [], dict(record.approvals)
    for row in rows:
        kept = dict(zip(APPROVAL, row, strict=True))
        said = left.pop(kept["plan_hash"], None)
        if said is None:
            if kept["state"] == "open":
                found.append(f"approval of plan {kept['plan_hash']}: the chain does not know it")
            continue
        kept |= {name: digest(kept[name]) for name in ("document", "request")}
        found += [
            f"approval of plan {kept['plan_hash']}: {name} is {_shown(kept[name])}, the chain says {_shown(said[name])}"
            for name in APPROVAL
            if not _is_same(kept[name], said[name])
        ]
    return found + [f"approval of plan {plan}: the table has lost it" for plan in left]


def _is_same(has: object, want: object) -> bool:
    if isinstance(has, float) and isinstance(want, float):
        return abs(has - want) < _MOMENT
    return has == want


def halt_difference(rows: Sequence[Row], said: Halt | None) -> str | None:
    has = [Halt(*row) for row in rows]
    if has == ([] if said is None else [said]):
        return None
    if said is None:
        return "halt: the table says it is set, the chain says it was lifted"
    in_force = f"halt: the chain says it is set since {said.since} by {said.operator}"
    return f"{in_force}, {'the table has a different one' if has else 'the table has lost it'}"


def policy_differences(rows: Mapping[str, str], said: Mapping[str, str] | None) -> list[str]:
    want = said or {}
    keys = sorted(key for key in {*rows, *want} if rows.get(key) != want.get(key))
    return [f"policy {key}: is {_shown(rows.get(key))}, the chain says {_shown(want.get(key))}" for key in keys]


def _shown(value: object) -> str:
    return "none" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def _key(event: Mapping[str, Any]) -> Row:
    return (_text(event["source"]) or "", _text(_first(event)) or "", int(event["attempt_no"]))


def _first(event: Mapping[str, Any]) -> object:
    first = event["entries"][0]
    return first[0] if isinstance(first, list) else first


def _os_user(event: Mapping[str, Any]) -> str:
    return f"{_text(event['who']['os_user'])}|"


def _text(value: object) -> str | None:
    """The text as a column keeps it."""
    if type(value) is str and value.isascii() and "\0" not in value:
        return value  # as almost all are, and a chain has many
    return None if value is None else storable(str(value))
