"""Screens with entries to act on: which are chosen, and which acts fit them.

Imports the modules that act only when a key asks for them, so that a console that only reads never loads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from backends.records import Entry, Selection, State, Version
from console.render.entry import Shown
from console.render.line import Line, line, plain, trusted, untrusted
from console.render.value import order
from console.screens.frame import FramedScreen
from console.services.layout_fields import layout_of

if TYPE_CHECKING:
    from console.services.replay.background_run import Kind, RunProgress, RunScope, Work
    from console.services.session import StoreSession


HELD = ("in_doubt", "in_flight")
_ACTS: Mapping[State, tuple[str, ...]] = {
    "pending": ("replay", "dismiss", "reconcile"),
    "in_doubt": ("reconcile", "settle"),
    "in_flight": ("reconcile", "settle"),
    "dismissed": ("restore", "reconcile"),
    "replayed": ("reconcile",),
}
SAMPLE = 5


class Pick(NamedTuple):
    """A chosen entry in the version the operator saw."""

    version: Version
    state: State


Picks = Mapping[str, Pick]


class ActingScreen(FramedScreen):
    def picks(self) -> Picks:
        """The entries to act on: the marked ones, else the one under the cursor."""
        raise NotImplementedError

    def current(self) -> Shown | None:
        """The entry under the cursor, as far as it has been read."""
        raise NotImplementedError

    def known(self, entry_id: str) -> Entry | None:
        """The entry, where this screen has read it."""
        raise NotImplementedError

    def acted(self) -> None:
        """Read again and drop the marks after something was done to entries."""
        raise NotImplementedError

    def about(self) -> list[Line]:
        """Lines that a gate shows above the chosen entries."""
        return []

    def origin(self) -> str:
        """By what the chosen entries were chosen: a group, or the queue's filter."""
        return (
            " ".join(filter(None, (" ".join(plain(cells).split()) for cells in self.about())))
            or self.console.queue.loader.text
        )

    def queue_asks(self, plan: str, what: str, then: str) -> None:
        """Tell here when somebody approves what this console asked for; `then`: what to do about it."""
        self.console.queue.people.asked(plan, f"{what} approved", then)

    def attached_session(self) -> StoreSession | None:
        if self.console.session is None:
            self.warn("still attaching to the store: one moment")
        return self.console.session

    def is_busy(self) -> bool:
        """Whether a batch runs; the operator is told so."""
        if self.console.activity.has_batch:
            name = self.console.name_of_key
            self.warn(f"a batch is running: {name('batch')} shows it, {name('stop')} stops it")
        return self.console.activity.has_batch

    def do_dismiss(self) -> None:
        from console.screens.triage_actions import dismiss

        dismiss(self)

    def do_undo(self) -> None:
        from console.screens.triage_actions import undo

        undo(self)

    def do_restore(self) -> None:
        from console.screens.triage_actions import restore

        restore(self)

    def do_note(self) -> None:
        from console.screens.triage_actions import note

        note(self)

    def do_replay(self) -> None:
        from console.screens.replay_actions import replay

        replay(self)

    def do_reconcile(self) -> None:
        from console.screens.evidence.actions import ask

        ask(self)

    def do_settle(self) -> None:
        from console.screens.evidence.actions import settle

        settle(self)

    def do_halt(self) -> None:
        from console.screens.replay_actions import halt

        halt(self)

    def do_mode(self) -> None:
        from console.screens.replay_actions import mode

        mode(self)

    def do_approve(self) -> None:
        from console.screens.people.approvals import ApprovalsScreen

        if self.attached_session() is not None:
            opened = ApprovalsScreen()
            self.app.push_screen(opened)
            opened.ignore_keys("*")  # keys typed ahead are meant for nothing that is there

    def do_copy(self) -> None:
        from console.screens.external_tools import copy

        copy(self)

    def do_copy_json(self) -> None:
        from console.screens.external_tools import copy_json

        copy_json(self)

    def do_pager(self) -> None:
        from console.screens.external_tools import pager

        pager(self)

    def do_editor(self) -> None:
        from console.screens.external_tools import editor

        editor(self)

    def do_stop(self) -> None:
        self.show_notice(line(trusted(self.console.activity.stop(), "warning")))

    def do_audit(self) -> None:
        from console.screens.audit.screen import AuditScreen

        if self.attached_session() is not None:
            self.app.push_screen(AuditScreen())


def acts_on(entry: Entry, shown: Shown | None) -> tuple[str, ...]:
    """Ids of the keys that do something with this entry, the most useful first."""
    attempts = shown.history.attempts if shown is not None and shown.history is not None else ()
    accepted = {one.mode for one in attempts if one.outcome == "accepted" and not one.rehearsal}
    acts = _ACTS[entry.state]
    if entry.state == "replayed" and accepted == {"paper"}:
        acts = ("restore", *acts)
    if entry.state not in HELD and not layout_of(entry).has_modes:
        acts = tuple(one for one in acts if one != "reconcile")  # there is no venue to ask
    return acts


def sample(screen: ActingScreen, ids: Sequence[str], *, most: int = SAMPLE) -> list[Line]:
    """The first few chosen entries; always `most` lines at most, including those of `about`."""
    lines = screen.about()
    shown = max(1, most - len(lines))
    shown += len(ids) == shown + 1  # the line that would say "and 1 more" has room for it
    for entry_id in ids[:shown]:
        entry = screen.known(entry_id)
        what = trusted(order(entry), "strong") if entry else trusted("")
        lines.append(line(untrusted(f" {entry_id}  ", limit=60), what))
    if len(ids) > shown:
        lines.append(line(trusted(f" … and {len(ids) - shown:,} more", "dim")))
    return lines


def new_run(kind: Kind, mode: str, total: int, work: Work, scope: RunScope | None = None) -> RunProgress:
    # Imported here: a console that only looks never loads what can send.
    from console.services.replay.background_run import BackgroundRun, RunProgress, RunScope

    return RunProgress(kind, mode, total, BackgroundRun(work), scope=scope or RunScope())


def selection_of(picks: Picks) -> Selection:
    return Selection(tuple((entry_id, pick.version) for entry_id, pick in picks.items()))
