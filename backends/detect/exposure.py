"""Names what an operator must know of a Postgres store's surroundings: a mighty role, others' views and triggers.

Asks the catalog alone and calls nothing that it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from backends.detect.asked import CatalogConnection
from backends.detect.candidates import Candidate
from backends.layouts.orders import quoted
from backends.records import Finding

_MIGHTY = ("pg_execute_server_program", "pg_write_server_files", "pg_read_server_files", "pg_write_all_data")
_ROLE = """
SELECT r.rolsuper, concat_ws(', ', CASE WHEN r.rolcreaterole THEN 'CREATEROLE' END,
  CASE WHEN r.rolbypassrls THEN 'BYPASSRLS' END, CASE WHEN r.rolreplication THEN 'REPLICATION' END,
  (SELECT string_agg(m.rolname, ', ' ORDER BY m.rolname) FROM pg_roles m WHERE pg_has_role(r.oid, m.oid, 'member')
   AND m.oid <> r.oid AND (m.rolsuper OR CAST(m.rolname AS text) = ANY(CAST($1 AS text[])))))
FROM pg_roles r WHERE r.rolname = session_user
"""
_RELATION = """
SELECT CAST(c.relkind AS text), o.rolname, o.rolsuper, o.rolname IN (current_user, session_user), c.relrowsecurity,
  ARRAY(SELECT CAST(p.polname AS text) FROM pg_policy p WHERE p.polrelid = c.oid ORDER BY 1),
  ARRAY(SELECT CAST(w.rulename AS text) FROM pg_rewrite w WHERE w.ev_class = c.oid AND w.ev_type <> '1' ORDER BY 1)
FROM pg_class c JOIN pg_roles o ON o.oid = c.relowner WHERE c.oid = CAST($1 AS regclass)
"""
_TRIGGERS = """
SELECT t.tgname, format('%s.%s', n.nspname, f.proname), r.rolname, f.prosrc, f.proowner = c.relowner, f.prosecdef
FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid JOIN pg_namespace n ON n.oid = f.pronamespace
JOIN pg_roles r ON r.oid = f.proowner JOIN pg_class c ON c.oid = t.tgrelid
WHERE t.tgrelid = CAST($1 AS regclass) AND NOT t.tgisinternal AND t.tgenabled <> 'D'
  AND NOT (r.rolsuper OR r.rolname IN (current_user, session_user)) ORDER BY 1
"""
_LESS = "CREATE ROLE dlq_operator LOGIN -- and attach as it, with the grants that an act asks for"
_OURS = ("RAISE EXCEPTION 'WORM: % on % is forbidden'", "PERFORM pg_notify('dlq_", "PERFORM pg_catalog.pg_notify('dlq_")


async def exposure(connection: CatalogConnection, found: Candidate) -> list[Finding]:
    role = (await connection.exec_driver_sql(_ROLE, (list(_MIGHTY),))).one()
    relation = (await connection.exec_driver_sql(_RELATION, (found.quoted,))).one()
    triggers = await foreign_triggers(connection, found)
    return [*_role(*tuple(role)), *_relation(found, tuple(relation)), *triggers]


async def foreign_triggers(connection: CatalogConnection, found: Candidate) -> list[Finding]:
    """What an act on this table would run for another role."""
    rows = (await connection.exec_driver_sql(_TRIGGERS, (found.quoted,))).fetchall()
    return _triggers(found, map(tuple, rows))


def _role(is_super: bool, mighty: str) -> list[Finding]:
    if is_super:
        text = "this role is a superuser: whatever goes wrong here can reach the whole server"
        return [Finding("superuser", text, _LESS)]
    if mighty:
        text = f"this role can do more than a console needs: {mighty}"
        return [
            Finding(
                "mighty-role", text, "CREATE ROLE dlq_operator LOGIN -- then attach as it; doctor prints its grants"
            )
        ]
    return []


def _relation(found: Candidate, relation: Sequence[Any]) -> list[Finding]:
    kind, owner, _, is_mine, has_policies, policies, rules = relation
    findings = []
    if kind == "v" and not is_mine:
        text = f"{found.shown} is a view of the role {owner}, who decides what it shows and could change it at any time"
        findings.append(Finding("foreign-view", text, f"-- attach the table behind {found.quoted} instead"))
    if kind == "f":
        text = f"{found.shown} is a foreign table: its rows come from another server, as the owner {owner} set it up"
        findings.append(Finding("foreign-table", text))
    if has_policies:
        named = ", ".join(policies) or "none, so that nothing is shown to others than the owner"
        text = f"{found.shown} has row-level security: this role may not see every entry (policies: {named})"
        findings.append(Finding("row-security", text, f"ALTER TABLE {found.quoted} DISABLE ROW LEVEL SECURITY"))
    if rules:
        text = f"{found.shown} has rules that rewrite what is written to it: {', '.join(rules)}"
        drops = ";\n".join(f"DROP RULE {quoted(rule)} ON {found.quoted}" for rule in rules)
        findings.append(Finding("rules", text, drops))
    return findings


def _triggers(found: Candidate, triggers: Iterable[Sequence[Any]]) -> list[Finding]:
    """Triggers whose functions another role can change; of the owner's own those that `dlq init` makes are left out."""
    theirs = [one for one in triggers if not (one[4] and any(body in one[3] for body in _OURS))]
    return [
        Finding(
            "foreign-trigger",
            f"{found.shown}: acts run the function {function}() of the role {owner} (trigger {name})"
            + (", with that role's rights" if definer else ", with the rights of whoever acts"),
            f"DROP TRIGGER {quoted(name)} ON {found.quoted}",
        )
        for name, function, owner, _, _, definer in theirs
    ]
