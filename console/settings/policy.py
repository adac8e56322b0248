"""The store owner's policy: its values as text and back, and what is in force where a config says something else. Pure.

A policy only makes limits stricter: of two numbers or times the smaller counts, of two tables the smaller per currency.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from backends.ledger.policy import KEYS, digest
from console.settings.config import Amounts, ConfigError, Limits, amount_in, read_limits
from console.settings.second_person import OTHER, SecondPerson
from console.text.durations import parse_duration
from console.text.untrusted import EMPTY, safe

_WORD = re.compile(r"[^\s\"'#\[\]{}=,]+")
_WORDS = re.compile(r"\[\s*(?:[A-Za-z0-9_.-]+\s*(?:,\s*[A-Za-z0-9_.-]+\s*)*,?\s*)?\]")
_LIMITS = frozenset(one.name for one in fields(Limits))
_ONLY_CONFIG = _LIMITS - set(KEYS)
_NEAR = 0.6  # how alike a key must be to be suggested
_ALONE = ("environment", "labels")  # where the policy sets these, no config counts
_SHORTEST, _LONGEST = 60, 240  # seconds that a person may have to wait for their own approval


class BadPolicy(ConfigError):
    """A key or value that no policy can have; `str()` names the nearest that it can."""


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """One setting in force: its value as a policy would print it, and who says so."""

    key: str
    value: str
    source: str  # policy, config, default
    other: str | None = None  # what the config says, where the policy is stricter

    def __str__(self) -> str:
        told = "the store's policy" if self.source == "policy" else f"the {self.source}"
        said = f"; the config says {self.other}" if self.other is not None else ""
        return f"{self.key}={self.value} ({told}{said})"


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy whose every key and value is valid."""

    rows: Mapping[str, str]
    limits: Limits
    environment: str | None = None
    second_person: SecondPerson = field(default_factory=SecondPerson)
    allow_userns: bool = False

    @property
    def digest(self) -> str:
        return digest(self.rows)


def read_policy(rows: Mapping[str, str]) -> Policy:
    """The policy of a ledger's rows. Raises BadPolicy: somebody wrote past the console, and no limit is certain."""
    values = {}
    for key, text in rows.items():
        try:
            values[key] = _checked(key, text)
        except BadPolicy as problem:
            raise BadPolicy(f"the store's policy has an invalid value: {problem}") from None
    limits = read_limits({key: value for key, value in values.items() if key in _LIMITS}, "the store's policy")
    return Policy(
        rows=dict(rows),
        limits=limits,
        environment=values.get("environment"),
        second_person=_second_person(values.get("second_person", OTHER)),
        allow_userns=values.get("allow_userns", False),
    )


def parse_change(word: str) -> tuple[str, str | None]:
    """`KEY=VALUE` as a key and its value as it is kept; `KEY=` takes the key away. Raises BadPolicy."""
    key, equals, text = word.partition("=")
    key, text = key.strip(), text.strip()
    if not equals:
        raise BadPolicy(f"{safe(word, 80)}: say KEY=VALUE, or KEY= to remove the key")
    _check_key(key)
    if not text:
        return key, None
    return key, _as_text(_checked(key, text), bare=bool(_WORD.fullmatch(text)))


def _check_key(key: str) -> None:
    if key not in KEYS:
        near = get_close_matches(key, KEYS, 1, _NEAR)
        if key in _ONLY_CONFIG:
            hint = f"it is a limit of the config alone; the policy's keys: {', '.join(KEYS)}"
        else:
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(KEYS)}"
        raise BadPolicy(f"{safe(key, 80) or EMPTY} is not a policy key; {hint}")


def _checked(key: str, text: str) -> Any:
    _check_key(key)
    value = _parsed(key, text)
    match key:
        case "environment":
            return _one_of(key, value, ("live", "paper"))
        case "second_person":
            _second_person(value)
        case "allow_userns":
            if not isinstance(value, bool):
                raise BadPolicy(f"{key} must be true or false, not {safe(text, 80)}")
        case _:
            try:
                read_limits({key: value}, f"{key}={safe(text, 80)}")
            except ConfigError as problem:
                raise BadPolicy(str(problem)) from None
    return value


def _parsed(key: str, text: str) -> Any:
    """As TOML; quotes around one word, and in a list of words, may be left out."""
    try:
        document = tomllib.loads(f"value = {text}")
        if set(document) == {"value"}:
            return document["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        if _WORDS.fullmatch(text):
            return re.findall(r"[A-Za-z0-9_.-]+", text)
        if _WORD.fullmatch(text) or key == "second_person":
            return text
    raise BadPolicy(f"{key}={safe(text, 80)} is not a value: write it as in the config (TOML), in quotes if it is text")


def _one_of(key: str, value: object, words: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in words:
        near = get_close_matches(str(value), words, 1, 0.4)
        hint = f"did you mean {near[0]}?" if near else f"it is {' or '.join(words)}"
        raise BadPolicy(f"{key}={safe(str(value), 80)}: {hint}")
    return value


def _second_person(value: object) -> SecondPerson:
    found = re.fullmatch(r"delay\s+(\S+)", value.strip()) if isinstance(value, str) else None
    if found is None:
        _one_of("second_person", value, (OTHER, "delay 60s"))
        return SecondPerson(None if value == OTHER else _SHORTEST)
    try:
        wait = parse_duration(found[1]).total_seconds()
    except ValueError as problem:
        raise BadPolicy(f"second_person: {problem}") from None
    if not _SHORTEST <= wait <= _LONGEST:
        near = f"{_SHORTEST if wait < _SHORTEST else _LONGEST}s"
        raise BadPolicy(f"second_person: a delay is {_SHORTEST}s to {_LONGEST}s; the nearest is delay {near}")
    return SecondPerson(int(wait))


def _as_text(value: Any, *, bare: bool = False) -> str:
    """TOML on one line."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return value if bare else json.dumps(value, ensure_ascii=False)
        case Decimal():
            return f"{value:f}"
        case list() | tuple():
            return f"[{', '.join(map(_as_text, value))}]"
        case dict():
            return f"{{ {', '.join(f'{_name(name)} = {_as_text(held)}' for name, held in value.items())} }}"
        case timedelta():
            return f'"{value.total_seconds():g}s"'
        case _:
            return str(value)


def _name(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def stricter(config: Limits, policy: Policy) -> Limits:
    """The limits in force."""
    set_there = {key: getattr(policy.limits, key) for key in policy.rows if key in _LIMITS}
    return replace(config, **{key: _stricter(key, getattr(config, key), value) for key, value in set_there.items()})


def _stricter(key: str, own: Any, floor: Any) -> Any:
    if key in _ALONE or own is None:
        return floor
    if isinstance(own, Mapping) or isinstance(floor, Mapping):
        return _smaller_amounts(own, floor)
    return min(own, floor)


def _smaller_amounts(one: Amounts, other: Amounts) -> Amounts:
    """Per currency. A currency that either table leaves out cannot be valued: that is the stricter word on it."""
    named = {name for table in (one, other) if isinstance(table, Mapping) for name in table}
    both = {name: (amount_in(one, name), amount_in(other, name)) for name in sorted(named - {"default"})}
    made = {name: min(a, b) for name, (a, b) in both.items() if a is not None and b is not None}
    rest = (amount_in(one, "default"), amount_in(other, "default"))
    if rest[0] is not None and rest[1] is not None:
        made["default"] = min(rest[0], rest[1])
    return made


def rules_in_force(config: Limits, environment: str | None, policy: Policy) -> tuple[RuleInForce, ...]:
    """Each key of a policy with the value that counts and where it comes from."""
    limits = stricter(config, policy)
    rules = []
    for key in KEYS:
        if key in _LIMITS:
            value, own = getattr(limits, key), getattr(config, key)
            default = own == getattr(Limits(), key)
            by_policy = key in policy.rows and (value != own or value == _own(key, policy))
        else:
            value, own, default = _elsewhere(key, environment, policy)
            by_policy = key in policy.rows
        if value is None:
            continue
        shown = policy.rows[key] if by_policy and value == _own(key, policy) else _shown(value)
        other = _shown(own) if by_policy and value != own and not default and own is not None else None
        rules.append(RuleInForce(key, shown, "policy" if by_policy else "default" if default else "config", other))
    return tuple(rules)


def _elsewhere(key: str, environment: str | None, policy: Policy) -> tuple[Any, Any, bool]:
    """(in force, the config's own, whether that is the default) of a key that is no limit."""
    if key == "environment":
        return policy.environment or environment, environment, environment is None
    value: object = getattr(policy, key)
    return str(value) if key == "second_person" else value, None, True


def _own(key: str, policy: Policy) -> Any:
    if key in _LIMITS:
        return getattr(policy.limits, key)
    return str(policy.second_person) if key == "second_person" else getattr(policy, key)


def _shown(value: Any) -> str:
    text = _as_text(dict(value) if isinstance(value, Mapping) else value)
    return text[1:-1] if _WORD.fullmatch(text[1:-1]) and text[:1] == '"' else text
