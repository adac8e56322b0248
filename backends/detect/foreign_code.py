"""Finds the functions of other roles that the server would run if somebody only looked at a table.

Asks the catalog alone. Whoever may change a view, a policy or an index decides what runs with the rights of the reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backends.detect.asked import CatalogConnection
from backends.ledger.names import SCHEMA

# Volatile functions of the server that run nobody's code and change nothing.
_HARMLESS = ("random", "random_normal", "clock_timestamp", "timeofday", "gen_random_uuid", "uuidv4", "uuidv7")
# The tables to judge, if there is anything to judge, which costs a fifth of judging it: plain tables without policies
# and heirs run what their indexes and statistics call, and the catalog notes no dependency on the server's own code.
_SUSPECT = f"""
WITH roots AS MATERIALIZED (
  SELECT c.oid, c.relkind, c.relrowsecurity, c.relhassubclass FROM pg_class c WHERE (c.relnamespace, c.relname) IN (
    SELECT n.oid, CAST(p[2] AS name) FROM unnest(CAST($1 AS text[])) t, parse_ident(t) p, pg_namespace n
    WHERE n.nspname = CAST(p[1] AS name))
  UNION SELECT c.oid, c.relkind, c.relrowsecurity, c.relhassubclass FROM pg_class c
  WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = '{SCHEMA}')
    AND c.relkind IN ('r', 'p', 'v'))
SELECT ARRAY(SELECT oid FROM roots)
WHERE EXISTS (SELECT 1 FROM roots r WHERE r.relkind <> 'r' OR r.relrowsecurity OR r.relhassubclass)
  OR EXISTS (SELECT 1 FROM roots r JOIN pg_statistic_ext s ON s.stxrelid = r.oid)
  OR EXISTS (
    SELECT 1 FROM roots r JOIN pg_index i ON i.indrelid = r.oid AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
    JOIN pg_depend d ON d.classid = CAST('pg_class' AS regclass) AND d.objid = i.indexrelid
    WHERE d.refclassid = ANY(CAST('{{pg_proc,pg_operator,pg_type}}' AS regclass[])))
"""
# Reading a view runs its query, reading a table its policies; planning any query on a table computes the constant parts
# of its indexes, partition keys and statistics. Trusted is what belongs to a superuser or to the reading role itself.
_FOREIGN = """
WITH RECURSIVE rels(rel, is_root) AS (
  SELECT root, true FROM unnest(CAST($1 AS oid[])) root
  UNION SELECT next.rel, false FROM rels JOIN LATERAL (
    SELECT i.inhrelid AS rel FROM pg_inherits i WHERE i.inhparent = rels.rel
    UNION ALL SELECT d.refobjid FROM pg_class v
    JOIN pg_rewrite r ON r.ev_class = v.oid AND r.ev_type = '1'
    JOIN pg_depend d ON d.classid = CAST('pg_rewrite' AS regclass) AND d.objid = r.oid
      AND d.refclassid = CAST('pg_class' AS regclass) AND d.refobjid <> v.oid
    WHERE v.oid = rels.rel AND v.relkind = 'v') next ON true),
parts(class, id, rel, kind, tree) AS (
  SELECT CAST('pg_rewrite' AS regclass), r.oid, v.oid, 'the view', CAST(r.ev_action AS text)
  FROM rels JOIN pg_class v ON v.oid = rels.rel AND v.relkind = 'v' JOIN pg_rewrite r ON r.ev_class = v.oid
  WHERE r.ev_type = '1'
  UNION SELECT CAST('pg_policy' AS regclass), p.oid, p.polrelid, 'a policy of', CAST(p.polqual AS text)
  FROM rels JOIN pg_class c ON c.oid = rels.rel AND c.relrowsecurity JOIN pg_policy p ON p.polrelid = c.oid
  WHERE p.polcmd IN ('r', '*') AND (NOT rels.is_root OR row_security_active(c.oid))
  UNION SELECT CAST('pg_class' AS regclass), i.indexrelid, i.indrelid, 'an index of', NULL
  FROM rels JOIN pg_index i ON i.indrelid = rels.rel WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
  UNION SELECT CAST('pg_class' AS regclass), p.partrelid, p.partrelid, 'the partition key of', NULL
  FROM rels JOIN pg_partitioned_table p ON p.partrelid = rels.rel WHERE p.partexprs IS NOT NULL
  UNION SELECT CAST('pg_statistic_ext' AS regclass), s.oid, s.stxrelid, 'statistics of', NULL
  FROM rels JOIN pg_statistic_ext s ON s.stxrelid = rels.rel),
needs(class, id, rel, kind) AS (
  SELECT d.refclassid, d.refobjid, p.rel, p.kind FROM parts p
  JOIN pg_depend d ON d.classid = p.class AND d.objid = p.id),
calls(proc, rel, kind) AS (
  SELECT id, rel, kind FROM needs WHERE class = CAST('pg_proc' AS regclass)
  UNION SELECT CAST(o.oprcode AS oid), rel, kind FROM needs
  JOIN pg_operator o ON o.oid = id WHERE class = CAST('pg_operator' AS regclass)
  UNION SELECT c.castfunc, rel, kind FROM needs
  JOIN pg_cast c ON c.castsource = id AND c.castfunc <> 0 WHERE class = CAST('pg_type' AS regclass)
  UNION SELECT d.refobjid, rel, kind FROM needs JOIN pg_constraint k ON k.contypid = id
  JOIN pg_depend d ON d.classid = CAST('pg_constraint' AS regclass) AND d.objid = k.oid
    AND d.refclassid = CAST('pg_proc' AS regclass) WHERE class = CAST('pg_type' AS regclass)
  UNION SELECT f.oid, p.rel, p.kind FROM parts p JOIN pg_class v ON v.oid = p.rel
  JOIN pg_roles o ON o.oid = v.relowner AND NOT o.rolsuper AND o.rolname NOT IN (current_user, session_user)
  CROSS JOIN LATERAL regexp_matches(p.tree, ':(?:funcid|aggfnoid|winfnoid) ([0-9]+)', 'g') m
  JOIN pg_proc f ON f.oid = CAST(m[1] AS oid)
  WHERE (f.provolatile = 'v' AND CAST(f.proname AS text) <> ALL(CAST($2 AS text[]))) OR f.proname ~ '_to_xml')
SELECT DISTINCT kind, format('%s.%s', n.nspname, c.relname), format('%s.%s', fn.nspname, f.proname), r.rolname
FROM calls JOIN pg_proc f ON f.oid = calls.proc JOIN pg_namespace fn ON fn.oid = f.pronamespace
JOIN pg_roles r ON r.oid = f.proowner JOIN pg_class c ON c.oid = calls.rel JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE fn.nspname = 'pg_catalog' OR NOT (r.rolsuper OR r.rolname IN (current_user, session_user))
ORDER BY 1, 2, 3
"""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ForeignCall:
    """A function that reading a table would run."""

    kind: str  # "the view", "a policy of", …
    table: str
    function: str
    owner: str

    def __str__(self) -> str:
        return f"{self.kind} {self.table} calls {self.function}() of {self.owner}"


async def foreign_calls(connection: CatalogConnection, tables: Sequence[str]) -> tuple[ForeignCall, ...]:
    """What reading these tables or the console's own would run; `tables` are named with schema, in quotes."""
    roots = (await connection.exec_driver_sql(_SUSPECT, (list(tables),))).scalar()
    if roots is None:
        return ()
    rows = (await connection.exec_driver_sql(_FOREIGN, (roots, list(_HARMLESS)))).fetchall()
    return tuple(ForeignCall(*map(str, row)) for row in rows)


def described(calls: Sequence[ForeignCall]) -> str:
    more = f" and {len(calls) - _SHOWN} more" if len(calls) > _SHOWN else ""
    return "; ".join(map(str, calls[:_SHOWN])) + more
