"""The database roles of a Postgres store: what an operator, an approver and an auditor may do, and the SQL for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from backends.ledger.functions import CALLS, SIGNATURES
from backends.ledger.names import GRANTS, SCHEMA
from backends.ledger.schema import create_statements


@dataclass(frozen=True, slots=True)
class LedgerRole:
    name: str  # of the group role that `doctor` prints
    may: str
    tables: Mapping[str, str]
    functions: tuple[str, ...]
    acts: bool  # needs the rights to write the owner's table


_READS = dict.fromkeys(GRANTS, "SELECT")
OPERATOR = LedgerRole(
    "dlq_operator",
    "list, dismiss, restore, replay, reconcile, settle, ask for a second person, approve what somebody else asked for, "
    "halt and resume",
    GRANTS,
    tuple(CALLS),
    acts=True,
)
APPROVER = LedgerRole(
    "dlq_approver",
    "look at everything, and approve what somebody else asked for; nothing else",
    _READS,
    ("approve_plan",),
    acts=False,
)
AUDITOR = LedgerRole(
    "dlq_auditor",
    "list, show, export, report, check, metrics, archive and audit verify; write nothing",
    _READS,
    (),
    acts=False,
)
ROLES = (OPERATOR, APPROVER, AUDITOR)


def ledger_grants(role: LedgerRole, grantee: str) -> Iterator[str]:
    """On the ledger alone; `grantee` is quoted."""
    yield f"GRANT USAGE ON SCHEMA {SCHEMA} TO {grantee}"
    yield from (f"GRANT {rights} ON {SCHEMA}.{table} TO {grantee}" for table, rights in role.tables.items())
    if role.acts:
        yield f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {SCHEMA} TO {grantee}"
    for name in role.functions:
        yield f"GRANT EXECUTE ON FUNCTION {SCHEMA}.{name}({SIGNATURES[name]}) TO {grantee}"


def role_sql(role: LedgerRole, reads: Sequence[str], writes: Sequence[str]) -> str:
    """Makes the group role if it is missing and grants it what it needs; a login role joins it."""
    made = (
        f"DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = '{role.name}') "
        f"THEN CREATE ROLE {role.name} NOLOGIN; END IF; END $$"
    )
    owners = [f"GRANT {rights} TO {role.name}" for rights in (writes if role.acts else reads)]
    return ";\n".join((made, *ledger_grants(role, role.name), *owners)) + ";"


def make_sql() -> str:
    """With this an owner makes the ledger, so that it belongs to nobody who acts."""
    return ";\n".join(create_statements("postgresql")) + ";"


def hand_over_sql(owner: str) -> str:
    """With this an administrator gives a ledger that an acting role made to a role that nobody logs in as."""
    given = [f"ALTER SCHEMA {SCHEMA} OWNER TO {owner}"]
    given += [f"ALTER TABLE {SCHEMA}.{table} OWNER TO {owner}" for table in GRANTS]
    given += [f"ALTER FUNCTION {SCHEMA}.{name}({types}) OWNER TO {owner}" for name, types in SIGNATURES.items()]
    made = (
        f"DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = '{owner}') "
        f"THEN CREATE ROLE {owner} NOLOGIN; END IF; END $$"
    )
    return ";\n".join((made, *given)) + ";"
