"""Replays, reconciles and asks for entries of an account desk: as a command, or through the session of the screens."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Literal, NamedTuple

import keyring
import pytest

from backends.records import Selection
from console.cli import main as command_line
from console.services.replay.background_run import BackgroundRun, Work
from console.services.replay.outcome import EntryOutcome
from console.services.replay.preflight import ReplayRequest
from console.services.session import Mode, StoreSession
from tests.support.account_desk import AccountDesk
from tests.support.keyrings import FileKeyring
from tests.support.session import ANN

Face = Literal["session", "command"]


class Told(NamedTuple):
    """What was told of one entry: an outcome, or a venue's answer."""

    entry_id: str
    word: str
    detail: str


@dataclass(frozen=True)
class Act:
    verb: Literal["replay", "reconcile", "ask"]
    ids: tuple[str, ...]
    mode: Mode
    venue: str | None = None  # where it is sent instead
    between: Callable[[], None] | None = None  # happens after the plan and before the send


@contextmanager
def own_secrets(desk: AccountDesk) -> Iterator[None]:
    """This desk's keyring, and nothing of the machine's own."""
    before = keyring.get_keyring()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DLQ_DB", "DLQ_CONFIG", "CREDENTIALS_DIRECTORY"):
            patch.delenv(name, raising=False)
        patch.setenv("DLQ_TEST_VAULT", str(desk.vault))
        patch.setattr(command_line, "current_actor", lambda _: ANN)
        patch.setattr(sys, "stdin", io.StringIO())
        keyring.set_keyring(FileKeyring())  # type: ignore[no-untyped-call]  # of keyring's own base class
        try:
            yield
        finally:
            keyring.set_keyring(before)


def act_on(desk: AccountDesk, act: Act, face: Face) -> dict[str, Told]:
    told = _by_command(desk, act) if face == "command" else asyncio.run(_by_session(desk, act))
    assert len({one.entry_id for one in told}) == len(told) == len(act.ids), told
    return {one.entry_id: one for one in told}


def _by_command(desk: AccountDesk, act: Act) -> list[Told]:
    assert act.between is None, "a command cannot be interrupted from here"
    words = [act.verb, *act.ids, f"--{act.mode}", "--json"]
    if act.verb == "replay":
        words += ["--yes", "--expect", str(len(act.ids)), *(["--venue", act.venue] if act.venue else [])]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        command_line.run([*words, "--db", "desk", "--config", str(desk.folder / "config.toml")])
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    word = "answer" if act.verb == "ask" else "outcome"
    return [Told(row["dlq_id"], row[word], row["detail"] or "") for row in rows]


async def _by_session(desk: AccountDesk, act: Act) -> list[Told]:
    place = await desk.side.attach(ANN)
    try:
        match act.verb:
            case "ask":
                answers = await place.ask(act.ids, act.mode)
                return [Told(one.entry_id, one.answer, one.detail or "") for one in answers]
            case "reconcile":
                return _told(await _run(place.reconcile_work(act.ids, (act.mode,))))
            case _:
                return _told(await _replayed(place, act))
    finally:
        await place.aclose()


async def _replayed(place: StoreSession, act: Act) -> tuple[EntryOutcome, ...]:
    found, _ = await place.triage.chosen(act.ids)
    request = ReplayRequest(act.mode, venue=act.venue, single=len(act.ids) == 1)
    plan = await place.plan(Selection.of([found[one] for one in act.ids]), request)
    assert not plan.count or await place.is_approved(plan)
    if act.between is not None:
        act.between()
    return await _run(place.replay_work(plan, None))


async def _run(work: Work) -> tuple[EntryOutcome, ...]:
    return await asyncio.to_thread(BackgroundRun(work).start().join)


def _told(ended: Sequence[EntryOutcome]) -> list[Told]:
    return [Told(one.entry_id, one.outcome, one.detail or "") for one in ended]
