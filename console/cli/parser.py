"""Builds the argument parser: every verb, option and help text. Runs nothing."""

from __future__ import annotations

import argparse
from typing import NoReturn

from console import __version__

CATEGORIES = ("transient", "schema", "business", "integration")
STATES = ("pending", "in_flight", "in_doubt", "replayed", "dismissed")


class UsageError(Exception):
    """Wrong arguments: exit 2, and nothing was done."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} ({self.prog} --help says more)")


def build_parser() -> argparse.ArgumentParser:
    everywhere = _Parser(add_help=False)
    everywhere.add_argument(
        "--db", metavar="TARGET", help="path, sqlite:///path, postgresql://user@host/db, or a store"
    )
    everywhere.add_argument("--config", metavar="FILE", help="the config file")
    everywhere.add_argument("--operator", metavar="NAME", help="a label for the record; your identity is the OS user")
    everywhere.add_argument("--table", metavar="[SCHEMA.]NAME", help="which dead-letter queue, where there are several")
    everywhere.add_argument("--read-only", action="store_true", help="attach so that nothing can be changed")
    parser = _Parser(
        prog="dlq", description="The console for a trading engine's dead-letter queue.", parents=[everywhere]
    )
    parser.add_argument("--version", action="version", version=f"dlq-console {__version__}")
    parser.add_argument("--open", metavar="ID", help="start at this entry")
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", parser_class=_Parser)

    def verb(name: str, text: str) -> argparse.ArgumentParser:
        return verbs.add_parser(name, help=text, description=text, parents=[_again(everywhere)])

    _looking(verb)
    _counting(verb)
    _acting(verb)
    _keeping(verb)
    return parser


def _again(parser: _Parser) -> _Parser:
    """The global options again for a subcommand. Given there they win; otherwise the earlier value stays."""
    twin = _Parser(add_help=False)
    for action in parser._actions:
        kind = {"action": "store_true"} if action.nargs == 0 else {"metavar": action.metavar}
        twin.add_argument(*action.option_strings, default=argparse.SUPPRESS, help=action.help, **kind)
    return twin


def _filters(parser: argparse.ArgumentParser, *, venue: bool = True) -> None:
    group = parser.add_argument_group("filters")
    if venue:
        group.add_argument("--venue", "--queue", "--provider", metavar="V")
    group.add_argument("--filter", metavar="EXPR", help="the console's own language: 'venue:alpaca age>1h !timeout'")
    group.add_argument("--account", "--tenant", metavar="A")
    group.add_argument("--market", metavar="M")
    group.add_argument("--side", metavar="S")
    group.add_argument("--category", metavar="C", help=f"one of {' '.join(CATEGORIES)}")
    group.add_argument("--state", metavar="S", help=f"one of {' '.join(STATES)} open all")
    group.add_argument("--group", metavar="FINGERPRINT")
    group.add_argument("--since", metavar="WHEN", help="8h, 03:00 or an ISO time")
    group.add_argument("--until", metavar="WHEN")
    group.add_argument("--search", metavar="TEXT", help="a text in the error or the market, or an id")
    group.add_argument("--failure-reason", metavar="R", help="of an outbox: max_deliveries, retry_terminal, rejected")


def _mode(parser: argparse.ArgumentParser) -> None:
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--paper", dest="mode", action="store_const", const="paper")
    mode.add_argument("--live", dest="mode", action="store_const", const="live")


def _looking(verb: object) -> None:
    listing = verb("list", "list entries: SQLite in insertion order, Postgres by captured_at, then dlq_id")  # type: ignore[operator]  # the closure above
    listing.add_argument("--all", action="store_true", help="also what is replayed or dismissed")
    listing.add_argument("--limit", type=int, metavar="N")
    listing.add_argument("--json", action="store_true")
    _filters(listing)
    show = verb("show", "an entry with its retry history and audit events")  # type: ignore[operator]
    show.add_argument("id", metavar="ID")
    show.add_argument("--json", action="store_true")
    export = verb("export", "write entries as CSV or JSON Lines")  # type: ignore[operator]
    export.add_argument("--format", choices=("csv", "jsonl"), required=True)
    export.add_argument("--all", action="store_true")
    _filters(export)
    doctor = verb("doctor", "the attach report: layout, drift, triggers, read-only enforcement")  # type: ignore[operator]
    doctor.add_argument("--json", action="store_true")
    audit = verb("audit", "verify or export the audit chain")  # type: ignore[operator]
    audit.add_argument("what", choices=("verify", "export"))
    audit.add_argument("--head", metavar="COUNT:HASH", help="a head kept elsewhere")


def _counting(verb: object) -> None:
    groups = verb("groups", "like failures together")  # type: ignore[operator]  # the closure above
    groups.add_argument("--all", action="store_true", help="also what is replayed or dismissed")
    _filters(groups)
    check = verb("check", "alert rules: exit 0 quiet, 1 alerts")  # type: ignore[operator]
    report = verb("report", "shift report: what came, what was done, what is in doubt")  # type: ignore[operator]
    report.add_argument("--since", metavar="WHEN", default="8h", help="8h, or an ISO time")
    archive = verb("archive", "write old entries to a verifiable bundle; deletes nothing")  # type: ignore[operator]
    archive.add_argument("--before", metavar="DATE", help="an ISO time, or 30d")
    archive.add_argument("--out", metavar="FILE")
    archive.add_argument("--verify", metavar="FILE", help="check a bundle instead")
    index = verb("index", "build the local index for groups and search")  # type: ignore[operator]
    index.add_argument("--follow", action="store_true", help="and keep it until stopped")
    index.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)
    for parser in (groups, check, report, archive, index):
        parser.add_argument("--json", action="store_true")
    metrics = verb("metrics", "Prometheus text")  # type: ignore[operator]
    metrics.add_argument("--listen", metavar="HOST:PORT", help="serve it; a port alone is on 127.0.0.1")


def _acting(verb: object) -> None:
    dismiss = verb("dismiss", "settle entries without sending them; the rows stay")  # type: ignore[operator]
    dismiss.add_argument("ids", metavar="ID", nargs="*")
    dismiss.add_argument("--reason", metavar="CODE", help="asked for on a terminal if absent")
    dismiss.add_argument("--note", metavar="TEXT")
    restore = verb("restore", "take a dismissal back; of a pending entry, with a note, its poison")  # type: ignore[operator]
    restore.add_argument("ids", metavar="ID", nargs="*")
    restore.add_argument("--note", metavar="TEXT")
    replay = verb("replay", "send entries to their venue again")  # type: ignore[operator]
    replay.add_argument("ids", metavar="ID", nargs="*")
    _mode(replay)
    replay.add_argument(
        "--venue", "--queue", "--provider", metavar="V", help="send to this venue; of other layouts: a filter"
    )
    replay.add_argument("--dry-run", action="store_true", help="show the plan; nothing is sent or written")
    replay.add_argument("--override", metavar="GUARD,...", help="guards to pass, with --note")
    replay.add_argument("--note", metavar="TEXT")
    for parser, venue in ((dismiss, True), (restore, True), (replay, False)):
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument("--json", action="store_true")
        parser.add_argument("--expect", type=int, metavar="N", help="refuse unless exactly N match")
        _filters(parser, venue=venue)
    _settling(verb)
    approve = verb("approve", "what waits for a second person; with PLAN: its orders, then the approval")  # type: ignore[operator]
    approve.add_argument("plan", metavar="PLAN", nargs="?")
    approve.add_argument("--yes", action="store_true", help="do not ask")
    approve.add_argument("--json", action="store_true")
    policy = verb("policy", "the store owner's floor under everybody's limits")  # type: ignore[operator]
    policy.add_argument("what", choices=("set",), nargs="?", help="without it: what is set")
    policy.add_argument("changes", metavar="KEY=VALUE", nargs="*", help="as in the config; KEY= takes the key away")
    for name, text in (("halt", "stop every replay on this store"), ("resume", "lift the halt")):
        verb(name, text).add_argument("--note", metavar="TEXT")  # type: ignore[operator]


def _settling(verb: object) -> None:
    reconcile = verb("reconcile", "ask the venue about entries in doubt")  # type: ignore[operator]
    reconcile.add_argument("ids", metavar="ID", nargs="*")
    _mode(reconcile)
    reconcile.add_argument("--json", action="store_true")
    settle = verb("settle", "settle an entry in doubt by what you saw yourself")  # type: ignore[operator]
    settle.add_argument("id", metavar="ID")
    _mode(settle)
    settle.add_argument("--as", dest="claimed", choices=("accepted", "absent"), required=True)
    settle.add_argument("--order", metavar="VENUE_ORDER_ID", help="the order that is there, with --as accepted")
    settle.add_argument("--note", metavar="TEXT", help="what you saw, and where")
    settle.add_argument("--yes", action="store_true", help="do not ask")
    settle.add_argument("--json", action="store_true")
    ask = verb("ask", "ask the venue what it has of an entry's order; writes nothing")  # type: ignore[operator]
    ask.add_argument("ids", metavar="ID", nargs="+")
    _mode(ask)
    ask.add_argument("--json", action="store_true")


def _keeping(verb: object) -> None:
    verb("init", "make an order store in an empty database")  # type: ignore[operator]
    verb("demo", "a throw-away store and a practice venue")  # type: ignore[operator]
    secrets = verb("secrets", "credentials in the keyring")  # type: ignore[operator]
    secrets.add_argument("what", choices=("set", "list", "check", "delete"))
    secrets.add_argument(
        "venue",
        metavar="VENUE",
        nargs="?",
        help="or provider/NAME, provider/NAME/TENANT, hub/STORE; list: all if absent",
    )
    secrets.add_argument("--account", metavar="A", help="the entries' account_id; without it: the venue's own secrets")
    _mode(secrets)
    practice = verb("practice", "the practice exchange on loopback")  # type: ignore[operator]
    practice.add_argument("--port", type=int, default=0)
    practice.add_argument("--ledger", metavar="FILE")
    practice.add_argument("--script", metavar="FILE", help="faults on demand, as JSON")
    serve = verb("serve", "the console in a browser")  # type: ignore[operator]
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8000, metavar="N", help="0 takes a free one")
    serve.add_argument("--consoles", type=int, default=4, metavar="N", help="how many may be open at once")
    serve.add_argument("--allow-live", action="store_true", help="without it the browser's console stays in PAPER")
    help_ = verb("help", "what a command does and takes")  # type: ignore[operator]
    help_.add_argument("about", metavar="VERB", nargs="?")
    completions = verb("completions", "completion script for a shell")  # type: ignore[operator]
    completions.add_argument("shell", choices=("bash", "zsh", "fish"))
