"""Polymarket's CLOB on loopback: the practice exchange's book and faults behind Polymarket's own paths and texts.

Checks what the venue would: L2 headers, the order's signature, and that an order hash comes only once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak

from venues.practice import PracticeExchange
from venues.practice.accounts import letters
from venues.practice.book import Desk, Draft, Order
from venues.practice.format import Call, Moment, says
from venues.practice.wire import WireReply, WireRequest

TOKEN = "71321045679252212594626385532706912750332728571942532289631379312455583992563"
CONDITION = "0x" + "5e" * 32
EXCHANGES = {False: "0xE111180000d2663C0091e4f400237545B87B996B", True: "0xe2222d279d744050d28e00520010520000310F59"}
UNIT = 1_000_000
ORDER_FIELDS = (
    ("salt", "uint256"),
    ("maker", "address"),
    ("signer", "address"),
    ("tokenId", "uint256"),
    ("makerAmount", "uint256"),
    ("takerAmount", "uint256"),
    ("side", "uint8"),
    ("signatureType", "uint8"),
    ("timestamp", "uint256"),
    ("metadata", "bytes32"),
    ("builder", "bytes32"),
)


class Polymarket:
    name = "polymarket"
    ids = frozenset(("orderID", "id"))
    client_ids = frozenset(("orderID",))
    quantities = frozenset(("original_size",))
    stranger = "0x" + "ff" * 32

    def __init__(self, secret: str, *, neg_risk: bool = False, tick: str = "0.01") -> None:
        self.secret = secret
        self.neg_risk = neg_risk
        self.tick = tick
        self.requests: list[WireRequest] = []

    def route(self, request: WireRequest, desk: Desk) -> Call | None:
        self.requests.append(request)
        desk.account = letters(request.headers.get("poly_api_key", ""), 10)
        match request.method, request.parts:
            case "GET", ("ok",):
                return Call("probe", says(WireReply(200, raw=b'"OK"')))
            case "GET", ("markets-by-token", token):
                return Call("other", says(WireReply(200, {"condition_id": CONDITION, "primary_token_id": token})))
            case "GET", ("clob-markets", _):
                told = {"t": [{"t": TOKEN, "o": "Yes"}], "mts": self.tick, "nr": self.neg_risk}
                return Call("other", says(WireReply(200, told)))
            case "GET", ("auth", "ban-status", "closed-only"):
                return Call("probe", self._with_keys(request, lambda _: WireReply(200, {"closed_only": False})))
            case "GET", ("data", "order", order_hash):
                return Call("lookup", self._with_keys(request, lambda desk: _shown(desk, order_hash)), TOKEN)
            case "POST", ("books",):
                return Call("other", lambda desk: WireReply(200, _books(desk, request)))
            case "GET", ("data", "orders"):
                return Call("other", self._with_keys(request, lambda desk: _listed(desk, request)), TOKEN)
            case "POST", ("order",):
                return Call("new", self._with_keys(request, lambda desk: self._placed(desk, request)), TOKEN)
            case "DELETE", ("order",):
                return Call("cancel", self._with_keys(request, lambda desk: _cancelled(desk, request)), TOKEN)
            case _:
                return None

    def error(self, status: int, moment: Moment, /) -> WireReply:
        texts = {400: "Invalid order payload", 401: "Unauthorized/Invalid api key", 429: "Too Many Requests"}
        headers = {"Retry-After": str(max(1, round(moment.seconds)))} if status == 429 else {}
        return WireReply(status, {"error": texts.get(status, f"error {status}")}, headers=headers)

    def refusal(self, call: Call, /) -> WireReply:
        if call.kind == "cancel":
            return WireReply(400, {"error": "Invalid orderID"})
        return WireReply(400, {"error": "not enough balance / allowance"})

    def _with_keys(self, request: WireRequest, act: Any) -> Any:
        return act if self._authentic(request) else says(self.error(401, Moment(cast(Any, None))))

    def _authentic(self, request: WireRequest) -> bool:
        headers = request.headers
        message = headers["poly_timestamp"] + request.method + request.path + request.text
        key = base64.urlsafe_b64decode(self.secret)
        right = base64.urlsafe_b64encode(hmac.new(key, message.encode(), hashlib.sha256).digest()).decode()
        return headers["poly_signature"] == right and {"poly_address", "poly_api_key", "poly_passphrase"} <= set(
            headers
        )

    def _placed(self, desk: Desk, request: WireRequest) -> WireReply:
        body = request.object() or {}
        order = cast("dict[str, Any]", body.get("order", {}))
        order_hash, signer = signed_order(order, neg_risk=self.neg_risk)
        if body.get("owner") != request.headers["poly_api_key"]:
            return WireReply(400, {"error": "the order owner has to be the owner of the API KEY"})
        if signer != order["signer"] or signer != request.headers["poly_address"]:
            return WireReply(400, {"error": "the order signer address has to be the address of the API KEY"})
        if desk.order(order_hash) is not None:
            return WireReply(400, {"error": f"order {order_hash} is invalid. Duplicated."})
        desk.place(_draft(order, str(body["orderType"])), order_hash)
        amounts = {"makingAmount": "", "takingAmount": ""}
        return WireReply(200, {"errorMsg": "", "orderID": order_hash, "status": "live", "success": True, **amounts})


def signed_order(order: Mapping[str, Any], *, neg_risk: bool) -> tuple[str, str]:
    """The EIP-712 hash of an order as it came on the wire, and who signed it: computed without the SDK."""
    numbers = {"salt", "tokenId", "makerAmount", "takerAmount", "signatureType", "timestamp"}
    message = {name: int(order[name]) if name in numbers else order[name] for name, _ in ORDER_FIELDS}
    message["side"] = {"BUY": 0, "SELL": 1}[order["side"]]
    domain = {
        "name": "Polymarket CTF Exchange",
        "version": "2",
        "chainId": 137,
        "verifyingContract": EXCHANGES[neg_risk],
    }
    types = {"Order": [{"name": name, "type": kind} for name, kind in ORDER_FIELDS]}
    encoded = encode_typed_data(domain_data=domain, message_types=types, message_data=message)
    digest = "0x" + keccak(b"\x19\x01" + encoded.header + encoded.body).hex()
    return digest, Account.recover_message(encoded, signature=order["signature"])


def _draft(order: Mapping[str, Any], order_type: str) -> Draft:
    maker, taker = Decimal(order["makerAmount"]) / UNIT, Decimal(order["takerAmount"]) / UNIT
    buys = order["side"] == "BUY"
    size, money = (taker, maker) if buys else (maker, taker)
    return Draft(
        symbol=order["tokenId"],
        side="buy" if buys else "sell",
        quantity=size,
        order_type="limit",
        price=money / size,
        time_in_force=order_type,
        client_order_id="",
        wire={"expiration": order["expiration"]},
    )


def _shown(desk: Desk, order_hash: str) -> WireReply:
    order = desk.order(order_hash)
    return WireReply(404, {"error": "order not found"}) if order is None else WireReply(200, _told(order))


def _told(order: Order) -> dict[str, object]:
    statuses = {"open": "LIVE", "partly_filled": "LIVE", "filled": "MATCHED", "cancelled": "CANCELED"}
    return {
        "id": order.order_id,
        "status": f"ORDER_STATUS_{statuses[order.state]}",
        "asset_id": order.symbol,
        "side": order.side.upper(),
        "original_size": format(order.quantity.normalize(), "f"),
        "size_matched": format(order.filled, "f"),
        "price": format(order.price or 0, "f"),
        "order_type": order.time_in_force,
        "expiration": order.wire["expiration"],
    }


def _books(desk: Desk, request: WireRequest) -> list[dict[str, object]]:
    """The best price is the last one of each side."""
    told: list[dict[str, object]] = []
    for one in json.loads(request.body):
        quote = desk.quote(one["token_id"])
        if quote is not None:
            bids = [{"price": "0.01", "size": "100"}, {"price": str(quote.bid), "size": "5"}]
            asks = [{"price": "0.99", "size": "100"}, {"price": str(quote.ask), "size": "5"}]
            stamp = str(int(quote.at.timestamp() * 1000))
            told.append({"asset_id": one["token_id"], "timestamp": stamp, "bids": bids, "asks": asks})
    return told


def _listed(desk: Desk, request: WireRequest) -> WireReply:
    rows = [_told(order) for order in desk.shown(request.params.get("asset_id")) if order.live]
    return WireReply(200, {"data": rows, "next_cursor": "LTE=", "limit": 500, "count": len(rows)})


def _cancelled(desk: Desk, request: WireRequest) -> WireReply:
    aim = str((request.object() or {}).get("orderID"))
    order = desk.order(aim)
    if order is None or not order.live:
        return WireReply(
            200, {"canceled": [], "not_canceled": {aim: "order can't be found - already canceled or matched"}}
        )
    desk.cancel(order)
    return WireReply(200, {"canceled": [aim], "not_canceled": {}})


class PolymarketExchange(PracticeExchange):
    """The practice exchange with this one format instead of its own."""

    def __init__(self, format_: Polymarket) -> None:
        super().__init__(fsync=False)
        self.format = format_
        self._formats = (format_,)
