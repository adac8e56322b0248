"""The order layout, as the sinks have it: the engine that writes the table owns its columns and triggers."""

from __future__ import annotations

from dlq_sink.order_table import ANCHORS as ANCHORS
from dlq_sink.order_table import COLUMNS as COLUMNS
from dlq_sink.order_table import DEFAULT_TABLE as DEFAULT_TABLE
from dlq_sink.order_table import DEGRADED as DEGRADED
from dlq_sink.order_table import IDENTITY as IDENTITY
from dlq_sink.order_table import INTENT_MARKS as INTENT_MARKS
from dlq_sink.order_table import NAME as NAME
from dlq_sink.order_table import POSTGRES_TYPES as POSTGRES_TYPES
from dlq_sink.order_table import REQUIRED as REQUIRED
from dlq_sink.order_table import SQLITE_AFFINITIES as SQLITE_AFFINITIES
from dlq_sink.order_table import WRITTEN as WRITTEN
from dlq_sink.order_table import named as named
from dlq_sink.order_table import postgres_ddl as postgres_ddl
from dlq_sink.order_table import postgres_index as postgres_index
from dlq_sink.order_table import postgres_notify as postgres_notify
from dlq_sink.order_table import postgres_worm as postgres_worm
from dlq_sink.order_table import quoted as quoted
from dlq_sink.order_table import sqlite_affinity as sqlite_affinity
from dlq_sink.order_table import sqlite_ddl as sqlite_ddl
from dlq_sink.order_table import sqlite_index as sqlite_index
from dlq_sink.order_table import sqlite_trigger as sqlite_trigger

OF_INTENTS = INTENT_MARKS | {"dlq_id"}  # of an engine's intent table, which is no queue
