"""The account matrix: account × venue × verb, in paper and live, with venues that know whose key every request carried.

`python -m tests.faults.account_matrix [--cells N]` runs it and prints its figures; exit 1 on a violation.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from backends import open_store
from tests.faults.account_ibkr import GatewayCell, gateway_cells, run_gateway_cell
from tests.support.account_desk import AccountDesk, Place, Secret, Venues, shape, stand, venues
from tests.support.account_faces import Act, Face, Told, act_on, own_secrets
from tests.support.account_keys import Owner, account_at
from tests.support.account_who import BARE, DECOYS, DESK, GHOST, HEDGE, KIND, THIRD, WHOS, Kept, Who
from tests.support.orders import row, sqlite_store
from tests.support.parity import apart
from tests.support.session import ident
from venues import Mode, venue_profile

KINDS = ("alpaca", "kalshi", "ccxt:binance", "hyperliquid", "polymarket")
VERBS = ("new", "found", "replace", "cancel", "reconcile", "ask")
BATCHES = (
    "several accounts",
    "one id, two accounts",
    "keys swapped before the send",
    "keys swapped before the reconcile",
    "to another venue",
    "to a venue without secrets",
    "to another venue from an account that its own does not know",
)
_SWAPPED = "keys swapped before the send"
_LACKS = {"polymarket": ("found", "replace", *BATCHES[4:])}  # it knows no client order ids
_MODES: tuple[Mode, ...] = ("paper", "live")


@dataclass(frozen=True)
class AccountCell:
    kind: str
    who: Who
    verb: str
    mode: Mode
    place: Place
    face: Face

    def __str__(self) -> str:
        return f"{self.kind} {self.who.name}: {self.verb} {self.mode} {self.place} {self.face}"


@dataclass(frozen=True)
class BatchCell:
    kind: str
    what: str
    mode: Mode
    place: Place
    face: Face

    def __str__(self) -> str:
        return f"{self.kind} {self.what} {self.mode} {self.place} {self.face}"


Cell = AccountCell | BatchCell | GatewayCell


def cells() -> list[Cell]:
    """Every account with every verb at every venue in every mode; places and faces take turns."""
    made: list[Cell] = []
    for kind, mode in _venues_and_modes():
        for who in WHOS:
            for verb in (one for one in VERBS if one not in _LACKS.get(kind, ())):
                place, face = _turn(len(made))
                made.append(AccountCell(kind, who, verb, mode, "files" if _is_split(who) else place, face))
        for what in (one for one in BATCHES if one not in _LACKS.get(kind, ())):
            faces: tuple[Face, ...] = ("session",) if what == _SWAPPED else ("session", "command")
            made += [BatchCell(kind, what, mode, _turn(len(made))[0], face) for face in faces]
    return [*made, *gateway_cells()]


def _venues_and_modes() -> list[tuple[str, Mode]]:
    return [(kind, mode) for kind in KINDS for mode in _MODES if mode == "live" or kind != "polymarket"]


def _turn(number: int) -> tuple[Place, Face]:
    return ("keyring" if number % 2 else "files"), ("command" if number % 3 == 0 else "session")


def _is_split(who: Who) -> bool:
    return any(kept.part == "split" for kept in who.sets)


@dataclass
class Figures:
    cells: int = 0
    requests: int = 0
    foreign: int = 0
    refused: int = 0  # cells in which nothing may go out
    violations: list[str] = field(default_factory=list)


class Ground:
    """One store at every venue, for one cell; what is wrong in it is gathered in `wrong`."""

    def __init__(self, there: Venues, cell: AccountCell | BatchCell, folder: Path, number: int) -> None:
        self.there = there
        self.kind, self.mode, self.place, self.face = cell.kind, cell.mode, cell.place, cell.face
        self.who = cell.who if isinstance(cell, AccountCell) else WHOS[0]
        self.number = number
        self.wrong: list[str] = []
        self.rows: list[dict[str, Any]] = []
        self.desk = AccountDesk(folder, str(folder / "orders.db"))
        self.desk.venues = self._venues()

    def named(self, venue: str) -> str:
        return venue.replace(KIND, self.kind)

    def owner(self, venue: str, account: str | None, turn: int = 0) -> Owner:
        return Owner(self.kind, self.named(venue), account, self.mode, turn)

    def _venues(self) -> dict[str, dict[str, Any]]:
        url = self.there.url(self.kind)
        common = {"paper_endpoint": url, "live_endpoint": url, "timeout": 10.0}
        common |= {"rate_per_minute": 60_000, "visibility_seconds": 0}
        names = dict.fromkeys((self.kind, DESK, BARE, self.named(self.who.venue)))
        made = {name: common | ({} if name == self.kind else {"type": self.kind}) for name in names}
        if self.who.default is not None:
            made[self.named(self.who.venue)]["default_account"] = self.who.default
        if self.who.number:
            right = account_at(self.owner(KIND, HEDGE))
            number = right if self.who.number == "right" else account_at(self.owner(KIND, THIRD))
            made[self.kind]["accounts"] = {HEDGE: {f"{self.mode}_number": number}}
        return made

    def secrets(self, *kept: Kept, renewed: Iterable[tuple[str, str | None]] = ()) -> list[Secret]:
        """The decoys, and these over them; `renewed` accounts have other keys than before."""
        by_set = {(one.venue, one.account, one.mode): one for one in (*DECOYS, *kept)}
        found: list[Secret] = []
        for one in by_set.values():
            mode = self.mode if one.mode == "same" else _MODES[self.mode == "paper"]
            turn = int((one.venue, one.account) in renewed)
            owner = Owner(self.kind, self.named(one.venue), one.account, mode, turn)
            found += self._parts(owner, one)
        return found

    def _parts(self, owner: Owner, kept: Kept) -> Iterator[Secret]:
        fields = list(self.there.witness.meet(owner).items())
        wanted = {"first": fields[:1], "last": fields[-1:]}.get(kept.part, fields)
        for n, (name, value) in enumerate(wanted):
            place: Place = "keyring" if kept.part == "split" and n else self.place
            yield Secret(owner.venue, owner.account, owner.mode, name, value, place)

    def entry(self, account: str | None, venue: str = KIND, **action: object) -> str:
        number = self.number + len(self.rows)
        told = shape(self.kind, number)
        document = {name: told[name] for name in ("market_id", "quantity", "price")} | {"side": "buy"}
        document |= {"time_in_force": "gtc"} | action
        given = {"venue_name": self.named(venue), "account_id": account, "action_json": json.dumps(document)}
        self.rows.append(row(number, captured_at=datetime.now(UTC), **told, **given))
        return ident(number)

    def open(self) -> None:
        sqlite_store(Path(self.desk.target), self.rows)

    def act(self, verb: Any, *ids: str, **more: Any) -> dict[str, Told]:
        return act_on(self.desk, Act(verb, ids, self.mode, **more), self.face)

    def state(self, entry_id: str) -> str:
        async def look() -> str:
            store = await open_store(self.desk.target)
            try:
                entry = await store.get(entry_id)
                return entry.state if entry else "gone"
            finally:
                await store.aclose()

        return apart(look())

    # What must hold.

    def expect(self, holds: bool, text: str) -> None:
        if not holds:
            self.wrong.append(text)

    def ends(self, told: Told, word: str, state: str) -> None:
        now = self.state(told.entry_id)
        self.expect((told.word, now) == (word, state), f"{told.word}, {now}, not {word}, {state}: {told.detail}")

    def carried_only(self, *owners: Owner) -> int:
        """How many requests carried another key than these."""
        allowed = {str(one) for one in owners}
        foreign = [one for one in self.there.heard if one.owners - allowed]
        self.wrong += [f"{one.method} {one.path} carried {', '.join(sorted(one.owners))}" for one in foreign]
        return len(foreign)

    def sent(self, *owners: Owner) -> None:
        """Exactly these sent what changes an order, once each."""
        found = sorted(name for one in self.there.heard if one.changes for name in one.owners)
        self.expect(found == sorted(map(str, owners)), f"sent by {found}, not by {sorted(map(str, owners))}")


# One account, one verb.


def run_account_cell(ground: Ground, cell: AccountCell) -> int:
    """How many requests carried a foreign key."""
    goes, who = _goes(cell), cell.who
    owner = ground.owner(*goes) if goes else None
    aim = stand(ground.there, _holder(ground, cell, owner), ground.number, **_aimed_at(cell, ground.number))
    action: dict[str, object] = {}
    if cell.verb in ("replace", "cancel"):
        action = {"action": cell.verb, "venue_order_id": aim}
    entry_id = ground.entry(who.account, who.venue, **action)
    ground.open()
    if cell.verb == "reconcile":
        _left_in_doubt(ground, cell, entry_id)
    ground.desk.put(ground.secrets(*who.sets))
    ground.there.forget()
    verb = cell.verb if cell.verb in ("reconcile", "ask") else "replay"
    told = ground.act(verb, entry_id)[entry_id]
    if owner is None:
        return _nothing_went(ground, cell, told)
    _went(ground, cell, told, owner)
    return ground.carried_only(owner)


def _goes(cell: AccountCell) -> tuple[str, str | None] | None:
    """A number in the config counts only where the venue tells its account."""
    who = cell.who
    if who.number == "wrong" and not venue_profile(cell.kind).tells_account:
        return KIND, HEDGE
    return who.goes_as


def _holder(ground: Ground, cell: AccountCell, owner: Owner | None) -> Owner:
    """In whose account such an order stands: its own, or, where it must not be found, another one's."""
    if owner is None:
        return ground.owner(KIND, THIRD if cell.verb == "reconcile" else None)
    if cell.verb not in ("new", "reconcile"):
        return owner
    return ground.owner(KIND, THIRD if owner.account == HEDGE else HEDGE)


def _aimed_at(cell: AccountCell, number: int) -> dict[str, object]:
    """What is replaced or cancelled has another size and client order id than the entry."""
    if cell.verb not in ("replace", "cancel"):
        return {}
    other = shape(cell.kind, number + 3)
    return {"quantity": float(other["quantity"]), "client_order_id": other["client_order_id"]}


def _left_in_doubt(ground: Ground, cell: AccountCell, entry_id: str) -> None:
    """An attempt whose answer was lost, sent while this account had all its keys."""
    who, numbered = cell.who, ground.desk.venues
    if _goes(cell) is None:
        ground.desk.venues = {name: _without_number(settings) for name, settings in numbered.items()}
        ground.desk.put(ground.secrets(*who.sets, Kept(who.venue, who.account)))
    else:
        ground.desk.put(ground.secrets(*who.sets))
    ground.there.fault(ground.kind, "accept_then_drop", "new")
    told = ground.act("replay", entry_id)[entry_id]
    ground.ends(told, "unknown", "in_doubt")
    ground.desk.venues = numbered


def _without_number(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "accounts"}


def _nothing_went(ground: Ground, cell: AccountCell, told: Told) -> int:
    who, heard = cell.who, ground.there.heard
    ground.expect(who.asks or not heard, f"{len(heard)} requests for an account that has no credentials")
    ground.sent()
    for remedy in who.remedies:
        ground.expect(remedy in told.detail, f"{remedy!r} is not named: {told.detail}")
    match cell.verb:
        case "reconcile":
            ground.ends(told, "unknown", "in_doubt")
        case "ask":
            ground.ends(told, "cannot-ask", "pending")
        case _:
            ground.ends(told, "refused", "pending")
            ground.expect("unknown-account: " in told.detail, f"refused otherwise: {told.detail}")
    return ground.carried_only(ground.owner(who.venue, who.account))


def _went(ground: Ground, cell: AccountCell, told: Told, owner: Owner) -> None:
    match cell.verb:
        case "ask":
            # Polymarket knows an order by its hash alone.
            ground.ends(told, "found" if cell.kind != "polymarket" else "cannot-ask", "pending")
            ground.sent()
        case "reconcile":
            ground.ends(told, "accepted", "replayed")
            ground.sent()
        case "found":
            ground.ends(told, "accepted", "replayed")
            ground.sent()
        case _:
            ground.ends(told, "accepted", "replayed")
            ground.sent(owner)


# Several entries, or keys that change.


def run_batch_cell(ground: Ground, cell: BatchCell) -> int:
    match cell.what:
        case "several accounts":
            return _several(ground)
        case "one id, two accounts":
            return _one_id(ground)
        case "keys swapped before the send":
            return _swapped_before_send(ground)
        case "keys swapped before the reconcile":
            return _swapped_before_reconcile(ground)
        case "to another venue":
            return _elsewhere(ground, DESK, HEDGE)
        case "to a venue without secrets":
            return _elsewhere(ground, BARE, HEDGE)
        case _:
            return _elsewhere(ground, DESK, GHOST)


def _several(ground: Ground) -> int:
    whose = {ground.entry(account): account for account in (None, HEDGE, THIRD, GHOST)}
    ground.open()
    ground.desk.put(ground.secrets())
    ground.there.forget()
    told = ground.act("replay", *whose)
    owners = [ground.owner(KIND, account) for account in (None, HEDGE, THIRD)]
    for entry_id, account in whose.items():
        ghost = account == GHOST
        ground.ends(told[entry_id], *(("refused", "pending") if ghost else ("accepted", "replayed")))
    ground.sent(*owners)
    return ground.carried_only(*owners)


def _one_id(ground: Ground) -> int:
    ids = [ground.entry(account) for account in (HEDGE, THIRD)]
    same = ("market_id", "quantity", "action_json", "client_order_id")
    ground.rows[1] |= {name: ground.rows[0][name] for name in same}
    ground.open()
    ground.desk.put(ground.secrets())
    ground.there.forget()
    before = ground.there.orders(ground.kind)
    told = ground.act("replay", *ids)
    owners = [ground.owner(KIND, account) for account in (HEDGE, THIRD)]
    for entry_id in ids:
        ground.ends(told[entry_id], "accepted", "replayed")
    made = {name: of for name, of in ground.there.orders(ground.kind).items() if name not in before}
    ground.expect(sorted(made.values()) == sorted(map(account_at, owners)), f"two orders, one each: {made}")
    ground.sent(*owners)
    return ground.carried_only(*owners)


def _swapped_before_send(ground: Ground) -> int:
    entry_id = ground.entry(HEDGE)
    ground.open()
    ground.desk.put(ground.secrets())
    ground.there.forget()
    told = ground.act("replay", entry_id, between=lambda: _swap(ground))[entry_id]
    ground.ends(told, "not_sent", "pending")
    ground.expect(told.detail.startswith("unknown-account: "), told.detail)
    ground.sent()
    return ground.carried_only(ground.owner(KIND, HEDGE), ground.owner(KIND, HEDGE, 1))


def _swap(ground: Ground) -> None:
    ground.desk.put(ground.secrets(renewed=((KIND, HEDGE),)))


def _swapped_before_reconcile(ground: Ground) -> int:
    """Nothing is settled; not even where the other account has just such an order, if the venue tells accounts."""
    entry_id = ground.entry(HEDGE)
    ground.open()
    ground.desk.put(ground.secrets())
    ground.there.fault(ground.kind, "accept_then_drop", "new")
    ground.ends(ground.act("replay", entry_id)[entry_id], "unknown", "in_doubt")
    _swap(ground)
    renewed = ground.owner(KIND, HEDGE, 1)
    if venue_profile(ground.kind).tells_account:
        stand(ground.there, renewed, ground.number)
    ground.there.forget()
    ground.ends(ground.act("reconcile", entry_id)[entry_id], "unknown", "in_doubt")
    ground.sent()
    return ground.carried_only(renewed)


def _elsewhere(ground: Ground, venue: str, account: str) -> int:
    entry_id = ground.entry(account)
    ground.open()
    ground.desk.put(ground.secrets(Kept(DESK, GHOST)))
    ground.there.forget()
    told = ground.act("replay", entry_id, venue=venue)[entry_id]
    own, there = ground.owner(KIND, account), ground.owner(venue, account)
    if venue == BARE:
        ground.ends(told, "refused", "pending")
        ground.expect("unknown-account: " in told.detail, told.detail)
        ground.sent()
        return ground.carried_only(own)
    ground.ends(told, "accepted", "replayed")
    ground.sent(there)
    asked = any(str(own) in one.owners for one in ground.there.heard)
    ground.expect(asked is (account != GHOST), "its own venue is asked with its own key, or not at all")
    return ground.carried_only(there) if account == GHOST else ground.carried_only(own, there)


# All of it.


def run_cell(there: Venues, cell: Cell, folder: Path, number: int, figures: Figures) -> None:
    """Run one cell and add what came of it."""
    if isinstance(cell, GatewayCell):
        wrong, requests = run_gateway_cell(there, cell, folder, number)
        figures.foreign += sum("sent to" in one for one in wrong)
    else:
        ground = Ground(there, cell, folder, number)
        with own_secrets(ground.desk):
            figures.foreign += _run(ground, cell)
        wrong, requests = ground.wrong, len(there.heard)
        figures.refused += isinstance(cell, AccountCell) and _goes(cell) is None
    figures.cells += 1
    figures.requests += requests
    figures.violations += [f"{cell}: {one}" for one in wrong]


def _run(ground: Ground, cell: AccountCell | BatchCell) -> int:
    return run_account_cell(ground, cell) if isinstance(cell, AccountCell) else run_batch_cell(ground, cell)


def run_all(every: Sequence[Cell]) -> Figures:
    figures = Figures()
    with venues() as there:
        for n, cell in enumerate(every):
            with tempfile.TemporaryDirectory() as folder:
                run_cell(there, cell, Path(folder), 1 + 4 * n, figures)
    return figures


def sampled(every: Sequence[Cell], count: int) -> list[Cell]:
    """So many, spread over all."""
    return [every[n * len(every) // count] for n in range(count)] if count < len(every) else list(every)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.account_matrix")
    parser.add_argument("--cells", type=int, help="a sample of this many")
    options, began = parser.parse_args(words), time.monotonic()
    figures = run_all(sampled(cells(), options.cells or 10**6))
    print("\n".join(figures.violations), file=sys.stderr)
    shown = {name: getattr(figures, name) for name in ("cells", "requests", "foreign", "refused")}
    print(json.dumps({**shown, "violations": len(figures.violations), "seconds": round(time.monotonic() - began)}))
    return 1 if figures.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
