"""One input through both faces of the console: as a command, and through the session behind the screens.

Either way leaves a `Trace`: how each entry ended, and what the store's audit has of it. Times, operations, hashes and
what a venue or a provider makes up itself are left out of it.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import sqlite3
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from backends.records import Actor, Halt, Selection
from backends.target import SQLiteTarget, parse_target
from console.cli import main
from console.cli.console import attach
from console.cli.context import Context
from console.cli.parser import build_parser
from console.services.evidence.settle import Claimed, SettleRequest
from console.services.replay.background_run import BackgroundRun, Work
from console.services.replay.outcome import EntryOutcome, exit_code
from console.services.replay.preflight import ReplayRequest
from console.services.session import Chosen, Mode, StoreSession
from console.services.triage.triage import Done
from console.settings.config import load_config
from tests.support.command import Ran
from tests.support.owner_session import rows_apart
from tests.support.session import ANN

T = TypeVar("T")
_VOLATILE = (
    "v",
    "seq",
    "operation",
    "at",
    "plan",
    "moment",
    "document",
    "request",
    "asked_event",
    "payload_hash",
    "client_order_id",
    "venue_order_id",
)
_NOT_OURS = (  # entries of the tests have ids of zeros, which stay
    (re.compile(r"(?!00000000-)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\b\d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<host>"),
    (re.compile(r"\bplan [0-9a-f]{16}"), "plan <hash>"),
)
_NO_PLAN = "0" * 16
_LOOKING = ("approve", "resume")  # what hangs on more than the entries


@dataclass(frozen=True)
class Act:
    """What an operator asks for, in neither face's words. `plan` is a dry run."""

    verb: str
    ids: tuple[str, ...] = ()
    mode: Mode | None = None  # None: entries that are no orders, or a verb without one
    note: str | None = None
    reason: str = "test"
    overrides: tuple[str, ...] = ()
    actor: Actor = ANN


class Seen(NamedTuple):
    """What an act on the screens starts from: the plan somebody was told of, the halt in the frame."""

    plan: str
    halt: Halt | None


class Row(NamedTuple):
    dlq_id: str
    outcome: str
    mode: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Trace:
    code: int
    rows: tuple[Row, ...]
    events: tuple[Mapping[str, Any], ...]
    said: str = ""  # of an act that is about no entry

    @property
    def truth(self) -> tuple[int, Mapping[str, str], tuple[str, ...]]:
        """What a case says beforehand of both."""
        return self.code, {row.dlq_id: row.outcome for row in self.rows}, tuple(event["kind"] for event in self.events)


@dataclass(frozen=True)
class Case:
    """An act on a store; `before` happens to it first, on either side as commands. `ends` and `code` are the truth."""

    act: Act
    code: int
    ends: Mapping[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()  # of the audit events the act leaves
    before: tuple[Act, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)  # for whoever makes the two sides
    meanwhile: tuple[type, str, Callable[[Side], None]] | None = None  # happens as this method is called
    since: tuple[Act, ...] = ()  # by somebody else, after the screens looked at the store for the last time
    drift: str | None = None  # why the faces differ today

    @property
    def truth(self) -> tuple[int, Mapping[str, str], tuple[str, ...]]:
        return self.code, self.ends, self.kinds


@dataclass(frozen=True)
class Side:
    """A store of its own with a config of its own; what else is around it is the same on both sides."""

    folder: Path
    target: str
    store: Mapping[str, Any] = field(default_factory=dict)
    sections: str = ""  # of the config, besides the store's
    secrets: Mapping[str, str] = field(default_factory=dict)  # file name → what it holds

    def config(self) -> Path:
        secrets = self.folder / "secrets"
        secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, value in self.secrets.items():
            (secrets / name).write_text(value)
            (secrets / name).chmod(0o600)
        pairs = "\n".join(f"{name} = {json.dumps(value)}" for name, value in self.store.items())
        path = self.folder / "config.toml"
        head = f"credentials_dir = {json.dumps(str(secrets))}\n[stores.desk]\nurl = {json.dumps(self.target)}"
        path.write_text(f"{head}\n{pairs}\n{self.sections}\n")
        return path

    def context(self, actor: Actor) -> Context:
        path = str(self.config())
        return Context(build_parser().parse_args(["--db", "desk", "--config", path]), load_config(path, {}), actor)

    async def attach(self, actor: Actor = ANN) -> StoreSession:
        """As the screens do."""
        context = self.context(actor)
        return await attach(context, context.store_config)

    def look(self) -> Seen:
        async def look() -> Seen:
            place = await self.attach()
            try:
                return Seen(self.asked(), await place.store.halted())
            finally:
                await place.aclose()

        return apart(look())

    def events(self) -> list[dict[str, Any]]:
        """The audit as the database has it, past the console."""
        if isinstance(parse_target(self.target), SQLiteTarget):
            with closing(sqlite3.connect(self.target)) as connection:
                there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'console_audit'").fetchone()
                rows = connection.execute("SELECT body FROM console_audit ORDER BY seq").fetchall() if there else []
        else:
            rows = self._postgres_events()
        return [json.loads(row[0]) for row in rows]

    def _postgres_events(self) -> list[Any]:
        if rows_apart(self.target, "SELECT to_regclass('dlq_console.audit')") == [(None,)]:
            return []
        return rows_apart(self.target, "SELECT body FROM dlq_console.audit ORDER BY seq")

    def asked(self) -> str:
        """The plan that was put up last."""
        plans = [event["plan"] for event in self.events() if event["kind"] == "ask-approval"]
        return str(plans[-1]) if plans else _NO_PLAN


Face = Callable[[Side, Act, Seen, pytest.MonkeyPatch], Trace]


def params(table: Mapping[str, Case]) -> list[Any]:
    """For `parametrize`; where the faces differ today the test says so, and complains once they no longer do."""
    marks = {name: [pytest.mark.xfail(strict=True, reason=case.drift)] for name, case in table.items() if case.drift}
    return [pytest.param(case, id=name, marks=marks.get(name, [])) for name, case in table.items()]


def traces(case: Case, command: Side, session: Side, monkeypatch: pytest.MonkeyPatch) -> tuple[Trace, Trace]:
    """What the same act leaves on either side."""
    _own_environment(monkeypatch)
    return _trace(case, command, by_command, monkeypatch), _trace(case, session, by_session, monkeypatch)


def _trace(case: Case, side: Side, face: Face, monkeypatch: pytest.MonkeyPatch) -> Trace:
    for act in case.before:
        _ran(side, act, monkeypatch)
    seen = side.look() if case.act.verb in _LOOKING else Seen("", None)
    for act in case.since:
        _ran(side, act, monkeypatch)
    earlier = len(side.events())
    with monkeypatch.context() as patch:
        _interrupt(case, side, patch)
        left = face(side, case.act, seen, patch)
    return replace(left, events=tuple(_steady(event) for event in side.events()[earlier:]))


def apart(work: Coroutine[Any, Any, T]) -> T:
    """On a loop of its own, whether or not the caller is on one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DLQ_DB", "DLQ_CONFIG", "CREDENTIALS_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)


def _interrupt(case: Case, side: Side, patch: pytest.MonkeyPatch) -> None:
    if case.meanwhile is None:
        return
    owner, name, change = case.meanwhile
    real = getattr(owner, name)

    async def interrupted(*args: Any, **named: Any) -> Any:
        change(side)
        return await real(*args, **named)

    patch.setattr(owner, name, interrupted)


def _steady(event: Mapping[str, Any]) -> Mapping[str, Any]:
    kept: Mapping[str, Any] = json.loads(_scrubbed(json.dumps(event)))
    return {name: value for name, value in kept.items() if name not in _VOLATILE}


def _scrubbed(text: str) -> str:
    for pattern, word in _NOT_OURS:
        text = pattern.sub(word, text)
    return text


# As a command.


def by_command(side: Side, act: Act, _: Seen, monkeypatch: pytest.MonkeyPatch) -> Trace:
    ran = _ran(side, act, monkeypatch)
    if act.verb in ("approve", "halt", "resume"):
        return Trace(ran.code, (), (), ran.out.partition(": ")[2].strip() if act.verb == "approve" else "")
    rows = [Row(row["dlq_id"], row["outcome"], row.get("mode"), row["detail"]) for row in ran.rows]
    return Trace(ran.code, _compared(act, rows), ())


def _ran(side: Side, act: Act, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """The second person is another one to the system: no word of the command line says who it is."""
    with monkeypatch.context() as patch:
        patch.setattr(main, "current_actor", lambda _: act.actor)
        out, err = io.StringIO(), io.StringIO()
        words = [*_words(act, side), "--db", "desk", "--config", str(side.config())]
        patch.setattr(sys, "stdin", io.StringIO())  # nobody types anything
        patch.setenv("XDG_STATE_HOME", str(side.folder / "state"))
        with redirect_stdout(out), redirect_stderr(err):
            code = main.run(words)
    return Ran(code, out.getvalue(), err.getvalue())


def _words(act: Act, side: Side) -> list[str]:
    note = ["--note", act.note] if act.note else []
    mode = [f"--{act.mode}"] if act.mode else []
    match act.verb:
        case "approve":
            return ["approve", side.asked(), "--yes"]
        case "halt" | "resume":
            return [act.verb, *note]
        case "dismiss":
            return ["dismiss", *act.ids, "--reason", act.reason, *note, "--json"]
        case "restore":
            return ["restore", *act.ids, *note, "--json"]
        case "reconcile":
            return ["reconcile", *act.ids, *mode, "--json"]
        case "settle":
            return ["settle", *act.ids, *mode, "--as", act.reason, *note, "--yes", "--json"]
        case "plan":
            return ["replay", *act.ids, *mode, *_overrides(act), *note, "--dry-run", "--json"]
        case _:
            sure = ["--yes", "--expect", str(len(act.ids))]
            return ["replay", *act.ids, *mode, *_overrides(act), *note, *sure, "--json"]


def _overrides(act: Act) -> list[str]:
    return ["--override", ",".join(act.overrides)] if act.overrides else []


# Through the session.


def by_session(side: Side, act: Act, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> Trace:
    monkeypatch.setenv("XDG_STATE_HOME", str(side.folder / "state"))

    async def act_on() -> Trace:
        place = await side.attach(act.actor)
        try:
            return await _acted(place, act, seen)
        finally:
            await place.aclose()

    return asyncio.run(act_on())


async def _acted(place: StoreSession, act: Act, seen: Seen) -> Trace:
    match act.verb:
        case "approve":
            return await _approved(place, seen.plan)
        case "halt":
            await place.triage.halt(act.note or "")
            return Trace(0, (), ())
        case "resume":
            return Trace(0 if (await place.resume(act.note or "")).outcome == "resumed" else 4, (), ())
        case "dismiss":
            return await _dismissed(place, act)
        case "restore":
            found, _ = await place.triage.chosen(act.ids)
            back, left = await place.triage.restorable([found[entry_id] for entry_id in act.ids])
            traced = _flipped(act, "restored", await place.triage.restore(Selection.of(back), note=act.note))
            rows = (*traced.rows, *(Row(entry_id, "left") for entry_id, _ in left))
            return replace(traced, code=4 if left else traced.code, rows=tuple(sorted(rows)))
        case "reconcile":
            return await _reconciled(place, act)
        case "settle":
            return await _settled(place, act)
        case _:
            return await _replayed(place, act)


async def _dismissed(place: StoreSession, act: Act) -> Trace:
    found, _ = await place.triage.chosen(act.ids)
    chosen = [Chosen(one.id, one.version, one.state) for one in (found[entry_id] for entry_id in act.ids)]
    report = await place.dismiss(chosen, reason=act.reason, note=act.note)
    left = [(held, "refused") for held in report.held] + [(one.id, "skipped") for one in report.settled]
    traced = _flipped(act, "dismissed", report.done)
    rows = (*traced.rows, *_compared(act, [Row(entry_id, word) for entry_id, word in left]))
    return Trace(4 if left else traced.code, tuple(sorted(rows, key=lambda row: row.dlq_id)), ())


async def _selected(place: StoreSession, act: Act) -> Selection:
    found, _ = await place.triage.chosen(act.ids)
    return Selection.of([found[entry_id] for entry_id in act.ids])


async def _approved(place: StoreSession, plan: str) -> Trace:
    asked = await place.asked(plan)
    if asked is None:
        return Trace(2, (), ())  # a plan nobody knows is a wrong word on the command line
    return Trace(0, (), (), asked.summary) if await place.approve(plan) == "approved" else Trace(4, (), ())


def _flipped(act: Act, word: str, done: Done) -> Trace:
    rows = [Row(entry_id, word) for entry_id in done.done]
    rows += [Row(entry_id, "skipped", None, f"changed meanwhile: {now}") for entry_id, now in done.changed]
    return Trace(4 if done.changed else 0, _compared(act, rows), ())


async def _replayed(place: StoreSession, act: Act) -> Trace:
    request = ReplayRequest(mode=act.mode or "live", overrides=frozenset(act.overrides), single=len(act.ids) == 1)
    plan = await place.plan(await _selected(place, act), request)
    if act.verb == "plan":
        return _traced(act, plan.planned(), dry_run=True)
    if plan.count and not await place.is_approved(plan):
        # The gate stays open until the second person has agreed; a command ends, and says of each why it stays.
        return _traced(act, plan.refused(f"needs a second person: {plan.needs_second}; {place.way_out}"))
    return _traced(act, await _run(place.replay_work(plan, act.note)))


async def _reconciled(place: StoreSession, act: Act) -> Trace:
    ended = await _run(place.reconcile_work(act.ids))
    # The screens ask in both modes at once: what is in doubt in neither has none; a command names the one it asked in.
    return _traced(act, [replace(one, mode=act.mode) if one.detail == "not in doubt" else one for one in ended])


async def _settled(place: StoreSession, act: Act) -> Trace:
    claimed: Claimed = "accepted" if act.reason == "accepted" else "absent"
    report = await place.settle(SettleRequest(act.ids[0], claimed, act.note or "", None, act.mode))
    return replace(_traced(act, [report.ended]), code=0 if report.is_done else 4)


async def _run(work: Work) -> tuple[EntryOutcome, ...]:
    """As a screen has it run; what it is told while it runs is what it ends with."""
    batch = BackgroundRun(work).start()
    results = await asyncio.to_thread(batch.join)
    told = []
    while (ended := batch.handle.events.get_nowait()) is not None:
        told.append(ended)
    assert sorted(told, key=repr) == sorted(results, key=repr)
    return results


def _traced(act: Act, ended: Sequence[EntryOutcome], *, dry_run: bool = False) -> Trace:
    rows = [Row(one.entry_id, one.outcome, one.mode, one.detail) for one in ended]
    return Trace(exit_code(ended, dry_run=dry_run), _compared(act, rows), ())


def _compared(act: Act, rows: Sequence[Row]) -> tuple[Row, ...]:
    """In the order of ids, without what differs from run to run."""
    named = [row._replace(detail=None if row.detail is None else _scrubbed(row.detail)) for row in rows]
    if act.verb in ("dismiss", "restore"):
        named = [_left_out(row) for row in named]
    return tuple(sorted(named, key=lambda row: row.dlq_id))


def _left_out(row: Row) -> Row:
    """An entry that is no longer to be dismissed, or not dismissed at all, stays as it is.

    A command looks before it acts and has its own word for each such state; the store's word of the session is the
    state alone. What counts is that it was left alone, and which.
    """
    return row if row.outcome in ("dismissed", "restored") else Row(row.dlq_id, "left")
