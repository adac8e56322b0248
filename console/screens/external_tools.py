"""Hands an entry's text to the clipboard, a pager or an editor. Changes no entry."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from textual.app import SuspendNotSupported

from console.render.entry import Shown, whole_text
from console.render.entry_json import whole_json
from console.render.line import line, trusted, untrusted
from console.screens.action_screen import ActingScreen
from console.terminal import clipboard


def copy(screen: ActingScreen) -> None:
    shown = screen.current()
    if shown is not None:
        screen.start(lambda: _copy(screen, shown.row.entry.id), group="copy", exclusive=True)


def copy_json(screen: ActingScreen) -> None:
    """Copy the entry as `dlq show --json` prints it."""
    shown = screen.current()
    if shown is not None and screen.attached_session() is not None:
        screen.start(lambda: _copy_json(screen, shown), group="copy", exclusive=True)


async def _copy_json(screen: ActingScreen, shown: Shown) -> None:
    session = screen.console.session
    history = await session.triage.history(shown.row.entry.id) if session is not None else None
    if history is not None:
        text = whole_json(history, shown.types, screen.console.now)
        await _copy(screen, text, told=f"{history.entry.entry.id} as JSON")


async def _copy(screen: ActingScreen, text: str, *, told: str = "") -> None:
    way = await clipboard.copy(text, os.environ)
    if way is None:
        screen.app.copy_to_clipboard(clipboard.plain(text))
        way = "the terminal, if it allows"
    screen.show_notice(line(trusted(f"copied to {way}: ", "good"), untrusted(told or text, limit=200)))


def pager(screen: ActingScreen) -> None:
    _hand_to(screen, os.environ.get("PAGER") or "less", "PAGER")


def editor(screen: ActingScreen) -> None:
    _hand_to(screen, os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi", "EDITOR")


def _hand_to(screen: ActingScreen, program: str, variable: str) -> None:
    """Open a copy of the whole text; edits to the copy are discarded."""
    shown = screen.current()
    if shown is None:
        return
    with tempfile.TemporaryDirectory(prefix="dlq-") as folder:
        path = Path(folder) / "entry.txt"
        path.write_text(whole_text(shown, screen.console.now()), encoding="utf-8", errors="backslashreplace")
        try:
            with screen.app.suspend():
                subprocess.run([*shlex.split(program), str(path)], check=False)  # noqa: S603 - the operator's own program
        except (OSError, ValueError) as problem:
            screen.warn(f"{variable}={program} cannot be run: {problem}")
        except SuspendNotSupported:
            screen.warn("there is no terminal to hand over here")
