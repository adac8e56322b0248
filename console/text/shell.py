"""Names as words of a command, and the command that sets the secrets of a venue. Pure; knows no venue."""

from __future__ import annotations

import shlex
from typing import Literal


def shell_word(text: str) -> str:
    """The text as one word of a command, on one line."""
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_shell_character, text)) + "'"


def _shell_character(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if character.isprintable():
        return character
    escaped = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", escaped))


def set_command(venue: str, account: str | None, mode: Literal["paper", "live"]) -> str:
    """The command that sets these secrets."""
    if not account:
        return f"dlq secrets set {shell_word(venue)} --{mode}"
    between = "=" if account.startswith("-") else " "
    return f"dlq secrets set {shell_word(venue)} --account{between}{shell_word(account)} --{mode}"
