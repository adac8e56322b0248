"""Rings the terminal's bell and sets its title when an entry comes to be in doubt. Knows neither store nor screen."""

from __future__ import annotations

from collections.abc import Callable

from console.text.untrusted import safe

_KEEP_TITLE, _GIVE_TITLE_BACK = "\x1b[22;2t", "\x1b[23;2t"  # on the terminal's own stack of titles
_BELL = "\x07"


class InDoubtAlarm:
    def __init__(self, write: Callable[[str], None], *, wanted: bool) -> None:
        self._write = write
        self._wanted = wanted
        self._seen: tuple[str, int] | None = None  # the store and how many are in doubt there

    def told(self, store: str, count: int) -> None:
        """So many are in doubt now. What a store holds when it is attached is no news: its frame tells it."""
        before = self._seen
        if not self._wanted or before == (store, count):
            return
        self._seen = store, count
        if before is None:
            self._write(_KEEP_TITLE)
        words = f"{count} in doubt · " if count else ""
        self._write(f"\x1b]2;{words}dlq {safe(store, 60)}\x07")
        if before is not None and before[0] == store and count > before[1]:
            self._write(_BELL)

    def end(self) -> None:
        if self._seen is not None:
            self._write(_GIVE_TITLE_BACK)
