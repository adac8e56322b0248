"""The integration matrix: every answer of a provider or a hub × every way in which its record fails × what is asked.

After each fault the entry is reconciled, and sent again if it is free. No call goes again after a yes, and no yes is
invented. `python -m tests.faults.integration_matrix [--cells N]` prints the figures; exit 1 on a violation.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast
from unittest.mock import patch

import asyncpg

from backends.sql.hub_ledger import RemoteStore
from backends.sql.other.store import IntegrationStore
from backends.store import ActRefused, Store, StoreError, Unreachable
from console.services.replay import attempt as record
from console.services.resend import provider as sending
from console.services.resend.hub import HubBatch, Patience
from console.services.resend.hub_source import HubStore, hub_of, open_hub
from console.services.resend.orphans import OrphanedCalls
from tests.support.http_server import Answer, Loopback, Received, reply
from tests.support.integration import IntegrationRig, Time, clock, entry_id, failed_row, providers, redelivery
from tests.support.postgres import Postgres
from tests.support.store import ACTOR, verdict
from tests.support.venue.hub import TOKEN, FakeHub, failed_item
from venues.credentials import Credentials

YES, NO_ANSWER = reply(200, {"id": "ch_1"}), None
ANSWERS: dict[str, Answer] = {
    "200": YES,
    "201": reply(201),
    "202": reply(202, b"<html>"),
    "204": reply(204),
    "207": reply(207, {"status": "mixed"}),
    "200 cut off": b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ncut",
    "200 badly framed": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "200 too long": reply(200, b"x" * ((1 << 20) + 1)),
    "302": reply(302, Location="/elsewhere"),
    "400": reply(400, {"error": "no"}),
    "401": reply(401),
    "404": reply(404, b"<html>"),
    "408": reply(408),
    "409": reply(409),
    "422": reply(422, {"error": "bad"}),
    "429": reply(429, Retry_After="1"),
    "500": reply(500),
    "503": reply(503),
    "hung up": NO_ANSWER,
    "not HTTP": b"hello\r\n\r\n",
}
ON_SUCCESS = ("delete", "soft-delete", "keep")
# How the row's own table refuses: by an error of that kind, silently, at the commit, or by ending the session.
FENCES = ("privilege", "constraint", "deferred", "keeps", "session ends")
FAULTS = (
    "none",
    *FENCES,
    "ledger lost",
    "ledger refuses",
    "answer lost",
    "killed before the record",
    "killed at the row",
)

_TRIGGER = """
CREATE TABLE fence (id uuid PRIMARY KEY, how text);
CREATE FUNCTION fenced() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
  SELECT f.how INTO told FROM fence f WHERE f.id = OLD.id;
  IF told = 'privilege' THEN RAISE insufficient_privilege; END IF;
  IF told = 'constraint' THEN RAISE foreign_key_violation; END IF;
  IF told = 'keeps' THEN RETURN NULL; END IF;
  IF told = 'session ends' THEN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(5); END IF;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION fenced_late() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM fence f WHERE f.id = OLD.id AND f.how = 'deferred') THEN RAISE foreign_key_violation; END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER fenced BEFORE UPDATE OR DELETE ON integration_dlq FOR EACH ROW EXECUTE FUNCTION fenced();
CREATE CONSTRAINT TRIGGER fenced_late AFTER UPDATE OR DELETE ON integration_dlq
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fenced_late();
"""


class Killed(BaseException):
    """The process ends here: nothing of it runs on."""


@dataclass(frozen=True)
class CallCell:
    """A call to a provider, from a table."""

    answer: str
    fault: str
    on_success: str

    def __str__(self) -> str:
        return f"table, {self.on_success}: {self.answer}, {self.fault}"


# What a hub says to a retry, and whether it queued it.
ASKED: dict[str, tuple[Answer | None, bool]] = {
    "202": (b"", True),
    "202, not heard": (NO_ANSWER, True),
    "500 though queued": (reply(500), True),
    "409": (reply(409, {"error": "already queued"}), True),
    "200 of a gateway": (reply(200, b"<html>welcome"), False),
    "202 of another": (reply(202, {"dlqId": "x", "status": "queued"}), False),
    "302": (reply(302, Location="/login"), False),
    "400": (reply(400, {"error": "no"}), False),
    "400 of a gateway": (reply(400, b"<html>"), False),
    "401": (reply(401), False),
    "403": (reply(403, b"<html>"), False),
    "404": (reply(404), False),
    "408": (reply(408), False),
    "429": (reply(429), False),
    "503": (reply(503), False),
    "not HTTP": (b"hello\r\n\r\n", False),
}
ENDINGS = ("good", "bad", "")
# What stands before the hub while it is looked at: the answers to an entry and to the list.
LOOKS: dict[str, tuple[Answer | None, Answer | None] | None] = {
    "well": None,
    "404 everywhere": (reply(404, b"<html>"), reply(404, b"<html>")),
    "404, an empty page": (reply(404), reply(200, {"items": [], "page": 1, "limit": 100})),
    "404, list away": (reply(404, {"error": "gone"}), reply(503)),
}
HUB_FAULTS = ("none", "ledger lost", "ledger refuses", "answer lost", "killed before the record")


@dataclass(frozen=True)
class HubCell:
    answer: str
    ending: str
    look: str
    fault: str

    def __str__(self) -> str:
        return f"hub: {self.answer}, ends {self.ending or 'never'}, {self.look}, {self.fault}"


Cell = CallCell | HubCell


def cells() -> list[Cell]:
    calls = itertools.starmap(CallCell, itertools.product(ANSWERS, FAULTS, ON_SUCCESS))
    return [*calls, *itertools.starmap(HubCell, itertools.product(ASKED, ENDINGS, LOOKS, HUB_FAULTS))]


def sampled(every: Sequence[Cell], count: int) -> list[Cell]:
    """So many, spread over all."""
    return [every[n * len(every) // count] for n in range(count)] if count < len(every) else list(every)


class StrictHub(FakeHub):
    """Counts what it was asked to retry while an earlier retry of that entry had not ended."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_for = ""
        self.front: tuple[Answer | None, Answer | None] | None = None
        self.repeated = 0
        self.retries = 0

    def __call__(self, got: Received) -> Answer:
        if self.front is not None and got.method == "GET":
            return self.front[1] if got.path.endswith("/dlq") else self.front[0]
        return super().__call__(got)

    def _retry(self, entry_id: str) -> Answer:
        self.retries += 1
        self.repeated += entry_id in self.queued
        told, queues = ASKED[self.asked_for]
        if not queues:
            return told
        answered = super()._retry(entry_id)
        return answered if told == b"" else told

    def work(self) -> None:
        """End what is queued, as a hub does by itself."""
        for one in list(self.queued):
            self._settle(one)


@dataclass
class Figures:
    cells: int = 0
    requests: int = 0
    yes: int = 0
    again: int = 0  # calls that went again after a yes
    invented: int = 0  # accepted without a yes
    violations: list[str] = field(default_factory=list)

    def judge(self, cell: Cell, *, again: int, invented: bool, wrong: Sequence[str]) -> None:
        self.cells += 1
        self.again += again
        self.invented += invented
        told = [f"sent again after a yes, {again} times"] * bool(again) + ["a yes was invented"] * invented
        self.violations += [f"{cell}: {one}" for one in (*told, *wrong)]


@dataclass
class Ground:
    rig: IntegrationRig
    tables: dict[str, IntegrationStore]
    hub_store: RemoteStore
    hub: StrictHub
    provider: Loopback
    script: dict[str, Answer]
    figures: Figures
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def run(self, cell: Cell) -> None:
        number = next(self.numbers)
        tries = patch.object(sending, "_RECORD_TRIES", 2), patch.object(record, "_RECORD_TRIES", 2)
        with tries[0], tries[1], patch.object(record, "_RECORD_SECONDS", 0.0):
            await (self.call(cell, number) if isinstance(cell, CallCell) else self.retry(cell, number))

    # A call from a table.

    async def call(self, cell: CallCell, number: int) -> None:
        one, store = entry_id(number), self.tables[cell.on_success]
        stored = json.dumps({"method": "POST", "path": f"/{number}", "body": {"n": number}})
        await self.rig.failed(failed_row(number, originalRequest=stored))
        self.script[f"/{number}"] = ANSWERS[cell.answer]
        if cell.fault in FENCES:
            await self.rig.sql("INSERT INTO fence VALUES ($1, $2)", uuid.UUID(one), cell.fault)
        with faulty(store, cell.fault):
            await self._sent(store, one)
        await self._recovered(store, one)
        self.script[f"/{number}"] = YES
        await self._sent(store, one)
        await self.rig.sql("DELETE FROM fence WHERE id = $1", uuid.UUID(one))
        await self._recovered(store, one)
        await self._sent(store, one)
        await self._judge_call(cell, store, number)

    async def _sent(self, store: IntegrationStore, one: str) -> None:
        """Send it if it is free, as somebody would who sees it pending."""
        seen = await store.get(one)
        if seen is None or seen.state != "pending":
            return
        there = providers(self.provider.url)
        try:
            await redelivery(store, there, Time()).run([seen])
        except Killed:
            pass
        finally:
            await there.aclose()

    async def _recovered(self, store: Store, one: str) -> None:
        await self.rig.sql("UPDATE dlq_console.claim SET expires_at = 0 WHERE entry_id = $1", one)
        with suppress(Unreachable):  # a row that ends every session is not counted; its call stays where it was
            await OrphanedCalls(store, ACTOR, clock).run((one,))

    async def _judge_call(self, cell: CallCell, store: IntegrationStore, number: int) -> None:
        one = entry_id(number)
        got = self.provider.requests
        calls = [at for at, request in enumerate(got) if request.path == f"/{number}"]
        said_yes = int(cell.answer[:3]) // 100 == 2 if cell.answer[:3].isdecimal() else False
        attempts = await store.attempts(one)
        accepted = [attempt for attempt in attempts if attempt.outcome == "accepted"]
        again = len(calls) - 1 if said_yes else 0
        yes = said_yes or len(attempts) > 1
        row, owed = await self.rig.column("deletedAt", number), await store.unfinished((one,))
        left = {"delete": "gone", "keep": None}.get(cell.on_success, row)
        wrong = ["several were accepted"] * (len(accepted) > 1)
        wrong += ["the row of an accepted call is not done with"] * bool(accepted and (owed or row != left))
        wrong += ["a free row was removed"] * bool(not accepted and row == "gone")
        lost = cell.fault in ("ledger lost", "ledger refuses", "killed before the record")
        wrong += ["a yes that could be recorded was not"] * (said_yes and not lost and not accepted)
        self.figures.requests += len(calls)
        self.figures.yes += said_yes
        self.figures.judge(cell, again=again, invented=bool(accepted) and not yes, wrong=wrong)

    # A retry that a hub is asked for.

    async def retry(self, cell: HubCell, number: int) -> None:
        one, store, hub = entry_id(number), self.hub_store, self.hub
        hub.items, hub.queued, hub.repeated, hub.retries = {}, {}, 0, 0
        hub.add(failed_item(number))
        hub.ending, hub.asked_for, hub.front = cell.ending, cell.answer, None
        seen = await store.get(one)
        assert seen is not None
        right, wrong = hub._retry, []

        def hidden(entry: str) -> Answer:
            told = right(entry)
            hub.front = LOOKS[cell.look]
            return told

        with patch.object(hub, "_retry", hidden), faulty(store, cell.fault):
            await self._asked(store, seen)
        await self._settled(store, one)
        wrong += self._invented(await self._outcomes(store, one), one)
        hub.front = None
        again = await store.get(one)
        if again is not None and again.state == "pending":
            await self._asked(store, again)
        hub.work()
        await self._settled(store, one)
        outcomes = await self._outcomes(store, one)
        wrong += self._invented(outcomes, one)
        gone = one not in hub.items
        wrong += ["gone from the hub and not accepted"] * (gone and "accepted" not in outcomes)
        self.figures.requests += hub.retries
        self.figures.yes += gone
        self.figures.judge(cell, again=hub.repeated, invented="a yes was invented" in wrong, wrong=wrong)

    def _invented(self, outcomes: list[str | None], one: str) -> list[str]:
        return ["a yes was invented"] * ("accepted" in outcomes and one in self.hub.items)

    async def _outcomes(self, store: Store, one: str) -> list[str | None]:
        return [attempt.outcome for attempt in await store.attempts(one)]

    async def _asked(self, store: RemoteStore, seen: Any) -> None:
        with suppress(Killed):
            await self._batch(store).run([seen])

    async def _settled(self, store: RemoteStore, one: str) -> None:
        await self.rig.sql("UPDATE dlq_console.claim SET expires_at = 0 WHERE entry_id = $1", one)
        await self._batch(store).settle((one,))

    def _batch(self, store: RemoteStore) -> HubBatch:
        patience = Patience(Time().sleep, wait=2)
        return HubBatch(store, cast("Any", hub_of(store)), ACTOR, clock, patience=patience)


@contextmanager
def faulty(store: Any, fault: str) -> Iterator[None]:
    """A store whose record fails in this way, until the block ends."""
    conclude = store.conclude

    async def lost(*_: object) -> bool:
        raise Unreachable("the connection was lost")

    async def refuses(*_: object) -> bool:
        raise ActRefused("this role may not use the console's ledger")

    left = [StoreError("lost while it committed")]

    async def unheard(*given: Any) -> bool:
        done: bool = await conclude(*given)
        if left:
            raise left.pop()
        return done

    async def killed(*_: object) -> Any:
        raise Killed

    ways: dict[str, tuple[str, Callable[..., Awaitable[Any]]]] = {
        "ledger lost": ("conclude", lost),
        "ledger refuses": ("conclude", refuses),
        "answer lost": ("conclude", unheard),
        "killed before the record": ("conclude", killed),
        "killed at the row": ("finish_row", killed),
    }
    if fault not in ways:
        yield
        return
    name, way = ways[fault]
    with patch.object(store, name, way):
        yield


@asynccontextmanager
async def ground(target: str, hub_target: str) -> Any:
    """A table and a hub with their ledgers in two empty databases."""
    rig, hub, script = IntegrationRig(target), StrictHub(), cast("dict[str, Answer]", {})
    await rig.tables()
    async with rig.connect() as connection:
        await connection.execute(_TRIGGER)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(rig.aclose)
        provider = await stack.enter_async_context(Loopback(lambda got: script[got.path]))
        there = await stack.enter_async_context(Loopback(hub))
        tables = {how: await rig.store(on_success=how) for how in ON_SUCCESS}
        token = Credentials({"token": TOKEN})
        hub_store = await open_hub(HubStore(there.url, hub_target), token, read_only=False)
        stack.push_async_callback(hub_store.aclose)
        made = Ground(rig, tables, cast("RemoteStore", hub_store), hub, provider, script, Figures())
        made.rig = _BothRigs(target, hub_target, rig)
        yield made
        for store in (tables["keep"], hub_store):
            if (await verdict(store))[0] is not None:
                made.figures.violations.append("the audit chain is broken")


class _BothRigs(IntegrationRig):
    """Claims lie in two databases: what is said of them is said to both."""

    def __init__(self, target: str, hub_target: str, rig: IntegrationRig) -> None:
        super().__init__(target)
        self.names, self._hub, self._rig = rig.names, IntegrationRig(hub_target), rig

    async def sql(self, statement: str, *args: object) -> list[tuple[Any, ...]]:
        if "dlq_console.claim" in statement:
            for rig in (self._rig, self._hub):
                with suppress(asyncpg.UndefinedTableError):  # no act has made that ledger yet
                    await rig.sql(statement, *args)
            return []
        return await self._rig.sql(statement, *args)


async def run_all(every: Sequence[Cell], target: str, hub_target: str) -> Figures:
    async with ground(target, hub_target) as made:
        for cell in every:
            await made.run(cell)
        figures: Figures = made.figures
    return figures


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.integration_matrix")
    parser.add_argument("--cells", type=int, help="a sample of this many")
    options, began = parser.parse_args(words), time.monotonic()
    server = Postgres().start()
    try:
        asyncio.run(_databases(server.dsn("postgres"), "calls", "hub"))
        every = sampled(cells(), options.cells or 10**6)
        figures = asyncio.run(run_all(every, server.dsn("calls"), server.dsn("hub")))
    finally:
        server.stop()
    print("\n".join(figures.violations), file=sys.stderr)
    shown = {name: getattr(figures, name) for name in ("cells", "requests", "yes", "again", "invented")}
    print(json.dumps({**shown, "violations": len(figures.violations), "seconds": round(time.monotonic() - began)}))
    return 1 if figures.violations else 0


async def _databases(admin: str, *names: str) -> None:
    connection = await asyncpg.connect(admin)
    for name in names:
        await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
