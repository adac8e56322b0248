"""Screens from which entries are acted on: what is chosen there, and which module does what. Decides nothing.

What acts is loaded when it is asked for: a console that only looks never loads what can send.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from backends.records import Entry, Selection, State, Version
from console.render.line import Line, line, trusted, untrusted
from console.render.value import order
from console.screens.frame import FramedScreen

if TYPE_CHECKING:
    from console.render.entry import Shown
    from console.services.session import StoreSession

HELD = ("in_doubt", "in_flight")
SAMPLE = 5


class Pick(NamedTuple):
    """A chosen entry, as it was seen."""

    version: Version
    state: State


Picks = Mapping[str, Pick]


class ActingScreen(FramedScreen):
    def picks(self) -> Picks:
        """What an act is about: the marked entries, else the one under the cursor."""
        raise NotImplementedError

    def current(self) -> Shown | None:
        """The entry at hand, as far as it is known."""
        raise NotImplementedError

    def known(self, entry_id: str) -> Entry | None:
        """The entry, where this screen has it at hand."""
        raise NotImplementedError

    def acted(self) -> None:
        """Something was done to entries: read once, and let go of the marks."""
        raise NotImplementedError

    def about(self) -> list[Line]:
        """What a gate says of the chosen entries before it names some of them."""
        return []

    def attached_session(self) -> StoreSession | None:
        if self.console.session is None:
            self.warn("still attaching to the store: one moment")
        return self.console.session

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
        from console.screens.replay_actions import reconcile

        reconcile(self)

    def do_halt(self) -> None:
        from console.screens.replay_actions import halt

        halt(self)

    def do_mode(self) -> None:
        from console.screens.replay_actions import mode

        mode(self)

    def do_approve(self) -> None:
        from console.screens.replay_actions import approve

        approve(self)

    def do_copy(self) -> None:
        from console.screens.external_tools import copy

        copy(self)

    def do_pager(self) -> None:
        from console.screens.external_tools import pager

        pager(self)

    def do_editor(self) -> None:
        from console.screens.external_tools import editor

        editor(self)

    def do_stop(self) -> None:
        self.show_notice(line(trusted(self.console.activity.stop(), "warning")))

    def do_audit(self) -> None:
        from console.screens.audit import AuditScreen

        if self.attached_session() is not None:
            self.app.push_screen(AuditScreen())


def sample(screen: ActingScreen, ids: Sequence[str], *, most: int = SAMPLE) -> list[Line]:
    """The first few of what is about to be done, in as many lines whatever else is said of them."""
    lines = screen.about()
    shown = max(1, most - len(lines))
    for entry_id in ids[:shown]:
        entry = screen.known(entry_id)
        what = trusted(order(entry), "strong") if entry else trusted("")
        lines.append(line(untrusted(f" {entry_id}  ", limit=60), what))
    if len(ids) > shown:
        lines.append(line(trusted(f" … and {len(ids) - shown:,} more", "dim")))
    return lines


def selection_of(picks: Picks) -> Selection:
    return Selection(tuple((entry_id, pick.version) for entry_id, pick in picks.items()))
