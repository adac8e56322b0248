"""Makes a ccxt exchange object safe to use: sets its mode, keys, address, options and transport.

Decides which requests belong to the mode. Must not read the environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from venues import extra
from venues.ccxt import options
from venues.ccxt.request import Wire, unproven
from venues.ccxt.table import PROOFS, Row
from venues.ccxt.transport import Line
from venues.client import NoPaperMode, Route, WrongMode
from venues.credentials import Credentials
from venues.endpoint import Endpoint, Hosts, choose
from venues.orders import Mode

# Their `fetch_markets` needs the currencies; for the others these are extra requests, some of them signed.
_NEED_CURRENCIES = frozenset(("bitso", "hyperliquid", "kraken", "latoken"))
# In sandbox mode, ccxt 4.5.90 sends their requests, with the keys, to testnet-api.delta.exchange.
_STRANGERS = frozenset(("blockchaincom",))
_SHOWN = ("private", "trader", "spotPrivate", "spot", "rest")
# ccxt holds the real addresses; these only must not match any host.
_ELSEWHERE = Hosts(paper=("https://sandbox.invalid",), live=("https://live.invalid",))


@dataclass(frozen=True, slots=True)
class Made:
    exchange: Any
    errors: Any
    line: Line
    host: str


class Setup:
    def __init__(self, row: Row, mode: Mode, *, credentials: Credentials, route: Route) -> None:
        self.row = row
        self.mode = mode
        self._credentials = credentials
        self._route = route
        options.check(f"ccxt:{row.exchange_id}", row, route.options)
        self._endpoint: Endpoint | None = None
        if route.endpoint is not None:
            self._endpoint = choose(row.exchange_id, _ELSEWHERE, mode, route)
        self._live_hosts: frozenset[str] = frozenset()

    @property
    def custom(self) -> bool:
        return self._endpoint is not None

    @property
    def host(self) -> str:
        """The host to show before the exchange object exists."""
        return self._endpoint.host if self._endpoint else f"{self.row.exchange_id} ({self.mode})"

    @property
    def key_digest(self) -> str:
        return self._credentials.digest

    def secrets(self) -> dict[str, str]:
        return {field: self._credentials.reveal(field) for field in self.row.fields}

    async def exchange(self) -> Made:
        module = await extra.load("ccxt.async_support", "ccxt")
        made = getattr(module, self.row.exchange_id)(
            {"enableRateLimit": False, "aiohttp_trust_env": False, "timeout": int(self._route.timeout * 1000)}
        )
        self._live_hosts = frozenset(_hosts(made, made.urls["api"]))
        if self.mode == "paper":
            self._to_sandbox(made)
        host = self._endpoint.host if self._endpoint else _main_host(made)
        self._check_endpoint(frozenset(_hosts(made, made.urls.get("test") or {})))
        for field in self.row.fields:
            setattr(made, field, self._credentials.reveal(field))
        self._tune(made)
        line = Line(
            made, module, timeout=self._route.timeout, guard=lambda wire, public: self.refuses(wire, public=public)
        )
        return Made(made, module, line, host)

    def refuses(self, wire: Wire, *, public: bool) -> str | None:
        """Return why this request does not belong to mode and address; None if it does."""
        if self._endpoint is not None and wire.origin != self._endpoint.url:
            return f"it would go to {wire.host}, not to the configured endpoint"
        if self.mode == "live" or public:
            return None
        live = frozenset() if self._endpoint else self._live_hosts
        return unproven(wire, PROOFS.get(self.row.exchange_id, ()), live_hosts=live)

    def _to_sandbox(self, made: Any) -> None:
        """Switch to the sandbox and check it: without one, ccxt raises TypeError and keeps the live addresses."""
        by_host = self.row.exchange_id not in PROOFS
        if self.row.exchange_id in _STRANGERS:
            raise NoPaperMode(
                f"ccxt:{self.row.exchange_id}: ccxt's sandbox address is another company's: nothing was sent"
            )
        if by_host and not made.urls.get("test"):
            raise NoPaperMode(f"ccxt:{self.row.exchange_id} has no sandbox: nothing was sent")
        try:
            made.set_sandbox_mode(True)
        except (TypeError, KeyError, ValueError):
            raise NoPaperMode(f"ccxt:{self.row.exchange_id} has no working sandbox: nothing was sent") from None
        if by_host and not set(_hosts(made, made.urls["api"])) - self._live_hosts:
            raise NoPaperMode(f"ccxt:{self.row.exchange_id}: its sandbox is the live host: nothing was sent")

    def _check_endpoint(self, sandbox: frozenset[str]) -> None:
        if self._endpoint is None:
            return
        other = self._live_hosts if self.mode == "paper" else sandbox
        if self._endpoint.host in other and self.row.exchange_id not in PROOFS:
            raise WrongMode(f"endpoint {self._endpoint.host} is not the exchange's {self.mode} address")

    def _tune(self, made: Any) -> None:
        options.apply(made, self._route.options)
        if self.row.exchange_id not in _NEED_CURRENCIES:
            made.has["fetchCurrencies"] = False
        made.options["fetchMargins"] = False
        made.options["builderFee"] = False
        made.options["refSet"] = True
        if self._endpoint is not None:
            made.urls["api"] = _moved(made, made.urls["api"], endpoint=self._endpoint.url)


def _main_host(exchange: Any) -> str:
    """Return the host to show; an exchange may have one per kind of market."""
    urls = exchange.urls["api"]
    named = next((urls[name] for name in _SHOWN if name in urls), urls) if isinstance(urls, dict) else urls
    return next(_hosts(exchange, named))


def _hosts(exchange: Any, urls: object) -> Iterator[str]:
    if isinstance(urls, str):
        yield urlsplit(exchange.implode_hostname(urls)).netloc
    elif isinstance(urls, dict):
        for inner in urls.values():
            yield from _hosts(exchange, inner)


def _moved(exchange: Any, urls: object, *, endpoint: str) -> object:
    """Return the same paths at another scheme and host."""
    if isinstance(urls, str):
        parts = urlsplit(exchange.implode_hostname(urls))
        return endpoint + parts.path + (f"?{parts.query}" if parts.query else "")
    if isinstance(urls, dict):
        return {name: _moved(exchange, inner, endpoint=endpoint) for name, inner in urls.items()}
    return urls
