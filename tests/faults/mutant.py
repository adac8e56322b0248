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
from dataclasses import dataclass
from pathlib import Path

from tests.faults import bug, checker
from tests.faults.cell import SECONDS, Scene
from tests.faults.child import Killer, forked, forked_together, reconciling, replaying
from tests.faults.ground import Ground
from tests.support.exchange import in_process
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
}


def tried(name: str, folder: Path) -> list[str]:
    """What the checker says of a store and a venue that this bug was let loose on."""
    mutant = MUTANTS[name]
    folder.mkdir()
    with in_process(folder / "venue.jsonl") as exchange:
        ground = Ground("sqlite", folder, exchange, "", {"alpaca": {"api_key": "k", "secret_key": "s"}})
        ground.points(Scene())  # the ledger is there from here on
        number = ground._entry(Scene())
        fault, _, on = mutant.fault.partition("@")
        if mutant.before:
            exchange.place(symbol="T9", qty="9", side="buy", limit_price="1", client_order_id=f"cid-{number}")
        if fault:
            exchange.fault(fault, on=on or "new", times=mutant.replays, seconds=mutant.seconds)
        killer = Killer(mutant.point, signal.SIGKILL)
        work = _mutated(mutant, ground, replaying(ground.where, (ident(number),), killer))
        if mutant.at_once:
            forked_together([work] * mutant.replays, log=ground.log)
        else:
            for _ in range(mutant.replays):
                forked(work, log=ground.log)
        if mutant.reconciles:
            if name == "a failed look-up as absent":
                exchange.fault("http_500", on="lookup")
            forked(_mutated(mutant, ground, reconciling(ground.where)), log=ground.log)
        if mutant.afterwards:
            mutant.afterwards(ground)
        return _verdict(ground, mutant)


def _mutated(mutant: Mutant, ground: Ground, work: Callable[[], int]) -> Callable[[], int]:
    def wrong() -> int:
        mutant.wrong(ground)
        return work()

    return wrong


def _verdict(ground: Ground, mutant: Mutant) -> list[str]:
    ledger = checker.read_ledger(ground.where.ledger)
    if mutant.fault == "late_booking":
        while not any(line["type"] == "order" and line["symbol"] == "T2" for line in ledger):
            _ = ground.exchange.orders  # what is due is booked
            ledger = checker.read_ledger(ground.where.ledger)
    return checker.check(checker.read_store(ground.target), ledger, expected=2, phase=mutant.phase)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="dlq-mutants-") as base:
        told = {name: tried(name, Path(base) / str(n)) for n, name in enumerate(MUTANTS)}
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
