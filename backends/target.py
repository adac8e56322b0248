"""Parses a target (path, URL or DSN) into what to open, as the sinks do."""

from __future__ import annotations

from dlq_sink.target import PostgresTarget as PostgresTarget
from dlq_sink.target import ReachedServer as ReachedServer
from dlq_sink.target import SQLiteTarget as SQLiteTarget
from dlq_sink.target import Target as Target
from dlq_sink.target import login as login
from dlq_sink.target import parse_target as parse_target
