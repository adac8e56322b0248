"""Sends orders to Polymarket that `order` signs with the wallet's key. Polymarket has no paper mode.

Polymarket confirms no account: it takes the wallet that the order names. So `account` stays None, and the key's
digest, which covers the wallet, tells one account from another. Must not derive or create an API key, approve a
token or deploy a wallet; that is why all five fields are required.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from collections.abc import Iterable, Mapping, Sequence

from venues import extra
from venues.answers import object_of, server_time
from venues.client import Profile, Route
from venues.credentials import HEX_ADDRESS, HEX_KEY, Credentials, check_shapes
from venues.endpoint import Endpoint, Hosts, choose
from venues.http_client import HttpClient
from venues.json_fields import Body, compact
from venues.message import Headers, Reply
from venues.orders import (
    Absent,
    Found,
    Lookup,
    LookupFailed,
    Mode,
    OrderAction,
    Outcome,
    Prepared,
    Readiness,
    Refused,
    sent_order,
)
from venues.polymarket import answers as answer
from venues.polymarket import order
from venues.polymarket.kind import DEFAULT_TIF, TIFS, kind_of, notes_of
from venues.polymarket.look import look
from venues.quote import MarketView
from venues.terms import SentTerms, for_types

FIELDS = ("private_key", "wallet", "api_key", "api_secret", "api_passphrase")
HOSTS = Hosts(paper=(), live=("https://clob.polymarket.com",))
PROFILE = Profile(
    name="polymarket",
    dedup="none",  # the venue refuses the same signed order, but each `prepare` signs another one
    arrival_bound=None,
    visibility=60.0,
    definitive=frozenset((status, name) for status in answer.STATUSES for name in answer.REFUSALS.values()),
    rate_per_minute=None,
    paper=False,
    lookup=False,  # not by client order id; only an order that was sent is found, by its hash
    replace=False,
    cancel=True,
    default_tif=DEFAULT_TIF,
    tifs=TIFS,
    id_pattern=r"[\x21-\x7e]{1,128}",  # for the console only; the venue has no client order ids
    sends=SentTerms(
        new=for_types(("expire_at", "post_only"), ("limit",)) | for_types(("notional", "price"), ("market",))
    ),
)
_PLAIN = re.compile(r"[0-9A-Za-z._-]+")
_BASE64 = re.compile(r"(?:[0-9A-Za-z_-]{4})*(?:[0-9A-Za-z_-]{2}(?:==)?|[0-9A-Za-z_-]{3}=?)?")
_ORDER = re.compile(r"0x[0-9a-f]{64}")


def connect(name: str, mode: Mode, credentials: Credentials, route: Route) -> PolymarketClient:
    endpoint = choose(name, HOSTS, mode, route)
    extra.require("polymarket", "polymarket")
    check_shapes(
        credentials,
        ("private_key", HEX_KEY, "not 32 bytes of hex"),
        ("wallet", HEX_ADDRESS, "not 0x and 40 hex digits"),
        ("api_key", _PLAIN, "not plain text"),
        ("api_passphrase", _PLAIN, "not plain text"),
        ("api_secret", _BASE64, "not base64"),
    )
    return PolymarketClient(mode, endpoint, credentials=credentials, route=route)


class PolymarketClient(HttpClient):
    def __init__(self, mode: Mode, endpoint: Endpoint, *, credentials: Credentials, route: Route) -> None:
        super().__init__(PROFILE, mode, endpoint=endpoint, credentials=credentials, route=route)
        self._markets: dict[str, order.Market] = {}
        self._unsent: set[str] = set()
        self._signer: order.Signer | None = None
        self._patience = route.timeout

    async def open(self) -> None:
        self._signer = await order.Signer.load(self._credentials)

    async def learn(self, market_ids: Iterable[str]) -> tuple[str, ...]:
        """Ask for the markets that `prepare` needs, as there are too many to load all. Returns what failed."""
        unknown = [token for token in dict.fromkeys(market_ids) if token not in self._markets]
        return tuple([f"{token}: {why}" for token in unknown if (why := await self._learn(token))])

    async def _learn(self, token: str) -> str | None:
        if not token.isdecimal():
            return "not a token id"
        by_token = await self._read(f"/markets-by-token/{token}")
        condition = by_token.get("condition_id") if isinstance(by_token, dict) else None
        if not isinstance(condition, str) or not re.fullmatch(r"0x[0-9a-fA-F]{1,64}", condition):
            return by_token.why if isinstance(by_token, LookupFailed) else "no such market"
        told = await self._read(f"/clob-markets/{condition}")
        market = order.read_market(token, told) if isinstance(told, dict) else None
        if market is None:
            return told.why if isinstance(told, LookupFailed) else "described in an unknown form"
        self._markets[token] = market
        return None

    def _prepare(self, action: OrderAction, client_order_id: str) -> Prepared | Refused:
        if action.verb == "replace":
            return Refused("polymarket cannot replace an order: cancel it and send a new one")
        if action.verb == "cancel":
            return self._cancellation(action, client_order_id)
        if not action.market_id.isdecimal():
            return Refused(f"market {action.market_id}: polymarket needs the outcome's token id, a decimal number")
        if action.side not in ("buy", "sell"):
            return Refused(f"side {action.side}: polymarket takes buy and sell")
        market = self._markets.get(action.market_id)
        if market is None or self._signer is None:
            return Refused(f"market {action.market_id}: polymarket has not given its tick size")
        kind = kind_of(action)
        if isinstance(kind, Refused):
            return kind
        offered = order.amounts(action, market)
        if isinstance(offered, Refused):
            return offered
        signed = self._signer.sign(action, market, amounts=offered, kind=kind)
        self._unsent.add(signed.order_hash)
        notes = ["polymarket has no client order id: the order is known by its hash", *notes_of(action, kind)]
        if self._signer.by_session_key:
            notes.append("the wallet is not this key's own: signed as its session key")
        return Prepared(
            verb="new",
            client_order_id=client_order_id,
            method="POST",
            path="/order",
            body=signed.body,
            action=action,
            request={"order_hash": signed.order_hash},
            notes=tuple(notes),
            sent=sent_order(action, None, order_type=kind.order_type, price=action.price, time_in_force=kind.tif),
        )

    def _cancellation(self, action: OrderAction, client_order_id: str) -> Prepared | Refused:
        aim = action.venue_order_id or ""
        if not _ORDER.fullmatch(aim):
            return Refused("cancel needs the venue's order id: 0x and 64 hex digits")
        return Prepared(
            verb="cancel",
            client_order_id=client_order_id,
            method="DELETE",
            path="/order",
            body=compact({"orderID": aim}),
            action=action,
            request={"order_hash": aim},
            sent=sent_order(action, None, market_id=None),
        )

    async def _send(self, prepared: Prepared) -> Outcome:
        self._unsent.discard(str(prepared.request.get("order_hash")))
        body = prepared.body.replace(order.OWNER.encode(), self._credentials.reveal("api_key").encode())
        return answer.outcome_of(await self._request(prepared, body=body), prepared)

    async def lookup(self, prepared: Prepared) -> Lookup:
        order_hash = prepared.request.get("order_hash")
        if not isinstance(order_hash, str) or order_hash in self._unsent:
            # The venue cannot have an unsent order, so its absence would prove nothing about an earlier one.
            return LookupFailed("polymarket cannot be asked for a client order id, only for an order it was sent")
        result = await self._get(f"/data/order/{order_hash}")
        if not isinstance(result, Reply):
            return LookupFailed(result.why)
        told = result.json()
        if result.status == 404 and told is not None and "error" in told:
            return Absent()
        if result.status != 200:
            return LookupFailed(f"HTTP {result.status}", result.retry_after())
        if result.body.strip() == b"null":
            return Absent()
        found = answer.venue_order(told, prepared.action) if told is not None else None
        if found is None or found.venue_order_id.lower() != order_hash:
            return LookupFailed("the answer is not the order that was asked for")
        return Found(found)

    async def probe(self) -> Readiness:
        alive = await self._http.ask("GET", "/ok")
        if not isinstance(alive, Reply) or alive.status != 200:
            why = f"HTTP {alive.status}" if isinstance(alive, Reply) else alive.why
            return Readiness(reachable=isinstance(alive, Reply), ready=False, detail=why, really_paper=False)
        result = await self._get("/auth/ban-status/closed-only")
        told = result.json() if isinstance(result, Reply) and result.status == 200 else None
        usable = told is not None and told.get("closed_only") is False
        return Readiness(
            reachable=True,
            ready=usable,
            detail="trading" if usable else "the account is closed-only or its keys are not taken",
            account_usable=usable,
            really_paper=False,
            server_time=server_time(alive),
        )

    async def look(self, actions: Sequence[OrderAction]) -> Mapping[str, MarketView]:
        """At the order host only: positions are told by another one, which is not asked."""
        tokens = [action.market_id for action in actions]
        return await look(self._http.ask, self._get, tokens, patience=self._patience)

    async def _read(self, path: str) -> Body | LookupFailed:
        return object_of(await self._http.ask("GET", path))

    def _headers(self, method: str, path: str, body: bytes) -> Headers:
        assert self._signer is not None, "open() comes first"
        stamp = str(int(time.time()))
        return Headers(
            {
                "POLY_ADDRESS": self._signer.address,
                "POLY_API_KEY": self._credentials.reveal("api_key"),
                "POLY_PASSPHRASE": self._credentials.reveal("api_passphrase"),
                "POLY_SIGNATURE": _hmac(
                    self._credentials.reveal("api_secret"), stamp.encode() + method.encode() + path.encode() + body
                ),
                "POLY_TIMESTAMP": stamp,
            }
        )


def _hmac(secret: str, message: bytes) -> str:
    key = base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
    return base64.urlsafe_b64encode(hmac.new(key, message, hashlib.sha256).digest()).decode()
