"""An amount of money or of things in a sentence, told so that its size is seen at once. Pure."""

from __future__ import annotations

from decimal import Decimal


def spelled_amount(amount: Decimal) -> str:
    """`511,250.00`, `50,000`, `0.0034`: as it is, with separators, without zeros behind the cents."""
    text = f"{amount:,f}"
    whole, point, cents = text.partition(".")
    return f"{whole}{point}{cents[:2]}{cents[2:].rstrip('0')}"
