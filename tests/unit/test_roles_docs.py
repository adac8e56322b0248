"""docs/roles.md has the SQL that `dlq doctor` prints for each role, and says what each may do."""

from __future__ import annotations

from pathlib import Path

from backends.ledger.functions import CALLS, function_statements
from backends.ledger.roles import APPROVER, AUDITOR, OPERATOR, ROLES, role_sql

PAGE = Path(__file__).parents[2] / "docs" / "roles.md"
READS = ('SELECT ON "public"."order_dlq"',)
WRITES = ('SELECT, UPDATE (retry_count, dismissed) ON "public"."order_dlq"',)
EVIDENCE = ("audit", "audit_entry", "audit_bulk", "approval", "halt", "note")


def test_the_page_has_the_sql_of_each_role() -> None:
    parts = [f"## {role.name}\nMay {role.may}.\n```sql\n{role_sql(role, READS, WRITES)}\n```\n" for role in ROLES]
    text = PAGE.read_text()
    assert text[text.index("## dlq_operator") :] == "\n".join(parts)


def test_no_role_may_write_evidence() -> None:
    for role in ROLES:
        assert {role.tables[table] for table in EVIDENCE} == {"SELECT"}, role.name
    assert set(OPERATOR.functions) == set(CALLS)
    assert (APPROVER.functions, AUDITOR.functions) == (("approve_plan",), ())
    for role in (APPROVER, AUDITOR):
        assert set(role.tables.values()) == {"SELECT"}


def test_every_function_has_its_own_search_path_and_is_nobodys_by_default() -> None:
    made = [one for one in function_statements() if one.startswith("CREATE OR REPLACE FUNCTION")]
    taken = [one for one in function_statements() if one.startswith("REVOKE ALL ON FUNCTION")]
    assert len(made) == len(taken) == len(CALLS) + 5
    assert all("SET search_path = pg_catalog, pg_temp" in one for one in made)
    assert not any(";\n" in one for one in made)
