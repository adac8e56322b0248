"""Which text of an entry is searched, and which trigrams a term requires. Pure."""

from __future__ import annotations

from backends.criterion import fold
from backends.layouts.roles import roles
from backends.records import Entry, readable

LONGEST = 65_536  # characters of one value that the index covers
GRAM = 3
# Put behind every value, so that its last two characters also begin a trigram.
_SEAM = "\x1f\x1f"


def values(entry: Entry) -> tuple[str, ...]:
    searched = roles(entry.layout, entry.names).searched
    return tuple(text for text in (entry.text(name) for name in searched) if text)


def searchable(entry: Entry) -> str:
    """Folded as a filter folds: the index's own folding knows fewer alphabets."""
    return _SEAM.join(_plain(fold(text[:LONGEST])) for text in values(entry)) + _SEAM


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
