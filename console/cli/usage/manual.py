"""The manual page as roff, made from the table of verbs. Prints nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from console import __version__
from console.cli.usage.option import FILTERS, GLOBAL, OPEN, VERSION, Option, VerbUsage
from console.cli.usage.text import synopsis, told
from console.cli.usage.verb import EXITS, VERBS


def manual() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f'.TH DLQ 1 "" "dlq-console {__version__}" "User Commands"'
    yield from (".SH NAME", r"dlq \- console for a trading engine's dead-letter queue")
    yield from (".SH SYNOPSIS", ".B dlq", _text("[--db TARGET] [--read-only] [--open ID]"), ".br", ".B dlq")
    yield _text("VERB [arguments] [options] [global options]")
    yield from (
        ".SH DESCRIPTION",
        _text("Without a verb: opens the console on the store. With one: does that and ends."),
    )
    yield from _options("GLOBAL OPTIONS", (*GLOBAL, OPEN, VERSION), ".SH")
    yield from _options("FILTERS", FILTERS, ".SH")
    yield ".SH VERBS"
    for usage in VERBS.values():
        yield from _verb(usage)
    yield from (".SH EXIT STATUS",)
    for code, text in EXITS:
        yield from (".TP", f".B {code}", _text(text))
    yield from (".SH ENVIRONMENT",)
    for name, text in (
        ("DLQ_DB", "the store, where --db is absent"),
        ("DLQ_CONFIG", "the config file, where --config is absent"),
        ("PG*", "as for psql, for a Postgres store"),
    ):
        yield from (".TP", f".B {_text(name)}", _text(text))
    yield from (".SH FILES", ".TP", r".I ~/.config/dlq\-console/config.toml", "the config")


def _verb(usage: VerbUsage) -> Iterator[str]:
    yield f".SS dlq {_text(usage.name)}"
    yield f".B dlq {_text(usage.name)}"
    yield _text(" ".join(synopsis(usage)))
    yield from (".PP", _text(usage.about))
    yield from _options("", usage.options, "")
    for number, one in enumerate(usage.examples):
        yield from (".PP", f"Example{'' if len(usage.examples) == 1 else 's'}:") if not number else ()
        yield from (".PP", ".nf", ".RS 4", _text(one.line + (f"   # {one.text}" if one.text else "")), ".RE", ".fi")


def _options(title: str, options: Iterable[Option], macro: str) -> Iterator[str]:
    if title:
        yield f"{macro} {title}"
    for one in options:
        if not one.hidden:
            yield from (".TP", f".B {_text(one.takes if one.is_positional else one.shown)}", _text(told(one)))


def _text(text: str) -> str:
    """A text that roff takes for nothing else: a hyphen stays one, and no line begins with a control character."""
    shown = (
        text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq").replace("~", r"\(ti").replace("^", r"\(ha")
    )
    return rf"\&{shown}" if shown[:1] in (".", "'") else shown
