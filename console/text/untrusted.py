"""Makes untrusted text inert: cuts it, then replaces every character that a terminal might act on by its code. Pure."""

from __future__ import annotations

import re
import sys
import unicodedata

from dlq_sink.values import number

_HARMLESS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"}) | {
    "Sm",
    "Sc",
    "Sk",
    "So",
    "Zs",
}
_MARKS = frozenset({"Mn", "Mc", "Me"})
# Invisible letters and marks whose width differs between terminals: fillers, joiners, variation selectors.
_UNSEEN = frozenset(
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, *range(0xFE00, 0xFE10), 0xFFA0)
) | frozenset(range(0xE0100, 0xE01F0))
_UNSEEN_ANYWHERE = re.compile(f"[{''.join(map(chr, sorted(_UNSEEN)))}]")
_PLAIN = re.compile(r"[\x20-\x7e]*")
_MARKS_PER_LETTER = 2


def safe(text: str, limit: int = 2000) -> str:
    """One line. Control, format, bidi, private and unassigned characters become `<1B>` or `<U+202E>`."""
    cut = text[: limit + 1]
    shown = cut if _PLAIN.fullmatch(cut) else _escaped(cut, keep="")
    return shown if len(text) <= limit else f"{shown[:limit]}…"


def safe_block(text: str, limit: int = 100_000) -> str:
    """Several lines: as `safe`, but keeps line ends and expands tabs."""
    cut = text[: limit + 1].replace("\r\n", "\n").replace("\t", "    ")
    shown = cut if _PLAIN.fullmatch(cut) else _escaped(cut, keep="\n")
    return shown if len(text) <= limit else f"{shown[:limit]}…"


def _escaped(text: str, *, keep: str) -> str:
    out: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        if ord(character) in _UNSEEN:
            out.append(code_of(character))
            continue
        if category in _MARKS and marks < _MARKS_PER_LETTER and out:
            marks += 1
            out.append(character)
            continue
        if category in _HARMLESS:
            marks = 0
            out.append(" " if category == "Zs" else character)
        elif character in keep:
            out.append(character)
        else:
            out.append(code_of(character))
    return "".join(out)


def code_of(character: str) -> str:
    point = ord(character)
    return f"<{point:02X}>" if point < 0x100 else f"<U+{point:04X}>"


def is_forbidden(character: str) -> bool:
    """Whether `safe` replaces this character by its code."""
    return unicodedata.category(character) not in _HARMLESS | _MARKS or ord(character) in _UNSEEN


def is_harmless(text: str) -> bool:
    """Whether `safe` would replace none of its characters."""
    return text.isprintable() and (text.isascii() or _UNSEEN_ANYWHERE.search(text) is None)


def forbidden_points() -> tuple[int, ...]:
    return tuple(point for point in range(sys.maxunicode + 1) if is_forbidden(chr(point)))


EMPTY = '""'  # an empty word in a message, which would otherwise read as a gap
_BEGINNING = re.compile(r"\s*[=+\-@＝＋－＠]")  # spreadsheets read the wide ones too


def inert(text: str) -> str:
    """The text as a cell that neither a terminal nor a spreadsheet acts on; a number stays one."""
    shown = text if is_harmless(text) else safe_block(text, len(text))
    return f"'{shown}" if _BEGINNING.match(shown) is not None and number(shown) is None else shown
