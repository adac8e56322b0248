"""The attach report: what a store is, and what an operator should know about it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """Something an operator should know about this store; `sql` is what its owner could run to mend it."""

    code: str
    text: str
    sql: str = ""


STANDBY = "standby"  # the code of the finding that a server can only be read


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """The attach report."""

    label: str  # never holds a password
    dialect: Literal["sqlite", "postgresql", "memory"]
    layout: str
    table: str
    columns: tuple[str, ...]
    order: str  # "rowid" or "captured_at"
    read_only: bool
    read_only_enforced_by: Literal["database", "client"]
    role: str
    findings: tuple[Finding, ...] = field(default=())
    login: str = ""  # the role that logged in, which may act as another one
    advisory: Finding | None = None  # why the database cannot hold this role to four eyes, halt and policy
    role_sql: tuple[tuple[str, str], ...] = ()  # what an owner would run for operators, approvers and auditors
    unread: tuple[str, ...] = ()  # what this role would need to read and may not

    @property
    def why_read_only(self) -> str | None:
        """Why nobody can act here, whatever they ask for; None where it is only this console that may not."""
        return next((finding.text for finding in self.findings if finding.code == STANDBY), None)

    @property
    def ledger_is_readable(self) -> bool:
        """False: there is a ledger, and what it holds (in flight, in doubt, replayed, the halt) is unknown here."""
        return self.unreadable is None

    @property
    def unreadable(self) -> Finding | None:
        """Why the ledger cannot be read, and what an owner would run."""
        return next((one for one in self.findings if one.code == "ledger-unreadable"), None)
