"""The account matrix at an ibkr gateway, which has no keys: each order names its account, or is not sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from tests.support.account_desk import AccountDesk, Venues, shape
from tests.support.account_faces import Act, Face, Told, act_on, own_secrets
from tests.support.orders import row, sqlite_store
from tests.support.session import ident
from venues import Mode

Verb = Literal["new", "found", "reconcile", "reconcile at another gateway", "ask"]
VERBS: tuple[Verb, ...] = ("new", "found", "reconcile", "reconcile at another gateway", "ask")
_ACCOUNT = 23  # of a placeOrder message
# (the gateway's accounts, the entry's account, the number in the config, the account it goes to)
_CASES: tuple[tuple[str, str | None, str | None, str | None], ...] = (
    ("1", None, None, "1"),
    ("1", "1", None, "1"),
    ("1", "main", None, None),
    ("1", "9", None, None),
    ("1", "main", "1", "1"),
    ("1,2", "2", None, "2"),
    ("1,2", None, None, None),
    ("1,2", "main", None, None),
    ("1,2", "main", "2", "2"),
    ("1,2", "1", "2", None),
    ("1,2", "main", "3", None),
)


@dataclass(frozen=True)
class GatewayCell:
    accounts: tuple[str, ...]
    account: str | None
    number: str | None
    goes_to: str | None
    verb: Verb
    mode: Mode
    face: Face

    def __str__(self) -> str:
        asked = f"entry's {self.account}, config's {self.number}"
        return f"ibkr {','.join(self.accounts)}, {asked}: {self.verb} {self.mode} {self.face}"


def gateway_cells() -> list[GatewayCell]:
    made: list[GatewayCell] = []
    modes: tuple[Mode, ...] = ("paper", "live")
    refused: tuple[Verb, ...] = ("new", "ask")
    for mode in modes:
        for accounts, *names, goes_to in _CASES:
            at = tuple(str(_named(one, mode)) for one in str(accounts).split(","))
            account, number, goes = (_named(one, mode) for one in (*names, goes_to))
            for verb in VERBS if goes_to else refused:
                face: Face = "command" if len(made) % 3 == 0 else "session"
                made.append(GatewayCell(at, account, number, goes, verb, mode, face))
    return made


def _named(account: str | None, mode: Mode) -> str | None:
    if account is None or not account.isdecimal():
        return account
    return f"{'DU' if mode == 'paper' else 'U'}100000{account}"


def run_gateway_cell(there: Venues, cell: GatewayCell, folder: Path, number: int) -> tuple[list[str], int]:
    """(what is wrong, how many messages the gateway got)."""
    there.tws.accounts = ",".join(cell.accounts)
    there.tws.orders.clear()
    there.forget()
    desk = _desk(there, cell, folder, number)
    with own_secrets(desk):
        told = _acted(there, cell, desk, ident(number))
    wrong = list(_wrong(there, cell, told))
    return wrong, there.tws.logins + len(there.tws.placed)


def _desk(there: Venues, cell: GatewayCell, folder: Path, number: int) -> AccountDesk:
    told = shape("ibkr", number)
    document = {name: told[name] for name in ("market_id", "quantity", "price")} | {"side": "buy"}
    given = {"venue_name": "ibkr", "account_id": cell.account, "action_json": json.dumps(document)}
    rows = [row(number, captured_at=datetime.now(UTC), **told, **given)]
    url = there.tws.url
    settings: dict[str, Any] = {"paper_endpoint": url, "live_endpoint": url, "timeout": 10.0, "visibility_seconds": 0}
    settings["rate_per_minute"] = 60_000
    if cell.number is not None and cell.account is not None:
        settings["accounts"] = {cell.account: {f"{cell.mode}_number": cell.number}}
    desk = AccountDesk(folder, sqlite_store(folder / "orders.db", rows), {"ibkr": settings})
    desk.put([])
    return desk


def _acted(there: Venues, cell: GatewayCell, desk: AccountDesk, entry_id: str) -> Told:
    replay = Act("replay", (entry_id,), cell.mode)
    match cell.verb:
        case "new":
            return act_on(desk, replay, cell.face)[entry_id]
        case "ask":
            return act_on(desk, Act("ask", (entry_id,), cell.mode), cell.face)[entry_id]
        case _:
            there.tws.next = "book_and_hang_up"
            try:
                first = act_on(desk, replay, cell.face)[entry_id]
            finally:
                there.tws.next = "accept"
            assert first.word == "unknown", first
    if cell.verb == "reconcile at another gateway":
        there.tws.accounts = str(_named("7", cell.mode))
    verb: Literal["reconcile", "ask"] = "ask" if cell.verb == "found" else "reconcile"
    return act_on(desk, Act(verb, (entry_id,), cell.mode), cell.face)[entry_id]


def _wrong(there: Venues, cell: GatewayCell, told: Told) -> Iterator[str]:
    placed = [message[_ACCOUNT] for message in there.tws.placed]
    expected = [cell.goes_to] if cell.goes_to and cell.verb != "ask" else []
    if placed != expected:
        yield f"sent to {placed}, not to {expected}"
    words = _words(cell)
    if told.word not in words:
        yield f"{told.word}, not {words}: {told.detail}"
    if cell.goes_to is None and cell.verb == "new" and "unknown-account: " not in told.detail:
        yield f"refused otherwise: {told.detail}"


def _words(cell: GatewayCell) -> tuple[str, ...]:
    if cell.goes_to is None:
        return ("refused",) if cell.verb == "new" else ("cannot-ask",)
    match cell.verb:
        case "new" | "reconcile":
            return ("accepted",)
        case "found":
            return ("found",)
        case "ask":
            return ("absent", "unknown")
        case _:
            return ("unknown",)
