"""The accounts of the account matrix: what an entry names, what is configured, and whose key may go out, if any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

KIND = "{kind}"  # stands for the venue's own name
DESK = "desk-b"  # a custom name with secrets of its own
BARE = "desk-x"  # a custom name without any
HEDGE, THIRD, MAIN, GHOST = "hedge", "third/eu-1.x", "main", "ghost"
Part = Literal["all", "first", "last", "split"]  # which fields of a set are kept; split: over two places
When = Literal["same", "other"]  # in which mode


@dataclass(frozen=True)
class Kept:
    """One set of secrets: at this venue, of this account, so much of it, in the cell's mode or the other one."""

    venue: str
    account: str | None
    part: Part = "all"
    mode: When = "same"


# Always there, in both modes: what a console that reaches for another account would find.
DECOYS = tuple(
    Kept(venue, account, mode=mode)
    for mode in ("same", "other")
    for venue, account in ((KIND, None), (KIND, HEDGE), (KIND, THIRD), (DESK, None), (DESK, HEDGE))
)


@dataclass(frozen=True)
class Who:
    name: str
    account: str | None
    goes_as: tuple[str, str | None] | None  # whose credentials go out; None: refused
    venue: str = KIND
    sets: tuple[Kept, ...] = ()  # over the decoys
    default: str | None = None  # the venue's default_account
    number: Literal["", "right", "wrong"] = ""  # the account number in the config
    remedies: tuple[str, ...] = ("dlq secrets set",)  # a refusal names these
    asks: bool = False  # though refused, its own key asks the venue whose account it is


_BOTH = ("dlq secrets set", "default_account = ")
_EITHER = ("dlq secrets set", "as it is the venue's default_account")
WHOS = (
    Who("own", None, (KIND, None)),
    Who("own beside a default", None, (KIND, None), default=MAIN),
    Who("default", MAIN, (KIND, None), default=MAIN),
    Who("default with a set of its own", MAIN, (KIND, MAIN), sets=(Kept(KIND, MAIN),), default=MAIN),
    Who("second", HEDGE, (KIND, HEDGE), default=MAIN),
    Who("third", THIRD, (KIND, THIRD)),
    Who("custom", HEDGE, (DESK, HEDGE), venue=DESK),
    Who("custom's own", None, (DESK, None), venue=DESK),
    Who("right number", HEDGE, (KIND, HEDGE), number="right"),
    Who("not the default", MAIN, None, remedies=_BOTH),
    Who("nowhere", GHOST, None, default=MAIN, remedies=_BOTH),
    Who("in capitals", HEDGE.upper(), None, remedies=_BOTH),
    Who("in the other mode", "solo", None, sets=(Kept(KIND, "solo", mode="other"),), remedies=_BOTH),
    Who("first field", "half", None, sets=(Kept(KIND, "half", "first"),), default=MAIN),
    Who("last field of the default", MAIN, None, sets=(Kept(KIND, MAIN, "last"),), default=MAIN),
    Who("first field of the venue's own", None, None, sets=(Kept(KIND, None, "first"),)),
    Who("over two places", "split", None, sets=(Kept(KIND, "split", "split"),)),
    Who("custom without secrets", None, None, venue=BARE),
    Who("custom's account without secrets", HEDGE, None, venue=BARE, remedies=_BOTH),
    Who("custom's default without secrets", MAIN, None, venue=BARE, default=MAIN, remedies=_EITHER),
    Who("custom named like an account's set", None, None, venue=f"{KIND}/{HEDGE}"),
    Who("custom named like an account's file", None, None, venue=f"{KIND}.{HEDGE}"),
    Who("wrong number", HEDGE, None, number="wrong", remedies=("_number = ",), asks=True),
)
