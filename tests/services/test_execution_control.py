"""Random streams of commands for a few logical orders, replayed and reconciled at the practice exchange over real HTTP.

What was sent is read from the exchange's own ledger, what became of it from the store's tables.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from backends import open_store
from backends.records import Selection
from backends.store import Store
from console import clock
from console.services.evidence import reconcile as asking
from console.services.replay import batch, flow_control
from console.services.replay.background_run import RunHandle
from console.services.replay.outcome import EntryOutcome
from console.services.replay.plan import ReplayPlan
from console.services.replay.preflight import ReplayRequest
from console.services.session import Chosen, SessionSettings, StoreSession
from console.settings.config import Config, Limits, StoreConfig, VenueConfig
from tests.support.account_keys import Owner, keys_of
from tests.support.orders import add_sqlite, row, sqlite_store
from tests.support.session import ANN, ident
from venues import Credentials, OrderAction, Prepared, Route, SecretSet, Verb, connect
from venues.practice import PracticeExchange
from venues.practice.book import Order

T = TypeVar("T")
RANK = {"new": 0, "replace": 1, "cancel": 2}
STEP = 100  # the quantity of an order names its logical order in hundreds, and the replace that changed it in units
# Far more steps than a run of all tests has time for: DLQ_EXAMPLES=500.
EXAMPLES = int(os.environ.get("DLQ_EXAMPLES", "2"))
STEPS = 35
NEVER_SENT, MAY_HAVE_ARRIVED = "RuntimeError: HTTP 429 after 3 attempts", "ReadTimeout: no answer in 10 s"
LOST = ("accept_then_drop", "drop_before_accept", "booked_500", "http_503")  # half of them with the order booked
FAULTS = ("reject", "http_403", "no_id_200", *LOST, *LOST)
LIMITS = Limits(max_notional=Decimal(10**9), four_eyes_over=Decimal(10**9), poison_after=999, retry_limit=999)


@dataclass(frozen=True)
class Logical:
    """One logical order: where it lives, and by which names its commands tell that they belong together."""

    venue: str
    account: str | None
    market: str
    client_order_id: str | None
    order_key: str | None

    @property
    def is_bare(self) -> bool:
        """Nothing names it, so that each entry is a logical order of its own."""
        return self.client_order_id is None and self.order_key is None


def logical(place: int) -> Logical:
    """Three of every six share a key at different accounts, and four a market."""
    turn, kind = divmod(place, 6)
    shared, client_order_id = f"key-{turn}", f"cid-{place}"
    return (
        Logical("alpaca", "main", "AAPL", client_order_id, None),
        Logical("alpaca", "hedge", "AAPL", client_order_id, shared),
        Logical("alpaca", "main", "AAPL", client_order_id, shared),
        Logical("kalshi", None, "KXORDERS-26", client_order_id, shared),
        Logical("alpaca", "hedge", "AAPL", None, f"alone-{turn}"),
        Logical("alpaca", "main", "TSLA", None, None),
    )[kind]


@dataclass(frozen=True)
class Command:
    """An entry of the stream; `place` numbers its logical order."""

    number: int
    place: int
    verb: Verb

    @property
    def rank(self) -> int:
        return RANK[self.verb]


@dataclass(frozen=True)
class Sent:
    """A request that reached the exchange."""

    place: int
    kind: str
    changed_by: int  # the entry whose quantity it carries; 0: the quantity of the NEW


def _keys(asked: SecretSet) -> Credentials:
    return Credentials(keys_of(Owner(asked.kind, asked.venue, asked.account, asked.mode)))


class CommandStream:
    """One store, one exchange, and what happens to them by the throw of dice."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = Random(seed)
        self.loop = asyncio.new_event_loop()
        self.history: list[str] = []
        self.commands: dict[int, Command] = {}
        self.by_engine: set[int] = set()  # logical orders that the engine itself has placed
        self.places = 0  # how many logical orders there are
        self.target = sqlite_store(folder / "orders.db")
        self.exchange = PracticeExchange(fsync=False)
        self.run(self.exchange.start())
        self.exchange.prices.clear()
        url = self.exchange.url
        venue = VenueConfig(paper_endpoint=url, timeout=5.0, rate_per_minute=10**7, visibility_seconds=0.0)
        setting = SessionSettings(
            config=Config(venues={"alpaca": venue, "kalshi": venue}, limits=LIMITS),
            store=StoreConfig("desk", self.target),
            actor=ANN,
            clock=clock.now,
            open=self._open,
            credentials=lambda: _keys,
            heads=folder / "heads",
            own_loops=False,
        )
        self.session = self.run(StoreSession.attach(setting))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def step(self) -> None:
        happens = self.dice.choices(
            (self.arrive, self.replay, self.reconcile, self.dismiss, self.the_market_moves), (30, 50, 10, 3, 7)
        )
        happens[0]()
        self.check()

    def close(self) -> None:
        self.run(self.session.aclose())
        self.run(self.exchange.stop())
        self.run(self.loop.shutdown_asyncgens())
        self.loop.close()

    async def _open(self) -> Store:
        return await open_store(self.target)

    # --- what happens ------------------------------------------------------------------------------------------------

    def arrive(self) -> None:
        """An engine dead-letters commands. Of a NEW it may not know whether it arrived, and it may have."""
        dice = self.dice
        for _ in range(dice.randint(1, 4)):
            place, verb = self._drawn(dice)
            order = logical(place)
            arrived = dice.choice((None, None, False, True)) if verb == "new" else None
            if arrived and order.client_order_id and not self._ever(place):
                self.by_engine.add(place)
                self.run(self._sent_by_engine(order, STEP * (place + 1)))
            known = self.standing(place) if dice.random() < 0.8 else []
            same_id = verb != "new" or arrived is True or dice.random() < 0.7
            command = Command(len(self.commands) + 1, place, verb)
            self.capture(command, known, in_doubt=arrived is not None, same_id=same_id)

    def _drawn(self, dice: Random) -> tuple[int, Verb]:
        """A first command for a new logical order, or one more for one of the last three."""
        last = range(max(0, self.places - 3), self.places)
        place = self.places if not last or dice.random() < 0.3 else dice.choice(last)
        if logical(place).is_bare and place < self.places:
            place = self.places
        first, self.places = place == self.places, max(self.places, place + 1)
        verbs: tuple[Verb, ...] = ("new", "new", "replace", "cancel", *(("new", "new") if first else ()))
        verb = dice.choice(("new", "replace", "replace", "cancel") if self.standing(place) else verbs)
        if logical(place).is_bare:
            return place, "new"
        return place, verb

    def capture(self, command: Command, known: Sequence[Order] = (), *, in_doubt: bool, same_id: bool) -> None:
        order = logical(command.place)
        quantity = STEP * (command.place + 1) + (command.number if command.verb == "replace" else 0)
        action = {"action": command.verb, "quantity": quantity, "order_key": order.order_key}
        action |= {"venue_order_id": known[-1].order_id if known and command.verb != "new" else None}
        client_order_id = order.client_order_id
        if order.order_key and client_order_id and (command.verb == "replace" or not same_id):
            client_order_id += f"-{command.number}"  # a replace, or an engine's second try, with an id of its own
        entry = row(
            command.number,
            venue_name=order.venue,
            account_id=order.account,
            market_id=order.market,
            captured_at=datetime.now(UTC) - timedelta(minutes=2),
            client_order_id=client_order_id,
            quantity=float(quantity),
            price=0.5,
            error=MAY_HAVE_ARRIVED if in_doubt else NEVER_SENT,
            action_json=json.dumps({name: value for name, value in action.items() if value is not None}),
        )
        with closing(sqlite3.connect(self.target)) as connection, connection:
            add_sqlite(connection, [entry])
        self.commands[command.number] = command
        self.history.append(f"arrives: {command} {entry['action_json']}")

    async def _sent_by_engine(self, order: Logical, quantity: int) -> None:
        asked = SecretSet(order.venue, order.venue, order.account, "paper")
        client = connect(order.venue, "paper", _keys(asked), Route(endpoint=self.exchange.url))
        price = Decimal("0.5")
        action = OrderAction("new", order.market, "buy", Decimal(quantity), "limit", price, order_key="k")
        request = client.prepare(action, order.client_order_id or "")
        assert isinstance(request, Prepared)
        await client.open()
        await client.submit(request)
        await client.aclose()

    def replay(self) -> None:
        """Some of the entries, or all; sometimes handled ones too."""
        dice, states = self.dice, self._states()
        waiting = [number for number, state in states.items() if state in ("pending", "in_doubt")]
        numbers = waiting if waiting and dice.random() < 0.8 else sorted(states)
        if not numbers:
            return
        chosen = dice.sample(numbers, dice.choice((1, 1, (len(numbers) + 1) // 2, len(numbers))))
        self.replay_these(chosen, dice.sample(FAULTS, dice.choice((0, 1, 1, 2))))

    def replay_these(self, chosen: Sequence[int], faults: Sequence[str] = ()) -> None:
        before, seen = self._states(), len(self.exchange.received)
        made = self.run(self._planned(chosen))
        assert made.needs_second is None
        self.history.append(f"replays {chosen} with {faults}")
        for name in faults:
            self.exchange.fault("*", name, on="order", times=1)
        self.run(self._ended(self.session.replay_work(made, None)))
        self.exchange.faults.clear()
        self._check_sent(before, self._sent_since(seen))
        for number, state in self._states().items():
            if state == "replayed" != before[number] and self.commands[number].verb == "cancel":
                assert not self.standing(self.commands[number].place), "cancelled, and it still stands"

    def reconcile(self) -> None:
        seen = len(self.exchange.received)
        for name in self.dice.choice(((), (), ("http_503",), ("drop_before_accept",))):
            self.exchange.fault("*", name, on="lookup", times=1)
        self.run(self._ended(self.session.reconcile_work((), ("paper",))))
        self.exchange.faults.clear()
        assert len(self.exchange.received) == seen, "recovery sends nothing"

    def dismiss(self) -> None:
        if self.commands:
            chosen = self.run(self._chosen([self.dice.choice(sorted(self.commands))]))
            self.run(self.session.dismiss(chosen, reason="test", note=None))

    def the_market_moves(self) -> None:
        if live := [order.order_id for order in self.exchange.orders if order.live]:
            self.exchange.mark(self.dice.choice(live), self.dice.choice(("filled", "cancelled")))

    # --- how it is read ----------------------------------------------------------------------------------------------

    def _of(self, place: int) -> list[Command]:
        return [one for one in self.commands.values() if one.place == place]

    def _ever(self, place: int) -> list[Order]:
        return [order for order in self.exchange.orders if int(order.quantity) // STEP - 1 == place]

    def standing(self, place: int) -> list[Order]:
        return [order for order in self._ever(place) if order.live]

    async def _chosen(self, numbers: Sequence[int]) -> list[Chosen]:
        found = await self.session.store.many(tuple(map(ident, numbers)))
        return [Chosen(found[ident(n)].id, found[ident(n)].version, found[ident(n)].state) for n in numbers]

    async def _planned(self, numbers: Sequence[int]) -> ReplayPlan:
        """The plan, made of the same entries in two orders: it must not depend on that."""
        plans = []
        for order in (numbers, list(reversed(numbers))):
            picks = Selection(tuple((one.id, one.version) for one in await self._chosen(order)))
            plans.append(await self.session.plan(picks, ReplayRequest("paper", single=len(numbers) == 1)))
        one, other = plans
        assert isinstance(one, ReplayPlan)
        assert isinstance(other, ReplayPlan)
        assert (one.hash, one.going_ids, one.superseded) == (other.hash, other.going_ids, other.superseded)
        assert [(held.entry_id, held.text) for held in one.blocked] == [(o.entry_id, o.text) for o in other.blocked]
        return one

    async def _ended(self, work: Any) -> tuple[EntryOutcome, ...]:
        told: tuple[EntryOutcome, ...] = await work(RunHandle())
        self.history += [f"{one.outcome}: {one.entry_id} {one.detail}" for one in told]
        return told

    def _states(self) -> dict[int, str]:
        found = self.run(self.session.store.many(tuple(map(ident, self.commands)))) if self.commands else {}
        return {number: found[ident(number)].state for number in self.commands}

    def _sent_since(self, seen: int) -> list[Sent]:
        quantities = {order.order_id: order.quantity for order in self.exchange.orders}
        sent = []
        for line in self.exchange.received[seen:]:
            body = json.loads(str(line["body"] or "{}"))
            told = body.get("qty") or body.get("count") or body.get("updated_count")
            named = next((order_id for order_id in quantities if order_id in str(line["path"])), "")
            quantity = int(Decimal(str(told))) if told else int(quantities[named])
            changed_by = quantity % STEP if line["kind"] != "cancel" else 0
            sent.append(Sent(quantity // STEP - 1, str(line["kind"]), changed_by))
        return sent

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.target)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'console_audit'").fetchone():
                return []
            return connection.execute(sql).fetchall()

    # --- what must hold ----------------------------------------------------------------------------------------------

    def _check_sent(self, before: dict[int, str], sent: list[Sent]) -> None:
        places = [one.place for one in sent]
        assert len(places) == len(set(places)), f"two commands of one order in one replay: {sent}"
        for one in sent:
            of_it = [(command, before[command.number]) for command in self._of(one.place)]
            strongest = max((command.rank for command, state in of_it if state == "pending"), default=-1)
            as_rank = RANK["replace"] if one.kind == "new" and one.changed_by else RANK[one.kind]
            assert as_rank >= strongest, f"{one} went past a stronger pending command"
            assert one.kind == "cancel" or not any(state in ("in_doubt", "in_flight") for _, state in of_it), one

    def check(self) -> None:
        states = self._states()
        for place in range(self.places):
            standing = self.standing(place)
            assert len(standing) <= 1, standing
            known = {states[command.number] for command in self._of(place)}
            assert not standing or place in self.by_engine or known & {"in_doubt", "replayed"}, (
                "let go of, and it stands"
            )
        self._check_ends(states)

    def _check_ends(self, states: dict[int, str]) -> None:
        """Nothing is lost, and every end has its reason in the ledger."""
        events = [json.loads(body) for (body,) in self._rows("SELECT body FROM console_audit ORDER BY seq")]
        taken = [str(one["entries"][0]) for one in events if one.get("outcome") == "accepted"]
        assert len(taken) == len(set(taken)), "accepted twice"
        for number, state in states.items():
            dismissals = [one for one in events if one["kind"] == "dismiss" and ident(number) in str(one["entries"])]
            assert state in ("pending", "in_doubt", "replayed", "dismissed")
            assert (state == "replayed") == (ident(number) in taken)
            assert (state == "dismissed") == bool(dismissals)
            for one in dismissals:
                self._check_dismissal(number, one, events)

    def _check_dismissal(self, number: int, event: dict[str, Any], events: list[dict[str, Any]]) -> None:
        if event["reason"] == "test":
            return
        assert event["reason"] == "superseded"
        (head,) = re.findall(r"dlq_[0-9a-f]{16}", event["note"])
        stands, this = self.commands[int(head[4:], 16)], self.commands[number]
        assert stands.place == this.place
        assert (stands.rank, stands.number) > (this.rank, this.number)
        before = events[: events.index(event)]
        assert any(one.get("outcome") == "accepted" and head in one["entries"] for one in before), "not yet accepted"


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[CommandStream]:
    made = CommandStream(tmp_path, seed=0)
    yield made
    made.close()


@pytest.mark.parametrize(("place", "same_id"), [(4, True), (1, False)])
@pytest.mark.parametrize("verb", ["cancel", "replace"])
def test_a_command_finds_the_order_that_was_placed_from_here(
    stream: CommandStream, place: int, same_id: bool, verb: Verb
) -> None:
    """Its key is all it has: the NEW had no client order id, or another one than the command names."""
    stream.places = place + 1
    stream.capture(Command(1, place, "new"), in_doubt=False, same_id=same_id)
    stream.replay_these([1])
    stream.capture(Command(2, place, verb), in_doubt=False, same_id=True)
    stream.replay_these([2])
    standing = [int(order.quantity) % STEP for order in stream.standing(place)]
    assert standing == ([2] if verb == "replace" else [])
    assert [line["kind"] for line in stream.exchange.received] == ["new", verb]


@pytest.mark.xdist_group("machine")
def test_at_most_one_command_of_a_logical_order_takes_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_BETWEEN_SECONDS", 0.0)
    for module in (batch, flow_control):
        monkeypatch.setattr(module, "OPEN_SECONDS", 0.0)

    @settings(
        max_examples=EXAMPLES,
        phases=(Phase.reuse, Phase.generate),  # a smaller seed is no simpler stream
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(seed=st.integers(0, 2**32))
    def walk(seed: int) -> None:
        with tempfile.TemporaryDirectory(prefix="dlq-stream-") as folder:
            stream = CommandStream(Path(folder), seed)
            try:
                for _ in range(STEPS):
                    stream.step()
            finally:
                note("\n".join(stream.history))
                stream.close()

    walk()
