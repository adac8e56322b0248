"""The names of an order's parts, as data: the neutral one, and those that alpaca-py requests and ccxt calls use.

Standard library only, so that engines can share it. Must not know a venue, a store or how a value is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

Kind = Literal["number", "flag", "word", "text", "moment", "exit", "legs"]

# The fields of every order: the store has a column for most of them.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "action": (),
    "venue_name": (),
    "account_id": (),
    "market_id": ("symbol",),
    "side": (),
    "quantity": ("qty", "amount"),
    "order_type": ("type",),
    "price": ("limit_price",),
    "client_order_id": (),
    "time_in_force": ("tif",),
    "order_key": (),
    "venue_order_id": (),
    "price_unit": (),
}

# The terms that only some orders have: what kind of value each is, and its other names.
TERMS: Mapping[str, tuple[Kind, tuple[str, ...]]] = {
    "stop_price": ("number", ("trigger_price",)),
    "stop_loss_price": ("number", ()),  # a ccxt call's: the order itself is the stop-loss
    "take_profit_price": ("number", ()),  # likewise: the order itself takes the profit
    "trail_price": ("number", ("trailing_amount",)),
    "trail_percent": ("number", ("trailing_percent",)),
    "notional": ("number", ("cost",)),
    "reduce_only": ("flag", ()),
    "post_only": ("flag", ()),
    "extended_hours": ("flag", ("outside_rth", "outside_regular_trading_hours")),
    "position_intent": ("word", ()),
    "order_class": ("word", ()),
    "take_profit": ("exit", ()),
    "stop_loss": ("exit", ()),
    "legs": ("legs", ()),
    "expire_at": (
        "moment",
        (
            "expires_at",
            "expire_time",
            "expiration",
            "expiration_time",
            "expiration_ts",
            "good_till_date",
            "gtd_time",
        ),
    ),
    "margin_mode": ("word", ()),
    "leverage": ("number", ()),
    "subaccount": ("text", ("sub_account", "subaccount_number")),
    "vault_address": ("text", ()),
    "order_group_id": ("text", ()),
    "cancel_on_pause": ("flag", ("cancel_order_on_pause",)),
    "oca_group": ("text", ()),
    "oca_type": ("text", ()),
    "parent_client_order_id": ("text", ()),
}

# Keys of an action that mean nothing to a venue.
LABELS = frozenset(
    {
        "strategy",
        "strategy_id",
        "signal_id",
        "run_id",
        "trace_id",
        "correlation_id",
        "request_id",
        "dlq_id",
        "tag",
        "tags",
        "note",
        "notes",
        "comment",
        "reason",
        "source",
        "engine",
        "created_at",
        "updated_at",
        "submitted_at",
        "captured_at",
        "timestamp",
        "ts",
    }
)
PARAMS = "params"  # the dict of a ccxt call; inside it only terms and these two fields are known by name
IN_PARAMS = ("client_order_id", "time_in_force")
EXIT_NAMES: Mapping[str, tuple[str, ...]] = {"stop_price": ("trigger_price",), "limit_price": ("price",)}
LEG_NAMES: Mapping[str, tuple[str, ...]] = {
    "market_id": ("symbol",),
    "side": (),
    "ratio": ("ratio_qty",),
    "position_intent": (),
}


@lru_cache(maxsize=1024)  # an engine asks for the same few names with every order
def fold(name: str) -> str:
    """The same for every spelling of a name: `stopPrice`, `STOP_PRICE` and `stop-price`."""
    return name.replace("_", "").replace("-", "").lower()


def by_spelling(names: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Folded spelling → neutral name."""
    return {fold(spelled): name for name, others in names.items() for spelled in (name, *others)}


FIELD_OF = by_spelling(FIELDS)
TERM_OF = by_spelling({name: others for name, (_, others) in TERMS.items()})
IN_PARAMS_OF = TERM_OF | by_spelling({name: FIELDS[name] for name in IN_PARAMS})
FOLDED_LABELS = frozenset(map(fold, LABELS))


def is_set(name: str, value: object) -> bool:
    """Whether a value says anything: null, false, empty, and the order class `simple` do not."""
    if value is None or value is False or value == "" or (isinstance(value, list | dict) and not value):
        return False
    return not (name == "order_class" and isinstance(value, str) and value.lower() == "simple")
