"""Removes control and format characters from everything that a widget paints.

Patches `Strip.render`, which sees every text before Textual adds its escapes. A second defence: renderers make texts
safe first. A test checks that the installed Textual still paints through here.
"""

from __future__ import annotations

import re

from rich.console import Console
from rich.segment import Segment
from textual.strip import Strip

from console.text.untrusted import is_forbidden

# Lines of these characters need no cleaning: printable ASCII and the signs that the console itself paints.
_USUAL = re.compile(r"[\x20-\x7e\u2500-\u25ff\u2190-\u21ff\u2026\u00b7\u2013\u2212\u00d7\u2713\u2717\u26a0]*")
_plain_render = Strip.render


def install() -> None:
    """Patch Textual; call it before the first frame."""
    Strip.render = _guarded_render  # type: ignore[method-assign]  # the one patch of a library class, pinned and tested


def is_installed() -> bool:
    return Strip.render is _guarded_render


def _guarded_render(self: Strip, console: Console) -> str:
    if self._render_cache is None and any(not _USUAL.fullmatch(segment.text) for segment in self._segments):
        self._segments = [_clean(segment) for segment in self._segments]
    return _plain_render(self, console)


def _clean(segment: Segment) -> Segment:
    text, style, control = segment
    if control:
        return Segment("", style)
    if _USUAL.fullmatch(text):
        return segment
    return Segment("".join("?" if is_forbidden(one) else one for one in text), style)
