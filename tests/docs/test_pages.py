"""Every page: its command lines parse, its config and Python snippets are valid, its links lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from console.cli.parser import build_parser
from console.cli.usage.option import GLOBAL, OPEN, VERSION
from console.cli.usage.verb import VERBS
from console.settings.config import load_config

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = {"sh", "console", "bash", ""}


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    language: str | None = None
    start, held = 0, list[str]()
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            if language is None:
                language, start, held = line.strip().strip("`").strip(), number, []
            else:
                yield Block(page, start, language, "\n".join(held))
                language = None
        elif language is not None:
            held.append(line)


BLOCKS = [one for page in PAGES for one in blocks(page)]


def commands(block: Block) -> Iterator[str]:
    """The lines that call dlq, without their prompt, a comment or a pipe behind them, and what is set before them."""
    for line in block.text.replace("\\\n", " ").splitlines():
        line = re.sub(r"^\$ ", "", line.strip())
        line = re.sub(r"^(?:[A-Z_]+=\S* )+", "", line)
        if re.match(r"(?:\.venv/bin/)?dlq(?: |$)", line):
            yield re.split(r"\s{2,}|\s#|\s[|<>]|\s2>|\s&$|\s&&", line)[0]


def test_there_is_something_to_check() -> None:
    assert len(list(BLOCKS)) > 50
    assert sum(len(list(commands(one))) for one in BLOCKS if one.language in SHELL) > 30


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language in SHELL], ids=lambda one: one.where)
def test_command_lines_are_understood(block: Block) -> None:
    parser = build_parser()
    for line in commands(block):
        words = shlex.split(line)[1:]
        if words and words[0] not in ("--help", "--version") and "--help" not in words:
            parser.parse_args(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_a_sentence_have_their_flags(page: Path) -> None:
    known = {name: {flag for one in verb.every_option for flag in one.names} for name, verb in VERBS.items()}
    top = {flag for one in (*GLOBAL, OPEN, VERSION) for flag in one.names} | {"--help"}
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for span in re.findall(r"`(dlq [^`]+)`", text):
        words = span.split()[1:]
        verb = next((word for word in words if not word.startswith("-")), "")
        allowed = known.get(words[0]) if words and words[0] in known else top
        if re.fullmatch(r"[a-z]+", words[0]) and words[0] not in known:
            raise AssertionError(f"{span}: there is no command {verb}")
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", span):
            assert flag in (allowed or ()), f"{span}: {flag}"


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language == "toml"], ids=lambda one: one.where)
def test_config_snippets_are_taken(block: Block, tmp_path: Path) -> None:
    tomllib.loads(block.text)
    path = tmp_path / "config.toml"
    path.write_text(block.text)
    load_config(str(path), {})


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language == "python"], ids=lambda one: one.where)
def test_python_snippets_compile(block: Block) -> None:
    compile(block.text, block.where, "exec", flags=0x2000)  # top-level await is for the reader to place


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language == "json"], ids=lambda one: one.where)
def test_json_snippets_are_json(block: Block) -> None:
    for line in block.text.splitlines() if block.text.startswith('{"') else [block.text]:
        json.loads(line)


def anchors(page: Path) -> set[str]:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?:|mailto:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_that_are_named_exist(page: Path) -> None:
    for name in re.findall(r"`(docs/[\w/.-]+|tests/[\w/.-]+\.py|[A-Z]+\.md)`", page.read_text("utf-8")):
        assert (ROOT / name).exists(), name
