"""The table in which an engine keeps what it is about to send: which columns it must have, and which are written here.

It belongs to the dead-letter queue whose name it carries. The engine makes it, and cleans it.
"""

from __future__ import annotations

from dlq_sink.witness.table import COLUMNS as COLUMNS
from dlq_sink.witness.table import TAIL as TAIL

from backends.layouts import orders

ANCHORS = orders.OF_INTENTS
# Without these it cannot be told what is open, whose it is and what it would have sent.
REQUIRED = ANCHORS | {"captured_at", "venue_name", "market_id", "side", "quantity", "action_json"}
OPTIONAL = frozenset({"error", "retry_count", "dismissed"})
WRITTEN = ("resolved_at", "venue_order_id")  # no other column is ever written
ERROR = "engine ended before it knew the outcome"  # of the entry that an intent becomes once its order is absent
