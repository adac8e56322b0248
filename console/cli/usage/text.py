"""The help texts, made from the table of verbs. Prints nothing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from textwrap import wrap

from console.cli.usage.option import GLOBAL, OPEN, VERSION, Option, VerbUsage
from console.cli.usage.value import fixed
from console.cli.usage.verb import EXITS, VERBS

_HELP = Option("-h --help", "print this help and exit")
_COLUMN = 26  # where the sentences begin


def verb_help(usage: VerbUsage) -> str:
    width = _width()
    parts = [_usage_lines(usage, width), "\n".join(wrap(usage.about, width))]
    parts += [_block("arguments", usage.positionals, width)]
    parts += [_block("options", (*(one for one in usage.options if not one.is_positional), _HELP), width)]
    parts += [_block("filters", usage.filters, width), _block("global options", GLOBAL, width)]
    if usage.exits:
        codes = "; ".join(f"{code} {text}" for code, text in usage.exits)
        parts.append("\n".join(wrap(f"exit codes: 0 done; {codes}; dlq --help lists the rest", width)))
    shown = [f"  {one.line}" + (f"   # {one.text}" if one.text else "") for one in usage.examples]
    parts.append("\n".join(["examples:" if len(shown) > 1 else "example:", *shown]))
    return "\n\n".join(filter(None, parts)) + "\n"


def main_help() -> str:
    width = _width()
    parts = [
        "usage: dlq [--db TARGET] [--read-only] [--open ID]     the console\n"
        "       dlq VERB [...]                                  one command",
        "The console for a trading engine's dead-letter queue.",
    ]
    for section in dict.fromkeys(one.section for one in VERBS.values()):
        lines = [f"  {one.name:<12} {one.summary}" for one in VERBS.values() if one.section == section]
        parts.append("\n".join([f"{section}:", *lines]))
    parts.append(_block("global options", (*GLOBAL, OPEN, VERSION, _HELP), width))
    parts.append("\n".join(["exit codes:", *(f"  {code:<4} {text}" for code, text in EXITS)]))
    parts.append(
        "examples:\n  dlq --db orders.db\n  dlq list --db orders.db\n"
        "  dlq help replay                              what a verb takes\n"
        "  dlq completions --help                       Tab in bash, zsh and fish"
    )
    return "\n\n".join(parts) + "\n"


def synopsis(usage: VerbUsage) -> list[str]:
    """Each argument and option in brackets, as a usage line has them; filters and global options as one word."""
    words = [one.shown for one in usage.positionals]
    modes = [one.flags for one in usage.options if one.dest == "mode"]
    words += [f"[{' | '.join(modes)}]"] if modes else []
    for one in usage.options:
        if one.is_positional or one.hidden or one.dest == "mode":
            continue
        shown = one.long + (f" {one.takes}" if one.takes else "")
        words.append(shown if one.required else f"[{shown}]")
    return [*words, *(("[filters]",) if usage.filters else ()), "[global options]"]


def told(option: Option) -> str:
    """The sentence on an option, with its values and its default."""
    values = fixed(option)
    listed = f": {' '.join(values)}" if values else ""
    usual = f" (default {option.default})" if option.default not in (None, "") else ""
    return f"{option.text}{listed}{usual}"


def _usage_lines(usage: VerbUsage, width: int) -> str:
    head = f"usage: dlq {usage.name} "
    lines, line = [], head
    for word in synopsis(usage):
        if len(line) + len(word) > width and line.strip():
            lines.append(line.rstrip())
            line = " " * len(head)
        line += f"{word} "
    return "\n".join([*lines, line.rstrip()])


def _block(title: str, options: Iterable[Option], width: int) -> str:
    lines = [line for option in options if not option.hidden for line in _lines(option, width)]
    return "\n".join([f"{title}:", *lines]) if lines else ""


def _lines(option: Option, width: int) -> Iterator[str]:
    head = f"  {option.shown}" if not option.is_positional else f"  {option.takes}"
    text = wrap(told(option), width - _COLUMN, break_on_hyphens=False) or [""]
    if len(head) + 2 > _COLUMN:
        yield head
    else:
        yield f"{head:<{_COLUMN}}{text.pop(0)}"
    yield from (f"{'':<{_COLUMN}}{line}" for line in text)


def _width() -> int:
    """The terminal's, within what can be read well."""
    return max(60, min(shutil.get_terminal_size().columns, 100)) if sys.stdout.isatty() else 80
