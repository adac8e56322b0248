"""The records of the table of verbs, and the options that several verbs share. Runs nothing."""

from __future__ import annotations

from typing import NamedTuple

CATEGORIES = ("transient", "schema", "business", "integration")
STATES = ("pending", "in_flight", "in_doubt", "replayed", "dismissed")
FORMATS = ("json", "csv", "table")


# The verbs by name: the console itself starts without their rows.
_LOOKING = ("list", "show", "groups", "export", "report", "check", "metrics", "doctor", "audit")
_ACTING = ("dismiss", "restore", "replay", "halt", "resume", "reconcile", "settle", "ask", "approve", "policy")
_KEEPING = ("secrets", "archive", "index", "practice", "serve", "init", "demo", "completions", "help")
NAMES = (*_LOOKING, *_ACTING, *_KEEPING)


class Option(NamedTuple):
    """An option, or a positional argument if its flags have no dash."""

    flags: str  # the short one first: "-n --limit"
    text: str  # one sentence without its full stop
    takes: str = ""  # how its value is shown; "" takes none
    values: tuple[str, ...] | str = ()  # allowed or likely ones; a word names a kind of `usage.value`
    strict: bool = False  # refuse any other value
    number: bool = False
    nargs: str = ""  # of a positional: "?", "*" or "+"
    default: str | int | None = None
    dest: str = ""
    const: str = ""  # what a switch sets `dest` to
    required: bool = False
    hidden: bool = False

    @property
    def names(self) -> list[str]:
        return self.flags.split()

    @property
    def is_positional(self) -> bool:
        return not self.flags.startswith("-")

    @property
    def shown(self) -> str:
        """`-n, --limit N`; `ID...`; `[VENUE]`."""
        if self.is_positional:
            many = f"{self.takes}..." if self.nargs in ("*", "+") else self.takes
            return f"[{many}]" if self.nargs in ("?", "*") else many
        return ", ".join(self.names) + (f" {self.takes}" if self.takes else "")

    @property
    def long(self) -> str:
        return next((name for name in self.names if name.startswith("--")), self.names[0])


class Example(NamedTuple):
    line: str
    text: str = ""


class VerbUsage(NamedTuple):
    name: str
    section: str
    summary: str  # one line, for the list of verbs
    about: str  # what it does, and what it never does
    options: tuple[Option, ...] = ()
    filters: tuple[Option, ...] = ()
    examples: tuple[Example, ...] = ()
    exits: tuple[tuple[int, str], ...] = ()  # beyond those that every verb has

    @property
    def positionals(self) -> list[Option]:
        return [one for one in self.options if one.is_positional]

    @property
    def every_option(self) -> tuple[Option, ...]:
        return (*self.options, *self.filters, *GLOBAL)


GLOBAL = (
    Option("-d --db", "a path, a connection string or a store in the config; else $DLQ_DB", "TARGET", "stores"),
    Option("-c --config", "the config file; else $DLQ_CONFIG or ~/.config/dlq-console/config.toml", "FILE", "files"),
    Option("--operator", "a label for the record; your identity stays the OS user and the database role", "NAME"),
    Option("--table", "which dead-letter queue, if the database has several", "[SCHEMA.]NAME"),
    Option("--read-only", "attach so that nothing can be changed or sent"),
)
VERSION = Option("-V --version", "print the version and exit")
OPEN = Option("--open", "start the console at this entry", "ID")

ID = Option("id", "the entry's dlq_id", "ID", "ids")
IDS = Option("ids", "entries by dlq_id", "ID", "ids", nargs="*")
JSON = Option("-j --json", "print JSON Lines")
OUTPUT = Option(
    "-o --output", "print JSON Lines, CSV or a table as wide as the terminal", "FORMAT", FORMATS, strict=True
)
ALL = Option("-a --all", "include what is replayed or dismissed")
YES = Option("-y --yes", "do not ask for confirmation")
NOTE = Option("-m --note", "why, in your own words; it is kept in the audit chain", "TEXT")
EXPECT = Option("--expect", "refuse unless exactly N entries match; needed with filters", "N", number=True)
WATCH = Option("-w --watch", "repaint on every change until Ctrl-C; on a terminal only")
MODES = (
    Option("--paper", "use the venue's paper environment and paper credentials", dest="mode", const="paper"),
    Option("--live", "use the real market and live credentials", dest="mode", const="live"),
)
VENUE = Option("--venue --queue --provider", "only this venue; in other layouts, this queue or provider", "V", "venues")
_SELECTING = (
    Option("-f --filter", "the console's own filter language: 'venue:alpaca age>1h !timeout'", "EXPR"),
    Option("--account --tenant", "only this account_id; in an integration, this tenant", "A"),
    Option("--market", "only this market_id", "M"),
    Option("--side", "only this side", "S", ("buy", "sell")),
    Option("--category", "only failures of this kind", "C", CATEGORIES),
    Option("--state", "only entries in this state", "S", (*STATES, "open", "all")),
    Option("--group", "only failures like these; dlq groups prints the fingerprints", "FINGERPRINT"),
    Option("--since", "captured at or after: 8h ago, 03:00 UTC or an ISO time", "WHEN"),
    Option("--until", "captured before: written like --since", "WHEN"),
    Option("--search", "a text in the error or the market, or a whole id", "TEXT"),
    Option(
        "--failure-reason",
        "only messages of an outbox that failed for this reason",
        "R",
        ("max_deliveries", "retry_terminal", "rejected"),
    ),
)
FILTERS = (VENUE, *_SELECTING)
FILTERS_BUT_VENUE = _SELECTING
