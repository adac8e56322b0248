"""The screen of the audit trail: the last events of the store and the check of their chain. Changes nothing."""

from __future__ import annotations

from collections import deque

from backends.records import AuditEvent
from console.render.event import event_lines
from console.render.line import Line, line, trusted, untrusted
from console.screens.frame import ReadingScreen

_SHOWN = 2000


class AuditScreen(ReadingScreen):
    key_context = "audit"
    FOOTER = ("back", "verify", "export", "down", "up")

    def __init__(self) -> None:
        super().__init__()
        self._events: deque[AuditEvent] | None = None
        self._verified: list[Line] = []
        self._width = 0

    def on_mount(self) -> None:
        super().on_mount()
        self.head.show(line(trusted("Audit trail", "strong"), trusted("   v checks the whole chain", "dim")))
        self.start(self._read, group="audit", exclusive=True)

    async def _read(self) -> None:
        session = self.console.session
        if session is None:
            return
        last: deque[AuditEvent] = deque(maxlen=_SHOWN)
        async for events in session.store.audit():
            last.extend(events)
        self._events = last
        self._show()

    def header_changed(self) -> None:
        super().header_changed()
        if self.text.size.width != self._width:
            self._show()

    def _show(self) -> None:
        if self._events is None:
            return
        self._width = self.text.size.width
        lines = event_lines(reversed(self._events), self._width, layout=self.console.header_state.layout)
        self.text.put([*self._verified, *(lines or [line(trusted("nothing was ever done here", "dim"))])])

    def do_verify(self) -> None:
        self.head.show(line(trusted("checking …", "accent")))
        self.start(self._verify, group="verify", exclusive=True)

    async def _verify(self) -> None:
        session = self.console.session
        if session is None:
            return
        seen = await session.verify()
        if seen.problem is not None:
            self.head.show(line(trusted("BROKEN  ", "danger"), untrusted(seen.problem, "danger", limit=200)))
            return
        self.head.show(line(trusted(f"the chain holds: {seen.events:,} events", "good")))
        kept = "Keep this head elsewhere: with it a later check also finds truncation and rewriting."
        self._verified = [line(trusted(seen.head, "strong")), line(trusted(kept, "dim")), ()]
        self._show()

    def do_export(self) -> None:
        self.start(self.console.export_audit, group="export", exclusive=True)
