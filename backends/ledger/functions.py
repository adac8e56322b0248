"""The functions that write evidence on Postgres as the ledger's owner, and the statements that make them.

A role that may call them cannot choose the login role, the time, the number or the hash of an event.
"""

from __future__ import annotations

from backends.ledger.names import ASK_SECONDS, AUDIT_LOCK, MANY, SCHEMA, SWITCH_MARK

# Kinds that a function of their own writes, or that only the ledger's owner may write.
RESERVED = ("halt", "resume", "ask-approval", "approve", "self-approved", "withdrawn", "note", "ledger-migrated")
_DEFINER = """LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable"""
_EVENT = "OUT event_seq bigint, OUT event_hash bytea"


def may_become_owner(login: str = "session_user") -> str:
    """An SQL condition: this role owns the ledger or may become its owner; without a ledger, it could make one.

    Before version 16, whoever may create roles may join any role that is no superuser.
    """
    return (
        "coalesce((SELECT bool_or(pg_has_role(x.login, x.owner, 'member')) OR bool_or(x.joins) FROM ("
        f"SELECT {login} AS login, o.owner, (SELECT r.rolcreaterole AND "
        "CAST(current_setting('server_version_num') AS integer) < 160000 FROM pg_catalog.pg_roles r "
        f"WHERE r.rolname = {login}) AS joins FROM (SELECT n.nspowner AS owner FROM pg_catalog.pg_namespace n "
        f"WHERE n.nspname = '{SCHEMA}' UNION SELECT c.relowner FROM pg_catalog.pg_class c "
        f"JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '{SCHEMA}' "
        "UNION SELECT p.proowner FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace "
        f"WHERE n.nspname = '{SCHEMA}') o) x), has_database_privilege({login}, current_database(), 'create'))"
    )


# Appends one event. The database's own keys come last, as the last of two equal keys counts. Nobody else may call it.
_CHAIN_EVENT = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.chain_event(
  kind text, about text, who text, marks bigint[], more json, at timestamptz, {_EVENT})
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE last bytea; told text; body bytea; part text; BEGIN
  PERFORM pg_advisory_xact_lock({AUDIT_LOCK});
  FOREACH part IN ARRAY ARRAY[about, who] LOOP
    PERFORM CAST(part AS json);
    IF left(part, 2) <> '{{"' OR right(part, 1) <> '}}' THEN
      RAISE EXCEPTION 'an event is told as a JSON object' USING errcode = 'invalid_parameter_value';
    END IF;
  END LOOP;
  IF kind IS NULL OR kind !~ '^[a-z][a-z-]{{0,39}}$' THEN
    RAISE EXCEPTION 'an event needs a kind' USING errcode = 'invalid_parameter_value';
  END IF;
  SELECT a.seq, a.hash INTO event_seq, last FROM {SCHEMA}.audit a ORDER BY a.seq DESC LIMIT 1;
  event_seq = coalesce(event_seq, 0) + 1;
  told = left(about, -1) || ',"who":' || left(who, -1) || ',"db_role":'
    || CAST(to_json(CAST(session_user AS text)) AS text) || '}},"at":"' || {SCHEMA}.event_time(at) || '"'
    || coalesce(',' || substr(left(CAST(more AS text), -1), 2), '')
    || ',"kind":"' || kind || '","seq":' || event_seq || ',"v":2}}';
  body = convert_to(told, 'UTF8');
  event_hash = sha256(coalesce(last, decode(repeat('00', 32), 'hex')) || body);
  INSERT INTO {SCHEMA}.audit (seq, body, hash) VALUES (event_seq, body, event_hash);
  IF cardinality(marks) >= {MANY} THEN
    INSERT INTO {SCHEMA}.audit_bulk (seq, mark) SELECT event_seq, m FROM unnest(marks) m;
  ELSE
    INSERT INTO {SCHEMA}.audit_entry (mark, seq) SELECT m, event_seq FROM unnest(marks) m;
  END IF;
END $$"""

_EVENT_TIME = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.event_time(at timestamptz) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT to_char(timezone('UTC', at), 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"') $$"""

_IS_OWNER = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.may_become_owner() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT {may_become_owner()} $$"""

_APPEND = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.append_event(
  kind text, about text, who text, marks bigint[], {_EVENT})
{_DEFINER}
BEGIN
  IF (kind LIKE 'policy%' OR kind IN ({", ".join(f"'{one}'" for one in RESERVED)}))
    AND NOT {SCHEMA}.may_become_owner() THEN
    RAISE EXCEPTION 'an event of this kind has a function of its own' USING errcode = 'insufficient_privilege';
  END IF;
  SELECT e.event_seq, e.event_hash INTO event_seq, event_hash FROM {SCHEMA}.chain_event(kind, about, who,
    ARRAY(SELECT DISTINCT m FROM unnest(marks) m WHERE m >= 0), NULL, clock_timestamp()) e;
END $$"""

_NOTE = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.add_note(
  source text, entry text, operator text, note text, about text, who text, mark bigint, {_EVENT})
{_DEFINER}
DECLARE at timestamptz = clock_timestamp(); BEGIN
  INSERT INTO {SCHEMA}.note (source, entry_id, at, operator, text)
    VALUES (source, entry, {SCHEMA}.event_time(at), operator, note);
  SELECT e.event_seq, e.event_hash INTO event_seq, event_hash FROM {SCHEMA}.chain_event('note', about, who,
    ARRAY[mark], json_build_object('source', source, 'entries', json_build_array(entry), 'operator', operator,
    'note', note), at) e;
END $$"""

_HALT = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.set_halt(
  operator text, note text, about text, who text, {_EVENT})
{_DEFINER}
DECLARE at timestamptz = clock_timestamp(); BEGIN
  SELECT e.event_seq, e.event_hash INTO event_seq, event_hash FROM {SCHEMA}.chain_event('halt', about, who,
    ARRAY[CAST({SWITCH_MARK} AS bigint)], json_build_object('operator', operator, 'note', note), at) e;
  DELETE FROM {SCHEMA}.halt;
  INSERT INTO {SCHEMA}.halt (id, since, operator, note) VALUES (1, {SCHEMA}.event_time(at), operator, note);
END $$"""

# The approve event by which two lift the halt in force, a short while ago; null where there is none. Everything is read
# from the events: another role's approval of a request that is younger than the halt, or where the policy says so the
# asker's own after its delay.
_RESUME_AGREED = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.resume_agreed(at timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE wait interval; seen bigint; BEGIN
  BEGIN
    SELECT CAST(substring(p.value FROM 'delay\\s+([0-9.]+[smh])') AS interval) INTO wait
      FROM {SCHEMA}.policy p WHERE p.key = 'second_person';
  EXCEPTION WHEN data_exception THEN wait = NULL;
  END;
  SELECT max(e.seq) INTO seen FROM {SCHEMA}.audit_entry e WHERE e.mark = {SWITCH_MARK};
  RETURN (SELECT max(g.seq) FROM {SCHEMA}.approval a
    JOIN {SCHEMA}.audit q ON q.seq = a.asked_event JOIN {SCHEMA}.audit g ON g.seq = a.approved_event
    CROSS JOIN LATERAL (SELECT CAST(convert_from(q.body, 'UTF8') AS json) AS asked,
      CAST(convert_from(g.body, 'UTF8') AS json) AS given) told
    CROSS JOIN LATERAL (SELECT CAST(told.asked ->> 'at' AS timestamptz) AS asked_at,
      CAST(told.given ->> 'at' AS timestamptz) AS given_at) moment
    WHERE a.kind = 'resume' AND a.asked_event > coalesce(seen, 0)
      AND told.asked ->> 'kind' = 'ask-approval' AND told.asked ->> 'asked_for' = 'resume'
      AND told.given ->> 'plan' = told.asked ->> 'plan' AND told.given ->> 'asked_event' = CAST(q.seq AS text)
      AND at >= moment.given_at AND at - moment.given_at <= interval '{ASK_SECONDS} seconds'
      AND CASE told.given ->> 'kind'
        WHEN 'approve' THEN told.given -> 'who' ->> 'db_role' <> told.asked -> 'who' ->> 'db_role'
        WHEN 'self-approved' THEN wait IS NOT NULL AND moment.given_at - moment.asked_at >= wait
        ELSE false END);
END $$"""

_RESUME = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.lift_halt(about text, who text, {_EVENT})
{_DEFINER}
DECLARE at timestamptz; agreed bigint; BEGIN
  PERFORM pg_advisory_xact_lock({AUDIT_LOCK});
  at = clock_timestamp();
  agreed = {SCHEMA}.resume_agreed(at);
  IF agreed IS NULL AND NOT {SCHEMA}.may_become_owner() AND EXISTS (SELECT 1 FROM {SCHEMA}.policy p
    WHERE p.key = 'environment' AND btrim(p.value, '"'' ') = 'live') THEN
    RAISE EXCEPTION 'two lift a halt of a live store' USING errcode = 'check_violation';
  END IF;
  SELECT e.event_seq, e.event_hash INTO event_seq, event_hash FROM {SCHEMA}.chain_event('resume', about, who,
    ARRAY[CAST({SWITCH_MARK} AS bigint)], json_build_object('approved_event', agreed), at) e;
  DELETE FROM {SCHEMA}.halt;
END $$"""

# Whose attempt it is, the database says: what one role sent in an hour is added up by it.
_ATTEMPT_ROLE = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.attempt_role() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$ BEGIN NEW.role = session_user; RETURN NEW; END $$"""
_ATTEMPT_TRIGGER = f"""CREATE OR REPLACE TRIGGER attempt_role BEFORE INSERT ON {SCHEMA}.attempt
FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.attempt_role()"""

# Asking again keeps an approval that may still be used.
_ASK = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.ask_approval(
  plan text, summary text, asked_for text, document text, request text, os_user text, about text, who text, {_EVENT})
{_DEFINER}
DECLARE at timestamptz = clock_timestamp(); asker text = replace(os_user, '|', '_') || '|' || session_user; BEGIN
  SELECT e.event_seq, e.event_hash INTO event_seq, event_hash FROM {SCHEMA}.chain_event('ask-approval', about, who,
    NULL, json_build_object('plan', plan, 'asked_for', asked_for, 'summary', summary, 'asker', asker,
    'document', encode(sha256(convert_to(document, 'UTF8')), 'hex'),
    'request', encode(sha256(convert_to(request, 'UTF8')), 'hex')), at) e;
  INSERT INTO {SCHEMA}.approval AS a
    (plan_hash, asked_by, asked_at, summary, kind, document, request, state, asked_event)
    VALUES (plan, asker, extract(epoch FROM at), summary, asked_for, document, request, 'open', event_seq)
    ON CONFLICT (plan_hash) DO UPDATE SET asked_by = excluded.asked_by, asked_at = excluded.asked_at,
      summary = excluded.summary, kind = excluded.kind, document = excluded.document, request = excluded.request,
      state = 'open', asked_event = excluded.asked_event, approved_by = NULL, approved_at = NULL, approved_event = NULL
    WHERE a.approved_at IS NULL OR a.state <> 'open' OR a.approved_at < extract(epoch FROM at) - {ASK_SECONDS};
END $$"""

# `verdict` is the kind of the event it wrote. Whose approval counts, its readers decide by the events.
_APPROVE = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.approve_plan(
  plan text, wanted text, os_user text, about text, who text, {_EVENT}, OUT verdict text)
{_DEFINER}
DECLARE at timestamptz = clock_timestamp(); approver text = replace(os_user, '|', '_') || '|' || session_user;
  asked {SCHEMA}.approval; asker text; BEGIN
  SELECT * INTO asked FROM {SCHEMA}.approval a
    WHERE a.plan_hash = plan AND a.state = 'open' AND a.asked_event IS NOT NULL FOR UPDATE;
  asker = substr(asked.asked_by, strpos(asked.asked_by, '|') + 1);
  verdict = CASE WHEN asked.plan_hash IS NULL OR asked.asked_at < extract(epoch FROM at) - {ASK_SECONDS}
      THEN 'refused-approval'
    WHEN wanted = 'self-approved' AND asker = session_user THEN 'self-approved'
    WHEN wanted = 'withdrawn' AND asked.asked_by = approver THEN 'withdrawn'
    WHEN wanted = 'approve' AND (asker <> session_user
      OR (asked.asked_by <> approver AND {SCHEMA}.may_become_owner())) THEN 'approve'
    ELSE 'refused-approval' END;
  SELECT e.event_seq, e.event_hash INTO event_seq, event_hash FROM {SCHEMA}.chain_event(verdict, about, who,
    NULL, json_build_object('plan', plan, 'asked_event', asked.asked_event, 'asked_by', asked.asked_by,
    'approver', approver), at) e;
  IF verdict = 'withdrawn' THEN
    UPDATE {SCHEMA}.approval a SET state = 'withdrawn' WHERE a.plan_hash = plan;
  ELSIF verdict <> 'refused-approval' THEN
    UPDATE {SCHEMA}.approval a SET approved_by = approver, approved_at = extract(epoch FROM at),
      approved_event = event_seq WHERE a.plan_hash = plan;
  END IF;
END $$"""

# The parameters of what consoles call.
_TOLD = (("about", "text"), ("who", "text"))
CALLS: dict[str, tuple[tuple[str, str], ...]] = {
    "append_event": (("kind", "text"), *_TOLD, ("marks", "bigint[]")),
    "add_note": (*((name, "text") for name in ("source", "entry", "operator", "note")), *_TOLD, ("mark", "bigint")),
    "set_halt": (("operator", "text"), ("note", "text"), *_TOLD),
    "lift_halt": _TOLD,
    "ask_approval": (
        *((name, "text") for name in ("plan", "summary", "asked_for", "document", "request", "os_user")),
        *_TOLD,
    ),
    "approve_plan": (("plan", "text"), ("wanted", "text"), ("os_user", "text"), *_TOLD),
}
# The types that name each function in a GRANT; those that no console calls are for the others alone.
SIGNATURES: dict[str, str] = {
    "event_time": "timestamptz",
    "may_become_owner": "",
    "resume_agreed": "timestamptz",
    "attempt_role": "",
    "chain_event": "text, text, text, bigint[], json, timestamptz",
} | {name: ", ".join(kind for _, kind in given) for name, given in CALLS.items()}
_MADE = (
    *(_EVENT_TIME, _IS_OWNER, _CHAIN_EVENT, _APPEND, _NOTE, _HALT, _RESUME_AGREED, _RESUME, _ASK, _APPROVE),
    *(_ATTEMPT_ROLE, _ATTEMPT_TRIGGER, f"ALTER TABLE {SCHEMA}.attempt ENABLE ALWAYS TRIGGER attempt_role"),
)


def function_statements() -> list[str]:
    """Makes the functions and takes them from the public, which may otherwise call every new function."""
    taken = [f"REVOKE ALL ON FUNCTION {SCHEMA}.{name}({types}) FROM PUBLIC" for name, types in SIGNATURES.items()]
    # Whoever runs these takes a semicolon at the end of a line for the end of a statement.
    return [*(made.replace(";\n", "; \n") for made in _MADE), *taken]
