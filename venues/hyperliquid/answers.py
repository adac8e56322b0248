"""Reads what Hyperliquid answers to an order. Pure; must not build or send requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from venues import answers
from venues.hyperliquid.order import exits_of
from venues.json_fields import Body, figure, inner, text
from venues.message import Reply, Result
from venues.orders import (
    Accepted,
    Outcome,
    Prepared,
    RateLimited,
    Rejected,
    Unknown,
)

# The venue has no error codes, so match the beginning of its documented texts. Names are as in its documentation.
REFUSALS: Mapping[str, str] = {
    "Price must be divisible by tick size": "Tick",
    "Order must have minimum value of": "MinTradeNtl",
    "Insufficient margin to place order": "PerpMargin",
    "Reduce only order would increase position": "ReduceOnly",
    "Post only order would have immediately matched": "BadAloPx",
    "Order could not immediately match against any resting orders": "IocCancel",
    "Invalid TP/SL price": "BadTriggerPx",
    "No liquidity available for market order": "MarketOrderNoLiquidity",
    "Order would increase open interest": "OpenInterest",
    "Order rejected due to price more aggressive than oracle": "TooAggressiveAtOpenInterestCap",
    "Order has insufficient spot balance": "InsufficientSpotBalance",
    "Insufficient spot balance": "InsufficientSpotBalance",
    "Order price too far from oracle": "Oracle",
    "Order price cannot be more than": "Oracle",
    "Order would cause position to exceed margin tier limit": "PerpMaxPosition",
    "Order has invalid price": "InvalidPrice",
    "Order has invalid size": "InvalidSize",
    "Order has zero size": "InvalidSize",
    "Order was never placed, already canceled, or filled": "MissingOrder",
    "Cannot modify canceled or filled order": "MissingOrder",
    "User or API Wallet": "UnknownWallet",
    "Must deposit before performing actions": "NoDeposit",
}
_LAYER = "L1 error: "  # stands before some of these texts
_TOO_MANY = "Too many cumulative requests"
_NO_WALLET = "User or API Wallet"  # other words may stand before it
_WAITING = ("waitingForFill", "waitingForTrigger")  # taken, and without an order id so far
_ARRIVED = re.compile(r"duplicate|already (?:been )?(?:placed|used|exists?)", re.IGNORECASE)


def outcome_of(result: Result, prepared: Prepared) -> Outcome:
    return answers.outcome_of(result, lambda reply: _read(reply, prepared))


def _read(reply: Reply, prepared: Prepared) -> Outcome:
    if reply.status == 422 and reply.body.startswith(b"Failed to deserialize"):
        return Rejected("422", "the venue could not read the request")
    answer = reply.json() if reply.status == 200 else None
    if answer is None:
        return Unknown(f"HTTP {reply.status} without the venue's own answer")
    response = answer.get("response")
    if answer.get("status") == "err" and isinstance(response, str):
        return _refusal(response)
    if answer.get("status") == "ok" and prepared.verb == "new" and (exits := exits_of(prepared.action)):
        return _placed_with(_all_statuses(response), [name for name, *_ in exits], prepared)
    status = _first_status(response) if answer.get("status") == "ok" else None
    if prepared.verb == "cancel" and status == "success":
        aim = prepared.action.venue_order_id or prepared.action.client_order_id or prepared.client_order_id
        return Accepted(aim, "cancelled")
    return _placed(status, prepared) if isinstance(status, dict) else _without_number(status)


def _all_statuses(response: object) -> object:
    data = response.get("data") if isinstance(response, dict) else None
    return data.get("statuses") if isinstance(data, dict) else None


def _first_status(response: object) -> object:
    statuses = _all_statuses(response)
    return statuses[0] if isinstance(statuses, list) and len(statuses) == 1 else None


def _placed_with(statuses: object, exits: list[str], prepared: Prepared) -> Outcome:
    """Read the answer to an order with exits: one status each, or one refusal for them all."""
    told = statuses if isinstance(statuses, list) else []
    errors = [one.get("error") if isinstance(one, dict) else None for one in told]
    if len(told) == 1 and isinstance(errors[0], str):
        return _refusal(errors[0])
    if len(told) != 1 + len(exits):
        return Unknown("the answer does not tell of the order and each of its exits")
    main, *children = told
    if isinstance(errors[0], str):
        refused = _refusal(errors[0])
        return refused if all(errors) else Unknown(f"the order was refused but not its exits: {errors[0][:200]}")
    outcome = _placed(main, prepared) if isinstance(main, dict) else _without_number(main)
    taken = isinstance(outcome, Accepted) or (isinstance(outcome, Unknown) and outcome.arrived)
    for name, child, error in zip(exits, children, errors[1:], strict=True):
        if taken and not _is_waiting(child):
            said = error if isinstance(error, str) else "an unknown answer"
            return Unknown(f"the order was taken but not its {name}, a person has to look: {said[:200]}", arrived=True)
    return outcome


def _is_waiting(child: object) -> bool:
    if isinstance(child, dict):
        return isinstance(child.get("resting"), dict) or isinstance(child.get("filled"), dict)
    return child in _WAITING


def _without_number(status: object) -> Outcome:
    if status in _WAITING:
        return Unknown(f"the venue took it and gave no order id yet: {status}", arrived=True)
    return Unknown("the answer is not in the venue's documented form")


def _placed(status: Mapping[str, object], prepared: Prepared) -> Outcome:
    if isinstance(error := status.get("error"), str):
        return _refusal(error)
    for word in ("resting", "filled"):
        body = status.get(word)
        if not isinstance(body, dict) or not isinstance(oid := body.get("oid"), Decimal):
            continue
        if body.get("cloid", prepared.client_order_id) != prepared.client_order_id:
            return Unknown("the answer names another client order id")
        if word == "resting":
            return Accepted(str(oid), "open")
        total = figure(body, "totalSz")
        return Accepted(str(oid), "filled" if total == prepared.action.quantity else "partly_filled")
    return Unknown("accepted, it seems, but without an order id")


def _refusal(said: str) -> Outcome:
    if _says_arrived(said):
        return Unknown(f"the venue knows it already: {said[:200]}", arrived=True)
    if said.removeprefix(_LAYER).startswith(_TOO_MANY):
        return RateLimited()
    if (name := _refusal_name(said)) is None:
        return Unknown(f"an answer not known to be a refusal: {said[:200]}")
    return Rejected(name, said)


def account_of_agent(role: Body) -> str | None:
    """Return the account that a key may act for, by the answer to `userRole`; None for a key that is no agent."""
    return text(inner(role, "data"), "user").lower() or None if text(role, "role") == "agent" else None


def _refusal_name(said: str) -> str | None:
    """Return the documented name of this refusal; None if the text is not known to mean "not placed"."""
    bare = said.removeprefix(_LAYER)
    if _NO_WALLET in bare:
        return REFUSALS[_NO_WALLET]
    return next((name for start, name in REFUSALS.items() if bare.startswith(start)), None)


def _says_arrived(said: str) -> bool:
    return _ARRIVED.search(said) is not None
