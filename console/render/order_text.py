"""An order in one line as people read it: what is sent, with every term, and where it stands in its market. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from console.render.value import name
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.services.market.worth import Worth
    from venues import OrderAction

_SAID = ("stop_price",)  # told with the price
_FLAGS: Mapping[str, str] = {
    "reduce_only": "reduce-only",
    "post_only": "post-only",
    "extended_hours": "extended hours",
    "cancel_on_pause": "cancel on pause",
}
_WORDS: Mapping[str, str] = {
    "stop_loss_price": "stop-loss at",
    "take_profit_price": "take-profit at",
    "trail_price": "trailing by",
    "expire_at": "until",
    "margin_mode": "margin",
    "leverage": "leverage",
    "subaccount": "subaccount",
    "vault_address": "vault",
    "order_group_id": "group",
    "oca_group": "OCA group",
    "oca_type": "OCA type",
    "parent_client_order_id": "parent",
    "position_intent": "",
    "order_class": "",
}


def order_text(action: OrderAction, currency: str | None = None) -> str:
    """`sell 100 AAPL @ 169.5 stop 170 gtc reduce-only`; a cancel by what names its order."""
    verb = "" if action.verb == "new" else action.verb
    words = [verb, safe(action.side, 12), _size(action, currency), _market(action)]
    if action.verb != "cancel":
        stop = "" if action.terms.stop_price is None else f"stop {action.terms.stop_price:f}"
        words += [_price(action), stop, safe(action.time_in_force or "", 12), *term_words(action)]
    return " ".join(filter(None, words))


def term_words(action: OrderAction) -> Iterator[str]:
    """Every other term that is set, and what a call's params add."""
    for term, held in action.terms.document().items():
        if term in _SAID or (term == "notional" and not action.quantity):
            continue
        if term in _FLAGS:
            yield _FLAGS[term]
        elif term in ("take_profit", "stop_loss"):
            yield f"{term.replace('_', '-')} {_exit(held)}"
        elif term == "legs":
            yield "legs " + " + ".join(_leg(one) for one in held)
        elif term == "trail_percent":
            yield f"trailing by {_shown(held)} %"
        else:
            yield f"{_WORDS.get(term, term)} {_shown(held)}".strip()
    if action.params:
        said = ", ".join(f"{safe(str(key), 40)}={_shown(held)}" for key, held in action.params.items())
        yield f"params {said}"


def market_text(worth: Worth) -> str:
    """Where the order stands: `now 179.99/180.01 +0.3 % crosses, position 0 → 100`; empty where nobody looked."""
    return ", ".join(" ".join(fact) for fact in market_facts(worth))


def market_facts(worth: Worth, when: str = "now") -> list[tuple[str, ...]]:
    """What is said of the market: each fact in parts that stand on one line. `when`: when its quote was read."""
    facts: list[tuple[str, ...]] = []
    if worth.quote is not None and worth.quote.bid is not None and worth.quote.ask is not None:
        quote = f"{when} {_number(worth.quote.bid)}/{_number(worth.quote.ask)}"
        drift = "" if worth.drift is None else f"{worth.drift:+.1%}".replace("-", "−")
        where = "" if worth.through is None else ("rests" if worth.through < 0 else "crosses")
        facts.append(tuple(filter(None, (quote, drift, where))))
    if worth.before is not None and worth.after is not None:
        facts.append((f"position {_number(worth.before)} → {_number(worth.after)}",))
    if worth.open_orders:
        facts.append((f"{worth.open_orders} open there",))
    return facts


def _price(action: OrderAction) -> str:
    """An order with exits alone may be a limit order without a price of its own."""
    if action.price is not None:
        return f"@ {action.price:f}"
    return "limit" if action.order_type == "limit" else "market"


def _size(action: OrderAction, currency: str | None) -> str:
    if action.terms.notional is not None and not action.quantity:
        return f"{_number(action.terms.notional)} {safe(currency or 'of', 12)}"
    return _number(action.quantity) if action.quantity or action.verb != "cancel" else ""


def _market(action: OrderAction) -> str:
    return name(action.market_id) if action.market_id else ""


def _exit(held: Mapping[str, Decimal]) -> str:
    names = (("stop", "stop_price"), ("limit", "limit_price"))
    return " ".join(f"{word} {_number(held[key])}" for word, key in names if key in held)


def _leg(held: Mapping[str, object]) -> str:
    ratio = held["ratio"]
    size = _number(ratio) if isinstance(ratio, Decimal) else safe(str(ratio), 20)
    words = (held.get("side"), size, held.get("market_id"), held.get("position_intent"))
    return " ".join(safe(str(word), 40) for word in words if word)


def _shown(held: object) -> str:
    return _number(held) if isinstance(held, Decimal) else safe(str(held), 60)


def _number(number: Decimal) -> str:
    text = format(number, "f").replace("-", "−")
    return text.rstrip("0").rstrip(".") if "." in text else text
