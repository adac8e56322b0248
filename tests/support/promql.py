"""Just enough of Prometheus to try our own rules: their file read, and their expressions evaluated over scrapes."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
_TOKEN = re.compile(r"\s*(>=|<=|==|>|<|\*|\(|\)|\[\d+m\]|\d+m|\d+(?:\.\d+)?|[a-z_]+)")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}


def rules(path: Path) -> list[dict[str, str]]:
    """The alert rules of a file written as ours is: block mappings in a list, two spaces a level."""
    found: list[dict[str, str]] = []
    for line in path.read_text().splitlines():
        text = line.strip()
        if not text or text.startswith(("#", "- name:")) or text in ("groups:", "rules:"):
            continue
        match = re.fullmatch(r"(- )?([a-z]+):(?: (.*))?", text)
        assert match, f"not understood: {line!r}"
        if match[1]:
            assert match[2] == "alert", line
            found.append({})
        value = (match[3] or "").strip()
        assert value.count('"') % 2 == 0, line
        found[-1][match[2]] = value.strip('"')
    return found


@dataclass
class Prometheus:
    """Scrapes by minute."""

    scrapes: dict[int, dict[str, Vector]] = field(default_factory=dict)

    def scrape(self, minute: int, text: str) -> None:
        found: dict[str, Vector] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        self.scrapes[minute] = found

    def fires(self, expression: str, minute: int) -> Vector:
        tokens = _TOKEN.findall(expression)
        assert "".join(tokens) == re.sub(r"\s+", "", expression), f"not understood: {expression}"
        left, rest = self._comparison(tokens, minute)
        while rest[:1] == ["and"]:
            right, rest = self._comparison(rest[1:], minute)
            left = {labels: value for labels, value in left.items() if labels in right}
        assert not rest, f"left over: {rest}"
        return left

    def _comparison(self, tokens: list[str], minute: int) -> tuple[Vector, list[str]]:
        left, rest = self._product(tokens, minute)
        if not rest or rest[0] not in _COMPARE:
            assert isinstance(left, dict)
            return left, rest
        compare = _COMPARE[rest[0]]
        right, rest = self._product(rest[1:], minute)
        assert isinstance(left, dict)
        if isinstance(right, float):
            return {labels: value for labels, value in left.items() if compare(value, right)}, rest
        return {one: value for one, value in left.items() if one in right and compare(value, right[one])}, rest

    def _product(self, tokens: list[str], minute: int) -> tuple[Vector | float, list[str]]:
        left, rest = self._term(tokens, minute)
        if rest[:1] != ["*"]:
            return left, rest
        right, rest = self._term(rest[1:], minute)
        assert isinstance(left, float)
        assert isinstance(right, dict)
        return {labels: left * value for labels, value in right.items()}, rest

    def _term(self, tokens: list[str], minute: int) -> tuple[Vector | float, list[str]]:
        first, *rest = tokens
        if first[0].isdigit():
            return float(first), rest
        if first == "absent":
            name, closing, *rest = rest[1:]
            assert closing == ")"
            return ({} if self.scrapes.get(minute, {}).get(name) else {frozenset(): 1.0}), rest
        if first == "increase":
            return self._increase(rest, minute)
        return self.scrapes.get(minute, {}).get(first, {}), rest

    def _increase(self, tokens: list[str], minute: int) -> tuple[Vector, list[str]]:
        name, span, *rest = tokens[1:]
        if rest[0] == "offset":
            minute -= int(rest[1].removesuffix("m"))
            rest = rest[2:]
        assert rest[0] == ")"
        now = self.scrapes.get(minute, {}).get(name, {})
        then = self.scrapes.get(minute - int(span.strip("[]m")), {}).get(name, {})
        return {labels: value - then[labels] for labels, value in now.items() if labels in then}, rest[1:]
