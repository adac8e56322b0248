"""One console process that dies, or is told to stop, at a chosen point of a replay. Forked, so that it costs little."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from backends import open_store
from backends.records import Actor
from console import clock
from console.cli.results import run_batch
from console.services.evidence.reconcile import Reconciliation
from console.services.replay.background_run import RunHandle
from console.services.replay.batch import ReplayBatch
from console.services.replay.command import Command, read_command
from console.services.replay.ledger_memory import LedgerMemory
from console.services.replay.outcome import EntryOutcome
from console.services.replay.plan import plan
from console.services.replay.preflight import Preflight, ReplayRequest
from console.services.replay.venue_pool import VenuePool
from console.settings.config import Limits, VenueConfig
from console.settings.kept_heads import KeptHeads
from venues import Accepted, Credentials, Learner, Prepared, SecretSet, VenueClient

ACTOR = Actor("ann", "ann", "desk1", "faults")
LIMITS = Limits(max_batch=100_000, poison_after=10_000, retry_limit=10_000)
GRACE = 3.0  # of a claim, beyond what a send may take
_HUNG_SECONDS = 60.0


@dataclass(frozen=True)
class Where:
    """A store and a venue on this machine, and how the venue is reached."""

    target: str
    url: str
    ledger: Path
    secrets: Mapping[str, Mapping[str, str]]
    timeout: float = 0.4
    window: float = 0.8
    kinds: Mapping[str, str] = field(default_factory=dict)  # venue_name → type, where they differ
    memory: Path | None = None  # what this machine remembers of ledgers; None: another machine each time

    def desk(self) -> VenuePool:
        def settings(name: str) -> VenueConfig:
            return VenueConfig(
                type=self.kinds.get(name),
                timeout=self.timeout,
                paper_endpoint=self.url,
                rate_per_minute=600_000,
                visibility_seconds=self.window,
            )

        return VenuePool({name: settings(name) for name in self.secrets}, self._credentials)

    def _credentials(self, wanted: SecretSet) -> Credentials:
        return Credentials(self.secrets[wanted.venue])


@dataclass
class Killer:
    """Hears of every point and strikes at one of them; with no point it only writes them down."""

    point: str | None
    number: signal.Signals = signal.SIGKILL
    handle: RunHandle | None = None
    passed: list[str] = field(default_factory=list)
    armed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, point: str) -> None:
        if point == "begun":
            self.armed = True
        self.reached(point)
        if point in ("concluded", "given-up"):
            self.armed = False

    def reached(self, point: str) -> None:
        with self._lock:
            self.passed.append(point)
            mine = point == self.point
        if mine:
            self.strike()

    def strike(self) -> None:
        if self.number == signal.SIGKILL:
            os.kill(os.getpid(), signal.SIGKILL)
        assert self.handle is not None
        signal.pthread_kill(threading.main_thread().ident or 0, self.number)
        deadline = time.monotonic() + 5
        while not self.handle.stopping and time.monotonic() < deadline:
            time.sleep(0.001)  # until the main thread has heard of it

    def listen_to_sql(self) -> None:
        """Every statement and every commit between the first and the last step is a point of its own."""
        count = {"sql": 0, "commit": 0}

        def passed(kind: str) -> None:
            if self.armed:
                count[kind] += 1
                self.reached(f"{kind}-{count[kind]}")

        sa.event.listen(sa.Engine, "before_cursor_execute", lambda *_: passed("sql"))
        sa.event.listen(sa.Engine, "commit", lambda _: passed("commit"))


def on_the_wire(client: VenueClient, ledger: Path, killer: Killer) -> None:
    """A point between the venue's having the request and our having its answer."""
    submit = client.submit

    async def watched(prepared: Prepared) -> Any:
        before = ledger.stat().st_size
        sending = asyncio.ensure_future(submit(prepared))
        while not sending.done() and ledger.stat().st_size == before:
            await asyncio.sleep(0.001)
        if ledger.stat().st_size != before:
            killer.reached("on-the-wire")
        return await sending

    client.submit = watched  # type: ignore[method-assign]  # a test's eye on the wire


async def replay(where: Where, ids: tuple[str, ...], killer: Killer, handle: RunHandle) -> tuple[EntryOutcome, ...]:
    killer.handle = handle
    store, desk = await open_store(where.target), where.desk()
    try:
        entries = list((await store.many(ids)).values())
        memory = LedgerMemory(store, KeptHeads(folder=where.memory), clock.now) if where.memory else None
        lost_at = await memory.lost_at() if memory else None
        preflight = Preflight(store, desk, LIMITS, clock.now, lost_at=lost_at)
        facts = await preflight.facts(entries, ReplayRequest("paper"))
        made = plan(entries, facts)
        for at in {step.command.at for step in made.steps}:
            on_the_wire(await desk.client(at, "paper"), where.ledger, killer)
        intended = memory.keep if memory else lambda: None
        running = ReplayBatch(store, desk, ACTOR, clock.now, at=killer.at, lease=GRACE, intended=intended)
        handle.attend(running)
        return await running.run(made, tell=handle.tell)
    finally:
        await desk.aclose()
        await store.aclose()


async def reconcile(where: Where, handle: RunHandle, ids: tuple[str, ...] = ()) -> tuple[EntryOutcome, ...]:
    store, desk = await open_store(where.target), where.desk()
    try:
        running = Reconciliation(store, desk, ACTOR)
        handle.attend(running)
        return await running.run(await running.open(ids, "paper"), tell=handle.tell)
    finally:
        await desk.aclose()
        await store.aclose()


async def place(where: Where, ids: tuple[str, ...]) -> None:
    """As the engine itself: the entries' orders under their own ids, known to no ledger."""
    store, desk = await open_store(where.target), where.desk()
    try:
        for entry in (await store.many(ids)).values():
            command = read_command(entry, venue=None)
            assert isinstance(command, Command)
            client = await desk.client(command.at, "paper")
            if isinstance(client, Learner):
                await client.learn((command.action.market_id,))
            prepared = client.prepare(command.action, command.client_order_id)
            assert isinstance(prepared, Prepared)
            assert isinstance(await client.submit(prepared), Accepted)
    finally:
        await desk.aclose()
        await store.aclose()


def forked(work: Callable[[], int], *, log: Path) -> int:
    """Run it in a process of its own; its exit code, or minus the signal that ended it."""
    return forked_together([work], log=log)[0]


def forked_together(works: Sequence[Callable[[], int]], *, log: Path) -> list[int]:
    return [_ended(pid, log) for pid in [begun(work, log=log) for work in works]]


def begun(work: Callable[[], int], *, log: Path) -> int:
    """The number of the process that does it."""
    pid = os.fork()
    if pid == 0:
        _become(work, log)
    return pid


def _ended(pid: int, log: Path) -> int:
    deadline = time.monotonic() + _HUNG_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise TimeoutError(f"a child hung for {_HUNG_SECONDS:g} s; see {log}")


def _become(work: Callable[[], int], log: Path) -> None:
    """Never returns: a forked child must not run the rest of its parent."""
    code = 70
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        code = work()
    except BaseException:  # noqa: BLE001 - the last exit of a forked child: told in its log
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def replaying(where: Where, ids: tuple[str, ...], killer: Killer, *, sql: bool = False) -> Callable[[], int]:
    def work() -> int:
        if sql:
            killer.listen_to_sql()
        return run_batch(lambda handle: replay(where, ids, killer, handle), as_json=True)

    return work


def reconciling(where: Where, ids: tuple[str, ...] = ()) -> Callable[[], int]:
    return lambda: run_batch(lambda handle: reconcile(where, handle, ids), as_json=True)


def placing(where: Where, ids: tuple[str, ...]) -> Callable[[], int]:
    def work() -> int:
        asyncio.run(place(where, ids))
        return 0

    return work


def looking_again(where: Where, ids: tuple[str, ...]) -> Callable[[], int]:
    """Somebody who does not wait: reconcile and replay at once."""

    def work() -> int:
        reconciling(where, ids)()
        return replaying(where, ids, Killer(None))()

    return work
