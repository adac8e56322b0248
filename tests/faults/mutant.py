"""Planted bugs: consoles that are wrong in one way each, to see that the checker finds what it is there to find.

`python -m tests.faults.mutant` runs them all and prints what the checker said of each.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.faults import bug, checker
from tests.faults.cell import FORGETFUL, HOUSE, SECONDS, Scene
from tests.faults.child import Killer, forked, forked_together, reconciling, replaying
from tests.faults.ground import OTHER_SECRETS, SECRETS, Ground, forked_exchange, load
from tests.faults.stores import StoreCopy
from tests.support.session import ident
from venues import Accepted, Rejected, Unknown


@dataclass(frozen=True)
class Mutant:
    """`wrong` is done to the code of a console; `afterwards` to the store behind its back."""

    wrong: bug.Patch
    fault: str = ""
    before: str = ""
    point: str | None = None
    reconciles: bool = False
    swapped: bool = False  # another key answers when it is reconciled
    restored: bool = False  # before the last replay the store is what it was before the first
    venue: str = HOUSE
    replays: int = 1
    at_once: bool = False
    seconds: float = SECONDS * 3
    afterwards: bug.Patch | None = None
    phase: checker.Phase = "any"


MUTANTS: dict[str, Mutant] = {
    "none": Mutant(bug.nothing, replays=2, reconciles=True),
    "submit before intent": Mutant(bug.submit_before_intent),
    "submit before intent, killed": Mutant(bug.submit_before_intent, point="answered"),
    "fresh key after timeout": Mutant(bug.submit_again(bug.renamed), fault="accept_then_drop"),
    "retry after timeout": Mutant(bug.submit_again(lambda prepared: prepared), fault="drop_before_accept"),
    "unknown as rejected": Mutant(
        bug.outcome_as(Unknown, lambda _: Rejected("unknown", "no answer")), fault="accept_then_drop"
    ),
    "rejected as accepted": Mutant(bug.outcome_as(Rejected, lambda _: Accepted("ord_1")), fault="reject"),
    "no order id as accepted": Mutant(bug.outcome_as(Unknown, lambda _: Accepted("?")), fault="no_id_200"),
    # Both have asked the venue before either sends: without a claim, both do.
    "no claim": Mutant(bug.no_claim, fault="delay@lookup", seconds=0.25, replays=2, at_once=True),
    "outcome outside the transaction": Mutant(bug.outcome_outside_the_transaction),
    "no audit": Mutant(bug.no_audit),
    "dismisses what is in doubt": Mutant(bug.nothing, fault="accept_then_drop", afterwards=bug.dismiss_in_doubt),
    "loses an entry": Mutant(bug.nothing, afterwards=bug.lose_an_entry),
    "rewrites the audit": Mutant(bug.nothing, afterwards=bug.rewrite_the_audit),
    "counts a 429 as a retry": Mutant(bug.nothing, fault="http_429", afterwards=bug.retry_count_on_429),
    "reconcile submits": Mutant(bug.reconcile_submits, fault="drop_before_accept", reconciles=True),
    "absent too early": Mutant(bug.absent_too_early, fault="late_booking", reconciles=True),
    "a failed look-up as absent": Mutant(bug.failed_look_up_as_absent, fault="accept_then_drop", reconciles=True),
    "adopts a different order": Mutant(bug.adopts_a_different_order, before="different"),
    "never gives a claim back": Mutant(bug.never_gives_back, fault="http_500@lookup", phase="settled"),
    "sends other bytes": Mutant(bug.other_bytes),
    "another account as the same": Mutant(
        bug.another_account_as_the_same, fault="accept_then_drop", reconciles=True, swapped=True
    ),
    "forgets the account": Mutant(bug.forgets_the_account),
    "trusts a restored ledger": Mutant(bug.never_asks_first, venue=FORGETFUL, replays=2, restored=True),
    "none, restored": Mutant(bug.nothing, venue=FORGETFUL, replays=2, restored=True),
    "none, swapped": Mutant(bug.nothing, fault="accept_then_drop", reconciles=True, swapped=True),
}


def tried(name: str, folder: Path) -> list[str]:
    """What the checker says of a store and a venue that this bug was let loose on."""
    mutant = MUTANTS[name]
    folder.mkdir()
    with forked_exchange(folder / "venue.jsonl") as exchange:
        ground = Ground("sqlite", folder, exchange, "", {mutant.venue: SECRETS[mutant.venue]})
        ground.points(Scene(mutant.venue))  # the ledger is there from here on
        (number,) = ground._entries([Scene(mutant.venue)])
        fault, _, on = mutant.fault.partition("@")
        if mutant.before:
            exchange.place(symbol="T9", qty="9", side="buy", limit_price="1", client_order_id=f"cid-{number}")
        if fault:
            exchange.fault(fault, on=on or "new", times=mutant.replays, seconds=mutant.seconds)
        restored_after = _replayed(mutant, ground, (ident(number),))
        found = _reconciled(name, ground) if mutant.reconciles else []
        if mutant.afterwards:
            mutant.afterwards(ground)
        return [*found, *_verdict(ground, mutant, restored_after)]


def _replayed(mutant: Mutant, ground: Ground, ids: tuple[str, ...]) -> int:
    """The last request before the store was restored, where it was."""
    work = _mutated(mutant, ground, replaying(ground.where, ids, Killer(mutant.point, signal.SIGKILL)))
    if mutant.at_once:
        forked_together([work] * mutant.replays, log=ground.log)
        return 0
    copy, restored_after = StoreCopy(ground.target, ground.folder), 0
    for turn in range(mutant.replays):
        if mutant.restored and turn:
            restored_after = max(line["n"] for line in ground.requests())
            ground.fill(ids)
            copy.bring_back()
        forked(work, log=ground.log)
    return restored_after


def _reconciled(name: str, ground: Ground) -> list[str]:
    """What is wrong with what a reconciliation by another account changed."""
    mutant, where = MUTANTS[name], ground.where
    if name == "a failed look-up as absent":
        ground.exchange.fault("http_500", on="lookup")
    if mutant.swapped:
        where = replace(where, secrets={mutant.venue: OTHER_SECRETS[mutant.venue]})
    before = checker.read_store(ground.target)
    forked(_mutated(mutant, ground, reconciling(where)), log=ground.log)
    return checker.kept_by_another(before, checker.read_store(ground.target)) if mutant.swapped else []


def _mutated(mutant: Mutant, ground: Ground, work: Callable[[], int]) -> Callable[[], int]:
    def wrong() -> int:
        mutant.wrong(ground)
        return work()

    return wrong


def _verdict(ground: Ground, mutant: Mutant, restored_after: int) -> list[str]:
    ledger = checker.read_ledger(ground.where.ledger)
    if mutant.fault == "late_booking":
        while not any(line["type"] == "order" and line["symbol"] == "T2" for line in ledger):
            _ = ground.exchange.orders  # what is due is booked
            ledger = checker.read_ledger(ground.where.ledger)
    store = checker.read_store(ground.target)
    return checker.check(store, ledger, expected=2, phase=mutant.phase, restored_after=restored_after)


def main() -> int:
    for venue in sorted({mutant.venue for mutant in MUTANTS.values()}):
        load(venue)
    with tempfile.TemporaryDirectory(prefix="dlq-mutants-") as base:
        told = {name: tried(name, Path(base) / str(n)) for n, name in enumerate(MUTANTS)}
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
