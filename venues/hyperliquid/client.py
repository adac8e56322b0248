"""Sends signed actions to Hyperliquid's `/exchange` and asks `/info`. The SDK signs, `venues.http` sends.

A request carries its nonce and its expiry, so that the same bytes are never two orders and a late one is refused.
The account is `account_address`, once the key is known to be its own or its agent's; an order for a vault or
sub-account is signed for that address and looked for there. Leaves the order format to `order` and reading to
`answers`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from venues import extra
from venues.answers import object_of
from venues.client import BadCredentials, Profile, Route, VenueError
from venues.credentials import HEX_ADDRESS, HEX_KEY, Credentials, check_shapes
from venues.endpoint import Endpoint, Hosts, choose
from venues.http_client import HttpClient
from venues.hyperliquid import answers as answer
from venues.hyperliquid import look as market
from venues.hyperliquid import order as wire
from venues.hyperliquid.lookup import venue_order
from venues.json_fields import Body, compact
from venues.message import Result
from venues.orders import (
    Absent,
    Found,
    Lookup,
    LookupFailed,
    Mode,
    NotSent,
    OrderAction,
    Outcome,
    Prepared,
    Readiness,
    Refused,
    default_tif_note,
)
from venues.quote import MOST_MARKETS, MarketView

FIELDS = ("private_key", "account_address")
HOSTS = Hosts(paper=("https://api.hyperliquid-testnet.xyz",), live=("https://api.hyperliquid.xyz",))
EXPIRES = 30.0
PROFILE = Profile(
    name="hyperliquid",
    dedup="none",  # the documentation does not say that a second order with the same cloid is refused
    arrival_bound=EXPIRES,
    visibility=60.0,
    definitive=frozenset((200, name) for name in answer.REFUSALS.values()) | {(422, "*")},
    rate_per_minute=1200,
    paper=True,
    lookup=True,
    replace=True,
    cancel=True,
    default_tif=wire.DEFAULT_TIF,
    tifs=frozenset(wire.TIFS),
    id_pattern=wire.CLOID,
    id_prefix="0x",
    tells_account=True,
    sends=wire.SENDS,
)


def connect(name: str, mode: Mode, credentials: Credentials, route: Route) -> HyperliquidClient:
    extra.require("hyperliquid", "hyperliquid")
    check_shapes(
        credentials,
        ("private_key", HEX_KEY, "not 32 bytes of hex"),
        ("account_address", HEX_ADDRESS, "not 0x and 40 hex digits"),
    )
    return HyperliquidClient(mode, choose(name, HOSTS, mode, route), credentials=credentials, route=route)


class HyperliquidClient(HttpClient):
    def __init__(self, mode: Mode, endpoint: Endpoint, *, credentials: Credentials, route: Route) -> None:
        super().__init__(PROFILE, mode, endpoint=endpoint, credentials=credentials, route=route)
        self._assets: dict[str, wire.Asset] = {}
        self._signing: Any = None
        self._wallet: Any = None
        self._last_nonce = 0

    async def open(self) -> None:
        self._signing = await extra.load("hyperliquid.utils.signing", "hyperliquid")
        account = await extra.load("eth_account", "hyperliquid")
        try:
            self._wallet = account.Account.from_key(self._credentials.reveal("private_key"))
        except ValueError:
            raise BadCredentials("private_key: not a key that can sign") from None
        try:
            self.account = await self._proven_account()
            self._assets = await self._told_assets()
        except VenueError:
            await self.aclose()
            raise

    async def _proven_account(self) -> str:
        """Return the account's address if the key may act for it. Raises BadCredentials, or VenueError if unknown."""
        account = self._credentials.reveal("account_address").lower()
        key = str(self._wallet.address).lower()
        if key == account:
            return account
        role = await self._info({"type": "userRole", "user": key})
        if isinstance(role, LookupFailed) or "role" not in role:
            why = role.why if isinstance(role, LookupFailed) else "an answer in an unknown form"
            raise VenueError(f"{self.host} did not say whether the key may act for {account}: {why}")
        if answer.account_of_agent(role) != account:
            raise BadCredentials(f"private_key: the key of {key}, which is neither {account} itself nor its agent")
        return account

    def account_of(self, action: OrderAction) -> str | None:
        """Return the vault or sub-account that the action names, else the account; None for a malformed one."""
        vault = wire.vault_of(action)
        return None if isinstance(vault, Refused) else vault or self.account

    async def _told_assets(self) -> dict[str, wire.Asset]:
        told = [await self._info({"type": kind}) for kind in ("meta", "spotMeta")]
        for each in told:
            if isinstance(each, LookupFailed):
                raise VenueError(f"{self.host} did not list its markets: {each.why}")
        try:
            return wire.assets(*told)
        except (KeyError, TypeError, ValueError):
            raise VenueError(f"{self.host} listed its markets in an unknown form") from None

    def _prepare(self, action: OrderAction, client_order_id: str) -> Prepared | Refused:
        asset, vault = self._assets.get(action.market_id), wire.vault_of(action)
        if asset is None:
            return Refused(f"hyperliquid has no market {action.market_id}")
        if action.verb != "cancel":
            if not self.profile.takes_id(client_order_id):
                return Refused(f"client order id {client_order_id}: must be 0x and 32 lower-case hex digits")
            if (refused := wire.refused(action, asset)) is not None:
                return refused
        command = _command(action, asset, cloid=client_order_id)
        if isinstance(command, Refused):
            return command
        if isinstance(vault, Refused):
            return vault
        return self._signed(action, command, cloid=client_order_id, vault=vault)

    def _signed(self, action: OrderAction, command: dict[str, object], *, cloid: str, vault: str | None) -> Prepared:
        nonce = self._last_nonce = max(int(time.time() * 1000), self._last_nonce + 1)
        expires = nonce + int(EXPIRES * 1000)
        live = self.mode == "live"
        signature = self._signing.sign_l1_action(self._wallet, command, vault, nonce, expires, live)
        payload = {
            "action": command,
            "nonce": nonce,
            "signature": signature,
            "vaultAddress": vault,
            "expiresAfter": expires,
        }
        notes: tuple[str, ...] = () if vault is None else (f"for the vault or sub-account {vault}",)
        if not action.time_in_force and action.verb != "cancel":
            notes += (default_tif_note(PROFILE.default_tif),)
        return Prepared(
            verb=action.verb,
            client_order_id=cloid,
            method="POST",
            path="/exchange",
            body=compact(payload),
            action=action,
            request={"nonce": nonce, "expires_after": expires},
            notes=notes,
            sent=wire.sent(action, cloid, vault=vault),
        )

    async def _send(self, prepared: Prepared) -> Outcome:
        expires = prepared.request.get("expires_after")
        if not isinstance(expires, int | Decimal) or expires <= time.time() * 1000:
            return NotSent("its signature has expired: prepare it again")
        return answer.outcome_of(await self._request(prepared), prepared)

    async def lookup(self, prepared: Prepared) -> Lookup:
        action = prepared.action
        aim = prepared.client_order_id
        if action.verb == "cancel":
            aim = action.venue_order_id or action.client_order_id or aim
        oid: int | str = int(aim) if aim.isdecimal() else aim
        user = self.account_of(action)
        if user is None:
            return LookupFailed("the account to ask about is not known")
        told = await self._info({"type": "orderStatus", "user": user, "oid": oid})
        if isinstance(told, LookupFailed):
            return told
        if told.get("status") == "unknownOid":
            return Absent()
        asset = self._assets.get(action.market_id)
        order = venue_order(told, action, coin=asset.coin if asset else None)
        if order is None:
            return LookupFailed("the answer is not in the venue's documented form")
        return Found(order)

    def market_key(self, action: OrderAction) -> str:
        """Return the market, and whose position it is looked at for: each vault has its own."""
        return market.key_of(action, wire.vault_of(action))

    async def look(self, actions: Sequence[OrderAction]) -> Mapping[str, MarketView]:
        asked = [
            market.Asked(self.market_key(one), self._assets.get(one.market_id), self.account_of(one))
            for one in actions[:MOST_MARKETS]
        ]
        return await market.look(self._told, asked)

    async def _told(self, question: Mapping[str, object]) -> Result:
        return await self._http.ask("POST", "/info", body=compact(question))

    async def probe(self) -> Readiness:
        state = await self._info({"type": "exchangeStatus"})
        if isinstance(state, LookupFailed):
            return Readiness(reachable=False, ready=False, detail=state.why)
        user = self._credentials.reveal("account_address").lower()
        account = await self._info({"type": "clearinghouseState", "user": user})
        usable = not isinstance(account, LookupFailed) and "marginSummary" in account
        special = state.get("specialStatuses")
        detail = f"special status: {special}" if special else "trading"
        if not usable:
            detail = "the account cannot be read"
        return Readiness(
            reachable=True,
            ready=usable and not special,
            detail=detail,
            market_open=not special,
            closed=usable and bool(special),
            account_usable=usable,
            really_paper=self._really_paper,
            server_time=_iso(state.get("time")),
        )

    async def _info(self, question: Mapping[str, object]) -> Body | LookupFailed:
        return object_of(await self._told(question))


def _command(action: OrderAction, asset: wire.Asset, *, cloid: str) -> dict[str, object] | Refused:
    if action.verb == "new":
        orders = wire.order_wires(action, asset, cloid=cloid)
        return {"type": "order", "orders": orders, "grouping": "na" if len(orders) == 1 else "normalTpsl"}
    if (target := wire.aim_of(action)) is None:
        return Refused(f"{action.verb} needs the venue's order id or the cloid of the order it aims at")
    if action.verb == "replace":
        (order,) = wire.order_wires(action, asset, cloid=cloid)
        return {"type": "batchModify", "modifies": [{"oid": target, "order": order}]}
    if isinstance(target, int):
        return {"type": "cancel", "cancels": [{"a": asset.number, "o": target}]}
    return {"type": "cancelByCloid", "cancels": [{"asset": asset.number, "cloid": target}]}


def _iso(value: object) -> str | None:
    return datetime.fromtimestamp(float(value) / 1000, UTC).isoformat() if isinstance(value, Decimal) else None
