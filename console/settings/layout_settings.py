"""The settings of hubs, providers and layouts other than orders: what they may be. Holds no secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dlq_sink.error import BadTarget

from backends.layouts.columns import Options, read_options
from backends.target import PostgresTarget, parse_target

HUB_WAIT = 120.0  # seconds to wait for a queued retry: a hub's own tries take up to 83
MOST_HUB_WAIT = 3600.0
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class BadSetting(Exception):
    """A value that cannot be used; `str()` starts with the key and says what it takes."""


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """A provider of an integration. With `auth_header` None, Authorization is sent if a secret is set."""

    base_url: str
    auth_header: str | None = None
    key_header: str = "Idempotency-Key"
    timeout: float = 10.0
    tenants: frozenset[str] | None = None  # None: a tenant without authorization of its own uses the provider's


class LayoutSettings(NamedTuple):
    """The settings of a store that only hubs and layouts other than orders use."""

    hub_url: str | None
    hub_wait: float
    options: Options


def read_layout_settings(url: str, table: Mapping[str, object]) -> LayoutSettings:
    """Raises BadSetting. Ignores unknown names, which the caller reports."""
    try:
        options = read_options(table)
    except BadTarget as problem:
        raise BadSetting(str(problem)) from None
    return LayoutSettings(
        hub_url=_hub_url(url, table.get("hub_url")),
        hub_wait=_hub_wait(table.get("hub_wait", HUB_WAIT)),
        options=options,
    )


def _hub_url(url: str, given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or not given:
        raise BadSetting("hub_url must be the address of a hub")
    _check_address("hub_url", given)
    if not _may_be_postgres(url):
        raise BadSetting("hub_url needs a Postgres url beside it: the console's ledger is kept there")
    return given


def _may_be_postgres(url: str) -> bool:
    try:
        return isinstance(parse_target(url), PostgresTarget)
    except BadTarget:
        return True  # opening it reports what is wrong


def _hub_wait(given: object) -> float:
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 < given <= MOST_HUB_WAIT:
        return float(given)
    raise BadSetting(f"hub_wait must be a number of seconds above 0 and at most {MOST_HUB_WAIT:.0f}")


def check_provider(provider: ProviderConfig) -> ProviderConfig:
    """Returns the provider if its settings are valid; otherwise raises BadSetting."""
    if not provider.base_url:
        raise BadSetting("base_url is missing: a provider needs a base_url, its address")
    _check_address("base_url", provider.base_url)
    _check_header("key_header", provider.key_header)
    if provider.auth_header:
        _check_header("auth_header", provider.auth_header)
    return provider


def _check_address(key: str, url: str) -> None:
    from venues.endpoint import BadEndpoint, check_base

    try:
        check_base(url, key)
    except BadEndpoint as problem:
        raise BadSetting(str(problem)) from None


def _check_header(key: str, name: str) -> None:
    if not _HEADER.fullmatch(name):
        raise BadSetting(f"{key} must be the name of an HTTP header")
