"""Names, numbers, rights and states that the ledger's tables, its functions and its readers share. No SQLAlchemy."""

from __future__ import annotations

from backends.entry import STATES, State

SCHEMA = "dlq_console"
VERSION = "4"
AUDIT_LOCK = 0x646C71  # "dlq": held to the end of a transaction, so that the chain has one writer at a time
MANY = 32  # from this many entries on, an event goes to the bulk index
SWITCH_MARK = -1  # indexes the events that set or lift the halt; marks of entries are never negative
ASK_SECONDS = 300  # how long a plan waits for a second person, and how long an approval may be used
# What an operator's role needs on Postgres. Evidence is written by functions of the ledger's owner.
GRANTS = {
    "meta": "SELECT, INSERT",
    "attempt": "SELECT, INSERT, UPDATE",
    "claim": "SELECT, INSERT, UPDATE",
    "note": "SELECT",
    "cleared": "SELECT, INSERT",
    "halt": "SELECT",
    "approval": "SELECT",
    "breaker": "SELECT, INSERT, UPDATE",
    "audit": "SELECT",
    "audit_entry": "SELECT",
    "audit_bulk": "SELECT",
    "settled": "SELECT, INSERT, DELETE",
    "policy": "SELECT",  # only the owner sets it
}


# Stored states of an attempt that holds its entry, and the state the entry then shows.
HELD: dict[str, State] = {"submitting": "in_flight", "in_doubt": "in_doubt", "accepted": "replayed"}
SHOWN: dict[str, State] = {**{state: state for state in STATES}, **HELD}


def shown_state(stored: str) -> State:
    """A state that only a newer ledger knows counts as in doubt, since it may not be safe to act on."""
    return SHOWN.get(stored, "in_doubt")


def table_name(name: str, dialect: str) -> str:
    """One of the ledger's tables as SQL names it."""
    return f"{SCHEMA}.{name}" if dialect == "postgresql" else f"console_{name}"
