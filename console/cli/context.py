"""What every verb starts from: config, actor, clock, and the store opened and closed around it."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

from dlq_sink.error import BadTarget, Unreachable

from backends import open_store
from backends.entry import OPEN_STATES, STATES, State
from backends.target import PostgresTarget, Target, parse_target
from console import clock
from console.cli.parser import UsageError
from console.settings.config import Config, StoreConfig
from console.settings.typed_store import typed_store
from console.text.untrusted import EMPTY, safe, safe_block

if TYPE_CHECKING:
    from backends.ledger.actor import Actor
    from backends.store import Store
    from console.services.index.keeper import IndexProcess
    from console.services.replay.venue_pool import CredentialSource
    from console.services.resend.plan import ResendTools
    from console.services.session import SessionSettings, StoreSession
    from console.services.triage.triage import Query, Triage
    from console.settings.secrets import Vault


def say(message: str) -> None:
    """One message on stderr, inert: it may repeat what a store, a config or an argument holds."""
    with suppress(OSError):
        print(f"dlq: {safe_block(message)}", file=sys.stderr, flush=True)


def say_second(why: str, plan_hash: str, way_out: str) -> None:
    """What a second person has to do, and the line that scripts look for."""
    say(f"a second person must approve ({safe(why)}): dlq approve {plan_hash}, on the same store; {way_out}")
    with suppress(OSError):
        print(f"plan {plan_hash}", file=sys.stderr, flush=True)


_OBJECTS_BETWEEN_COLLECTIONS = 20_000  # several pages of entries, of which none is garbage that needs collecting


def end_of_loading() -> None:
    """From here on garbage is collected, where the process began without; what is loaded by now is none."""
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, 20, 20)
        gc.enable()


def refuse_blind(store: Store) -> None:
    """Refuses to judge or keep a record that cannot be read, instead of calling it empty."""
    if (finding := store.info.unreadable) is not None:
        raise Unreachable(f"{store.info.label}: {finding.text.partition(':')[0]}; dlq doctor prints the grant")


def _say_shortfall(store: Store) -> None:
    from backends.store import Partial

    if isinstance(store, Partial) and store.shortfall is not None:
        say(store.shortfall)


def no_such_entry(missing: Sequence[str]) -> UsageError:
    named = ", ".join(safe(one, 80) or EMPTY for one in missing[:5])
    return UsageError(f"no such entry: {named}; nothing was done, dlq list --all prints the ids")


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def on_terminal() -> bool:
    """Can somebody be asked?"""
    return is_terminal(sys.stdin)


async def open_configured(
    settings: StoreConfig, config: Config, *, read_only: bool, table: str | None, one_reader: bool = False
) -> Store:
    # A keyring may ask its owner: never on the caller's loop.
    import asyncio  # not before the first rows

    password = await asyncio.to_thread(password_of, settings, config)
    if settings.hub_url is None:
        return await open_store(
            settings.url,
            read_only=read_only,
            table=table or settings.table,
            password=password,
            options=settings.options,
            one_reader=one_reader,
        )
    from console.services.resend.hub_source import HubStore, open_hub
    from venues import BadCredentials

    try:
        vault = vault_of(config)
        import asyncio

        token = await asyncio.to_thread(vault.hub_token, settings.name)
    except BadCredentials as problem:
        raise BadTarget(str(problem)) from None
    hub = HubStore(settings.hub_url, settings.url, password, settings.options.on_dismiss, settings.name)
    return await open_hub(
        hub, token, read_only=read_only, renewed=lambda: vault.hub_token(settings.name), one_reader=one_reader
    )


def vault_of(config: Config) -> Vault:
    """Where secrets are read. Imported late: a keyring is loaded only by who needs one."""
    from console.settings.secrets import Vault

    return Vault(config.credentials_dir, known=(*config.venues, *config.providers))


_one_at_a_time = threading.Lock()  # a keyring that is locked asks its owner once


def password_of(settings: StoreConfig, config: Config) -> str | None:
    """From the keyring, for a Postgres store of the config, if string, service and PGPASSWORD have none.

    None leaves it to the password file, which libpq asks last, too. Raises BadTarget.
    """
    if config.stores.get(settings.name) != settings:
        return None
    target = parse_target(settings.url)
    if not isinstance(target, PostgresTarget) or target.password is not None:
        return None
    from console.settings.secrets import store_password

    with _one_at_a_time:
        return store_password(settings.name, target.user)


def with_password(target: Target, settings: StoreConfig, config: Config) -> Target:
    """The target as the store opens it, with the password from the keyring where it needs one."""
    if not isinstance(target, PostgresTarget) or target.password is not None:
        return target
    password = password_of(settings, config)
    return target if password is None else replace(target, password=password)


# Each flag: where its value is kept, and the words of the filter language that it stands for.
_FLAGS = {
    "venue": ("venue", "venue:"),
    "account": ("account", "account:"),
    "market": ("market", "market:"),
    "side": ("side", "side:"),
    "category": ("category", "category:"),
    "state": ("state", "state:"),
    "group": ("group", "group:"),
    "since": ("since", "since:"),
    "until": ("until", "until:"),
    "failure-reason": ("failure_reason", "failure:"),
    "search": ("search", ""),
}
_CLOSED: frozenset[State] = frozenset(STATES) - OPEN_STATES
DONE, REJECTED, USAGE, IN_DOUBT, NOT_ACTED, UNREACHABLE = 0, 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True)
class Context:
    args: argparse.Namespace
    config: Config
    actor: Actor

    @property
    def target(self) -> str:
        target = self.args.db or os.environ.get("DLQ_DB")
        if not target:
            raise UsageError("which store? give --db TARGET or set DLQ_DB")
        return str(target)

    @property
    def store_config(self) -> StoreConfig:
        """What the config says of this store; a bare target has no settings."""
        known = self.config.stores.get(self.target)
        return known or typed_store(self.target)

    def is_on_server(self) -> bool:
        """Whether the store's target names a database server."""
        try:
            return isinstance(parse_target(self.store_config.url), PostgresTarget)
        except (BadTarget, UsageError):
            return False  # told when the store is opened

    @property
    def venue_types(self) -> dict[str, str]:
        return self.config.venue_types

    def now(self) -> datetime:
        return clock.now()

    async def open(self, settings: StoreConfig, *, read_only: bool | None = None, one_reader: bool = True) -> Store:
        only = self.args.read_only if read_only is None else read_only
        store = await open_configured(
            settings, self.config, read_only=only, table=self.args.table, one_reader=one_reader
        )
        end_of_loading()
        return store

    @asynccontextmanager
    async def store(self, *, read_only: bool | None = None) -> AsyncIterator[Store]:
        store = await self.open(self.store_config, read_only=read_only)
        try:
            yield store
            _say_shortfall(store)
        finally:
            await store.aclose()

    @asynccontextmanager
    async def triage(self, *, read_only: bool | None = None) -> AsyncIterator[Triage]:
        async with self.store(read_only=read_only) as store:
            from console.services.market.entry_value import worth_by
            from console.services.policy import limits_for_looking
            from console.services.triage.triage import Triage

            limits = await limits_for_looking(self.config, store)
            yield Triage(store, self.actor, clock.now, limits, worth_by(self.venue_types))

    def session_settings(self, settings: StoreConfig, *, own_loops: bool) -> SessionSettings:
        """What a session on this store needs; secrets are read only when a venue or provider is asked."""
        from console.services.session import SessionSettings

        return SessionSettings(
            config=self.config,
            store=settings,
            actor=self.actor,
            clock=clock.now,
            open=lambda: self.open(settings, one_reader=not own_loops),
            credentials=self._credentials,
            tools=lambda: self._resend_tools(settings),
            own_loops=own_loops,
        )

    @asynccontextmanager
    async def session(self) -> AsyncIterator[StoreSession]:
        """The store attached for one verb: one connection and one set of venue clients, on the verb's own loop."""
        from console.services.session import StoreSession

        session = await StoreSession.attach(self.session_settings(self.store_config, own_loops=False))
        try:
            yield session
            _say_shortfall(session.store)
        finally:
            await session.aclose()

    def _credentials(self) -> CredentialSource:
        return vault_of(self.config).credentials

    def _resend_tools(self, settings: StoreConfig) -> ResendTools:
        from console.services.resend.plan import ResendTools

        authorization = vault_of(self.config).authorization
        return ResendTools(self.actor, clock.now, self.config.providers, authorization, settings.hub_wait)

    def query(self, *, everything: bool = False, by_venue: bool = True) -> Query:
        """The filters of the command line: the flags, each as its field with a quoted value, and --filter."""
        from console.services.browse.filter_syntax import ExpressionError, parse_expression, quote

        args = self.args
        given = {flag: getattr(args, dest, None) for flag, (dest, _) in _FLAGS.items()}
        if not by_venue:
            given["venue"] = None
        said = [f"{_FLAGS[flag][1]}{quote(value)}" for flag, value in given.items() if value is not None]
        closed = not everything and args.verb == "restore"
        states = frozenset(STATES) if everything else _CLOSED if closed else OPEN_STATES
        try:
            return parse_expression(" ".join([*said, args.filter or ""]), self.now(), states)
        except ExpressionError as problem:
            raise UsageError(str(problem)) from None

    @property
    def has_filters(self) -> bool:
        """Whether anything but --venue selects entries."""
        names = ("filter", *(dest for flag, (dest, _) in _FLAGS.items() if flag != "venue"))
        return any(getattr(self.args, name, None) is not None for name in names)


def keeper_of(context: Context, target: str | None = None) -> IndexProcess:
    """The process that keeps this store's index. Passes the target by environment, as it may hold a password."""
    from console.services.index.keeper import IndexProcess

    words: list[str] = []
    for option in ("config", "table"):
        if value := getattr(context.args, option):
            words += [f"--{option}", str(value)]
    return IndexProcess(tuple(words), {**os.environ, "DLQ_DB": target or context.target})
