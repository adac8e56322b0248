"""What a venue says of entries' orders, as the answer panel shows it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from console.render import value
from console.render.line import HANG, Line, Tone, columns, line, trusted, untrusted
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.services.evidence.ask import VenueAnswer

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


def answer_lines(answers: Sequence[VenueAnswer], orders: Sequence[str]) -> list[Line]:
    """One answer in full, or a row for each of several. `orders`: what each entry is, in the same order."""
    if len(answers) == 1:
        return one_answer(answers[0], orders[0])
    lines: list[Line] = []
    for answer, order in zip(answers, orders, strict=True):
        lines += _row(answer, order)
    return lines


def one_answer(answer: VenueAnswer, order: str) -> list[Line]:
    rows: list[tuple[str, Line]] = [
        ("entry", line(untrusted(f"{answer.entry_id}  ", limit=60), trusted(order, "strong"))),
        ("answer", line(*_verdict(answer))),
    ]
    rows += [("differs", line(untrusted(text, "danger", limit=200))) for text in answer.differences]
    pairs = (
        ("status", answer.status),
        ("filled", None if answer.filled is None else value.quantity(answer.filled)),
        ("venue order id", answer.venue_order_id),
        ("client order id", answer.client_order_id),
        ("account", answer.account),
    )
    rows += [(name, line(untrusted(text or "–", limit=100))) for name, text in pairs]
    rows.append(("asked at", line(trusted(value.moment(answer.at)))))
    if answer.detail:
        rows.append(("detail", line(untrusted(answer.detail, "dim", limit=400))))
    return columns(rows)


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
        f"status {answer.status}" if answer.status else "",
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
