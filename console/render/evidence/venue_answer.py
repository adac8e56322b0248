"""What a venue says of entries' orders, as the answer panel shows it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from console.render import value
from console.render.line import HANG, Line, Tone, columns, fit, line, trusted, untrusted
from console.services.triage.advice import DEFAULT_KEYS, KEY_LETTERS, KeyNames
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.services.evidence.ask import VenueAnswer

_KEY = re.compile(r"\b[CDRS]\b")
_WORDS: dict[str, tuple[str, Tone]] = {
    "found": ("found", "good"),
    "absent": ("absent", "strong"),
    "unknown": ("unknown", "warning"),
    "cannot-ask": ("cannot be asked", "warning"),
}
_MEANS = {
    "absent": "the venue has no such order",
    "unknown": "this answer proves nothing",
    "cannot-ask": "nothing was learnt",
}


def answer_lines(
    answers: Sequence[VenueAnswer], orders: Sequence[str], states: Sequence[str] = (), keys: KeyNames = DEFAULT_KEYS
) -> list[Line]:
    """One answer in full, or a row for each of several. `orders` and `states`: of each entry, in the same order."""
    if len(answers) == 1:
        return one_answer(answers[0], orders[0], states[0] if states else "", keys)
    lines: list[Line] = []
    for answer, order in zip(answers, orders, strict=True):
        lines += _row(answer, order)
    return lines


def one_answer(answer: VenueAnswer, order: str, state: str = "", keys: KeyNames = DEFAULT_KEYS) -> list[Line]:
    """The verdict, what can be done now, then the venue's order beside ours, and the facts."""
    rows: list[tuple[str, Line]] = [
        ("entry", line(untrusted(f"{answer.entry_id}  ", limit=60), trusted(order, "strong"))),
        ("answer", line(*_verdict(answer))),
    ]
    if then := _KEY.sub(lambda found: keys[KEY_LETTERS[found[0]]], next_text(answer, state)):
        rows.append(("→ next", line(trusted(then, "accent"))))
    named = {one.name for one in answer.compared if one.differs}
    unnamed = [text for text in answer.differences if text.partition(":")[0] not in named]
    rows += [("differs", line(untrusted(text, "danger", limit=200))) for text in unnamed]
    filled = "" if answer.filled is None else f", filled {value.quantity(answer.filled)}"
    pairs = (
        ("status", f"{_spoken(answer.status)}{filled}" if answer.status else None),
        ("venue order id", answer.venue_order_id),
        ("client order id", answer.client_order_id),
        ("account", answer.account),
    )
    rows += [(name, line(untrusted(text or "–", limit=100))) for name, text in pairs]
    rows.append(("asked at", line(trusted(value.moment(answer.at)))))
    if answer.detail:
        rows.append(("detail", line(untrusted(_detail(answer), "dim", limit=400))))
    head = 3 if then else 2
    return [*columns(rows[:head]), *_beside(answer), *columns(rows[head:])]


def _spoken(status: str) -> str:
    """A venue's word for a status, as people say it."""
    return status.replace("_", " ")


def _detail(answer: VenueAnswer) -> str:
    found = f"found: {answer.status}"
    return f"found: {_spoken(answer.status)}" if answer.status and answer.detail == found else answer.detail or ""


def next_text(answer: VenueAnswer, state: str) -> str:
    """What can be done now, and by which key."""
    held = state in ("in_doubt", "in_flight")
    conflict = answer.answer == "found" and answer.equal is False
    match answer.answer:
        case "found" if conflict and held:
            return "S settles it by what you saw: 1 if that order is this one, 2 if it is not"
        case "found" if conflict:
            return "D (handled-at-venue) if that order is this one; R stays refused while it has this id"
        case "found" if held:
            return "C settles it by this answer"
        case "found" if state == "pending":
            return "R settles it with this order: nothing is sent; or D (handled-at-venue)"
        case "absent" if state == "pending":
            return "R may send it"
        case "unknown" | "cannot-ask" if held:
            return "S settles it by what you saw at the venue; or C again later"
        case "unknown" if state == "pending":
            return "C again later; or look at the venue yourself, then R or D"
        case "cannot-ask" if state == "pending":
            return "fix what is named below, then C; or look at the venue yourself, then R or D"
    return ""


def _beside(answer: VenueAnswer) -> list[Line]:
    """Ours and the venue's, term by term; what differs carries a sign as well as a colour."""
    if not any(one.differs for one in answer.compared):
        same = ", ".join(
            safe(one.name, 30) for one in answer.compared if one.ours is not None and one.theirs is not None
        )
        return columns([("same", line(trusted(same)))]) if same else []
    cells = [(one.name, one.ours or "–", one.theirs or "–", one.differs) for one in answer.compared]
    name_size = max(len("order id"), *(len(name) for name, *_ in cells)) + 1
    size = min(26, max(len("this entry"), *(len(ours) for _, ours, *_ in cells)) + 2)
    lines: list[Line] = [
        (),
        line(trusted(f"   {fit('', name_size)}{fit('this entry', size)}at the venue", "dim")),
    ]
    for name, ours, theirs, differs in cells:
        tone: Tone = "danger" if differs else "plain"
        lines.append(
            line(
                trusted(" ≠ " if differs else "   ", "danger"),
                trusted(fit(safe(name, 30), name_size), "dim"),
                trusted(fit(safe(ours, 60), size), tone),
                HANG,
                trusted(safe(theirs, 60), tone),
            )
        )
    return [*lines, ()]


def _verdict(answer: VenueAnswer) -> Line:
    word, tone = _WORDS[answer.answer]
    if answer.answer != "found":
        return line(trusted(word, tone), trusted(f"   {_MEANS[answer.answer]}", "dim"))
    if answer.differences or answer.equal is False:
        return line(trusted(word, tone), trusted("   with other terms than the entry's", "danger"))
    return line(trusted(word, tone), trusted("   equal to the entry" if answer.equal else "", "good"))


def _row(answer: VenueAnswer, order: str) -> list[Line]:
    """The order on one line, beneath it what the venue says: the verdict, what is wrong, then the facts."""
    why = "; ".join(answer.differences) if answer.answer == "found" else answer.detail or ""
    facts = (
        f"status {_spoken(answer.status)}" if answer.status else "",
        f"filled {value.quantity(answer.filled)}" if answer.filled is not None else "",
        f"order {answer.venue_order_id}" if answer.venue_order_id else "",
        f"account {answer.account}" if answer.account else "",
    )
    word, tone = _WORDS[answer.answer]
    verdict = _verdict(answer) if answer.answer == "found" else line(trusted(word, tone))
    told = [safe(part, 200) for part in (why, " · ".join(part for part in facts if part)) if part]
    return [
        line(untrusted(f" {answer.entry_id}  ", limit=60), trusted(order, "strong")),
        line(trusted("   "), HANG, *verdict, trusted("".join(f"   {part}" for part in told), "dim")),
    ]
