"""The policy of a ledger's owner: its keys, its digest, and what a change makes of it. Pure; a value is TOML text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

KEYS = (
    "environment",
    "max_batch",
    "max_notional",
    "max_quantity",
    "max_drift",
    "four_eyes_over",
    "stale_after",
    "plan_seconds",
    "quote_seconds",
    "poison_after",
    "retry_limit",
    "labels",
    "second_person",
    "allow_userns",
)


def digest(policy: Mapping[str, str]) -> str:
    """Identifies a policy: two are the same when every key and value is."""
    document = json.dumps(dict(policy), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(document.encode()).hexdigest()[:32]


def changed(policy: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """The policy with these keys set, or with None taken away, in the order of KEYS."""
    kept = {**policy, **changes}
    order = {key: place for place, key in enumerate(KEYS)}
    names = sorted(kept, key=lambda key: (order.get(key, len(KEYS)), key))
    return {key: value for key in names if (value := kept[key]) is not None}
