"""Turns a prepared request into the bytes that the ledger keeps, and back. Pure; keeps every digit and no secrets."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any

from venues import OrderAction, Prepared
from venues.terms import read_terms

_DECIMALS = frozenset({"quantity", "price"})


def encode(prepared: Prepared) -> bytes:
    action = {field.name: getattr(prepared.action, field.name) for field in fields(prepared.action)}
    action = {name: str(value) if isinstance(value, Decimal) else value for name, value in action.items()}
    return json.dumps(
        {
            "verb": prepared.verb,
            "client_order_id": prepared.client_order_id,
            "method": prepared.method,
            "path": prepared.path,
            "body": base64.b64encode(prepared.body).decode(),
            "action": action
            | {
                "terms": prepared.action.terms.document(),
                "params": dict(prepared.action.params),
                "extra": dict(prepared.action.extra),
            },
            "request": dict(prepared.request),
            "notes": list(prepared.notes),
        },
        sort_keys=True,
        default=str,
    ).encode()


def decode(payload: bytes) -> Prepared | None:
    """The prepared request; None when `encode` did not write these bytes."""
    try:
        kept: Mapping[str, Any] = json.loads(payload)
        numbers = {name: None if (text := kept["action"][name]) is None else Decimal(text) for name in _DECIMALS}
        return Prepared(
            verb=kept["verb"],
            client_order_id=kept["client_order_id"],
            method=kept["method"],
            path=kept["path"],
            body=base64.b64decode(kept["body"]),
            action=OrderAction(**(kept["action"] | numbers | {"terms": read_terms(kept["action"].get("terms", {}))})),
            request=kept["request"],
            notes=tuple(kept["notes"]),
        )
    except (ValueError, KeyError, TypeError, ArithmeticError):
        return None


def fingerprint_of(prepared: Prepared) -> str:
    """The hash of the method, path and body that are sent."""
    return hashlib.sha256(f"{prepared.method} {prepared.path}\n".encode() + prepared.body).hexdigest()
