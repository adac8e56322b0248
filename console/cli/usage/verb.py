"""The table of verbs: what each does and takes, with examples. Parser, help, completions and man page come from it."""

from __future__ import annotations

from collections.abc import Mapping

from console.cli.usage.option import (
    ALL,
    EXPECT,
    FILTERS,
    FILTERS_BUT_VENUE,
    ID,
    IDS,
    JSON,
    MODES,
    NOTE,
    OUTPUT,
    WATCH,
    YES,
    Example,
    Option,
    VerbUsage,
)

LOOK, ACT, DOUBT, KEEP = "look", "act", "in doubt, and second person", "set up and keep"
_NOT_ACTED = (4, "an entry was not acted on")
_SENT = ((1, "an order was rejected"), (3, "an order is in doubt"), _NOT_ACTED)

_LOOKING = (
    VerbUsage(
        "list",
        LOOK,
        "list entries",
        "Lists open entries: in insertion order on SQLite, by captured_at, then dlq_id on Postgres. Changes nothing.",
        (
            ALL,
            Option("-n --limit", "print at most N entries", "N", number=True),
            JSON,
            OUTPUT,
            WATCH,
        ),
        FILTERS,
        (
            Example("dlq list --db orders.db"),
            Example("dlq list --db prod --filter 'venue:alpaca age>1h !timeout' -o table"),
            Example("dlq list --db prod --state in_doubt --json"),
        ),
    ),
    VerbUsage(
        "show",
        LOOK,
        "show one entry with its attempts and audit events",
        "Shows one entry: the row as stored, what the error means, attempts, notes and audit events. Changes nothing.",
        (ID, JSON),
        examples=(Example("dlq show dlq_00000000000000d0 --db orders.db"),),
    ),
    VerbUsage(
        "groups",
        LOOK,
        "count like failures together",
        "Puts failures with the same fingerprint together: how many, since when, at which venues. Changes nothing.",
        (ALL, JSON, OUTPUT, WATCH),
        FILTERS,
        (Example("dlq groups --db prod"), Example("dlq groups --db prod --venue alpaca -o table")),
    ),
    VerbUsage(
        "export",
        LOOK,
        "write entries as CSV or JSON Lines",
        "Writes entries in every state to stdout. CSV cells that a spreadsheet would run begin with an apostrophe.",
        (
            Option("--format", "how to write them", "FORMAT", ("csv", "jsonl"), strict=True, required=True),
            Option("-a --all", "every state, which is the default here"),
        ),
        FILTERS,
        (Example("dlq export --db prod --format csv --since 8h > shift.csv"),),
    ),
    VerbUsage(
        "report",
        LOOK,
        "print the shift report",
        "Reports what came in, what was done and what is still in doubt since a moment. Changes nothing.",
        (
            Option("--since", "the start of the shift: 8h ago, 03:00 UTC or an ISO time", "WHEN", default="8h"),
            JSON,
        ),
        examples=(Example("dlq report --db prod --since 8h"),),
    ),
    VerbUsage(
        "check",
        LOOK,
        "test the alert rules, for cron",
        "Tests the alert rules of the config and prints the alerts that are raised. Changes nothing.",
        (JSON, OUTPUT),
        examples=(Example("dlq check --db prod || notify-somebody", "in cron"),),
        exits=((1, "an alert is raised"),),
    ),
    VerbUsage(
        "metrics",
        LOOK,
        "print or serve Prometheus metrics",
        "Prints the metrics once, or serves them at /metrics. Changes nothing.",
        (Option("--listen", "serve them until Ctrl-C; a port alone is on 127.0.0.1", "HOST:PORT"),),
        examples=(Example("dlq metrics --db prod --listen 127.0.0.1:9464"),),
    ),
    VerbUsage(
        "doctor",
        LOOK,
        "report how the store is attached and what to fix",
        "Reports layout, drift, triggers, roles and grants, what enforces read-only, the limits in force, and what a "
        "config or ledger of version 0.1 needs. Changes nothing.",
        (JSON,),
        examples=(Example("dlq doctor --db prod"),),
    ),
    VerbUsage(
        "audit",
        LOOK,
        "verify or export the audit chain",
        "verify checks the chain and compares the ledger's tables with it, then prints the head; export writes every "
        "event as JSON Lines.",
        (
            Option("what", "what to do", "ACTION", ("verify", "export"), strict=True),
            Option("--head", "for verify: a head that was printed earlier and kept elsewhere", "COUNT:HASH"),
            OUTPUT._replace(text="for export: JSON Lines, which is the default, CSV or a table"),
        ),
        examples=(Example("dlq audit verify --db prod"), Example("dlq audit export --db prod > audit.jsonl")),
        exits=((1, "the chain is broken"),),
    ),
)

_ACTING = (
    VerbUsage(
        "dismiss",
        ACT,
        "close entries without sending them",
        "Closes entries without sending them. The rows stay, and dlq restore opens them again. Ctrl-C stops between "
        "two transactions and says how to go on or back.",
        (
            IDS,
            Option("-r --reason", "why; asked for on a terminal if absent (other needs --note)", "CODE", "reasons"),
            NOTE,
            YES,
            JSON,
            EXPECT,
        ),
        FILTERS,
        (
            Example("dlq dismiss dlq_00000000000000d0 --db orders.db --reason market-closed"),
            Example("dlq dismiss --db prod --filter 'venue:kalshi age>1d' --expect 12 --reason stale --yes"),
        ),
        exits=(_NOT_ACTED,),
    ),
    VerbUsage(
        "restore",
        ACT,
        "open dismissed entries again",
        "Opens dismissed entries again, and entries that were replayed in paper alone. Filters select among dismissed "
        "and replayed entries. On a pending entry, with --note, it clears the poison mark.",
        (IDS, NOTE, YES, JSON, EXPECT),
        FILTERS,
        (
            Example("dlq restore dlq_00000000000000d0 --db orders.db"),
            Example("dlq restore --db prod --filter 'venue:kalshi reason:stale' --expect 12"),
        ),
        exits=(_NOT_ACTED,),
    ),
    VerbUsage(
        "replay",
        ACT,
        "send entries to their venue again",
        "Shows the plan, asks, and sends each entry once, after the venue was asked whether it has the order already. "
        "In other layouts: hands messages to the outbox, or calls the provider again.",
        (
            IDS,
            *MODES,
            Option("--venue --queue --provider", "send to this venue; in other layouts it selects", "V", "venues"),
            Option("-n --dry-run", "show the plan; nothing is sent or written"),
            Option("--override", "guards to override, separated by commas; needs --note", "GUARD,...", "guards"),
            NOTE,
            YES,
            JSON,
            EXPECT,
        ),
        FILTERS_BUT_VENUE,
        (
            Example("dlq replay dlq_00000000000000d0 --db orders.db --paper --dry-run"),
            Example("dlq replay --db prod --live --filter 'venue:alpaca category:transient' --expect 3"),
            Example("dlq replay dlq_00000000000000d0 --db prod --live --override stale --note 'still wanted'"),
        ),
        exits=_SENT,
    ),
    VerbUsage(
        "halt",
        ACT,
        "stop every replay on this store",
        "The kill switch: no console sends on this store until dlq resume. Reconcile, ask, settle, dismiss and "
        "restore still work.",
        (NOTE,),
        examples=(Example("dlq halt --db prod --note 'venue sends duplicates'"),),
    ),
    VerbUsage(
        "resume",
        ACT,
        "lift the halt",
        "Lets consoles send on this store again. On a live store a second person must approve it.",
        (NOTE,),
        examples=(Example("dlq resume --db prod --note 'venue confirmed the fix'"),),
        exits=((4, "no halt is set, or a second person must approve"),),
    ),
)

_SETTLING = (
    VerbUsage(
        "reconcile",
        DOUBT,
        "ask the venue about entries in doubt",
        "Asks the venue about attempts whose outcome is unknown and settles them by its evidence. Sends nothing.",
        (IDS._replace(text="entries by dlq_id; without any, everything in doubt"), *MODES, JSON),
        examples=(Example("dlq reconcile --db prod --live"),),
        exits=_SENT,
    ),
    VerbUsage(
        "settle",
        DOUBT,
        "settle an entry in doubt by what you saw",
        "Ends an attempt in doubt by your own evidence, after the venue was asked. In live a second person approves.",
        (
            ID,
            *MODES,
            Option(
                "--as", "what you saw at the venue", "WHAT", ("accepted", "absent"), True, dest="claimed", required=True
            ),
            Option("--order", "the venue's id of the order you saw, with --as accepted", "VENUE_ORDER_ID"),
            NOTE._replace(text="what you saw, and where; always needed"),
            YES,
            JSON,
        ),
        examples=(Example("dlq settle dlq_00000000000000d5 --db prod --as absent --note 'not in the order history'"),),
        exits=(_NOT_ACTED,),
    ),
    VerbUsage(
        "ask",
        DOUBT,
        "ask the venue about an entry's order",
        "Asks the venue for the orders of these entries, in any state. Writes nothing and sends no order.",
        (IDS._replace(nargs="+"), *MODES, JSON, OUTPUT),
        examples=(Example("dlq ask dlq_00000000000000d5 --db prod --live"),),
        exits=((4, "the venue gave no answer for an entry"),),
    ),
    VerbUsage(
        "approve",
        DOUBT,
        "list or approve what waits for a second person",
        "Without PLAN: lists what waits. With PLAN: shows its orders, asks for the words approve N and approves it.",
        (Option("plan", "the plan's hash", "PLAN", "plans", nargs="?"), YES, JSON, OUTPUT),
        examples=(Example("dlq approve --db prod"), Example("dlq approve 3f9a1c02 --db prod")),
        exits=((4, "expired, your own plan, or read-only"),),
    ),
    VerbUsage(
        "policy",
        DOUBT,
        "print or set the owner's limits for everybody",
        "The store owner's floor under everybody's limits. Prints KEY=VALUE lines; set changes them, KEY= removes one.",
        (
            Option("what", "change the policy; without it, print it", "set", ("set",), True, nargs="?"),
            Option("changes", "as in the config; KEY= removes the key", "KEY=VALUE", "policy", nargs="*"),
        ),
        examples=(Example("dlq policy --db prod"), Example("dlq policy set max_batch=20 --db prod")),
        exits=((4, "only the owner may set it"),),
    ),
)

_KEEPING = (
    VerbUsage(
        "secrets",
        KEEP,
        "keep credentials in the keyring",
        "set asks for the values without echo, or reads field=value lines from stdin; check asks the venue whether it "
        "accepts them; list prints names, never values; delete removes them.",
        (
            Option("what", "what to do", "ACTION", ("set", "list", "check", "delete"), strict=True),
            Option("venue", "a venue, provider/NAME, provider/NAME/TENANT or hub/STORE", "VENUE", "venues", nargs="?"),
            Option("--account", "the entries' account_id; without it, the venue's own secrets", "A"),
            *MODES,
            OUTPUT._replace(text="for list: JSON Lines, CSV or a table"),
        ),
        examples=(
            Example("dlq secrets set alpaca --account main --paper"),
            Example("dlq secrets check alpaca --account main --paper"),
            Example("dlq secrets list"),
        ),
        exits=((1, "the venue refuses them"), (4, "not set, or the venue cannot be reached")),
    ),
    VerbUsage(
        "archive",
        KEEP,
        "write old entries to a verifiable bundle",
        "Writes entries, attempts and the audit chain to one file and deletes nothing. --verify checks such a file.",
        (
            Option("--before", "archive what was captured before: an ISO time, or 30d ago", "DATE"),
            Option("--out", "the file to write; an existing one is never overwritten", "FILE", "files"),
            Option("--verify", "check this bundle instead", "FILE", "files"),
            JSON,
        ),
        examples=(
            Example("dlq archive --db prod --before 30d --out october.zip"),
            Example("dlq archive --verify october.zip"),
        ),
        exits=((1, "the bundle was altered"),),
    ),
    VerbUsage(
        "index",
        KEEP,
        "build the local index for groups and search",
        "Builds the index of a large store in your cache folder, as the console does by itself. Only reads the store.",
        (
            Option("--follow", "keep it current until Ctrl-C"),
            Option("--with-parent", "end with the process that started this one", hidden=True),
            JSON,
        ),
        examples=(Example("dlq index --db prod"),),
    ),
    VerbUsage(
        "practice",
        KEEP,
        "run the practice exchange on loopback",
        "Prints one address that speaks every venue's wire format. Accepts any credentials and moves no money.",
        (
            Option("--port", "listen here; 0 takes a free port", "N", number=True, default=0),
            Option("--ledger", "keep the exchange's orders in this file", "FILE", "files"),
            Option("--script", "faults on demand, as JSON", "FILE", "files"),
        ),
        examples=(Example("dlq practice --port 18080"),),
    ),
    VerbUsage(
        "serve",
        KEEP,
        "open the console in a browser",
        "Serves the console on loopback and prints its address, with a secret in it, as the first line.",
        (
            Option("--host", "a loopback address", "HOST", ("127.0.0.1", "localhost", "::1"), default="127.0.0.1"),
            Option("--port", "listen here; 0 takes a free port", "N", number=True, default=8000),
            Option("--consoles", "how many may be open at once", "N", number=True, default=4),
            Option("--allow-live", "let the browser leave PAPER"),
        ),
        examples=(Example("dlq serve --db prod --read-only"),),
    ),
    VerbUsage(
        "init",
        KEEP,
        "make an order store in an empty database",
        "Creates the dead-letter table of the order layout, with its triggers, in an empty database or a new file.",
        examples=(Example("dlq init --db orders.db"),),
    ),
    VerbUsage(
        "demo",
        KEEP,
        "try the console on a throw-away store",
        "Opens the console on a throw-away store with a practice venue; without a terminal prints its list and a plan.",
        examples=(Example("dlq demo"),),
    ),
    VerbUsage(
        "completions",
        KEEP,
        "print a completion script for a shell",
        "Prints the script for bash, zsh or fish. Source it from the shell's start-up file.",
        (Option("shell", "the shell", "SHELL", ("bash", "zsh", "fish"), strict=True),),
        examples=(
            Example('eval "$(dlq completions bash)"', "in ~/.bashrc"),
            Example('eval "$(dlq completions zsh)"', "in ~/.zshrc, after compinit"),
            Example("dlq completions fish | source", "in ~/.config/fish/config.fish"),
        ),
    ),
    VerbUsage(
        "help",
        KEEP,
        "explain a verb",
        "Explains a verb, or lists them. --man prints the manual page.",
        (
            Option("about", "the verb to explain", "VERB", "verbs", nargs="?"),
            Option("--man", "print the manual page as roff"),
        ),
        examples=(Example("dlq help replay"), Example("dlq help --man > dlq.1")),
    ),
)
VERBS: Mapping[str, VerbUsage] = {one.name: one for one in (*_LOOKING, *_ACTING, *_SETTLING, *_KEEPING)}
EXITS = (
    (0, "done as asked"),
    (1, "rejected by the venue, an alert is raised, or a record was altered"),
    (2, "wrong usage or bad input; nothing was done"),
    (3, "at least one entry is in doubt"),
    (4, "at least one entry was not acted on"),
    (5, "the store cannot be reached or is not a dead-letter queue"),
    (70, "a bug in this program"),
    (74, "the output could not be written"),
    (130, "stopped by Ctrl-C"),
    (141, "nobody reads the output any more"),
)
