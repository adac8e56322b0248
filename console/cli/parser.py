"""Parses the arguments by the table of verbs; a mistake ends as one sentence that names the remedy. Runs nothing."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from console import __version__
from console.cli.usage.option import GLOBAL, NAMES, OPEN, VERSION, Option, VerbUsage
from console.text.untrusted import EMPTY, safe

_WIDTH = 80
_NEAR = 0.6  # how alike a word and what was meant must be
_OTHER_NAMES = {"--database": "--db", "--store": "--db", "--dsn": "--db", "--dryrun": "--dry-run", "--msg": "--note"}
_EXCLUDES = re.compile(r"-[A-Za-z][A-Za-z0-9_.]*(:|>=|<=|>|<)")
# What argparse says, and what is said instead.
_SAID = (
    (r"argument (\S+?): invalid int value: '(.*)'", "{0} takes a whole number, not {1}"),
    (r"argument (\S+?): expected one argument", "{0} needs a value"),
    (r"argument (\S+?): expected at least one argument", "{0} is missing"),
    (r"argument --(?:paper|live): not allowed with argument --(?:paper|live)", "say --paper or --live, not both"),
    (r"argument (\S+?): not allowed with argument (\S+)", "{0} and {1} exclude each other"),
    (r"argument (\S+?): ignored explicit argument '(.*)'", "{0} takes no value, but was given {1}"),
    (r"ambiguous option: (\S+) could match (.+)", "{0} could be {1}: write it out in full"),
)


class UsageError(Exception):
    """Wrong arguments: exit 2, and nothing was done."""


class _Parser(argparse.ArgumentParser):
    def _get_formatter(self) -> argparse.HelpFormatter:
        """Every option is formatted once when it is added. The help is written elsewhere, so the width says nothing."""
        return argparse.HelpFormatter(self.prog, width=_WIDTH)

    def error(self, message: str) -> NoReturn:
        for pattern, said in _SAID:
            if found := re.fullmatch(pattern, message, re.DOTALL):
                parts = [_long(part) if part.startswith("-") else safe(part, 80) for part in found.groups()]
                message = said.format(*parts)
                break
        raise UsageError(f"{message} ({self.prog} --help says more)")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """argparse drops a `--` also where it is an option's value (`--search=--`)."""
        if not action.option_strings or arg_strings != ["--"]:
            return super()._get_values(action, arg_strings)
        value = self._get_value(action, "--")
        self._check_value(action, value)
        return value

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        if isinstance(action, argparse._SubParsersAction):
            raise UsageError(no_such_verb(str(value)))
        known = [str(one) for one in action.choices]
        hint = "" if (near := _nearest(str(value), known)) is None else f"did you mean {near}? "
        said = safe(str(value), 80) or EMPTY
        name = _long("/".join(action.option_strings))
        told = f"{name} cannot be {said}" if name else f"{self.prog} does not know {said}"
        raise UsageError(f"{told}; {hint}there are: {' '.join(known)}")


class _Once(argparse.Action):
    """A filter: the last of two would win without a word, and match what the first was meant to leave out."""

    def __call__(self, parser: Any, namespace: Any, values: Any, _option: str | None = None) -> None:
        if getattr(namespace, self.dest, None) is not None:
            name = next(name for name in self.option_strings if name.startswith("--"))
            remedy = "write all its words in one" if name == "--filter" else "keep one, or say both in --filter"
            parser.error(f"{name} is given twice: {remedy}")
        setattr(namespace, self.dest, values)


class _VerbParser(_Parser):
    """A verb's parser, filled from the table when its arguments are parsed: one run needs one verb."""

    def __init__(self, prog: str, verb: str) -> None:
        super().__init__(prog=prog)
        self._verb = verb
        self._is_filled = False

    @property
    def _row(self) -> VerbUsage:
        return _row(self._verb)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        self._fill()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        missing = re.fullmatch(r"the following arguments are required: (.+)", message)
        if missing is None:
            super().error(message)
        names = [_long(name) for name in missing[1].split(", ")]
        by_name = {one.takes if one.is_positional else one.long: one for one in self._row.options}
        first = by_name.get(names[0])
        values = f": {' '.join(first.values)}" if first and isinstance(first.values, tuple) and first.values else ""
        is_missing = "are missing" if len(names) > 1 else "is missing"
        raise UsageError(f"{' and '.join(names)} {is_missing}{values} ({self.prog} --help says more)")

    def _fill(self) -> None:
        if self._is_filled:
            return
        self._is_filled = True
        modes = self.add_mutually_exclusive_group()
        for option in self._row.options:
            _add(modes if option.dest == "mode" else self, option)
        for option in self._row.filters:
            _add(self, option, once=True)
        for option in GLOBAL:
            _add(self, option, again=True)

    def format_help(self) -> str:
        from console.cli.usage.text import verb_help

        return verb_help(self._row)


def _joined(args: Sequence[str]) -> list[str]:
    """A filter that begins with an exclusion (`-venue:x`) is the value of --filter, not an option."""
    joined: list[str] = []
    for word in args:
        if joined and joined[-1] in ("-f", "--filter") and _EXCLUDES.match(word):
            joined[-1] = f"--filter={word}"
        else:
            joined.append(word)
    return joined


class _MainParser(_Parser):
    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        _check_before_verb(args or ())
        parsed, rest = self.parse_known_args(None if args is None else _joined(args), namespace)
        if rest:
            raise UsageError(_not_understood(parsed.verb, rest))
        return parsed

    def format_help(self) -> str:
        from console.cli.usage.text import main_help

        return main_help()


def build_parser(words: Collection[str] = NAMES) -> argparse.ArgumentParser:
    """For these arguments: only the verbs that are among them get a parser, as each takes its time to make."""
    parser = _MainParser(prog="dlq")
    for option in (*GLOBAL, OPEN):
        _add(parser, option)
    parser.add_argument(*VERSION.names, action="version", version=f"dlq-console {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=_VerbParser)
    for name in NAMES:
        if name in words:
            verbs.add_parser(name, verb=name)
    return parser


def _add(parser: Any, option: Option, *, again: bool = False, once: bool = False) -> None:
    """`again`: a global option given behind the verb wins; otherwise the value given before it stays.

    `once`: it must not be given twice.
    """
    how: dict[str, Any] = {"default": argparse.SUPPRESS if again else option.default}
    if once:
        how["action"] = _Once
    if option.takes:
        how["metavar"] = option.takes
        how |= {"type": int} if option.number else {}
        how |= {"choices": option.values} if option.strict else {}
    elif option.const:
        how |= {"action": "store_const", "const": option.const}
    else:
        how |= {"action": "store_true", "default": argparse.SUPPRESS if again else False}
    if option.is_positional:
        how |= {"nargs": option.nargs} if option.nargs else {}
        if option.nargs == "*":
            how["default"] = []
    else:
        how |= {"required": True} if option.required else {}
        how |= {"dest": option.dest} if option.dest else {}
    parser.add_argument(*option.names, **how)


def _check_before_verb(words: Sequence[str]) -> None:
    """An unknown option before the verb: argparse would take its value for the verb."""
    flags = [name for option in (*GLOBAL, OPEN, VERSION) for name in (*option.names, "-h", "--help")]
    for word in words:
        name = word.partition("=")[0]
        if not word.startswith("--"):
            return
        if not any(flag.startswith(name) for flag in flags):
            raise UsageError(_not_understood(None, [word]))


def _row(verb: str) -> VerbUsage:
    from console.cli.usage.verb import VERBS

    return VERBS[verb]


def no_such_verb(word: str) -> str:
    near = _nearest(word, NAMES)
    remedy = f"did you mean {near}?" if near else "dlq help lists the verbs"
    return f"there is no verb {safe(word, 40)}; {remedy}"


def _not_understood(verb: str | None, rest: Sequence[str]) -> str:
    usage = _row(verb) if verb else None
    word = rest[0]
    program = f"dlq {usage.name}" if usage else "dlq"
    if not word.startswith("-") or word == "-":
        return f"{program} does not take {safe(word, 80)}; {program} --help says what it takes"
    options = (*usage.every_option, VERSION) if usage else (*GLOBAL, OPEN, VERSION)
    flags = [name for option in options if not option.hidden for name in option.names if name.startswith("--")]
    near = _nearest(word.partition("=")[0], [*flags, *_OTHER_NAMES])
    near = _OTHER_NAMES.get(near or "", near)
    remedy = f"did you mean {near}?" if near else f"{program} --help lists them"
    return f"{program} has no option {safe(word.partition('=')[0], 40)}; {remedy}"


def _nearest(word: str, known: Sequence[str]) -> str | None:
    from difflib import get_close_matches  # a mistake has time for it

    return next(iter(get_close_matches(word.lower(), known, 1, _NEAR)), None)


def _long(names: str) -> str:
    """`--limit` of `-n/--limit`."""
    return next((name for name in names.split("/") if name.startswith("--")), names)
