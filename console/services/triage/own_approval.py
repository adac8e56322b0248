"""Whether somebody may agree to what they asked for themselves: where the policy says so, after its delay. Pure."""

from __future__ import annotations

from typing import Literal

from console.settings.second_person import SecondPerson

OwnAnswer = Literal["may", "own", "untyped", "early"]
NAMES_KEY = 'alone on this store? its owner may say dlq policy set second_person="delay 60s"'

ALONE = "Working alone? See second_person in dlq policy."


def own_answer(second: SecondPerson, asked_ago: float, *, typed: bool) -> OwnAnswer:
    """What stands against the asker's own approval. That the request is still young enough is judged for everybody."""
    if second.delay is None:
        return "own"
    if not typed:
        return "untyped"
    return "may" if asked_ago >= second.delay else "early"


def own_counts(second: SecondPerson, asked_ago: float, approved_ago: float) -> bool:
    """Whether an approval by the asker counts: the policy says so now, and the delay had passed when it was given."""
    return second.delay is not None and asked_ago - approved_ago >= second.delay


def way_out(second: SecondPerson) -> str:
    """How somebody who is alone goes on; said wherever a second person is wanted."""
    if second.delay is None:
        return NAMES_KEY
    return f"or yourself, on a terminal, {second.delay} s after asking (the policy's second_person)"
