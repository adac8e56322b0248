"""What must be true of a store and its venue whatever was killed: read from the database and the venue's ledger alone.

Knows none of the console's code: `python -m tests.faults.checker TARGET LEDGER [any|settled|final]`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import json
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import asyncpg

Row = Mapping[str, Any]
Phase = Literal["any", "settled", "final"]
OPEN = ("submitting", "in_doubt")
ENDED = ("cancelled", "expired", "rejected", "replaced")
TABLES = ("attempt", "claim", "audit")
# Only these wires show the very bytes that were stored: the others sign them, or send them as a form.
SAME_BYTES = ("alpaca", "kalshi", "hyperliquid")
TELLS_ACCOUNT = ("alpaca", "hyperliquid")  # the others do not say whose account answers


@dataclass(frozen=True)
class Dump:
    """Everything the store holds, at one moment."""

    entries: Sequence[Row]
    attempts: Sequence[Row]
    claims: Sequence[Row]
    audit: Sequence[Row]
    now: float


def read_store(target: str) -> Dump:
    return asyncio.run(_read_postgres(target)) if target.startswith("postgresql:") else _read_sqlite(target)


def _read_sqlite(path: str) -> Dump:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}

        def rows(table: str) -> list[Row]:
            return [dict(row) for row in connection.execute(f"SELECT * FROM {table}")] if table in there else []

        now = connection.execute("SELECT (julianday('now') - 2440587.5) * 86400.0").fetchone()[0]
        attempts, claims, audit = (rows(f"console_{name}") for name in TABLES)
        return Dump(rows("order_dlq"), attempts, claims, audit, now)


async def _read_postgres(dsn: str) -> Dump:
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            there = await connection.fetchval("SELECT to_regclass('dlq_console.attempt') IS NOT NULL")
            tables = ["order_dlq", *(f"dlq_console.{name}" for name in TABLES)]
            read = [
                [dict(row) for row in await connection.fetch(f"SELECT * FROM {table}")]
                if there or table == "order_dlq"
                else []
                for table in tables
            ]
            now = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
        entries, attempts, claims, audit = read
        return Dump(entries, attempts, claims, audit, now)
    finally:
        await connection.close()


def read_ledger(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def check(
    store: Dump,
    ledger: Sequence[Row],
    *,
    expected: int,
    phase: Phase = "any",
    engine_sent: Iterable[str] = (),
    restored_after: int = 0,
) -> list[str]:
    """Every violation, each with the entry it is of. `engine_sent`: client ids under which the engine itself, before
    anything was dead-lettered, had reached the venue, as often as it had. `restored_after`: the number of the last
    request before the store was restored from a backup that knows nothing of it."""
    facts = _Facts(store, ledger, Counter(engine_sent), restored_after)
    found = [*_nothing_lost(facts, expected), *_chain(facts), *_requests(facts), *_strangers(facts)]
    for entry in store.entries:
        about = [
            *_one_order(facts, entry),
            *_attempts(facts, entry),
            *_accounts(facts, entry),
            *_honest(facts, entry),
            *_recorded(facts, entry),
            *_claims(facts, entry, phase),
            *_phase(facts, entry, phase),
        ]
        found += [f"{entry['dlq_id']}: {problem}" for problem in about]
    return found


def kept_by_another(before: Dump, after: Dump) -> list[str]:
    """What changed of the open attempts while another account, or another key that shows nothing, answered."""
    found = []
    now = {(row["entry_id"], row["attempt_no"]): row for row in after.attempts}
    for row in before.attempts:
        its = now.get((row["entry_id"], row["attempt_no"]))
        if row["state"] in OPEN and (its is None or its["state"] not in OPEN):
            ended = its["state"] if its else "gone"
            found.append(f"{row['entry_id']}: {row['state']} became {ended} by the answer of another account")
    if len(after.attempts) != len(before.attempts):
        found.append(f"{len(after.attempts) - len(before.attempts)} attempts were made with another account")
    return found


class _Facts:
    def __init__(self, store: Dump, ledger: Sequence[Row], engine_sent: Counter[str], restored_after: int) -> None:
        self.store = store
        self.engine_sent = engine_sent
        self.restored_after = restored_after
        self.orders = list({line["order_id"]: line for line in ledger if line["type"] == "order"}.values())
        self.requests = [line for line in ledger if line["type"] == "request"]
        self.unknown_here = {  # ids under which the venue was reached, and this store knows nothing of it
            *engine_sent,
            *(line["client_order_id"] for line in self.requests if line["n"] <= restored_after),
        }
        self.attempts: dict[str, list[Row]] = defaultdict(list)
        for attempt in sorted(store.attempts, key=lambda row: row["attempt_no"]):
            self.attempts[attempt["entry_id"]].append(attempt)
        self.events: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(store.audit, key=lambda row: row["seq"]):
            body = json.loads(bytes(row["body"]))
            for named in body.get("entries", ()):
                self.events[named[0] if isinstance(named, list) else named].append(body)
        self.claims: dict[str, list[Row]] = defaultdict(list)
        for claim in store.claims:
            self.claims[claim["entry_id"]].append(claim)
        self._by_tag = {tag(entry["market_id"], entry["quantity"]): entry for entry in store.entries}
        self._orders_of: dict[str, list[Row]] = defaultdict(list)
        for order in self.orders:
            if (entry := self.entry_of(order)) is not None:
                self._orders_of[entry["dlq_id"]].append(order)

    def entry_of(self, order: Row) -> Row | None:
        """By market and quantity, which no two entries share: ids are what is being checked."""
        return self._by_tag.get(tag(order["symbol"], order["quantity"]))

    def orders_of(self, entry: Row) -> list[Row]:
        return self._orders_of.get(entry["dlq_id"], [])

    def most_of(self, entry: Row) -> int:
        """How many orders of it may stand: one, unless the engine itself had placed more."""
        return max(1, self.engine_sent[entry["client_order_id"] or ""])

    def was_sent(self, attempt: Row) -> bool:
        """Not one that only records what was found at the venue."""
        events = self.events[attempt["entry_id"]]
        intents = [
            event for event in events if event["kind"] == "intent" and event["attempt_no"] == attempt["attempt_no"]
        ]
        return not any("not sent" in (event.get("detail") or "") for event in intents)


def tag(market: str, quantity: object) -> tuple[str, Decimal]:
    return market.replace("/", "").upper(), Decimal(str(quantity)).normalize()


def _stands(order: Row) -> bool:
    return order["state"] not in ENDED or Decimal(order["filled"]) > 0


def _nothing_lost(facts: _Facts, expected: int) -> Iterator[str]:
    ids = [entry["dlq_id"] for entry in facts.store.entries]
    if len(ids) != expected or len(set(ids)) != expected:
        yield f"{len(set(ids))} entries are there, {expected} were"


def _chain(facts: _Facts) -> Iterator[str]:
    previous = b"\0" * 32
    for number, row in enumerate(sorted(facts.store.audit, key=lambda row: row["seq"]), 1):
        previous = hashlib.sha256(previous + bytes(row["body"])).digest()
        if row["seq"] != number or bytes(row["hash"]) != previous:
            yield f"the audit chain breaks at {row['seq']}"
            return


def _requests(facts: _Facts) -> Iterator[str]:
    """Every request has its own intent, committed before it came, with the very bytes."""
    intents: dict[str, list[Row]] = defaultdict(list)
    for attempt in facts.store.attempts:
        if facts.was_sent(attempt):
            intents[attempt["client_order_id"]].append(attempt)
    # The engine's own needs no intent of ours; what a restored store has forgotten was judged before.
    seen: Counter[str] = Counter({name: -count for name, count in facts.engine_sent.items()})
    for request in facts.requests:
        name = request["client_order_id"] or ""
        mine = sorted(intents.get(name, ()), key=lambda row: row["started_at"])
        forgotten = request["n"] <= facts.restored_after
        seen[name] = min(0, seen[name] + 1) if forgotten else seen[name] + 1
        if seen[name] <= 0:
            continue
        if len(mine) < seen[name]:
            yield f"request {request['n']} ({name}) has no intent of its own"
            continue
        attempt = mine[seen[name] - 1]
        if _time(attempt["started_at"]) > _time(request["at"]):
            yield f"request {request['n']} ({name}) came before its intent"
        if request["venue"] in SAME_BYTES and request["body"] not in [_body(one) for one in mine]:
            yield f"request {request['n']} ({name}) is not what the intent says"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _body(attempt: Row) -> str:
    return base64.b64decode(json.loads(bytes(attempt["payload"]))["body"]).decode()


def _strangers(facts: _Facts) -> Iterator[str]:
    for order in facts.orders:
        if facts.entry_of(order) is None:
            yield f"order {order['order_id']} belongs to no entry"


def _one_order(facts: _Facts, entry: Row) -> Iterator[str]:
    standing = [order["order_id"] for order in facts.orders_of(entry) if _stands(order)]
    if len(standing) > facts.most_of(entry):
        yield f"{len(standing)} orders at the venue: {', '.join(standing)}"


def _attempts(facts: _Facts, entry: Row) -> Iterator[str]:
    attempts = facts.attempts[entry["dlq_id"]]
    if any(count > 1 for count in Counter(one["mode"] for one in attempts if one["holds"]).values()):
        yield "several attempts hold it"
    for one in attempts:
        if bool(one["holds"]) != (one["state"] in (*OPEN, "accepted")):
            yield f"attempt {one['attempt_no']} is {one['state']} and {'holds' if one['holds'] else 'holds nothing'}"
    for earlier, later in itertools.pairwise(attempts):
        if earlier["state"] in (*OPEN, "accepted"):
            yield f"attempt {later['attempt_no']} was begun while the one before is {earlier['state']}"
        elif _time(later["started_at"]) < _time(earlier["finished_at"]):
            yield f"attempt {later['attempt_no']} was begun before the one before had ended"


def _accounts(facts: _Facts, entry: Row) -> Iterator[str]:
    """Each attempt tells its key and, where the venue says it, whose account it was made in; so does the audit."""
    owners = {order["order_id"]: order["account"] for order in facts.orders_of(entry)}
    intents = {event["attempt_no"]: event for event in facts.events[entry["dlq_id"]] if event["kind"] == "intent"}
    for one in facts.attempts[entry["dlq_id"]]:
        number, account = one["attempt_no"], one["account"]
        told = intents.get(number, one)
        if not one["key_digest"]:
            yield f"attempt {number} does not tell its key"
        if one["venue"] in TELLS_ACCOUNT and not account:
            yield f"attempt {number} does not tell its account"
        if (told["account"], told["key_digest"]) != (account, one["key_digest"]):
            yield f"attempt {number} names another account or key than its intent"
        owner = owners.get(one["venue_order_id"])
        if one["state"] == "accepted" and account and owner and owner.lower() != account.lower():
            yield f"attempt {number} was made in {account}, its order is {owner}'s"


def _honest(facts: _Facts, entry: Row) -> Iterator[str]:
    """What the store says is what the venue has."""
    attempts, orders = facts.attempts[entry["dlq_id"]], facts.orders_of(entry)
    states = [attempt["state"] for attempt in attempts]
    dismissed = bool(entry["dismissed"])
    # Nobody here has asked the venue yet.
    untried = not attempts and all(order["client_order_id"] in facts.unknown_here for order in orders)
    if any(_stands(order) for order in orders) and not {*OPEN, "accepted"} & set(states) and not untried:
        yield f"the venue has its order, the store says {states[-1] if states else 'pending'}"
    for attempt in attempts:
        if attempt["state"] == "accepted" and attempt["venue_order_id"] not in [order["order_id"] for order in orders]:
            yield f"accepted as {attempt['venue_order_id']}, which is not its order at the venue"
    if "accepted" in states and not dismissed:
        yield "accepted, and yet not dismissed"
    let_go = any(event["kind"] == "dismiss" for event in facts.events[entry["dlq_id"]])
    if dismissed and "accepted" not in states and (set(OPEN) & set(states) or not let_go):
        yield f"dismissed, and {states[-1] if states else 'nobody did it'}"


def _recorded(facts: _Facts, entry: Row) -> Iterator[str]:
    """Each attempt has its intent and its end in the audit, and the retries are those that the audit tells of."""
    events = facts.events[entry["dlq_id"]]
    failed = set()
    for attempt in facts.attempts[entry["dlq_id"]]:
        number = attempt["attempt_no"]
        its = [event for event in events if event.get("attempt_no") == number]
        ends = [event["outcome"] for event in its if event["kind"] in ("outcome", "reconcile")]
        if [event["kind"] for event in its].count("intent") != 1:
            yield f"attempt {number} has no intent in the audit"
        told = {"accepted": "accepted", "rejected": "rejected", "in_doubt": "unknown"}.get(attempt["state"], "not_sent")
        if attempt["state"] != "submitting" and (not ends or ends[-1] != told):
            yield f"attempt {number} is {attempt['state']}, the audit says {ends[-1] if ends else 'nothing'}"
        if attempt["state"] == "submitting" and ends:
            yield f"attempt {number} is in flight, the audit says {ends[-1]}"
        if {"rejected", "unknown"} & set(ends) and not attempt["rehearsal"]:
            failed.add(number)
    if entry["retry_count"] != len(failed):
        yield f"{entry['retry_count']} retries, the audit tells of {len(failed)}"


def _claims(facts: _Facts, entry: Row, phase: Phase) -> Iterator[str]:
    live = [one for one in facts.claims[entry["dlq_id"]] if not one["released"]]
    if len(live) > 1:
        yield "several claims at once"
    if phase != "any" and any(one["expires_at"] > facts.store.now for one in live):
        yield "a claim is left behind"


def _phase(facts: _Facts, entry: Row, phase: Phase) -> Iterator[str]:
    states = [attempt["state"] for attempt in facts.attempts[entry["dlq_id"]]]
    if phase != "any" and (still := [state for state in states if state in OPEN]):
        yield f"still {still[0]} after reconciling"
    standing = [order for order in facts.orders_of(entry) if _stands(order)]
    if facts.most_of(entry) > 1:
        return  # which of the engine's own is its order is for a person to say
    if phase == "final" and ("accepted" not in states or len(standing) != 1):
        yield f"in the end {states[-1] if states else 'pending'}, with {len(standing)} orders at the venue"


def main() -> int:
    target, ledger, *rest = sys.argv[1:]
    store = read_store(target)
    phase: Phase = rest[0] if rest and rest[0] in ("any", "settled", "final") else "any"  # type: ignore[assignment]  # one of these
    found = check(store, read_ledger(Path(ledger)), expected=len(store.entries), phase=phase)
    print("\n".join(found) or f"{len(store.entries)} entries, {len(store.attempts)} attempts: no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
