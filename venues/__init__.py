"""The public face of the venue clients: `connect`, the profiles and the words for orders and outcomes.

Imports a venue's module only when that venue is asked for, so that importing this package loads no SDK and no
HTTP library. Must not know stores, entries or the console.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import cast

from venues.action import ActionFinding, Parsed, named_order, parse_action
from venues.client import (
    BadCredentials,
    Dedup,
    Learner,
    MissingCredentials,
    MissingExtra,
    NoPaperMode,
    Profile,
    Route,
    UnknownVenue,
    VenueClient,
    VenueError,
    WrongAccount,
    WrongMode,
)
from venues.credentials import Credentials, SecretSet
from venues.endpoint import BadEndpoint
from venues.orders import (
    Absent,
    Accepted,
    Found,
    Lookup,
    LookupFailed,
    Mode,
    NotSent,
    OrderAction,
    Outcome,
    Prepared,
    RateLimited,
    Readiness,
    Refused,
    Rejected,
    Status,
    Unknown,
    VenueOrder,
    Verb,
    differences,
)
from venues.quote import MarketView, Quote
from venues.terms import NO_TERMS, SentTerms, Terms

NAMES = ("alpaca", "kalshi", "hyperliquid", "polymarket", "ibkr")
CCXT = "ccxt:"
_HAS_PAPER: Mapping[str, bool] = {
    "alpaca": True,
    "kalshi": True,
    "hyperliquid": True,
    "polymarket": False,
    "ibkr": True,
}
_DEFAULT = Route()


def connect(name: str, mode: Mode, credentials: Credentials, route: Route = _DEFAULT) -> VenueClient:
    """Return a client that has sent nothing yet; its mode and address never change. Raises VenueError."""
    if mode not in ("paper", "live"):
        raise WrongMode("say paper or live")
    return cast("VenueClient", _module(name).connect(name, mode, credentials, route))


def credential_fields(name: str) -> tuple[str, ...]:
    """Return the names of the secrets this venue needs, in the order to ask for them."""
    module = _module(name)
    asked = module.credential_fields(name) if name.startswith(CCXT) else module.FIELDS
    return cast("tuple[str, ...]", tuple(asked))


def venue_profile(name: str) -> Profile:
    module = _module(name)
    return cast("Profile", module.profile(name) if name.startswith(CCXT) else module.PROFILE)


def has_paper(name: str) -> bool:
    """Tell whether the venue has a paper mode; imports its module only for `ccxt:`, where the exchange decides."""
    return _HAS_PAPER[name] if name in _HAS_PAPER else venue_profile(name).paper


def _module(name: str) -> ModuleType:
    if name.startswith(CCXT):
        return importlib.import_module("venues.ccxt.client")
    if name in NAMES:
        return importlib.import_module(f"venues.{name}.client")
    raise UnknownVenue(f"no venue {name[:40]!a}: {', '.join(NAMES)} or ccxt:<exchange_id>")


__all__ = [
    "NO_TERMS",
    "Absent",
    "Accepted",
    "ActionFinding",
    "BadCredentials",
    "BadEndpoint",
    "Credentials",
    "Dedup",
    "Found",
    "Learner",
    "Lookup",
    "LookupFailed",
    "MarketView",
    "MissingCredentials",
    "MissingExtra",
    "Mode",
    "NoPaperMode",
    "NotSent",
    "OrderAction",
    "Outcome",
    "Parsed",
    "Prepared",
    "Profile",
    "Quote",
    "RateLimited",
    "Readiness",
    "Refused",
    "Rejected",
    "Route",
    "SecretSet",
    "SentTerms",
    "Status",
    "Terms",
    "Unknown",
    "UnknownVenue",
    "VenueClient",
    "VenueError",
    "VenueOrder",
    "Verb",
    "WrongAccount",
    "WrongMode",
    "connect",
    "credential_fields",
    "differences",
    "has_paper",
    "named_order",
    "parse_action",
    "venue_profile",
]
