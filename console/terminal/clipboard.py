"""Copies text with the desktop's clipboard programs. Where there is none, the caller asks the terminal."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Mapping

from console.text.untrusted import safe

_LONGEST = 200
_WAYS = (
    ("TMUX", "tmux", ("tmux", "load-buffer", "-w", "-")),
    ("WAYLAND_DISPLAY", "the clipboard", ("wl-copy",)),
    ("DISPLAY", "the clipboard", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", "the clipboard", ("xsel", "--clipboard", "--input")),
    ("", "the clipboard", ("pbcopy",)),
)


def plain(text: str) -> str:
    """The text without control characters, which could act where it is pasted."""
    return safe(text, _LONGEST)


async def copy(text: str, environ: Mapping[str, str]) -> str | None:
    """Name of the clipboard that took the text; None where no program did."""
    for variable, name, command in _WAYS:
        if (variable and not environ.get(variable)) or shutil.which(command[0]) is None:
            continue
        if await asyncio.to_thread(_run, command, plain(text)):
            return name
    return None


def _run(command: tuple[str, ...], text: str) -> bool:
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=2, check=False)  # noqa: S603 - fixed programs, the text goes in by stdin
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
