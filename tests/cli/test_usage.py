"""The table of verbs: help, man page and examples come from it and are complete."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess

import pytest

from console.cli.parser import build_parser
from console.cli.usage.option import GLOBAL, NAMES
from console.cli.usage.verb import VERBS
from tests.cli.conftest import Dlq


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verbs_help_is_whole(dlq: Dlq, verb: str) -> None:
    ran = dlq("help", verb)
    assert (ran.code, ran.err) == (0, "")
    assert dlq(verb, "--help").out == ran.out
    usage = VERBS[verb]
    for option in (*usage.options, *usage.filters, *GLOBAL):
        if not option.hidden:
            assert len(option.text) > 8, option
            assert re.search(
                rf"^  {re.escape(option.takes if option.is_positional else option.shown)}(\s|$)", ran.out, re.M
            )
    assert usage.examples
    for example in usage.examples:
        assert example.line in ran.out
    assert max(len(line) for line in ran.out.splitlines() if not line.startswith("  dlq ")) <= 80


@pytest.mark.parametrize(
    ("verb", "values"),
    [
        ("dismiss", ("market-closed", "handled-at-venue", "transient", "in_doubt", "alpaca")),
        ("replay", ("may-have-arrived", "unmapped-terms", "price-drift", "business")),
        ("list", ("in_flight", "integration", "max_deliveries", "json csv table")),
        ("export", ("csv jsonl",)),
        ("policy", ("four_eyes_over", "second_person")),
        ("secrets", ("polymarket", "set list check delete")),
    ],
)
def test_help_names_the_values(dlq: Dlq, verb: str, values: tuple[str, ...]) -> None:
    said = " ".join(dlq(verb, "--help").out.split())
    for value in values:
        assert value in said


def test_examples_can_be_parsed() -> None:
    parser = build_parser()
    for usage in VERBS.values():
        for example in usage.examples:
            line = example.line.removeprefix('eval "$(').removesuffix(')"')
            program, *words = shlex.split(line)
            end = next((place for place, word in enumerate(words) if word in ("|", "||", ">")), len(words))
            words = words[:end]
            assert (program, parser.parse_args(words).verb) == ("dlq", usage.name)


def test_the_list_of_verbs_has_them_all(dlq: Dlq) -> None:
    ran = dlq("help")
    assert ran.out == dlq("--help").out
    for verb, usage in VERBS.items():
        assert re.search(rf"^  {verb} +{re.escape(usage.summary)}$", ran.out, re.M)


def test_the_names_of_the_verbs_are_the_tables() -> None:
    assert tuple(VERBS) == NAMES


def test_short_flags_are_the_long_ones() -> None:
    parser = build_parser()
    short = parser.parse_args(["list", "-d", "x", "-a", "-n", "3", "-o", "csv", "-f", "a"])
    assert short == parser.parse_args(
        ["list", "--db", "x", "--all", "--limit", "3", "--output", "csv", "--filter", "a"]
    )
    short = parser.parse_args(["-d", "x", "dismiss", "-r", "test", "-m", "why", "-y", "-j", "-c", "f"])
    long = ["dismiss", "--db", "x", "--reason", "test", "--note", "why", "--yes", "--json", "--config", "f"]
    assert short == parser.parse_args(long)


def test_the_man_page_has_every_verb_and_option(dlq: Dlq) -> None:
    page = dlq("help", "--man").out
    for verb, usage in VERBS.items():
        assert f".SS dlq {verb}\n" in page
        for option in (*usage.options, *usage.filters, *GLOBAL):
            assert option.hidden or option.long.replace("-", r"\-") in page or option.is_positional


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_say_of_the_man_page(dlq: Dlq) -> None:
    page = dlq("help", "--man").out
    ran = subprocess.run(
        [str(shutil.which("groff")), "-man", "-Tutf8", "-ww", "-z"],
        input=page,
        text=True,
        capture_output=True,
        check=True,
    )
    assert ran.stderr == ""
