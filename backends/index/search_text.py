"""Which text of an entry is searched, and which trigrams a term requires. Pure."""

from __future__ import annotations

from backends.criterion import fold
from backends.layouts.roles import TableMemory, place_of, roles
from backends.records import Entry, readable

LONGEST = 65_536  # characters of one value that the index covers
GRAM = 3
_START = 2  # characters that a term without a trigram to ask for is looked up by
# Put behind every value, so that its last two characters also begin a trigram.
_SEAM = "\x1f\x1f"


def _places(layout: str, names: tuple[str, ...]) -> tuple[int, ...]:
    found = (place_of(names, name) for name in roles(layout, names).searched)
    return tuple(place for place in found if place >= 0)


_PLACES = TableMemory(_places)


def values(entry: Entry) -> list[str]:
    found: list[str] = []
    for place in _PLACES.of(entry.layout, entry.names):
        held = entry.values[place]
        if type(held) is str and held.isascii():  # nearly all are
            text = held
        else:
            text = "" if held is None else readable(held)
        if text:
            found.append(text)
    return found


def searchable(entry: Entry) -> str:
    """Folded as a filter folds: the index's own folding knows fewer alphabets.

    Of a traceback each word once: the index keeps no positions, and half of it repeats its other lines. So trigrams
    across a blank are lost, and nobody asks for them; those at either end of a word stay.
    """
    text = fold(_SEAM.join([text[:LONGEST] for text in values(entry)]))
    if "\n" in text:
        return f" {' '.join(dict.fromkeys(_plain(text).split(' ')))} {_SEAM}"
    return _plain(text) + _SEAM


def expression(terms: tuple[str, ...]) -> str:
    """Matches every entry with all these folded terms, and perhaps others. Ignores terms without a trigram."""
    grams = {gram for term in terms for gram in _grams(term)}
    return " AND ".join(quoted(gram) for gram in sorted(grams))


def beginning(term: str) -> str:
    """What a trigram of every entry with this folded term begins with, if `expression` ignores it; otherwise empty."""
    return "" if _grams(term) else _plain(readable(term))[:_START]


def _grams(term: str) -> list[str]:
    plain = _plain(readable(term))
    return [plain[at : at + GRAM] for at in range(len(plain) - GRAM + 1) if plain[at + 1] != " "]


def either(grams: list[str]) -> str:
    return "(" + " OR ".join(map(quoted, grams)) + ")"


def quoted(gram: str) -> str:
    return '"' + gram.replace('"', '""') + '"'


def _plain(text: str) -> str:
    return text.replace("\0", " ").replace("\n", " ")  # FTS5's tokenizer stops at a NUL; a new line parts words
