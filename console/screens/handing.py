"""Handing an entry's text out: to the clipboard, to a pager, to an editor. Changes nothing."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from textual.app import SuspendNotSupported

from console import clipboard
from console.render.entry import Shown, whole_text
from console.render.line import line, own, said
from console.screens.framed import FramedScreen


class HandingScreen(FramedScreen):
    def current(self) -> Shown | None:
        """The entry at hand, as far as it is known."""
        raise NotImplementedError

    def do_copy(self) -> None:
        shown = self.current()
        if shown is not None:
            self.start(lambda: self._copy(shown.row.entry.id), group="copy", exclusive=True)

    async def _copy(self, text: str) -> None:
        way = await clipboard.copy(text, os.environ)
        if way is None:
            self.app.copy_to_clipboard(clipboard.plain(text))
            way = "the terminal, if it allows"
        self.tell(line(own(f"copied to {way}: ", "good"), said(text, limit=200)))

    def do_pager(self) -> None:
        self._hand_to(os.environ.get("PAGER") or "less", "PAGER")

    def do_editor(self) -> None:
        self._hand_to(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi", "EDITOR")

    def _hand_to(self, program: str, variable: str) -> None:
        """A copy of the whole text; what is done to the copy changes nothing."""
        shown = self.current()
        if shown is None:
            return
        with tempfile.TemporaryDirectory(prefix="dlq-") as folder:
            path = Path(folder) / "entry.txt"
            path.write_text(whole_text(shown, self.console.now()), encoding="utf-8", errors="backslashreplace")
            try:
                with self.app.suspend():
                    subprocess.run([*shlex.split(program), str(path)], check=False)  # noqa: S603 - the operator's own program
            except (OSError, ValueError) as problem:
                self.complain(f"{variable}={program} cannot be run: {problem}")
            except SuspendNotSupported:
                self.complain("there is no terminal to hand over here")
