"""Textual's driver for a terminal that already shows the first frame.

Does not enter the alternate screen again, which would clear it, and restores the settings from before the frame.
"""

from __future__ import annotations

from typing import ClassVar

from textual.drivers.linux_driver import LinuxDriver

from console.terminal.first_frame import ENTER, Settings


class ContinuingDriver(LinuxDriver):
    before: ClassVar[Settings | None] = None
    _has_entered = False

    def start_application_mode(self) -> None:
        super().start_application_mode()  # type: ignore[no-untyped-call]  # of Textual
        if self.before is not None:
            self.attrs_before = self.before

    def write(self, data: str) -> None:
        if data == ENTER and not self._has_entered:
            self._has_entered = True
            return
        super().write(data)
