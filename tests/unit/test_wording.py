"""How messages are worded, read from the sources: lower case, no full stop, no Python in them, plain English."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("wording")  # the sources are read once

ROOT = Path(__file__).parents[2]
FOLDERS = ("console", "backends", "venues", "sink/dlq_sink")
SPEAKS_FOR_OTHERS = ROOT / "venues" / "practice"  # in the words of the venues it stands for
# What is right by grammar of another language, and what to write instead.
FOREIGN = {
    r"(?<!there )\b(?:is|are|was) no (?!longer\b|more\b|such\b)(?:\w+)": "is not a",
    r"\b(?:is|are) none of\b": "is not one of",
    r"\bdo(?:es)? not tell (?:its|the|whether)\b|\bdid not tell\b|\btold nothing\b": "does not say, list or name",
    r"\bmends?\b": "fix",
    r"\bis there twice\b|\bstands? in the JSON\b": "is given twice",
    r"\bbut .+ was asked$": "was asked for",
}
# Raised for programmers, who know the name by its spelling.
FOR_PROGRAMMERS = ("AttributeError", "TypeError", "AssertionError", "NotImplementedError", "ImportError")
REFUSERS = ("_fail", "_find", "say", "Guard", "Refused", "UsageError")  # called without raise, to the same effect
TO_THE_DRIVER = "Connection closed"  # SQLAlchemy knows it by these very words


def _text(node: ast.expr) -> str | None:
    """A string of the source, with {} where a value goes; {!r} where Python's spelling of one does."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(
                str(part.value)
                if isinstance(part, ast.Constant)
                else "{!r}"
                if isinstance(part, ast.FormattedValue) and part.conversion == ord("r")
                else "{}"
                for part in parts
            )
    return None


@cache
def _trees() -> list[tuple[Path, ast.Module]]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [
        (path.relative_to(ROOT), ast.parse(path.read_text())) for path in paths if SPEAKS_FOR_OTHERS not in path.parents
    ]


@cache
def _raised() -> list[tuple[str, str]]:
    """The words of every error and refusal that has some, and where."""
    return list(_refusals())


def _refusals() -> Iterator[tuple[str, str]]:
    for path, tree in _trees():
        for node in ast.walk(tree):
            call = node.exc if isinstance(node, ast.Raise) else node
            if not isinstance(call, ast.Call):
                continue
            name = ast.unparse(call.func).rpartition(".")[2]
            if name in FOR_PROGRAMMERS or (call is node and name not in REFUSERS):
                continue
            for text in map(_text, call.args):
                if text is not None and " " in text and text != TO_THE_DRIVER:
                    yield f"{path}:{call.lineno}", text


@cache
def _sentences() -> list[tuple[str, str]]:
    """Every string of at least three words that is neither a docstring nor several lines."""
    return list(_strings())


def _strings() -> Iterator[tuple[str, str]]:
    for path, tree in _trees():
        apart = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.expr) or id(node) in apart:
                continue
            text = _text(node)
            if text is not None and text.count(" ") > 1 and "\n" not in text:
                yield f"{path}:{node.lineno}", text


def test_there_is_something_to_read() -> None:
    assert len(_raised()) > 300
    assert len({where.partition("/")[0] for where, _ in _raised()}) == len(FOLDERS)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (r"\{!r\}", "Python's spelling of a value"),
        (r"(?<=\S)  ", "two blanks"),
        (r"[^.]\.$", "a full stop at the end"),
        (r"^[A-Z][a-z]+ [a-z]", "a capital at the beginning"),
        (r"(?:<class|\[Errno|\bNone\b|\bTrue\b|\bFalse\b)", "Python's words"),
    ],
)
def test_an_error_is_worded_like_the_others(wrong: str, what: str) -> None:
    found = [f"{where}: {text}" for where, text in _raised() if re.search(wrong, text)]
    if "Python" in what:  # engines' programmers read the sink's, in their own language
        found = [one for one in found if not one.startswith("sink/")]
    assert not found, f"{what}: {found}"


@pytest.mark.parametrize("wrong", FOREIGN)
def test_nothing_reads_as_translated(wrong: str) -> None:
    found = [f"{where}: {text}" for where, text in _sentences() if re.search(wrong, text)]
    assert not found, f"write {FOREIGN[wrong]!r}: {found}"
