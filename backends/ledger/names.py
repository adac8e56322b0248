"""Names and numbers that the ledger's tables, its functions and its readers share."""

from __future__ import annotations

SCHEMA = "dlq_console"
VERSION = "3"
AUDIT_LOCK = 0x646C71  # "dlq": held to the end of a transaction, so that the chain has one writer at a time
MANY = 32  # from this many entries on, an event goes to the bulk index
SWITCH_MARK = -1  # indexes the events that set or lift the halt; marks of entries are never negative
ASK_SECONDS = 300  # how long a plan waits for a second person, and how long an approval may be used
