"""A long text as a pane shows it: made safe, and cut where a pane would choke on it. Pure."""

from __future__ import annotations

from console.render.line import Line, block, line, trusted
from console.text.untrusted import safe_block

LONGEST = 20_000  # characters of one text in a pane; the pager has it whole


def body(text: str) -> list[Line]:
    lines = block(safe_block(text, LONGEST))
    if len(text) > LONGEST:
        rest = len(text) - LONGEST
        lines.append(line(trusted(f"… {rest:,} more characters: p shows them all in a pager", "dim")))
    return lines
