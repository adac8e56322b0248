"""What the word at the cursor of a filter line may become: field names, and values seen in this store. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from backends.filter_match import text_columns
from backends.layouts.roles import roles
from backends.records import STATES, Entry
from console.services.browse.filter_syntax import CATEGORIES, COMPARED, FIELDS
from console.services.browse.filter_words import quoted_if_needed
from console.services.triage.marks import MARKS

Seen = Mapping[str, Iterable[str]]  # field → values
_WORD = re.compile(r'(?:"(?:\\["\\]|[^"])*"?|[^\s"])*$')
_VALUE = re.compile(r"([!-]?)([A-Za-z][A-Za-z0-9_.]*):(?:.*,)?([^,]*)$", re.DOTALL)
_FIXED: Mapping[str, tuple[str, ...]] = {
    "state": (*STATES, "open", "all"),
    "category": CATEGORIES,
    "mark": MARKS,
    "verb": ("new", "replace", "cancel"),
}
_SEEN_FIELDS = ("venue", "account", "market", "side", "type", "queue", "provider", "tenant", "failure")
_MOST_VALUES = 500  # of one field: more would only make the list longer


def seen_values(entries: Iterable[Entry], extra: Seen) -> dict[str, list[str]]:
    """The values of these entries, by field, most frequent first."""
    counts: dict[str, dict[str, int]] = {name: dict.fromkeys(values, 0) for name, values in extra.items()}
    for entry in entries:
        role = roles(entry.layout, entry.names)
        for name in _SEEN_FIELDS:
            found = counts.setdefault(name, {})
            for column in text_columns(name, role):
                value = entry.text(column)
                if value and value.isprintable() and (value in found or len(found) < _MOST_VALUES):
                    found[value] = found.get(value, 0) + 1
    return {name: sorted(found, key=lambda value: (-found[value], value)) for name, found in counts.items()}


def completions(before: str, seen: Seen, fields: Iterable[str] = FIELDS) -> tuple[int, list[str]]:
    """(where the part to replace begins, what may stand there) for the text before the cursor."""
    found = _WORD.search(before)
    word = found[0] if found is not None else ""
    value = _VALUE.fullmatch(word)
    if value is not None:
        part = value[3].lstrip('"').casefold()
        known = _FIXED.get(value[2].lower()) or seen.get(value[2].lower(), ())
        fitting = [quoted_if_needed(one) for one in known if one.casefold().startswith(part)]
        return len(before) - len(value[3]), fitting
    bare = word.lstrip("!-") if word[:1] in ("!", "-") else word
    names = [f"{name}{'>' if name in COMPARED else ':'}" for name in fields if name.startswith(bare.lower())]
    return len(before) - len(bare), names if bare.isascii() and (bare.isidentifier() or not bare) else []
