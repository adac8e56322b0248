"""The audit trail: the last events of the whole store, and whether the chain holds."""

from __future__ import annotations

from collections import deque

from backends.records import AuditEvent
from console.render.event import event_line
from console.render.line import Line, line, own, said
from console.screens.reading import ReadingScreen

_SHOWN = 2000


class AuditScreen(ReadingScreen):
    place = "audit"
    FOOTER = ("back", "verify", "export", "down", "up")

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Line] = []

    def on_mount(self) -> None:
        super().on_mount()
        self.head.show(line(own("Audit trail", "strong"), own("   v checks the whole chain", "dim")))
        self.start(self._read, group="audit", exclusive=True)

    async def _read(self) -> None:
        place = self.console.place
        if place is None:
            return
        last: deque[AuditEvent] = deque(maxlen=_SHOWN)
        async for events in place.store.audit():
            last.extend(events)
        lines: list[Line] = [event_line(event) for event in reversed(last)]
        self._lines = lines or [line(own("nothing was ever done here", "dim"))]
        self.text.put(self._lines)

    def do_verify(self) -> None:
        self.head.show(line(own("checking …", "accent")))
        self.start(self._verify, group="verify", exclusive=True)

    async def _verify(self) -> None:
        place = self.console.place
        if place is None:
            return
        seen = await place.verify()
        if seen.problem is not None:
            self.head.show(line(own("BROKEN  ", "danger"), said(seen.problem, "danger", limit=200)))
            return
        self.head.show(line(own(f"the chain holds: {seen.events:,} events", "good")))
        kept = "Keep this head elsewhere: with it a later check also finds truncation and rewriting."
        self.text.put([line(own(seen.head, "strong")), line(own(kept, "dim")), (), *self._lines])

    def do_export(self) -> None:
        self.start(self.console.export_audit, group="export", exclusive=True)
