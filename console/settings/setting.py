"""Every setting of the config once: its name, what it takes, its default and its meaning.

The reader takes the known names from here, and the page docs/configuration.md is made of it. Reads nothing.
"""

from __future__ import annotations

from typing import NamedTuple


class Setting(NamedTuple):
    key: str
    takes: str
    default: str  # as it would be written in the config; empty where there is none
    means: str


class Section(NamedTuple):
    title: str  # as in the config, with NAME for what the owner of the config chooses
    means: str
    settings: tuple[Setting, ...]


TOP = Section(
    "",
    "At the top of the file, before the first `[section]`.",
    (
        Setting("credentials_dir", "a folder", "", "secrets as owner-only files, for servers without a keyring"),
        Setting(
            "theme",
            "`dark`, `light` or `contrast`",
            '"dark"',
            "what the console starts with; dark for any other word",
        ),
        Setting(
            "alarm",
            "`true` or `false`",
            "false",
            "the console rings the terminal's bell for a new entry in doubt, and the terminal's title tells how many "
            "there are",
        ),
        Setting("reasons", "a list of words", "[]", "more reasons for a dismissal, after the built-in ones"),
    ),
)
STORE = Section(
    "stores.NAME",
    "A dead-letter queue that `--db NAME` and the attach screen know by its name.",
    (
        Setting("url", "a path or a connection string", "", "where it is; required"),
        Setting("environment", "`live` or `paper`", "", "what its orders are: in `live` a paper replay is a rehearsal"),
        Setting(
            "mode", "`paper` or `live`", "", "what the console starts in, and what a command means that says neither"
        ),
        Setting("table", "`[schema.]name`", "", "which table, where the database has several dead-letter queues"),
        Setting("outbox_table", "`[schema.]name`", "", "outbox: the table that gets a replayed message"),
        Setting(
            "delete_after_replay", "`true` or `false`", "false", "outbox: delete the entry once its message is back"
        ),
        Setting(
            "replay_header", "`true` or `false`", "true", "outbox: a replayed message names in a header what it replays"
        ),
        Setting(
            "on_success",
            "`keep`, `delete` or `soft-delete`",
            "",
            "integration: what becomes of the row once the provider accepts",
        ),
        Setting("on_dismiss", "`keep`, `delete` or `soft-delete`", '"keep"', "integration: likewise after a dismissal"),
        Setting("hub_url", "an address", "", "integration: the hub's API, where its table cannot be reached"),
        Setting("hub_wait", "seconds, up to 3600", "120", "integration: how long a queued retry is waited for"),
    ),
)
VENUE = Section(
    "venues.NAME",
    "NAME is the `venue_name` of the entries. A known venue needs no section; quote a name with a colon: "
    '`[venues."ccxt:binance"]`.',
    (
        Setting("type", "a venue's name", "", "which venue it is, where NAME is one of your own"),
        Setting("timeout", "seconds, up to 300", "10.0", "how long one request may take"),
        Setting("paper_endpoint", "an address", "", "instead of the venue's own in paper; loopback only"),
        Setting("live_endpoint", "an address", "", "instead of the venue's own in live; loopback only"),
        Setting("data_endpoint", "an address", "", "where quotes are asked for, if they live at another host"),
        Setting("allow_custom_endpoint", "`true` or `false`", "false", "allow endpoints that are not on loopback"),
        Setting("rate_per_minute", "a number of requests", "", "at most this many a minute, look-ups included"),
        Setting("visibility_seconds", "seconds", "", 'how long "not found" proves nothing (60 by default)'),
        Setting("default_account", "an `account_id`", "", "whose credentials the venue's own are"),
        Setting("accounts", "a table", "", "see the next section"),
        Setting("options", "a table", "{}", "ccxt venues: handed to the exchange as they are"),
    ),
)
ACCOUNT = Section(
    "venues.NAME.accounts.ACCOUNT",
    "ACCOUNT is the `account_id` of the entries; its secrets are kept under that name.",
    (
        Setting("paper_number", "the venue's number", "", "must be the account that answers in paper"),
        Setting("live_number", "the venue's number", "", "must be the account that answers in live"),
    ),
)
PROVIDER = Section(
    "providers.NAME",
    "Who gets the stored calls of an integration. NAME is the `provider` of the entries.",
    (
        Setting("base_url", "an address", "", "where its calls go; required"),
        Setting("auth_header", "a header's name", "", "carries the secret (`Authorization` by default)"),
        Setting("key_header", "a header's name", '"Idempotency-Key"', "carries a fresh UUID with each retry"),
        Setting("timeout", "seconds, up to 300", "10.0", "how long one call may take"),
        Setting("tenants", "a table of names", "", "with it, each tenant has an authorization of its own, or none"),
    ),
)
LIMITS = Section(
    "limits",
    "What holds an entry back. A store's policy may be stricter (`docs/policy.md`); the stricter value counts.",
    (
        Setting("max_batch", "a number", "50", "orders, messages or calls in one batch"),
        Setting("max_notional", "an amount, or a table by currency", "50000", "the most that one order may be worth"),
        Setting("max_quantity", "an amount", "", "the largest quantity of one order; none: no limit"),
        Setting("max_drift", "a share from 0 to 1", "0.05", "how far through the market a limit price may be"),
        Setting(
            "four_eyes_over",
            "an amount, or a table by currency",
            "250000",
            "above this gross value, of a plan and of the last hour, a second person approves",
        ),
        Setting("stale_after", "a time, as `15m`", '"15m"', "the age after which an order is stale"),
        Setting(
            "plan_seconds", "1 to 3600", "60", "how long a plan waits for its confirmation before it is made again"
        ),
        Setting("quote_seconds", "1 to 3600", "60", "how old a quote may be"),
        Setting("poison_after", "a number", "3", "failures of one kind after which an entry is poison"),
        Setting("retry_limit", "a number", "10", "failed tries after which an entry is refused"),
        Setting("duplicate_window", "a time", '"15m"', "how long a replayed order makes an equal one a duplicate"),
        Setting("labels", "a list of keys", "[]", "more keys of an action that mean nothing to a venue"),
    ),
)
ALERTS = Section(
    "alerts",
    "When `dlq check` ends with 1 and the status line warns.",
    (
        Setting("depth", "a number", "100", "open entries of one venue, queue or provider"),
        Setting("oldest", "a time", '"30m"', "the age of the oldest open entry"),
        Setting("dominance", "a share from 0 to 1", "0.5", "the share of one category among the open entries"),
    ),
)
VIEWS = Section("views", "NAME = a filter (`docs/filters.md`); `:view NAME` and the palette apply it.", ())
KEYMAP = Section("keymap", "ID = key, for each key that you want elsewhere; the ids are in `docs/keys.md`.", ())

SECTIONS = (TOP, STORE, VENUE, ACCOUNT, PROVIDER, LIMITS, ALERTS, VIEWS, KEYMAP)


def names(section: Section) -> tuple[str, ...]:
    return tuple(setting.key for setting in section.settings)


def page() -> str:
    """The tables of the configuration page, as Markdown."""
    return "\n".join(_part(section) for section in SECTIONS)


def _part(section: Section) -> str:
    title = f"## `[{section.title}]`" if section.title else "## Top level"
    rows = [f"| `{one.key}` | {one.takes} | {_code(one.default)} | {one.means} |" for one in section.settings]
    head = ["| key | takes | default | meaning |", "|---|---|---|---|"] if rows else []
    return "\n".join([title, section.means, "", *head, *rows, *([""] if rows else [])])


def _code(default: str) -> str:
    return f"`{default}`" if default else "–"
