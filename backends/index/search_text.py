"""Which text of an entry is searched, and which trigrams a term requires. Pure."""

from __future__ import annotations

from backends.criterion import fold
from backends.layouts.roles import TableMemory, place_of, roles
from backends.records import Entry, readable

LONGEST = 65_536  # characters of one value that the index covers
GRAM = 3
# Put behind every value, so that its last two characters also begin a trigram.
_SEAM = "\x1f\x1f"


def _places(layout: str, names: tuple[str, ...]) -> tuple[int, ...]:
    found = (place_of(names, name) for name in roles(layout, names).searched)
    return tuple(place for place in found if place >= 0)


_PLACES = TableMemory(_places)


def values(entry: Entry) -> list[str]:
    held = map(entry.values.__getitem__, _PLACES.of(entry.layout, entry.names))
    return [text for value in held if value is not None and (text := readable(value))]


def searchable(entry: Entry) -> str:
    """Folded as a filter folds: the index's own folding knows fewer alphabets."""
    return _plain(fold(_SEAM.join([text[:LONGEST] for text in values(entry)]))) + _SEAM


def expression(terms: tuple[str, ...]) -> str:
    """Matches every entry with all these folded terms, and perhaps others. Ignores terms under three characters."""
    plain = [_plain(readable(term)) for term in terms]
    grams = {term[at : at + GRAM] for term in plain for at in range(len(term) - GRAM + 1)}
    return " AND ".join(quoted(gram) for gram in sorted(grams))


def either(grams: list[str]) -> str:
    return "(" + " OR ".join(map(quoted, grams)) + ")"


def quoted(gram: str) -> str:
    return '"' + gram.replace('"', '""') + '"'


def _plain(text: str) -> str:
    return text.replace("\0", " ")  # FTS5's tokenizer stops at a NUL
