"""Sends an integration's failed calls to their providers again, with several tries each.

A call goes out with the authorization of its tenant, where tenants have their own; each has a breaker of its own.

A provider cannot be asked what became of a call. A retry without a clear answer stays in doubt until a person settles
it; its detail and the ledger say under which key the provider may have acted.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from backends.layouts.mask import masked_document
from backends.records import Actor, BreakerRow, Entry
from backends.store import ActRefused, Intent, Requests, Store, StoreError
from console.clock import Clock
from console.services import layout_fields as layout
from console.services.layout_fields import text
from console.services.replay.attempt import AttemptLedger, Lease, unsent
from console.services.replay.flow_control import (
    FAILED_IN_A_ROW,
    OPEN_SECONDS,
    Breaker,
    Wait,
    Waiting,
    wait_unless_stopped,
)
from console.services.replay.outcome import EntryOutcome, not_begun
from console.services.resend.delivery import Backoff, deliver, outcome
from console.services.resend.pace import BusyPace
from console.settings.config import ProviderConfig
from console.settings.secret_names import provider_set
from console.settings.secret_remedies import secret_missing, tenant_missing
from venues.client import BadCredentials, MissingCredentials, UnknownVenue, VenueError
from venues.credentials import Credentials
from venues.integration.call import StoredCall, read_call
from venues.integration.provider import Delivered, Provider, ProviderRoute
from venues.integration.stored_json import Unsendable
from venues.orders import RateLimited, Rejected

# By the provider's name in the config and a tenant, None for the provider's own. None: that one is not set.
AuthorizationSource = Callable[[str, str | None], Credentials | None]


class ProviderTenant(NamedTuple):
    """Where calls go that share an authorization, a client and a breaker."""

    name: str  # of the provider in the config
    tenant: str | None  # None: the provider's own authorization

    @property
    def key(self) -> str:
        """A text that no other provider or tenant has."""
        return self.name if self.tenant is None else f"{self.name}\0{self.tenant}"

    @property
    def label(self) -> str:
        return self.name if self.tenant is None else f"{self.name}/{self.tenant}"


_CLOSED = BreakerRow(0, 0, None)
_KEPT_AS = "provider/"  # before a provider's name in the ledger, where venues have breakers too


async def recall_breakers(store: Store, breakers: dict[str, Breaker], now: float) -> set[str]:
    """Take over what the ledger keeps of earlier sends, this console's or another's. Returns the keys it has."""
    try:
        rows = await store.breakers()
    except StoreError:
        return set()  # without the ledger each console counts for itself
    kept = {
        ProviderTenant(name.removeprefix(_KEPT_AS), tenant or None).key: row
        for (name, tenant, _), row in rows.items()
        if name.startswith(_KEPT_AS)
    }
    for key, row in kept.items():
        if breakers.get(key, Breaker()).at(now).state != "open":
            breakers[key] = Breaker.kept(row, now)
    return set(kept)


class Providers:
    """The configured providers and their clients. A batch that passes `breakers` keeps them for the next batch."""

    def __init__(
        self,
        known: Mapping[str, ProviderConfig],
        authorization: AuthorizationSource,
        breakers: dict[str, Breaker] | None = None,
    ) -> None:
        self._known = known
        self._authorization = authorization
        self.breakers = {} if breakers is None else breakers
        self._clients: dict[ProviderTenant, Provider] = {}
        self._secrets: dict[ProviderTenant, Credentials | None] = {}

    def name(self, entry: Entry) -> str:
        """The name of the entry's provider in the config: its id, else its name. Raises UnknownVenue."""
        names = [text(entry, "providerId"), text(entry, "providerName")]
        found = next((name for name in names if name in self._known), None)
        if found is None:
            shown = " or ".join(f"[providers.{name}]" for name in names if name)
            raise UnknownVenue(
                f"unknown-provider: the config has no {shown or 'provider'} with its base_url: nothing is sent"
            )
        return found

    def at(self, entry: Entry) -> ProviderTenant:
        """Whose authorization the entry's call needs. Raises VenueError, as where its tenant has none."""
        name, tenant = self.name(entry), tenant_of(entry)
        own, table = ProviderTenant(name, tenant), self._known[name].tenants
        if table is not None and tenant not in table:
            raise MissingCredentials(f"unknown-account: {tenant_missing(name, tenant, listed=False)}")
        if tenant is not None and self._secret(own) is not None:
            return own
        if table is not None:
            raise MissingCredentials(f"unknown-account: {tenant_missing(name, tenant, listed=True)}")
        return ProviderTenant(name, None)

    def _secret(self, at: ProviderTenant) -> Credentials | None:
        """Read once: a batch asks the keyring no more often than it has tenants."""
        if at not in self._secrets:
            self._secrets[at] = self._authorization(at.name, at.tenant)
        return self._secrets[at]

    def breaker(self, at: ProviderTenant) -> Breaker:
        return self.breakers.get(at.key, Breaker())

    def client(self, at: ProviderTenant) -> Provider:
        """The client of a provider. Raises VenueError when its settings or its authorization do not do."""
        if at not in self._clients:
            self._clients[at] = self._connect(at)
        return self._clients[at]

    def _connect(self, at: ProviderTenant) -> Provider:
        name, settings, secret = at.name, self._known[at.name], self._secret(at)
        if secret is None and settings.auth_header:
            remedy = secret_missing(provider_set(name), "authorization")
            missing = f"nothing is set for the {settings.auth_header} header of provider {name}: {remedy}"
            raise BadCredentials(f"unknown-account: {missing}")
        header = settings.auth_header or "Authorization"
        route = ProviderRoute(settings.base_url, settings.timeout, header, settings.key_header)
        return Provider(name, route, secret)

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()


def tenant_of(entry: Entry) -> str | None:
    return text(entry, "tenantId") or None


Tell = Callable[[EntryOutcome], None]
_RECORD_TRIES = 120  # more than for orders: nobody can ask a provider later how a call ended
_SLACK_SECONDS = 60.0
_WORSE = ("closed", "half-open", "open")
_HOLDS = 2  # how often a batch waits for an open breaker before it gives the provider up


@dataclass(frozen=True, slots=True)
class Pulse:
    """The clock of a batch in seconds, and its waits between tries."""

    backoff: Backoff = field(default_factory=Backoff)
    ticks: Callable[[], float] = time.monotonic


class ProviderBatch:
    """Sends calls one at a time per provider and tenant. Every entry gets exactly one outcome."""

    def __init__(
        self,
        store: Store,
        providers: Providers,
        actor: Actor,
        clock: Clock,  # noqa: ARG002 - taken as by every batch; the ledger dates attempts by the store's clock
        *,
        pulse: Pulse | None = None,
        waiting: Waiting = lambda _, __: None,
    ) -> None:
        if not isinstance(store, Requests):
            raise TypeError("this store's replays do not call a provider")
        self._store = store
        self._requests: Requests = store
        self._providers = providers
        self._actor = actor
        self._stop = asyncio.Event()
        self._halted = False
        self._called: dict[str, tuple[ProviderTenant, ...]] = {}  # by the id or name of a provider
        self._kept: set[str] = set()  # keys of the breakers that the ledger has
        self._waiting = waiting
        given = pulse or Pulse()
        self._ticks = given.ticks
        self._sleep = given.backoff.sleep
        self._backoff = replace(given.backoff, sleep=self._wait)

    def breakers(self) -> dict[str, str]:
        """The state of each provider's breaker, of several tenants' the worst. May be called from any thread."""
        now = self._ticks()
        called = list(self._called.items())
        return {
            shown: max((self._providers.breaker(at).at(now).state for at in those), key=_WORSE.index)
            for shown, those in called
        }

    def stop(self) -> None:
        """Begin no further try. Call from this object's own loop."""
        self._stop.set()

    async def run(
        self, entries: Sequence[Entry], *, note: str | None = None, tell: Tell = lambda _: None
    ) -> tuple[EntryOutcome, ...]:
        ledger = AttemptLedger(self._store, self._actor, note=note, stopped=self._stop, record_tries=_RECORD_TRIES)
        results: list[EntryOutcome] = []

        def ended(result: EntryOutcome) -> None:
            results.append(result)
            tell(result)

        self._kept = await recall_breakers(self._store, self._providers.breakers, self._ticks())
        providers: dict[ProviderTenant, list[Entry]] = {}
        for entry in entries:
            try:
                at = self._providers.at(entry)
                self._providers.client(at)
                providers.setdefault(at, []).append(entry)
                for shown in (at.name, layout.text(entry, "providerId"), layout.text(entry, "providerName")):
                    self._called[shown] = tuple({*self._called.get(shown, ()), at})
            except VenueError as problem:
                ended(EntryOutcome(entry.id, "refused", None, detail=str(problem)))
        await asyncio.gather(*(self._at_provider(at, its, ledger, ended) for at, its in providers.items()))
        await ledger.settle_up()
        return tuple(results)

    async def _at_provider(
        self, at: ProviderTenant, entries: Sequence[Entry], ledger: AttemptLedger, ended: Tell
    ) -> None:
        """Send one call at a time. Wait for an open breaker until it lets a try through."""
        breaker, holds = self._providers.breaker(at), 0
        pace = BusyPace(at.label, self._sleep, self._waiting)
        for entry in entries:
            breaker = breaker.at(self._ticks())
            if breaker.state == "open" and holds < _HOLDS and not self._stop.is_set():
                holds += 1
                await self._held(at, max(0.0, OPEN_SECONDS - (self._ticks() - breaker.opened_at)))
                breaker = breaker.at(self._ticks())
            if self._is_stopping() or breaker.state == "open":
                ended(self._not_begun(entry))
                continue
            if not await pace.may_go(self._stop):
                ended(pace.not_begun(entry.id))
                continue
            result, healthy = await self._one(entry, self._providers.client(at), ledger, pace)
            if healthy is not None:
                breaker = breaker.succeeded() if healthy else breaker.failed(self._ticks())
                self._providers.breakers[at.key] = breaker
                await self._keep(at, good=healthy)
            if breaker.state == "closed":
                holds = 0
            ended(result)

    async def _keep(self, at: ProviderTenant, *, good: bool) -> None:
        """Keep for every console how a call ended; a success after no failure needs no record."""
        if good and at.key not in self._kept:
            return
        try:
            row = await self._store.breaker_learns((f"{_KEPT_AS}{at.name}", at.tenant or "", "live"), good=good)
        except StoreError:
            return  # without the ledger each console counts for itself
        (self._kept.discard if row == _CLOSED else self._kept.add)(at.key)

    async def _held(self, at: ProviderTenant, seconds: float) -> None:
        """Wait for an open breaker, and say so."""
        self._waiting(at.label, Wait(seconds, FAILED_IN_A_ROW))
        try:
            await self._wait(seconds)
        finally:
            self._waiting(at.label, None)

    def _not_begun(self, entry: Entry) -> EntryOutcome:
        return not_begun(entry.id, "halt" if self._halted else "stopped" if self._is_stopping() else "breaker open")

    def _is_stopping(self) -> bool:
        """Whether stop was called or this task cancelled: the transport finishes a call and swallows the cancel."""
        task = asyncio.current_task()
        return self._stop.is_set() or (task is not None and task.cancelling() > 0)

    async def _wait(self, seconds: float) -> None:
        await wait_unless_stopped(seconds, self._stop, self._sleep)

    async def _one(
        self, entry: Entry, provider: Provider, ledger: AttemptLedger, pace: BusyPace
    ) -> tuple[EntryOutcome, bool | None]:
        """The outcome, and whether the provider is healthy; None when nothing was sent to it."""
        key = str(uuid.uuid4())
        sending = self._backoff.longest + 6 * provider.timeout
        lease = Lease(sending + provider.timeout + _SLACK_SECONDS, sending)
        try:
            begun = await ledger.begin(entry.id, entry.version, lease, lambda: self._prepare(entry, provider, key))
        except StoreError as problem:
            return unsent(entry.id, problem), None
        if ledger.halted:
            self._halted = True
            self.stop()
        if isinstance(begun, EntryOutcome):
            return begun, None
        held, call = begun
        done = await deliver(lambda: provider.send(call, key), self._backoff, self._is_stopping)
        pace.heard(done.answer)
        healthy = isinstance(done.answer, Delivered | Rejected | RateLimited)
        result = outcome(done, key)
        told = EntryOutcome(entry.id, result.outcome, None, None, key, result.error or result.evidence)
        return await self._with_row(await ledger.conclude(held, result, told)), healthy

    async def _with_row(self, told: EntryOutcome) -> EntryOutcome:
        """The outcome with what is left to do with the row of an accepted call."""
        if told.outcome != "accepted":
            return told
        try:
            left = (await self._requests.unfinished((told.entry_id,))).get(told.entry_id)
        except StoreError as problem:
            left = f"what became of its row is not known: {problem}"
        return told if left is None else replace(told, detail=f"{told.detail}; {left}; dlq reconcile tries again")

    async def _prepare(self, entry: Entry, provider: Provider, key: str) -> tuple[Intent, StoredCall] | EntryOutcome:
        try:
            await self._requests.check_success()
        except ActRefused as problem:
            return EntryOutcome(entry.id, "refused", None, detail=str(problem))
        call = await stored_call(self._requests, entry.id)
        if isinstance(call, EntryOutcome):
            return call
        return replace(_intent(provider, call, key), account=tenant_of(entry)), call


async def stored_call(store: Requests, entry_id: str) -> StoredCall | EntryOutcome:
    """The call as it will be sent, or why it is refused."""
    stored = await store.request(entry_id)
    if stored is None:
        return EntryOutcome(entry_id, "refused", None, detail="unparsable: the entry is gone")
    try:
        return read_call(stored)
    except Unsendable as problem:
        return EntryOutcome(entry_id, "refused", None, detail=problem.text)


def _intent(provider: Provider, call: StoredCall, key: str) -> Intent:
    sent = {"method": call.method, "path": call.path, "headers": dict(call.headers)}
    body = call.body.decode("utf-8", "backslashreplace")
    digest = hashlib.sha256(f"{call.method} {call.path}\n".encode() + call.body).hexdigest()
    return Intent(
        mode="live",
        venue=provider.name,
        client_order_id=key,
        payload=masked_document(json.dumps({**sent, "body": body})).encode(),
        payload_hash=digest,
        key_digest=provider.key_digest,
        detail=f"to {provider.host}" + (f"; not sent again: {', '.join(call.dropped)}" if call.dropped else ""),
    )
