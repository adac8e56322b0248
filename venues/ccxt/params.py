"""The `params` of a ccxt call: an action's own as given, and its other terms under ccxt's unified names.

What cannot be said there is refused by name. Must not know an exchange object, nor send anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from dlq_sink.terms import IN_PARAMS_OF, fold, is_set

from venues.ccxt import options, words
from venues.ccxt.table import ID_PARAMS, Row
from venues.orders import OrderAction, Refused, plain
from venues.terms import WITH_PRICE, ExitTerms, Terms

# Every name under which an exchange takes a client order id.
_ID_NAMES = re.compile(
    r"clientorderid|newclientorderid|clientalgoid|algoclordid|orderlinkid|clordid|cliordid|clientoid|clientid|cloid"
    r"|externaloid|exclientorderid|customid|identifier|cid|label|text|newclientstrategyid"
)
TIF_SENT = ("ioc", "fok", "po")
_POST = frozenset(("po", "gtx", "postonly"))


@dataclass(frozen=True, slots=True)
class Part:
    """Something that the request must say: its name, the keys of `params` that say it, and its numbers."""

    name: str
    keys: tuple[str, ...]
    numbers: tuple[Decimal, ...] = ()


def merged(
    action: OrderAction, client_order_id: str | None, *, row: Row, contract: bool
) -> dict[str, object] | Refused:
    """Return the params of the call; `client_order_id` is None where the exchange is told none."""
    if (refused := _unfit(action, client_order_id)) is not None:
        return refused
    stated = {IN_PARAMS_OF.get(fold(key)) for key, value in action.params.items() if is_set(key, value)}
    made = {key: _taken(value) for key, value in action.params.items() if fold(key) != "clientorderid"}
    unsent = [name for name in action.terms.names if name not in stated and name not in words.UNIFIED]
    if unsent:
        return Refused(f"ccxt has no name for {', '.join(unsent)}", unsent=tuple(unsent))
    for name in action.terms.names:
        if name not in stated:
            key = words.UNIFIED[name]
            if name == "stop_price" and action.order_type in ("stop", "stop_limit"):
                key = _stop_name(row, contract=contract)
                if not key:
                    return Refused(
                        f"{row.exchange_id}: on which side of the market ccxt's trigger waits is not known",
                        unsent=("stop_price",),
                    )
            made[key] = _taken(getattr(action.terms, name))
    if action.time_in_force in TIF_SENT and "time_in_force" not in stated and action.order_type in WITH_PRICE:
        made["timeInForce"] = action.time_in_force.upper()
    _direct(action, made, row=row, contract=contract)
    if client_order_id is not None:
        made[ID_PARAMS.get(row.exchange_id, "clientOrderId")] = client_order_id
        if row.exchange_id in words.WAITING_ID and words.WAITS_FOR & {*action.terms.names}:
            made[words.WAITING_ID[row.exchange_id]] = client_order_id
    return made


def parts(action: OrderAction, made: Mapping[str, object]) -> tuple[Part, ...]:
    """Return everything of the action that stands in the params and that the request must say."""
    found: dict[str, list[str]] = {}
    for key, value in made.items():
        if not is_set(key, value) or _ID_NAMES.fullmatch(fold(key)):
            continue
        name = IN_PARAMS_OF.get(fold(key))
        if name == "stop_loss_price" and action.terms.stop_loss_price is None:
            name = "stop_price"  # a stop, under the name that the exchange has for it
        found.setdefault(name or f"params.{key}", []).append(key)
    twins = [key for name in ("post_only", "time_in_force") for key in found.get(name, ()) if _posts(made[key])]
    for name in ("post_only", "time_in_force"):
        if {*found.get(name, ())} & {*twins}:  # two names of one thing: neither makes a difference alone
            found[name] = twins
    return tuple(Part(name, tuple(keys), _numbers(action, name, made=made, keys=keys)) for name, keys in found.items())


def own_numbers(terms: Terms) -> list[Decimal]:
    """Return the numbers that the terms may have in a request; money is counted apart."""
    held = [getattr(terms, name) for name in terms.names if name != "notional"]
    exits = [price for one in held if isinstance(one, ExitTerms) for price in (one.stop_price, one.limit_price)]
    percent = terms.trail_percent
    scaled = [] if percent is None else [percent / 100, percent * 100]  # as exchanges count it
    return [one for one in (*held, *exits, *scaled) if isinstance(one, Decimal)]


def _posts(value: object) -> bool:
    return value is True or fold(str(value)) in _POST


def _numbers(action: OrderAction, name: str, *, made: Mapping[str, object], keys: list[str]) -> tuple[Decimal, ...]:
    held = getattr(action.terms, name, None)
    match held:
        case Decimal():
            return (held,)
        case ExitTerms():
            return tuple(price for price in (held.stop_price, held.limit_price) if price is not None)
    given = [made[key] for key in keys]
    return tuple(
        Decimal(repr(value)) for value in given if isinstance(value, int | float) and not isinstance(value, bool)
    )


def _stop_name(row: Row, *, contract: bool) -> str:
    if row.exchange_id == "kucoin" and contract:
        return "triggerPrice"
    return words.STOP_NAME.get(row.exchange_id, "")


def _direct(action: OrderAction, made: dict[str, object], *, row: Row, contract: bool) -> None:
    """Say from which side the price reaches a stop, where the exchange asks for it."""
    directed = row.exchange_id in words.DIRECTED and contract and "triggerPrice" in made
    if directed and action.order_type in ("stop", "stop_limit"):
        made.setdefault("triggerDirection", "ascending" if action.side == "buy" else "descending")


def _unfit(action: OrderAction, client_order_id: str | None) -> Refused | None:
    for key, value in action.params.items():
        if (refused := _unfit_key(key, value, client_order_id)) is not None:
            return refused
        if (lost := _inexact(value)) is not None:
            return Refused(f"params.{key}: {lost} has more digits than ccxt takes", unsent=(f"params.{key}",))
    for name in action.extra:
        exit_name, _, key = name.partition(".")
        inside = action.params.get(words.UNIFIED.get(exit_name, ""))
        if key and exit_name in ("take_profit", "stop_loss") and not (isinstance(inside, Mapping) and key in inside):
            return Refused(f"{name} is not sent: ccxt takes it in params only", unsent=(name,))
    for name in action.terms.names:
        if (lost := _inexact(getattr(action.terms, name))) is not None:
            return Refused(f"{name}: {lost} has more digits than ccxt takes")
    return None


def _unfit_key(key: str, value: object, client_order_id: str | None) -> Refused | None:
    name = fold(key)
    if name == "clientorderid":  # the call's own, which is put in its place
        return None
    if _ID_NAMES.fullmatch(name) is not None:
        if is_set(key, value) and str(value) != client_order_id:
            return Refused(f"params.{key} is another client order id than the one that is looked up")
        return None
    why = words.REMEASURES.get(name) or (options.unsafe(key) if name not in IN_PARAMS_OF else None)
    return None if why is None else Refused(f"params.{key}: {why}", unsent=(f"params.{key}",))


def _inexact(value: object) -> str | None:
    """Return the first number that a float cannot hold."""
    match value:
        case Decimal():
            return None if Decimal(repr(float(value))) == value else plain(value)
        case ExitTerms():
            return _inexact(value.stop_price) or _inexact(value.limit_price)
        case Mapping():
            return next((lost for inner in value.values() if (lost := _inexact(inner)) is not None), None)
        case list() | tuple():
            return next((lost for inner in value if (lost := _inexact(inner)) is not None), None)
        case _:
            return None


def number(value: Decimal) -> int | float:
    """Return a number as the call had it: `2` is an int, `2.0` and `0.5` are floats."""
    exponent = value.as_tuple().exponent
    return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)


def _taken(value: object) -> object:
    """Return a value as ccxt takes it, everything but a Decimal as given."""
    match value:
        case Decimal():
            return number(value)
        case ExitTerms():
            held = {word: getattr(value, name) for name, word in words.EXIT_WORDS.items()}
            return {word: number(given) for word, given in held.items() if given is not None}
        case Mapping():
            return {key: _taken(inner) for key, inner in value.items()}
        case list():
            return [_taken(inner) for inner in value]
        case _:
            return value
