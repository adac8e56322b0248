"""The record that an engine writes: one order whose submit failed. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

ERROR_LIMIT = 1000  # characters of an error that a sink stores


def new_dlq_id() -> str:
    from secrets import token_hex  # loads hashing and random numbers, which reading does without

    return f"dlq_{token_hex(8)}"


@dataclass(frozen=True, slots=True)
class DeadLetteredOrder:
    """An order whose submit failed, as an engine writes it."""

    dlq_id: str
    captured_at: datetime
    venue_name: str
    account_id: str | None
    market_id: str
    side: str
    quantity: float
    order_type: str
    price: float | None
    client_order_id: str | None
    error: str
    retry_count: int = 0
    dismissed: bool = False
    action_json: str = ""

    def __post_init__(self) -> None:
        if self.captured_at.utcoffset() is None:
            raise ValueError("captured_at must carry a time zone")
        if len(self.error) > ERROR_LIMIT:
            object.__setattr__(self, "error", self.error[:ERROR_LIMIT])
