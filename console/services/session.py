"""One attached store with everything a screen may ask of it; what reaches a venue is imported only when asked for.

Plans, replays and reconciliations run on loops and connections of their own: the caller's loop never waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from backends.ledger.audit_chain import Verifier
from backends.records import Actor, Entry, Halt, Selection, StoreInfo
from backends.store import Store
from console.clock import Clock
from console.services.browse.queue_order import QueueOrder
from console.services.replay.outcome import EntryOutcome
from console.services.triage.triage import Triage
from console.settings.config import Config, StoreConfig

if TYPE_CHECKING:
    from console.services.index.status import IndexStatus
    from console.services.replay.background_run import RunHandle, Work
    from console.services.replay.flow_control import Breaker
    from console.services.replay.plan import Blocked, ReplayPlan
    from console.services.replay.venue_pool import CredentialSource, VenuePool
    from console.services.resend.plan import ResendPlan, ResendTools

Mode = Literal["paper", "live"]


class SessionSettings(NamedTuple):
    """What a workplace is made of; `credentials` is asked only when a venue is."""

    config: Config
    store: StoreConfig
    actor: Actor
    clock: Clock
    open: Callable[[], Awaitable[Store]]
    credentials: Callable[[], CredentialSource]
    tools: Callable[[], ResendTools] | None = None  # for entries that are no orders
    cache: Path | None = None  # where indexes lie; None: where the XDG specification says

    @property
    def is_live_store(self) -> bool:
        return self.store.environment == "live"


class Verified(NamedTuple):
    head: str
    events: int
    problem: str | None


class StoreSession:
    def __init__(self, setting: SessionSettings, store: Store) -> None:
        self.setting = setting
        self.store = store
        self.triage = Triage(store, setting.actor, setting.clock)
        self.queue_order = QueueOrder(store)
        self._index_status: IndexStatus | None = None
        self._making = asyncio.Lock()
        self._breakers: dict[str, Breaker] = {}

    @classmethod
    async def attach(cls, setting: SessionSettings) -> StoreSession:
        return cls(setting, await setting.open())

    @property
    def info(self) -> StoreInfo:
        return self.store.info

    async def aclose(self) -> None:
        if self._index_status is not None:
            await self._index_status.aclose()
        await self.store.aclose()

    async def index_status(self) -> IndexStatus:
        """What the index knows of this store; made when it is first asked for."""
        from console.services.index.status import IndexStatus

        async with self._making:
            if self._index_status is None:
                self._index_status = await IndexStatus.of(self)
        return self._index_status

    def read_action(self, entry: Entry) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(why its action cannot be sent as it stands, what else should be known of it)."""
        from venues.action import parse_action

        if entry.layout != "orders":
            return (), ()
        parsed = parse_action(entry.columns, entry.text("action_json") or None)
        return tuple(f"{finding.code}: {finding.text}" for finding in parsed.findings), parsed.notes

    async def plan(self, selection: Selection, mode: Mode, overrides: frozenset[str] = frozenset()) -> ReplayPlan:
        """What a replay would do. Asks store and venues; writes and sends nothing."""
        return await asyncio.to_thread(asyncio.run, self._plan(selection, mode, overrides))

    async def _plan(self, selection: Selection, mode: Mode, overrides: frozenset[str]) -> ReplayPlan:
        from console.services.replay.plan import plan
        from console.services.replay.preflight import Preflight, ReplayRequest

        async with self._tools() as (store, pool):
            found, _ = await Triage(store, self.setting.actor, self.setting.clock).chosen(selection.ids)
            entries = _unmoved(selection, found)
            preflight = Preflight(
                store, pool, self.setting.config.limits, self.setting.clock, live_store=self.setting.is_live_store
            )
            request = ReplayRequest(mode=mode, overrides=overrides, single=len(selection) == 1)
            made = plan(entries, await preflight.facts(entries, request))
        return replace(made, blocked=(*made.blocked, *_moved(selection, found)))

    @asynccontextmanager
    async def _tools(self) -> AsyncIterator[tuple[Store, VenuePool]]:
        from console.services.replay.venue_pool import VenuePool

        pool = VenuePool(self.setting.config.venues, self.setting.credentials())
        store = await self.setting.open()
        try:
            yield store, pool
        finally:
            await pool.aclose()
            await store.aclose()

    async def is_approved(self, plan: ReplayPlan) -> bool:
        """Whether the second person has agreed; where not, the plan is put up for them."""
        from console.services.triage.approvals import Approvals

        return await Approvals(self.store, self.setting.actor, self.setting.clock).may_replay(plan)

    async def approve(self, plan_hash: str) -> str | None:
        """What was approved; None where this person may not. Raises KeyError where nobody put it up."""
        from console.services.triage.approvals import Approvals

        return await Approvals(self.store, self.setting.actor, self.setting.clock).approve(plan_hash)

    async def resume(self, halt: Halt, note: str) -> bool:
        """False: a second person must agree first, and has been asked."""
        if self.setting.is_live_store:
            from console.services.triage.approvals import Approvals

            if not await Approvals(self.store, self.setting.actor, self.setting.clock).may_resume(halt):
                return False
        await self.triage.resume(note)
        return True

    async def plan_resend(self, selection: Selection) -> ResendPlan:
        """For entries that are no orders: which go, which stay and why, where to. Raises StoreError."""
        from console.services.resend.plan import plan_resend

        found, _ = await self.triage.chosen(selection.ids)
        moved = [EntryOutcome(one.entry_id, "skipped", None, detail=one.text) for one in _moved(selection, found)]
        most = self.setting.config.limits.max_batch
        made = await plan_resend(self.store, _unmoved(selection, found), self._foreign_tools(), most)
        return made._replace(left=(*moved, *made.left))

    def resend_work(self, plan_resend: ResendPlan) -> Work:
        async def work(handle: RunHandle) -> tuple[EntryOutcome, ...]:
            from console.services.resend.plan import send

            store = await self.setting.open()
            try:
                for ended in plan_resend.left:
                    handle.tell(ended)
                if refused := tuple(one.entry_id for one in plan_resend.left if one.outcome == "refused"):
                    because = "; ".join(one.detail or "" for one in plan_resend.left)[:2000]
                    await Triage(store, self.setting.actor, self.setting.clock).refuse("replay", refused, because)
                return (*plan_resend.left, *await send(store, plan_resend.going, self._foreign_tools(), handle))
            finally:
                await store.aclose()

        return work

    def _foreign_tools(self) -> ResendTools:
        from console.services.resend.plan import ResendTools

        made = self.setting.tools() if self.setting.tools else ResendTools(self.setting.actor, self.setting.clock)
        return replace(made, breakers=self._breakers)

    def replay_work(self, plan: ReplayPlan, note: str | None) -> Work:
        async def work(handle: RunHandle) -> tuple[EntryOutcome, ...]:
            from console.services.replay.batch import ReplayBatch

            async with self._tools() as (store, pool):
                if blocked := tuple(one.entry_id for one in plan.blocked):
                    triage = Triage(store, self.setting.actor, self.setting.clock)
                    await triage.refuse("replay", blocked, "; ".join(one.text for one in plan.blocked)[:2000])
                replay = ReplayBatch(store, pool, self.setting.actor, self.setting.clock)
                handle.attend(replay)
                return await replay.run(plan, note=note, tell=handle.tell)

        return work

    def reconcile_work(self, ids: tuple[str, ...]) -> Work:
        """Every open attempt of these entries, in the mode it was sent in."""

        async def work(handle: RunHandle) -> tuple[EntryOutcome, ...]:
            if self.info.layout != "orders":
                return await self._settle_foreign(ids, handle)
            from console.services.replay.reconcile import Reconciliation

            async with self._tools() as (store, pool):
                reconcile = Reconciliation(store, pool, self.setting.actor, self.setting.clock)
                return await reconcile.settle(ids, ("paper", "live"), handle)

        return work

    async def _settle_foreign(self, ids: tuple[str, ...], handle: RunHandle) -> tuple[EntryOutcome, ...]:
        from console.services.resend.plan import settle

        store = await self.setting.open()
        try:
            return await settle(store, ids, self._foreign_tools(), handle)
        finally:
            await store.aclose()

    async def verify(self) -> Verified:
        verifier = Verifier()
        async for events in self.store.chain():
            if not await asyncio.to_thread(verifier.feed, events):
                break
        problem = verifier.finish()
        return Verified(str(verifier.head), verifier.head.count, problem)


def _unmoved(selection: Selection, found: dict[str, Entry]) -> list[Entry]:
    there = [(found[entry_id], seen) for entry_id, seen in selection.picks if entry_id in found]
    return [entry for entry, seen in there if entry.version == seen]


def _moved(selection: Selection, found: dict[str, Entry]) -> list[Blocked]:
    from console.services.replay.guards import Guard
    from console.services.replay.plan import Blocked

    blocked = []
    for entry_id, seen in selection.picks:
        entry = found.get(entry_id)
        if entry is None:
            blocked.append(Blocked(entry_id, (Guard("changed", "it is no longer there"),)))
        elif entry.version != seen:
            blocked.append(Blocked(entry_id, (Guard("changed", f"changed since it was marked: now {entry.state}"),)))
    return blocked
