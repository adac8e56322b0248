"""A shift's queue that never changes: fixed orders, what was done to them, and a console in which nothing moves.

Nothing here comes from the wall clock, the machine, a venue or chance; snapshots and pictures show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from backends import DeadLetteredOrder, open_store
from backends.records import ActContext, Entry, Selection, StoreInfo
from backends.store import Claim, Intent, Result, Store
from console.services.evidence.ask import VenueAnswer
from console.services.evidence.settle import SettleReport, SettleRequest
from console.services.replay.command import Command, read_command
from console.services.replay.guards import Facts, OrderFacts, VenueFacts
from console.services.replay.outcome import EntryOutcome
from console.services.replay.plan import plan
from console.services.replay.preflight import ReplayRequest
from console.services.replay.target import SendPlan
from console.services.replay.venue_pool import VenueAccount
from console.services.session import Mode, SessionSettings, StoreSession, Verified
from console.settings.config import StoreConfig
from tests.support.app import ANN, NOW, Stage, ident, make_store, order, twelve
from tests.support.venue.in_process import PROFILE, READY
from venues import Credentials, MarketView, Quote

LABEL = "postgres db1/trading"
HEAD = "c0ffee" * 10 + "beef"
HOSTS = {
    ("alpaca", "paper"): "paper-api.alpaca.markets",
    ("alpaca", "live"): "api.alpaca.markets",
    ("kalshi", "paper"): "external-api.demo.kalshi.co",
    ("kalshi", "live"): "external-api.kalshi.com",
    ("hyperliquid", "paper"): "api.hyperliquid-testnet.xyz",
    ("hyperliquid", "live"): "api.hyperliquid.xyz",
}
BOB = replace(ANN, operator="bob", os_user="bob")
IN_DOUBT, REPLAYED, DISMISSED, WORN = 20, 21, 22, 23
_FOUND = VenueAnswer(
    entry_id="",
    answer="found",
    at=NOW,
    equal=True,
    status="partially_filled",
    filled=Decimal("12.5"),
    venue_order_id="61e69015-8549-4bfd-b9c3-01e75843f47d",
    client_order_id="cid-29",
    account="PA3X7K2M9Q1",
    detail="found: partially_filled",
)
ANSWERS = (
    _FOUND,
    replace(
        _FOUND,
        equal=False,
        status="filled",
        differences=("quantity 99 there, 36 here", "price 107.5 there, 107.0 here"),
    ),
    VenueAnswer("", "absent", NOW, client_order_id="cid-27", account="PA3X7K2M9Q1", detail="no such order"),
    VenueAnswer(
        "",
        "unknown",
        NOW,
        client_order_id="cid-26",
        account="PA3X7K2M9Q1",
        detail="not found, but it was sent 40 s ago: a look-up proves something from 60 s on",
    ),
    VenueAnswer("", "cannot-ask", NOW, detail="no credentials: dlq secrets set kalshi --account events --paper"),
)


def shift() -> list[DeadLetteredOrder]:
    """Thirty orders at three venues, oldest first; `live_through` does to them what a shift does."""
    kalshi = {"venue_name": "kalshi", "account_id": "events", "market_id": "KXFED-26APR-T4.25", "side": "yes"}
    perp = {"venue_name": "hyperliquid", "account_id": "perp", "market_id": "BTC"}
    more = [
        order(12, minutes=130, error="closed", tif="day"),
        order(13, minutes=64, error="auth", **kalshi, quantity=25.0, price=0.62),
        order(14, minutes=52, error="429", **kalshi, quantity=40.0, price=0.61),
        order(15, minutes=36, error="funds", **perp, quantity=0.25, price=64210.5),
        order(16, minutes=35, error="reset", **perp, quantity=0.1, price=64198.0),
        order(17, minutes=22, error="funds", price=None),
        order(18, minutes=21, error="429"),
        order(19, minutes=20, error="timeout"),
        order(IN_DOUBT, minutes=11, error="429", market_id="SPY", quantity=40.0, price=512.25),
        order(REPLAYED, minutes=10, error="429"),
        order(DISMISSED, minutes=10, error="schema"),
        order(WORN, minutes=6, error="funds", retry_count=3),
        order(24, minutes=1.5, error="429", **kalshi, quantity=15.0, price=0.6),
        *(order(n, minutes=1 - n / 60, error=("429", "429", "refused")[n % 3]) for n in range(25, 30)),
    ]
    return sorted([*twelve(), *more], key=lambda entry: entry.captured_at)


def small() -> list[DeadLetteredOrder]:
    """What a plan may say: two to send, one in other words than its columns, one stale."""
    odd = order(3, minutes=2, action_json='{"quantity": 99, "market_id": "NVDA", "side": "sell", "price": 100.75}')
    return [order(4, minutes=95, error="429"), order(1), order(2), odd]


_SUBMIT = (
    'Traceback (most recent call last):\n  File "/srv/bot/engine.py", line 210, in submit\n'
    "    await self.venue.send(order)\n"
)
_CHAIN = (
    f"{_SUBMIT}httpx.ConnectTimeout: timed out\n\nThe above exception was the direct cause of the following exception:"
    f"\n\n{_SUBMIT}engine.VenueUnreachable: VenueUnreachable(venue='ccxt:binance', attempt=3)"
)
_PAGE = (
    "HTTP 502: <!DOCTYPE html><html><head><title>api.alpaca.markets | 502: Bad gateway</title></head>"
    "<body>cloudflare</body></html>"
)
_SLOW_DOWN = '{"code": 0, "message": "venue closed \\u2014 try later"}'


def outage() -> list[DeadLetteredOrder]:
    """What an outage leaves: tracebacks, pages, escapes, several currencies, exits, a price of many digits."""
    spot: dict[str, Any] = {"venue_name": "ccxt:binance", "account_id": "mm-2"}
    return [
        order(1, minutes=200, error="timeout", side="sell", quantity=40.0, price=118.2, retry_count=1),
        order(2, minutes=40, error=_SLOW_DOWN, venue_name="kalshi", account_id="events", quantity=900.0, price=0.62),
        order(3, minutes=14, error="funds", market_id="SPY", side="sell", quantity=5.0, price=498.0, retry_count=3,
              action_json='{"quantity": 5, "price": 498.0, "side": "sell", "market_id": "SPY", "reduce_only": true}'),
        order(4, minutes=13, error=_PAGE, account_id="fam-o", market_id="SPY", quantity=5.0, price=516.87),
        order(5, minutes=12, error=_CHAIN, **spot, market_id="BTC/USDT", side="sell", quantity=2.5, price=92641.0),
        order(6, minutes=11, error=_CHAIN, **spot, market_id="BTC/EUR", quantity=0.25, price=85120.5),
        order(7, minutes=9, error="KeyError: 'qty'", **spot, market_id="PEPE/USDT", quantity=1e9, price=1.214e-05),
        order(8, minutes=2, error="429", market_id="AAPL", quantity=1200.0, price=180.0),
    ]  # fmt: skip


def at(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


async def live_through(path: Path) -> None:
    """One entry in doubt, one replayed, one dismissed, a rejected try, notes: all by the store's own acts."""
    store = await open_store(str(path))
    try:
        await _send(store, IN_DOUBT, Result("rejected", error="HTTP 422: insufficient day trading buying power"), ago=9)
        await _send(store, IN_DOUBT, Result("unknown", error="ReadTimeout: no answer in 10 s"), ago=6)
        await _send(store, REPLAYED, Result("accepted", venue_order_id="61e69015-8549-4bfd"), ago=5)
        await store.dismiss(await _picked(store, DISMISSED), BOB, _why(4, "bad-order", "the strategy sent a text"))
        await store.note(ident(IN_DOUBT), BOB, _why(3, None, "asked the venue's desk, ticket 4711"))
        await store.note(
            ident(IN_DOUBT), ANN, _why(2, None, "position is flat at the broker;\nreconcile before the close")
        )
    finally:
        await store.aclose()


async def _send(store: Store, number: int, result: Result, *, ago: float) -> None:
    entry = await _entry(store, number)
    claim = await store.claim(entry.id, entry.version, ANN, 60.0)
    assert isinstance(claim, Claim)
    cid = entry.text("client_order_id")
    intent = Intent("paper", entry.text("venue_name"), cid, b"{}", f"{number:064x}")
    await store.intend(claim, intent, ANN, _why(ago, "replay"))
    await store.conclude(claim, result, ANN, _why(ago - 0.2, "replay"))
    await store.release(claim)


async def _entry(store: Store, number: int) -> Entry:
    entry = await store.get(ident(number))
    assert entry is not None
    return entry


async def _picked(store: Store, number: int) -> Selection:
    return Selection.of([await _entry(store, number)])


def _why(ago: float, reason: str | None, note: str | None = None) -> ActContext:
    return ActContext(at=at(ago), operation=f"{int(ago * 10):032x}", reason=reason, note=note)


class StillWorkplace(StoreSession):
    """Everything as it is, but what would differ from run to run: the address, the venues, the chain's head."""

    @property
    def info(self) -> StoreInfo:
        return replace(super().info, label=LABEL)

    async def shift_report(self, since: datetime) -> str:
        _, _, rest = (await super().shift_report(since)).partition("\n")
        return f"# Shift report: {LABEL}\n{rest}"

    async def plan(self, selection: Selection, request: ReplayRequest) -> SendPlan:
        if not self.has_modes:
            return await super().plan(selection, request)
        mode = request.mode
        found = list((await self.store.many(selection.ids)).values())
        live_store = self.setting.store.environment == "live"
        commands = {entry.id: read_command(entry, venue=None) for entry in found}
        facts = Facts(
            mode=mode,
            at=NOW,
            rehearsal=live_store and mode == "paper",
            live_store=live_store,
            halt=await self.store.halted(),
            limits=self.setting.config.limits,
            venues={
                VenueAccount(name, account): _venue(name, host)
                for (name, of), host in HOSTS.items()
                for account in (*sorted({entry.text("account_id") for entry in found} - {""}), None)
                if of == mode
            },
            commands=commands,
            orders={key: _market(one) for key, one in commands.items() if isinstance(one, Command)},
            states={entry.id: entry.state for entry in found},
            overrides=request.overrides,
        )
        return plan(found, facts)

    async def ask(self, ids: Sequence[str], mode: Mode) -> tuple[VenueAnswer, ...]:
        """Every kind of answer, one after the other; a single entry is found as it should be."""
        return tuple(replace(ANSWERS[n % len(ANSWERS)], entry_id=one) for n, one in enumerate(ids))

    async def settle(self, request: SettleRequest) -> SettleReport:
        """The venue knows better than who says it is absent; what is accepted waits for a second person."""
        otherwise = "the venue says otherwise: found: filled, order 61e69015-8549-4bfd; reconcile settles it by that"
        if request.claimed == "absent":
            return SettleReport(EntryOutcome(request.entry_id, "refused", "paper", detail=otherwise))
        text = "needs a second person; the venue: look-up failed: HTTP 503"
        return SettleReport(EntryOutcome(request.entry_id, "refused", "paper", detail=text), "7f3a90c2d41b66e8")

    async def verify(self) -> Verified:
        seen = await super().verify()
        return seen._replace(head=f"{seen.events}:{HEAD}")


def _market(command: Command) -> OrderFacts:
    """A quote a little above the order's price; of what is sold a position is held."""
    middle = (command.action.price or Decimal(100)) * Decimal("1.003")
    quote = Quote(round(middle - Decimal("0.01"), 2), round(middle + Decimal("0.01"), 2), NOW - timedelta(seconds=2))
    held = Decimal(0) if command.action.side != "sell" else Decimal(200)
    view = MarketView(quote, held, open_orders=0, currency="USD", zero_to_one=command.venue == "kalshi")
    return OrderFacts(view=view, market=command.action.market_id)


def _venue(name: str, host: str) -> VenueFacts:
    return VenueFacts(name, host, replace(PROFILE, name=name), READY, rate_per_minute=200, has_lookup=True)


@dataclass
class StillStage(Stage):
    """A console of `StillWorkplace`; `name` is what the frame calls the store."""

    name: str = "prod-orders"
    mode: Mode | None = None
    environment: str | None = None

    @property
    def store_config(self) -> StoreConfig:
        made = StoreConfig(name=self.name, url=str(self.path), mode=self.mode)
        return replace(made, environment=self.environment)

    async def attach(self, settings: StoreConfig) -> StoreSession:
        setting = SessionSettings(
            config=self.config,
            store=settings,
            actor=self.actor,
            clock=self.clock,
            open=self.open,
            credentials=lambda: lambda *_: Credentials({}),
            cache=self.cache,
        )
        return await StillWorkplace.attach(setting)


async def stores(home: Path) -> None:
    """What each kind of scene is played on."""
    make_store(home / "empty.db", [])
    make_store(home / "small.db", small())
    make_store(home / "outage.db", outage())
    await live_through(make_store(home / "shift.db", shift()))
