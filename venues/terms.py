"""The terms of an order as typed, neutral values, how they are read, and what a venue's client declares to send.

Reading never guesses: a value of the wrong kind raises TermFault. Must not know a venue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dlq_sink.terms import EXIT_NAMES, IN_PARAMS_OF, LEG_NAMES, TERMS, by_spelling, fold, is_set

from venues.json_fields import DocumentError, as_number, shown

if TYPE_CHECKING:
    from venues.orders import OrderAction

ORDER_CLASSES = frozenset({"simple", "bracket", "oco", "oto", "mleg"})
TYPES = ("market", "limit", "stop", "stop_limit", "trailing_stop")
WITH_PRICE = ("limit", "stop_limit")
_EXIT_OF = by_spelling(EXIT_NAMES)
_LEG_OF = by_spelling(LEG_NAMES)
_MOST_LEGS = 16
_SECONDS = range(10**9, 10**10)  # 2001 to 2286
_MILLISECONDS = range(10**12, 10**13)


class TermFault(ValueError):
    """A term whose value cannot be read; `str()` says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ExitTerms:
    """An order attached to another one that closes it: a limit takes the profit, a stop bounds the loss."""

    stop_price: Decimal | None = None
    limit_price: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Leg:
    market_id: str
    ratio: Decimal
    side: str | None = None
    position_intent: str | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """None: not set, and of a venue's order: it does not say. An action's flags are True or None."""

    stop_price: Decimal | None = None
    stop_loss_price: Decimal | None = None
    take_profit_price: Decimal | None = None
    trail_price: Decimal | None = None
    trail_percent: Decimal | None = None
    notional: Decimal | None = None
    reduce_only: bool | None = None
    post_only: bool | None = None
    extended_hours: bool | None = None
    position_intent: str | None = None
    order_class: str | None = None
    take_profit: ExitTerms | None = None
    stop_loss: ExitTerms | None = None
    legs: tuple[Leg, ...] | None = None
    expire_at: datetime | None = None
    margin_mode: str | None = None
    leverage: Decimal | None = None
    subaccount: str | None = None
    vault_address: str | None = None
    order_group_id: str | None = None
    cancel_on_pause: bool | None = None
    oca_group: str | None = None
    oca_type: str | None = None
    parent_client_order_id: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the terms that are set."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name) not in (None, False, ""))

    def document(self) -> dict[str, Any]:
        """What is set, by neutral name, as plain values: numbers are Decimals, times ISO text."""
        return {name: _plain(getattr(self, name)) for name in self.names}

    def overlaid(self, other: Terms) -> Terms:
        """These terms with the other's in place of those that the other sets."""
        mine = {name: getattr(self, name) for name in self.names}
        return Terms(**(mine | {name: getattr(other, name) for name in other.names}))


NO_TERMS = Terms()


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case tuple():
            return [_plain(one) for one in value]
        case ExitTerms() | Leg():
            held = {one.name: getattr(value, one.name) for one in fields(value)}
            return {name: inner for name, inner in held.items() if inner is not None}
        case _:
            return value


def read_terms(document: Mapping[str, object]) -> Terms:
    """The terms of what `Terms.document` wrote. Raises TermFault."""
    return Terms(**{name: read_term(name, value).value for name, value in document.items()})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class ReadTerm:
    value: object
    unknown: Mapping[str, object] = field(default_factory=dict)  # keys inside it that nobody knows, as dotted paths


def read_term(name: str, value: object) -> ReadTerm:
    """The value of a set term. Raises TermFault."""
    kind = TERMS[name][0]
    try:
        match kind:
            case "number":
                return ReadTerm(_number(value))
            case "flag":
                return ReadTerm(_flag(value))
            case "word":
                return ReadTerm(_class(_text(value).lower()) if name == "order_class" else _text(value).lower())
            case "text":
                return ReadTerm(_text(value))
            case "moment":
                return ReadTerm(_moment(value))
            case "exit":
                return _exit(name, value)
            case "legs":
                return _legs(value)
    except DocumentError as fault:
        raise TermFault(f"{name}: {fault.text}") from None
    except TermFault as fault:
        raise TermFault(f"{name}: {fault}") from None


def _number(value: object) -> Decimal:
    number = as_number(value)
    if number is None or number <= 0:
        raise TermFault(f"{number} is not above zero")
    return number


def _flag(value: object) -> bool:
    if value is not True:
        raise TermFault(f"{shown(value)} is neither true nor false")
    return True


def _text(value: object) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not text.isprintable() or len(text) > 128 or text != text.strip():
        raise TermFault(f"{shown(value)} is not plain text")
    return text


def _class(word: str) -> str:
    if word not in ORDER_CLASSES:
        raise TermFault(f"{shown(word)} is not one of {', '.join(sorted(ORDER_CLASSES))}")
    return word


def _moment(value: object) -> datetime:
    """An ISO time with its zone, or seconds or milliseconds since 1970; no number can be meant as both."""
    try:
        if isinstance(value, str) and not value.isdecimal():
            at = datetime.fromisoformat(value)
            if at.utcoffset() is None:
                raise TermFault(f"{shown(value)} has no zone")
            return at.astimezone(UTC)
        number = as_number(value)
        if number is not None and int(number) in _SECONDS:
            return datetime.fromtimestamp(float(number), UTC)
        if number is not None and int(number) in _MILLISECONDS:
            return datetime.fromtimestamp(float(number / 1000), UTC)
    except (ValueError, OverflowError, OSError) as fault:
        if isinstance(fault, TermFault | DocumentError):
            raise
    raise TermFault(f"{shown(value)} is not a time")


def _known(document: object, names: Mapping[str, str], path: str) -> tuple[dict[str, object], dict[str, object]]:
    """(what is set by neutral name, what nobody knows by its path). Raises TermFault for two names that disagree."""
    if not isinstance(document, Mapping):
        raise TermFault(f"{shown(document)} is not an object")
    found: dict[str, object] = {}
    unknown: dict[str, object] = {}
    for key, value in document.items():
        if not is_set(key, value):
            continue
        name = names.get(fold(key))
        if name is None:
            unknown[f"{path}.{key}"] = value
        elif name in found and found[name] != value:
            raise TermFault(f"{name} is given twice: {shown(found[name])} and {shown(value)}")
        else:
            found[name] = value
    return found, unknown


def _exit(path: str, value: object) -> ReadTerm:
    found, unknown = _known(value, _EXIT_OF, path)
    made = ExitTerms(**{name: _number(held) for name, held in found.items()})
    if made == ExitTerms():
        raise TermFault("it has no price")
    return ReadTerm(made, unknown)


def _legs(value: object) -> ReadTerm:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > _MOST_LEGS:
        raise TermFault(f"{shown(value)} is not a list of at most {_MOST_LEGS} legs")
    legs: list[Leg] = []
    unknown: dict[str, object] = {}
    for position, one in enumerate(value):
        found, rest = _known(one, _LEG_OF, f"legs.{position}")
        unknown |= rest
        if not {"market_id", "ratio"} <= found.keys():
            raise TermFault(f"leg {position} needs a symbol and a ratio_qty")
        words = {name: _text(found[name]).lower() for name in ("side", "position_intent") if name in found}
        legs.append(Leg(_text(found["market_id"]), _number(found["ratio"]), **words))
    return ReadTerm(tuple(legs), unknown)


@dataclass(frozen=True, slots=True)
class SentTerms:
    """The terms that a client puts into the one order request, by order type. A test compares it with the wire."""

    new: Mapping[str, frozenset[str]] = field(default_factory=dict)
    replace: Mapping[str, frozenset[str]] = field(default_factory=dict)
    own: frozenset[str] = frozenset()  # keys of the action beside the neutral ones that the client reads
    params: bool = False  # a call's `params` are sent as given, and looked for in the request
    everything: bool = False  # the action is handed on whole

    def unsent(self, action: OrderAction) -> tuple[str, ...]:
        """The set terms of the action that this client does not send with its verb and type."""
        if action.verb == "cancel" or self.everything:
            return ()
        sent = (self.new if action.verb == "new" else self.replace).get(action.order_type, frozenset())
        names = [name for name in action.terms.names if name not in sent]
        if action.price is not None and action.order_type not in WITH_PRICE and "price" not in sent:
            names.append("price")
        return tuple(names)

    def unmapped(self, action: OrderAction, labels: Iterable[str] = ()) -> tuple[str, ...]:
        """The set keys of the action that nobody knows: neither a term, nor a label, nor one of the venue's own."""
        if action.verb == "cancel" or self.everything:
            return ()
        known = {fold(name) for name in (*self.own, *labels)}
        names = [key for key in action.extra if fold(key) not in known]
        if not self.params:
            known |= IN_PARAMS_OF.keys()
            names += [
                f"params.{key}" for key, held in action.params.items() if is_set(key, held) and fold(key) not in known
            ]
        return tuple(names)


def for_types(names: Iterable[str], types: Iterable[str] = TYPES) -> dict[str, frozenset[str]]:
    """The same terms for several order types."""
    return dict.fromkeys(types, frozenset(names))
