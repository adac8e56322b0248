"""How much of a store an answer covers, in words. Pure."""

from __future__ import annotations

from console.render.line import Line, line, trusted
from console.render.value import count


def coverage(found: int, covered: int, total: int | None, *, over: bool) -> Line:
    """`3 found · newest 40,000 of 1,000,000 searched`; `3 found` where everything was."""
    known = trusted(f"{count(found)} found", "strong" if found else "warning")
    if over:
        return line(known, trusted(" · everything was searched", "dim"))
    of = f" of {count(total)}" if total is not None and total > covered else ""
    return line(known, trusted(f" · newest {count(covered)}{of} searched", "dim"))
