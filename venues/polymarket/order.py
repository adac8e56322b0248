"""Polymarket's order format: ticks, amounts, the signed order and its hash. Must not send or read answers.

Uses the SDK's parts below `create_limit_order`, because that function sends requests of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from venues import extra
from venues.client import BadCredentials
from venues.credentials import Credentials
from venues.json_fields import compact
from venues.orders import OrderAction, Refused
from venues.polymarket.kind import Kind

OWNER = "{api_key}"  # stands for the API key in a stored body; filled in when it is sent
# The decimals of a market's shares in an order that spends money, by its tick.
_SHARE_DECIMALS = {
    Decimal("0.1"): 3,
    Decimal("0.01"): 4,
    Decimal("0.005"): 5,
    Decimal("0.0025"): 6,
    Decimal("0.001"): 5,
    Decimal("0.0001"): 6,
}
TICKS = frozenset(_SHARE_DECIMALS)
_UNIT = 1_000_000
_SIZE_DECIMALS = 2
_PARTS = "polymarket._internal.actions.orders"


@dataclass(frozen=True, slots=True)
class Market:
    tick: Decimal
    neg_risk: bool  # decides which of the venue's contracts the order is signed for


@dataclass(frozen=True, slots=True)
class SignedOrder:
    body: bytes
    order_hash: str


def read_market(token: str, told: Mapping[str, object]) -> Market | None:
    """Read the market from `/clob-markets/`; None if the form is unknown or the token is missing."""
    tokens, neg_risk = told.get("t"), told.get("nr", False)
    if not isinstance(tokens, list) or not isinstance(neg_risk, bool):
        return None
    if not any(isinstance(entry, dict) and entry.get("t") == token for entry in tokens):
        return None
    try:
        tick = Decimal(str(told.get("mts")))
    except ArithmeticError:
        return None
    return Market(tick, neg_risk) if tick in TICKS else None


def amounts(action: OrderAction, market: Market) -> tuple[int, int] | Refused:
    """Return what is offered and asked, in millionths; refuses a size that the SDK would round in silence."""
    price, size = action.price, action.quantity
    if price is None:
        return Refused("polymarket orders are sent with a price only")
    if price % market.tick != 0 or not market.tick <= price <= 1 - market.tick:
        return Refused(
            f"price {price}: this market takes multiples of {market.tick} from {market.tick} to {1 - market.tick}"
        )
    if action.terms.notional is not None:
        return _spending(action.terms.notional, price, market)
    if size <= 0 or size != round(size, _SIZE_DECIMALS):
        return Refused(f"quantity {size}: polymarket takes {_SIZE_DECIMALS} decimals, above zero")
    shares, money = int(size * _UNIT), size * price * _UNIT
    if money != int(money):
        return Refused(f"quantity {size} at {price} is not a whole number of millionths of a dollar")
    return (int(money), shares) if action.side == "buy" else (shares, int(money))


def _spending(money: Decimal, price: Decimal, market: Market) -> tuple[int, int] | Refused:
    """Return the money and the fewest shares for it, which is how an order says the highest price.

    The shares are cut off at the decimals that the venue takes. That must not let in the next price of any market.
    """
    if money != round(money, _SIZE_DECIMALS):
        return Refused(f"notional {money}: polymarket takes {_SIZE_DECIMALS} decimals")
    decimals = _SHARE_DECIMALS[market.tick]
    shares = int(Fraction(money) / Fraction(price) * 10**decimals) * _UNIT // 10**decimals
    offered = int(money * _UNIT)
    if offered >= shares * (price + min(TICKS)):
        return Refused(f"notional {money} is too little to be sent with the price {price} exactly")
    return offered, shares


class Signer:
    """Signs orders with the wallet's key through the SDK's parts."""

    def __init__(self, parts: Mapping[str, Any], credentials: Credentials) -> None:
        self._parts = parts
        self._config = parts["environments"].PRODUCTION._config
        try:
            self._account = parts["account"].Account.from_key(credentials.reveal("private_key"))
        except (ValueError, TypeError):
            raise BadCredentials("private_key: not a key that can sign") from None
        self._wallet = parts["address"].to_checksum_address(credentials.reveal("wallet"))
        self._kind = parts["wallet"].classify_account(
            signer=self._account.address, wallet=self._wallet, config=self._config.wallet_derivation
        )

    @classmethod
    async def load(cls, credentials: Credentials) -> Signer:
        names = {
            "environments": "polymarket.environments",
            "wallet": "polymarket._internal.wallet",
            "account": "eth_account",
            "messages": "eth_account.messages",
            "address": "eth_utils.address",
            "crypto": "eth_utils.crypto",
            **{name: f"{_PARTS}.{name}" for name in ("context", "orders", "post", "typed_data", "types")},
        }
        return cls({key: await extra.load(name, "polymarket") for key, name in names.items()}, credentials)

    @property
    def address(self) -> str:
        return str(self._account.address)

    @property
    def by_session_key(self) -> bool:
        """Whether the SDK signs as a session key, because this key does not own the wallet."""
        return bool(self._kind.signer_type == "SESSION_KEY")

    def sign(self, action: OrderAction, market: Market, *, amounts: tuple[int, int], kind: Kind) -> SignedOrder:
        parts, config = self._parts, self._config
        draft = parts["types"].OrderDraft(
            chain_id=config.chain_id,
            exchange_address=parts["context"].resolve_order_exchange_address(
                config, asset_id=action.market_id, neg_risk=market.neg_risk
            ),
            expiration=kind.expiration,
            funder_address=self._wallet,
            offered_amount=amounts[0],
            order_type=kind.wire,
            side="BUY" if action.side == "buy" else "SELL",
            signer=self._account.address,
            requested_amount=amounts[1],
            asset_id=action.market_id,
        )
        unsigned = parts["orders"].create_unsigned_order(draft, wallet=self._wallet, wallet_type=self._kind.wallet_type)
        typed = parts["typed_data"].build_order_typed_data(unsigned)
        raw = self._account.sign_typed_data(full_message=typed).signature.hex().removeprefix("0x")
        signature = parts["wallet"].wrap_deposit_wallet_signature(
            signer=self._account.address,
            signer_type=self._kind.signer_type,
            signature=parts["typed_data"].build_order_signature(unsigned, "0x" + raw),
        )
        order = parts["orders"].create_signed_order(unsigned, signature, post_only=bool(action.terms.post_only))
        _, payload = parts["post"].build_post_order_request(order, owner_api_key=OWNER)
        return SignedOrder(compact(payload), self._hash(typed))

    def _hash(self, typed: dict[str, Any]) -> str:
        """Return the EIP-712 hash of the bare order, which is the venue's order id however it is signed."""
        if typed["primaryType"] != "Order":
            types = {name: typed["types"][name] for name in ("EIP712Domain", "Order")}
            typed = {
                "types": types,
                "primaryType": "Order",
                "domain": typed["domain"],
                "message": typed["message"]["contents"],
            }
        message = self._parts["messages"].encode_typed_data(full_message=typed)
        return "0x" + str(self._parts["crypto"].keccak(b"\x19\x01" + message.header + message.body).hex())
