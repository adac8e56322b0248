"""Reads and checks the config file: stores, hubs, providers, venues, limits, alerts. Holds no secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NoReturn

from backends.layouts.columns import Options
from console.settings.file_safety import read_regular, who_may_replace
from console.settings.layout_settings import (
    HUB_WAIT,
    BadSetting,
    ProviderConfig,
    check_provider,
    read_layout_settings,
)
from console.settings.reasons import REASONS
from console.settings.setting import ACCOUNT, ALERTS, LIMITS, PROVIDER, STORE, TOP, VENUE, names
from console.text.durations import parse_duration
from console.text.untrusted import safe

__all__ = [
    "HUB_WAIT",
    "REASONS",
    "AccountConfig",
    "Alerts",
    "Config",
    "ConfigError",
    "Limits",
    "ProviderConfig",
    "StoreConfig",
    "VenueConfig",
    "load_config",
]
MOST_PLAN_SECONDS = 3600
_CCXT = "ccxt:"
_NAMED = ("stores", "venues", "providers", "limits", "alerts", "keymap", "views")


class ConfigError(Exception):
    """The config cannot be used; `str()` names the place and the remedy."""


@dataclass(frozen=True, slots=True)
class StoreConfig:
    name: str
    url: str = field(repr=False)  # may hold a password
    environment: str | None = None
    mode: Literal["paper", "live"] | None = None
    table: str | None = None
    hub_url: str | None = None  # None if the store is a database
    hub_wait: float = HUB_WAIT
    options: Options = field(default_factory=Options)  # passed to the backend that opens the store

    @property
    def is_hub(self) -> bool:
        return self.hub_url is not None

    @property
    def has_index(self) -> bool:
        """Whether the console indexes the store in the background. It does not walk through a hub's API for that."""
        return self.hub_url is None


@dataclass(frozen=True, slots=True)
class AccountConfig:
    """What must be true of an account of the store's entries: the venue's own numbers of it."""

    paper_number: str | None = None
    live_number: str | None = None


@dataclass(frozen=True, slots=True)
class VenueConfig:
    type: str | None = None
    timeout: float = 10.0
    paper_endpoint: str | None = None
    live_endpoint: str | None = None
    data_endpoint: str | None = None  # where quotes are asked for
    allow_custom_endpoint: bool = False
    rate_per_minute: int | None = None
    visibility_seconds: float | None = None
    default_account: str | None = None  # whose credentials the venue's own are
    accounts: Mapping[str, AccountConfig] = field(default_factory=dict)  # by account_id
    options: Mapping[str, object] = field(default_factory=dict)  # ccxt venues: handed to the exchange as they are


Amounts = Decimal | Mapping[str, Decimal]  # in any one currency, or by currency with an optional "default"


def amount_in(limit: Amounts, currency: str | None) -> Decimal | None:
    """The limit in this currency; None where a table says nothing of it."""
    if isinstance(limit, Decimal):
        return limit
    return limit.get((currency or "").upper(), limit.get("default"))


@dataclass(frozen=True, slots=True)
class Limits:
    max_batch: int = 50
    max_notional: Amounts = Decimal(50_000)
    max_quantity: Decimal | None = None
    max_drift: Decimal = Decimal("0.05")  # how far through the market a limit may be
    four_eyes_over: Amounts = Decimal(250_000)
    stale_after: timedelta = timedelta(minutes=15)
    plan_seconds: int = 60  # how long a plan may wait for its confirmation
    quote_seconds: int = 60  # how old a quote may be
    poison_after: int = 3
    retry_limit: int = 10
    duplicate_window: timedelta = timedelta(minutes=15)
    labels: tuple[str, ...] = ()  # more keys of an action that mean nothing to a venue


@dataclass(frozen=True, slots=True)
class Alerts:
    depth: int = 100
    oldest: timedelta = timedelta(minutes=30)
    dominance: float = 0.5


@dataclass(frozen=True, slots=True)
class Config:
    path: Path | None = None
    stores: Mapping[str, StoreConfig] = field(default_factory=dict)
    venues: Mapping[str, VenueConfig] = field(default_factory=dict)
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    alerts: Alerts = field(default_factory=Alerts)
    keymap: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = REASONS
    credentials_dir: Path | None = None
    theme: str | None = None
    alarm: bool = False  # bell and title of the terminal tell of a new entry in doubt

    def venue(self, name: str) -> VenueConfig:
        return self.venues.get(name, VenueConfig())

    @property
    def venue_types(self) -> dict[str, str]:
        """The types of the venues to which the config gives one."""
        return {name: venue.type for name, venue in self.venues.items() if venue.type}


_LARGEST = 1_000_000  # bytes of a config
_MOST_DOTS = 500  # in a line: tomllib takes minutes for a key of many parts


def load_config(given: str | None, environ: Mapping[str, str]) -> Config:
    """Reads `--config`, else DLQ_CONFIG, else the file in XDG_CONFIG_HOME. A file that was named must exist."""
    named = given or environ.get("DLQ_CONFIG")
    path = Path(named).expanduser() if named else default_path(environ)
    try:
        raw = read_regular(path, _LARGEST)
        others = who_may_replace(path)
    except FileNotFoundError:
        if named:
            raise ConfigError(f"no such config file: {path}; --config or DLQ_CONFIG names it") from None
        return Config()
    except OSError as problem:
        raise ConfigError(f"cannot read the config {path}: {problem.strerror}") from None
    if others:
        raise ConfigError(f"{others} may change the config {path}: run chmod go-w on it or on its folder")
    if any(text.count(b".") > _MOST_DOTS for text in raw.split(b"\n")):
        raise ConfigError(f"the config {path} is not valid TOML: a line has more than {_MOST_DOTS} dots")
    import tomllib  # most start without a config

    try:
        document = tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise ConfigError(f"the config {path} is not valid TOML: it is not UTF-8 text") from None
    except (ValueError, RecursionError) as problem:  # tomllib's own error, and Python's about bytes and long numbers
        raise ConfigError(f"the config {path} is not valid TOML: {problem}") from None
    return _Reader(path).read(document)


def default_path(environ: Mapping[str, str]) -> Path:
    home = environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "dlq-console" / "config.toml"


def read_limits(table: Mapping[str, Any], place: str) -> Limits:
    """Limits that stand elsewhere than in a config file, checked as there. Raises ConfigError, which names `place`."""
    return _Reader(place)._limits(table)


_KIND_NAMES: Mapping[Any, str] = {
    str: "text in quotes",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    (int, float): "a number",
    (int, float, str): "a number",
}


def _type_name(value: object) -> str:
    """What TOML calls a value of this type."""
    names = {bool: "true or false", str: "text", int: "a whole number", float: "a number with decimals", list: "a list"}
    return names.get(type(value), "a table" if isinstance(value, dict) else "a date or time")


class _Reader:
    """Checks each value as it is read, so that a message can name its key."""

    def __init__(self, path: Path | str) -> None:
        self._path = path

    def read(self, document: Mapping[str, Any]) -> Config:
        self._only("", document, [*_NAMED, *names(TOP)])
        credentials_dir = self._get("", document, "credentials_dir", str, None)
        reasons = self._get("", document, "reasons", list, [])
        if not all(isinstance(reason, str) and reason.strip() for reason in reasons):
            self._fail('reasons must be a list of words, such as ["fat-finger"]')
        return Config(
            path=Path(self._path),
            stores={name: self._store(name, table) for name, table in self._tables(document, "stores")},
            venues={name: self._venue(name, table) for name, table in self._tables(document, "venues")},
            providers={name: self._provider(name, table) for name, table in self._tables(document, "providers")},
            limits=self._limits(self._table(document, "limits")),
            alerts=self._alerts(self._table(document, "alerts")),
            keymap=self._texts(document, "keymap"),
            views=self._texts(document, "views"),
            reasons=(*REASONS, *(reason for reason in reasons if reason not in REASONS)),
            credentials_dir=Path(credentials_dir).expanduser() if credentials_dir else None,
            theme=self._get("", document, "theme", str, None),
            alarm=self._get("", document, "alarm", bool, default=False),
        )

    def _store(self, name: str, table: Mapping[str, Any]) -> StoreConfig:
        where = f"stores.{name}"
        mode = self._get(where, table, "mode", str, None)
        if mode not in (None, "paper", "live"):
            self._fail(f'{where}.mode must be "paper" or "live", not "{safe(mode, 80)}"')
        environment = self._get(where, table, "environment", str, None)
        if environment not in (None, "live", "paper"):
            self._fail(f'{where}.environment must be "live" or "paper", not "{safe(environment, 80)}"')
        url = self._get(where, table, "url", str, None)
        if not url:
            self._fail(f"{where} needs a url")
        self._only(where, table, names(STORE))
        try:
            others = read_layout_settings(url, table)
        except BadSetting as problem:
            self._fail(f"{where}.{problem}")
        return StoreConfig(
            name=name,
            url=url,
            environment=environment,
            mode=mode,
            table=self._get(where, table, "table", str, None),
            **others._asdict(),
        )

    def _venue(self, name: str, table: Mapping[str, Any]) -> VenueConfig:
        where = f"venues.{name}"
        visibility = self._get(where, table, "visibility_seconds", (int, float), None)
        self._only(where, table, names(VENUE))
        if visibility is not None and not 0 <= visibility <= 86_400:
            self._fail(f"{where}.visibility_seconds must be between 0 and 86400")
        timeout = self._timeout(where, table)
        rate = self._get(where, table, "rate_per_minute", int, None)
        if rate is not None and rate < 1:
            self._fail(f"{where}.rate_per_minute must be at least 1")
        return VenueConfig(
            type=self._get(where, table, "type", str, None),
            timeout=timeout,
            paper_endpoint=self._get(where, table, "paper_endpoint", str, None),
            live_endpoint=self._get(where, table, "live_endpoint", str, None),
            data_endpoint=self._get(where, table, "data_endpoint", str, None),
            allow_custom_endpoint=self._get(where, table, "allow_custom_endpoint", bool, False),
            rate_per_minute=rate,
            visibility_seconds=None if visibility is None else float(visibility),
            default_account=self._filled(where, table, "default_account"),
            accounts={key: self._account(where, key, held) for key, held in self._named(where, table, "accounts")},
            options=self._options(name, table),
        )

    def _account(self, venue: str, name: str, table: object) -> AccountConfig:
        where = f"{venue}.accounts.{name}"
        if not isinstance(table, dict):
            self._fail(f"{where} must be a table: [{where}]")
        self._only(where, table, names(ACCOUNT))
        return AccountConfig(
            paper_number=self._filled(where, table, "paper_number"),
            live_number=self._filled(where, table, "live_number"),
        )

    def _options(self, name: str, table: Mapping[str, Any]) -> Mapping[str, object]:
        """What an exchange of ccxt takes is its own affair: only that it is a table is checked."""
        where = f"venues.{name}"
        options = table.get("options", {})
        if not isinstance(options, dict):
            self._fail(f"{where}.options must be a table")
        if options and not str(table.get("type") or name).startswith(_CCXT):
            self._fail(f"{where}.options is for ccxt venues only")
        return options

    def _provider(self, name: str, table: Mapping[str, Any]) -> ProviderConfig:
        where = f"providers.{name}"
        self._only(where, table, names(PROVIDER))
        made = ProviderConfig(
            base_url=self._get(where, table, "base_url", str, ""),
            auth_header=self._get(where, table, "auth_header", str, None),
            key_header=self._get(where, table, "key_header", str, "Idempotency-Key"),
            timeout=self._timeout(where, table),
            tenants=frozenset(key for key, _ in self._named(where, table, "tenants")) if "tenants" in table else None,
        )
        try:
            return check_provider(made)
        except BadSetting as problem:
            self._fail(f"{where}.{problem}")

    def _timeout(self, where: str, table: Mapping[str, Any]) -> float:
        timeout = float(self._get(where, table, "timeout", (int, float), 10.0))
        if not 0 < timeout <= 300:
            self._fail(f"{where}.timeout must be above 0 and at most 300 seconds")
        return timeout

    def _limits(self, table: Mapping[str, Any]) -> Limits:
        self._only("limits", table, names(LIMITS))
        default = Limits()
        return Limits(
            max_batch=self._at_least_one("limits", table, "max_batch", default.max_batch),
            max_notional=self._amounts(table, "max_notional", default.max_notional),
            max_quantity=self._money("limits", table, "max_quantity", Decimal(0)) if "max_quantity" in table else None,
            max_drift=self._share(table, "max_drift", default.max_drift),
            four_eyes_over=self._amounts(table, "four_eyes_over", default.four_eyes_over),
            stale_after=self._duration("limits", table, "stale_after", default.stale_after),
            plan_seconds=self._seconds(table, "plan_seconds", default.plan_seconds),
            quote_seconds=self._seconds(table, "quote_seconds", default.quote_seconds),
            poison_after=self._at_least_one("limits", table, "poison_after", default.poison_after),
            retry_limit=self._at_least_one("limits", table, "retry_limit", default.retry_limit),
            duplicate_window=self._duration("limits", table, "duplicate_window", default.duplicate_window),
            labels=self._labels(table),
        )

    def _seconds(self, table: Mapping[str, Any], key: str, default: int) -> int:
        seconds = self._at_least_one("limits", table, key, default)
        if seconds > MOST_PLAN_SECONDS:
            self._fail(f"limits.{key} must be at most {MOST_PLAN_SECONDS}")
        return seconds

    def _amounts(self, table: Mapping[str, Any], key: str, default: Amounts) -> Amounts:
        """One amount for any currency, or a table of them."""
        held = table.get(key)
        if not isinstance(held, dict):
            return default if held is None else self._money("limits", table, key, Decimal(0))
        if not held:
            self._fail(f"limits.{key}: an empty table limits nothing; say {{ USD = …, default = … }}")
        amounts = {name: self._money(f"limits.{key}", held, name, Decimal(0)) for name in held}
        return {name if name == "default" else name.upper(): amount for name, amount in amounts.items()}

    def _share(self, table: Mapping[str, Any], key: str, default: Decimal) -> Decimal:
        share = self._money("limits", table, key, default)
        if share > 1:  # 5 meant as 5 % would switch the guard off
            self._fail(f"limits.{key} must be a share from 0 to 1, such as 0.05")
        return share

    def _labels(self, table: Mapping[str, Any]) -> tuple[str, ...]:
        labels = self._get("limits", table, "labels", list, [])
        for label in labels:
            if not isinstance(label, str) or not label:
                self._fail("limits.labels must be a list of keys")
        return tuple(labels)

    def _alerts(self, table: Mapping[str, Any]) -> Alerts:
        self._only("alerts", table, names(ALERTS))
        default = Alerts()
        dominance = float(self._get("alerts", table, "dominance", (int, float), default.dominance))
        if not 0 <= dominance <= 1:  # 50 meant as 50 % would switch the rule off
            self._fail("alerts.dominance must be a share from 0 to 1")
        return Alerts(
            depth=self._at_least_one("alerts", table, "depth", default.depth),
            oldest=self._duration("alerts", table, "oldest", default.oldest),
            dominance=dominance,
        )

    def _only(self, where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        """A misspelt setting that is ignored would be none."""
        names = list(known)
        for key in sorted(set(table) - set(names)):
            from difflib import get_close_matches  # only for who misspelt something

            near = get_close_matches(key, names, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
            self._fail(f"{where}{'.' if where else ''}{safe(key, 80)} is not a setting; {hint}")

    def _get(self, where: str, table: Mapping[str, Any], key: str, kind: Any, default: Any) -> Any:
        value = table.get(key, default)
        if value is default:
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            name = f"{where}{'.' if where else ''}{key}"
            self._fail(f"{name} has the wrong type: it must be {_KIND_NAMES[kind]}, not {_type_name(value)}")
        return value

    def _filled(self, where: str, table: Mapping[str, Any], key: str) -> str | None:
        value = self._get(where, table, key, str, None)
        if value == "":
            self._fail(f"{where}.{key} must not be empty")
        return None if value is None else str(value)

    def _named(self, where: str, table: Mapping[str, Any], key: str) -> list[tuple[str, object]]:
        """The names in a table of accounts or tenants, each with what is said of it."""
        named = table.get(key, {})
        if not isinstance(named, dict):
            self._fail(f"{where}.{key} must be a table: [{where}.{key}]")
        if "" in named:
            self._fail(
                f"{where}.{key}: the name of {'an account' if key == 'accounts' else 'a tenant'} must not be empty"
            )
        return list(named.items())

    def _at_least_one(self, where: str, table: Mapping[str, Any], key: str, default: int) -> int:
        value = self._get(where, table, key, int, default)
        if value < 1:
            self._fail(f"{where}.{key} must be at least 1")
        return int(value)

    def _money(self, where: str, table: Mapping[str, Any], key: str, default: Decimal) -> Decimal:
        value = self._get(where, table, key, (int, float, str), None)
        if value is None:
            return default
        try:
            amount = Decimal(str(value))
        except ArithmeticError:
            amount = Decimal("NaN")
        if not amount.is_finite() or amount < 0:
            self._fail(f"{where}.{key} must be an amount, such as 50000")
        return amount

    def _duration(self, where: str, table: Mapping[str, Any], key: str, default: timedelta) -> timedelta:
        value = self._get(where, table, key, str, None)
        if value is None:
            return default
        try:
            return parse_duration(value)
        except ValueError as problem:
            self._fail(f"{where}.{key}: {problem}")

    def _table(self, document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        value = document.get(name, {})
        if not isinstance(value, dict):
            self._fail(f"{name} must be a table: [{name}]")
        return dict(value)

    def _tables(self, document: Mapping[str, Any], name: str) -> list[tuple[str, Mapping[str, Any]]]:
        tables = self._table(document, name)
        for key, value in tables.items():
            if not isinstance(value, dict):
                self._fail(f"{name}.{key} must be a table: [{name}.{key}]")
        return list(tables.items())

    def _texts(self, document: Mapping[str, Any], name: str) -> dict[str, str]:
        table = self._table(document, name)
        for key, value in table.items():
            if not isinstance(value, str):
                self._fail(f"{name}.{key} must be text in quotes")
        return {key: str(value) for key, value in table.items()}

    def _fail(self, message: str) -> NoReturn:
        raise ConfigError(f"{self._path}: {message}") from None
