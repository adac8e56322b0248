"""Hostile rows, and the check of what a terminal was sent: only Textual's own escapes, and no character that acts."""

from __future__ import annotations

import re
import sqlite3
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

from tests.support.orders import CAPTURED, sqlite_store

# By the Unicode database, not by the console's own list: control, format, surrogate, private, unassigned, separators.
_ACTING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Default-ignorable letters and marks: of no width, seen by nobody.
_INVISIBLE = frozenset(
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, *range(0xFE00, 0xFE10), 0xFFA0)
) | frozenset(range(0xE0100, 0xE01F0))
_OURS = re.compile(
    r"\x1b\[[0-9;]*m"  # colours
    r"|\x1b\[\d+;\d+H"  # to a cell
    r"|\x1b\[\?(?:1000|1003|1004|1006|1015|1016|1049|2004|2026|2048|25|7)[hl]"
    r"|\x1b\[\?(?:2026|2048)\$p"
    r"|\x1b\[[<>]\d*u"
    r"|\x1b\]22;(?:default|pointer|text)\x07"  # the mouse pointer's shape
)
_WORDS = (
    "[@click=app.quit]quit[/]",
    "[/red]",
    "[link=https://evil.example]here[/link]",
    "[bold red on white]",
    "[@click=app.bell()]ring",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b]0;owned\x07",
    "\x1b]8;;https://evil.example\x1b\\here\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[H\x1b[?1049l",
    '\x1bP$q"p\x1b\\',
    "\x9b31m\x9d0;owned\x9c",
    "\u202egnp.exe\u2066\u2069\u200f\u061c",
    "zero\u200b\u200c\u200d\ufeff\u2060width\u034f\ufe0f\U000e0101",
    "nul\0nul",
    "line\r\nline\rline\u2028\u2029\x0b\x0c\x85end",
    "a" + "\u0301" * 500,
    "漢字カナ한글🙂👩\u200d👩\u200d👧🇺🇳",
    "\U000f0000\ue000\U0010ffff\ufdd0",
    "{{7*7}} ${HOME} `id` $(id) %s%n",
)
_BROKEN = (b"\xed\xa0\x80lone\xed\xb0\x80", b"\xff\xfe\x80\xc0\xaf", b"cut\xe2\x80", b"\x00\xc2")
_COLUMNS = ("venue_name", "account_id", "market_id", "side", "order_type", "client_order_id", "error", "action_json")
_HUGE = 1_000_000


def acts(character: str) -> bool:
    return unicodedata.category(character) in _ACTING or ord(character) in _INVISIBLE


@cache
def _characters() -> list[str]:
    """Every control and format character; some of the private and unassigned ones."""
    wanted = {"Cc", "Cf", "Zl", "Zp"}
    points = [point for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point)) in wanted]
    return [chr(point) for point in (*points, *sorted(_INVISIBLE))]


def texts() -> Iterator[bytes]:
    """For ever: every word, every character between letters, and bytes that are no text."""
    characters = _characters()
    pieces = ["".join(f"x{one}" for one in characters[at : at + 12]) for at in range(0, len(characters), 12)]
    while True:
        yield from (word.encode() for word in _WORDS)
        yield from (piece.encode() for piece in pieces)
        yield from _BROKEN


def tag(number: int) -> str:
    return f"#{number:06d}"


def hostile_store(path: Path, count: int) -> None:
    """Each row hostile in every text column, its error with a tag before; some of a megabyte."""
    sqlite_store(path)
    names = ("dlq_id", "captured_at", "quantity", "price", *_COLUMNS)
    marks = ", ".join(["CAST(? AS TEXT)", "?", "?", "?"] + ["CAST(? AS TEXT)"] * len(_COLUMNS))
    source = texts()

    def rows() -> Iterator[tuple[object, ...]]:
        for number in range(count):
            values = {name: next(source) for name in _COLUMNS}
            values["error"] = tag(number).encode() + b" " + values["error"]
            if number % max(50, count // 200) == 7:
                values |= {name: values[name] + next(source) * (_HUGE // 20) for name in ("error", "action_json")}
                values = {name: value[:_HUGE] for name, value in values.items()}
            ident = b"%d " % number + next(source)
            yield ident, CAPTURED.isoformat(), 1.0, 2.0, *values.values()

    with closing(sqlite3.connect(path)) as connection:
        connection.executemany(f"INSERT INTO order_dlq ({', '.join(names)}) VALUES ({marks})", rows())
        connection.commit()


def forbidden(raw: bytes) -> list[str]:
    """What a terminal was sent that neither Textual nor a letter accounts for."""
    text = raw.decode()  # bytes that are no UTF-8 are an error in themselves
    left = _OURS.sub("", text)
    found = []
    for at, character in enumerate(left):
        if acts(character) and character not in "\r\n":
            found.append(f"U+{ord(character):04X} in {left[max(0, at - 20) : at + 20]!r}")
    return found
