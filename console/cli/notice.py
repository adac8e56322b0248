"""Messages to people, on stderr. A terminal that is gone stops nothing; no target is repeated: some hold passwords."""

from __future__ import annotations

import sys
from contextlib import suppress

from console.text.untrusted import safe


def say(message: str) -> None:
    with suppress(OSError):
        print(f"dlq: {message}", file=sys.stderr, flush=True)


def say_second(why: str, plan_hash: str) -> None:
    """What a second person has to do, and the line that scripts look for."""
    say(f"a second person must approve ({safe(why)}): dlq approve {plan_hash}, on the same store")
    with suppress(OSError):
        print(f"plan {plan_hash}", file=sys.stderr, flush=True)
