"""What a list says of an order beside its columns and its value: a stop, money in place of a quantity, an exit.

Pure. Reads an action only where its text may change the answer: a list has a million rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import NamedTuple

from backends.entry import Entry
from console.services.market.entry_value import holds
from console.text.untrusted import safe

# Parts of the names of terms that a line tells.
_TOLD = ("stop", "trigger", "notional", "cost")
_EXITS = ("reduce", "close")  # parts of the names and words that make an order an exit


class ToldTerms(NamedTuple):
    """The terms that a line tells, as stored."""

    stop: Decimal | None = None
    notional: Decimal | None = None


_NOTHING_TOLD = ToldTerms()


def is_exit(entry: Entry) -> bool:
    """Whether the action itself says that it only takes from a position."""
    text = entry.text("action_json")
    if not holds(text, _EXITS):
        return False
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return _reduces(document) or (isinstance(document, dict) and _reduces(document.get("params")))


def _reduces(document: object) -> bool:
    if not isinstance(document, dict):
        return False
    named = {key.lower().replace("_", "").replace("-", ""): held for key, held in document.items()}
    intent = str(named.get("positionintent", "")).lower()
    return str(named.get("reduceonly")).lower() in ("true", "1") or intent in ("buy_to_close", "sell_to_close")


def told_terms(entry: Entry) -> ToldTerms:
    """Read from the JSON alone, so that a line tells them of an order that cannot be sent, too."""
    text = entry.text("action_json")
    if not holds(text, _TOLD):
        return _NOTHING_TOLD
    from venues.json_fields import DocumentError, as_number, read_document

    try:
        document = read_document(text)
        found = {name: as_number(held) for name, held in _terms(document)}
    except DocumentError:
        return _NOTHING_TOLD
    return ToldTerms(found.get("stop_price", found.get("stop_loss_price")), found.get("notional"))


def _terms(document: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    from dlq_sink.terms import PARAMS, TERM_OF, fold, is_set

    for key, held in document.items():
        if (name := TERM_OF.get(fold(key))) in ("stop_price", "stop_loss_price", "notional") and is_set(name, held):
            yield name, held
        if fold(key) == PARAMS and isinstance(held, Mapping):
            yield from _terms(held)


def sender_text(entry: Entry) -> str:
    """Whose intent it is: `left open by engine-1 on desk9`."""
    owner, host = (safe(name, 80) for name in entry.sender)
    return f"left open by {owner or 'an engine that gave no name'}{f' on {host}' if host else ''}"
