"""Lets an engine on the same machine go first: which verbs step back, and how a process does. Loads nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise

# Verbs that go through whole stores and that no order waits for.
_READING = frozenset({"index", "audit", "groups", "export", "archive", "report", "check", "metrics"})
# On a server no engine waits for a lock of theirs; a file would be held the longer, the less its holder runs.
_ACTING = frozenset({"dismiss", "restore"})
_STEPS, _LAST = 10, 19
_BEFORE = os.getpriority(os.PRIO_PROCESS, 0)


def give_way_early(argv: Sequence[str]) -> None:
    """As far as the words alone tell, before the program loads: that takes much of the processor time of a verb."""
    target = next((held for word, held in pairwise(argv) if word == "--db"), None) or os.environ.get("DLQ_DB", "")
    if "--with-parent" not in argv:
        give_way(argv[0] if argv else None, lambda: target.startswith(("postgres://", "postgresql://")))


def give_way(verb: str | None, is_on_server: Callable[[], bool]) -> None:
    """A second time changes nothing."""
    if verb not in _READING and not (verb in _ACTING and is_on_server()):
        return
    with suppress(OSError):  # where that is forbidden, the verb runs like any other
        os.setpriority(os.PRIO_PROCESS, 0, min(_LAST, _BEFORE + _STEPS))
