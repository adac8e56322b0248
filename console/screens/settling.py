"""Keys that settle entries without a venue: dismiss, undo, restore, note. Each opens its gate first, but undo.

Shared by the queue and the entry screen, which say what is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backends.records import Entry, Selection, State, Version
from console.render.line import Line, line, own, said
from console.render.value import many, order
from console.screens.gate_dismiss import Dismissal, DismissGate
from console.screens.gate_word import WordGate, a_note, exactly
from console.screens.handing import HandingScreen
from console.services.triage import Done
from console.services.workplace import Workplace

HELD = ("in_doubt", "in_flight")
SAMPLE = 5


@dataclass(frozen=True, slots=True)
class Pick:
    """A chosen entry, as it was seen."""

    version: Version
    state: State


Picks = Mapping[str, Pick]


class SettlingScreen(HandingScreen):
    def picks(self) -> Picks:
        """What an act is about: the marked entries, else the one under the cursor."""
        raise NotImplementedError

    def known(self, entry_id: str) -> Entry | None:
        """The entry, where this screen has it at hand."""
        raise NotImplementedError

    def acted(self) -> None:
        """Something was done to entries: read once, and let go of the marks."""
        raise NotImplementedError

    def workplace(self) -> Workplace | None:
        if self.console.place is None:
            self.complain("still attaching to the store: one moment")
        return self.console.place

    def _sample(self, ids: Sequence[str]) -> list[Line]:
        lines: list[Line] = []
        for entry_id in ids[:SAMPLE]:
            entry = self.known(entry_id)
            what = own(order(entry), "strong") if entry else own("")
            lines.append(line(said(f" {entry_id}  ", limit=60), what))
        if len(ids) > SAMPLE:
            lines.append(line(own(f" … and {len(ids) - SAMPLE:,} more", "dim")))
        return lines

    def do_dismiss(self) -> None:
        place, picks = self.workplace(), self.picks()
        if place is None or not picks:
            return
        held = [entry_id for entry_id, pick in picks.items() if pick.state in HELD]
        settled = [entry_id for entry_id, pick in picks.items() if pick.state in ("dismissed", "replayed")]
        free = {entry_id: pick for entry_id, pick in picks.items() if pick.state == "pending"}
        if not free:
            what = "in doubt: reconcile (C) first, dismissing would lose it" if held else "it is settled already"
            self.complain(what)
            return
        sample = self._sample(list(free))
        if held:
            sample.append(line(own(f" left out: {many(len(held), 'entry')} in doubt or in flight", "warning")))
        if settled:
            sample.append(line(own(f" left out: {many(len(settled), 'entry')} settled already", "dim")))
        live = self.console.standing.mode == "live"
        gate = DismissGate(len(free), self.console.setup.config.reasons, sample=sample, live=live)

        def answered(answer: Dismissal | None) -> None:
            if answer is not None:
                self.start(lambda: self._dismiss(place, selection_of(free), answer), group="act", exclusive=False)

        self.app.push_screen(gate, answered)

    async def _dismiss(self, place: Workplace, selection: Selection, answer: Dismissal) -> None:
        with self.console.activity.acting() as act:

            def progress(done: int, total: int) -> None:
                if total > 1000:
                    self.tell(line(own(f"dismissing {done:,} of {total:,}; ! stops", "accent")))

            report = await place.triage.dismiss(
                selection, reason=answer.reason, note=answer.note, progress=progress, stop=act.is_stopped
            )
        self._report("dismissed", report, hint="z takes it back")

    def _report(self, word: str, report: Done, *, hint: str = "") -> None:
        self.acted()
        parts = [own(f"{len(report.done):,} {word}", "good")]
        if report.changed:
            parts.append(own(f", {len(report.changed):,} had changed and were left alone", "warning"))
        if report.stopped:
            parts.append(own(", stopped before the rest", "warning"))
        self.tell(line(*parts, own(f"   {hint}" if report.done and hint else "", "dim")))

    def do_undo(self) -> None:
        place = self.workplace()
        if place is not None:
            self.start(lambda: self._undo(place), group="act", exclusive=False)

    async def _undo(self, place: Workplace) -> None:
        with self.console.activity.acting():
            report = await place.triage.undo()
        if report is None:
            self.complain("nothing to undo: this console has dismissed nothing since it was opened or last undone")
        else:
            self._report("brought back", report)

    def do_restore(self) -> None:
        place = self.workplace()
        chosen = {entry_id: pick for entry_id, pick in self.picks().items() if pick.state == "dismissed"}
        if place is None:
            return
        if not chosen:
            self.complain("only a dismissed entry can be restored: the filter state:dismissed shows them")
            return
        lines = [*self._sample(list(chosen)), (), line(own("They are pending again; nothing is sent.", "dim"))]
        title = line(own(f"Restore {many(len(chosen), 'entry')}"))
        gate = WordGate(title, lines, ask=f"type {len(chosen)} to restore", judge=exactly(str(len(chosen))))

        async def restore() -> None:
            with self.console.activity.acting():
                report = await place.triage.restore(selection_of(chosen))
            self._report("restored", report)

        def answered(answer: str | None) -> None:
            if answer is not None:
                self.start(restore, group="act", exclusive=False)

        self.app.push_screen(gate, answered)

    def do_note(self) -> None:
        place, picks = self.workplace(), self.picks()
        if place is None or not picks:
            return
        ids = list(picks)
        gate = WordGate(line(own(f"Note on {many(len(ids), 'entry')}")), self._sample(ids), ask="note", judge=a_note)

        async def write(text: str) -> None:
            for entry_id in ids:
                await place.triage.note(entry_id, text)
            self.acted()
            self.tell(line(own("noted", "good")))

        def answered(answer: str | None) -> None:
            if answer is not None:
                self.start(lambda: write(answer), group="act", exclusive=False)

        if len(ids) > 100:
            self.complain("a note goes on 100 entries at most")
        else:
            self.app.push_screen(gate, answered)

    def do_audit(self) -> None:
        from console.screens.audit import AuditScreen

        if self.workplace() is not None:
            self.app.push_screen(AuditScreen())


def selection_of(picks: Picks) -> Selection:
    return Selection(tuple((entry_id, pick.version) for entry_id, pick in picks.items()))
