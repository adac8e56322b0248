"""Hyperliquid's order format: assets, digit rules, the vault, the order itself. Pure; must not sign or send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from venues.credentials import HEX_ADDRESS
from venues.json_fields import shown
from venues.orders import OrderAction, Refused, places, plain

TIFS = {"gtc": "Gtc", "ioc": "Ioc", "alo": "Alo"}
SPOT_BASE = 10_000


@dataclass(frozen=True, slots=True)
class Asset:
    """One market: its number in requests, the venue's name for it, the decimals of a size."""

    number: int
    coin: str
    size_decimals: int

    @property
    def price_decimals(self) -> int:
        return (8 if self.number >= SPOT_BASE else 6) - self.size_decimals


def assets(meta: object, spot: object) -> dict[str, Asset]:
    """Return every asset by name. Raises KeyError, TypeError or ValueError for an unknown form."""
    if not isinstance(meta, dict) or not isinstance(spot, dict):
        raise TypeError
    return {**_spot_assets(spot), **_perp_assets(meta)}


def _perp_assets(meta: Mapping[str, object]) -> dict[str, Asset]:
    return {
        entry["name"]: Asset(number, entry["name"], int(entry["szDecimals"]))
        for number, entry in enumerate(_entries(meta, "universe"))
    }


def _spot_assets(meta: Mapping[str, object]) -> dict[str, Asset]:
    """Return spot assets by the venue's name ("@107", "PURR/USDC") and by "BASE/QUOTE" if only one has that."""
    by_index = {int(token["index"]): token for token in _entries(meta, "tokens")}
    named: dict[str, Asset] = {}
    pairs: dict[str, list[Asset]] = {}
    for entry in _entries(meta, "universe"):
        base, quote = (by_index[int(index)] for index in entry["tokens"])
        asset = Asset(SPOT_BASE + int(entry["index"]), entry["name"], int(base["szDecimals"]))
        named[asset.coin] = asset
        pairs.setdefault(f"{base['name']}/{quote['name']}", []).append(asset)
    for pair, found in pairs.items():
        if len(found) == 1:
            named.setdefault(pair, found[0])
    return named


def _entries(meta: Mapping[str, object], name: str) -> list[dict[str, Any]]:
    entries = meta[name]
    if not isinstance(entries, list):
        raise TypeError(name)
    return entries


def digits_refused(action: OrderAction, asset: Asset) -> Refused | None:
    """Check the venue's digit rules here, as the venue would refuse and an SDK would round."""
    price = action.price
    if price is None or action.order_type != "limit":
        return Refused("hyperliquid has no market orders: give the worst price you take, as a limit order, ioc")
    if places(action.quantity) > asset.size_decimals:
        return Refused(f"quantity {action.quantity}: {asset.coin} takes {asset.size_decimals} decimals")
    if price == price.to_integral_value():
        return None
    if places(price) > asset.price_decimals:
        return Refused(f"price {price}: {asset.coin} takes {asset.price_decimals} decimals")
    if len(price.normalize().as_tuple().digits) > 5:
        return Refused(f"price {price}: {asset.coin} takes 5 significant figures")
    return None


def vault_of(action: OrderAction) -> str | Refused | None:
    """Return the vault or sub-account that the action names, in lower case; None if it names none."""
    stated = action.terms.vault_address
    if stated is not None and not HEX_ADDRESS.fullmatch(stated):
        return Refused(f"vault_address {shown(stated)}: hyperliquid takes 0x and 40 hex digits")
    return None if stated is None else stated.lower()


def order_wire(action: OrderAction, asset: Asset, *, cloid: str, tif: str) -> dict[str, object]:
    """Return the order as the venue hashes it; the order of the keys is part of what is signed."""
    assert action.price is not None
    return {
        "a": asset.number,
        "b": action.side == "buy",
        "p": plain(action.price),
        "s": plain(action.quantity),
        "r": False,
        "t": {"limit": {"tif": TIFS[tif]}},
        "c": cloid,
    }
