"""How many entries a bulk act takes in one transaction, and how long it leaves the store to others in between. Pure."""

from __future__ import annotations

_FIRST, _LEAST, _MOST = 100, 50, 5000  # entries in a transaction; in the first, nobody knows yet who else writes
_LONGEST_SECONDS = 0.020  # that a transaction may hold the write lock
_LONGEST_BESIDE = 0.008  # the same once somebody else wrote: an engine that comes meanwhile waits as long
_BUSY_SHARE = 0.6  # of the time, once somebody else wrote
_GAP_SECONDS = 0.002  # at least between two transactions: a sink that waits for the file asks every millisecond


class Pace:
    """Of one act. Once somebody else was seen to write, the rest of the act goes in smaller steps."""

    def __init__(self) -> None:
        self.size = _FIRST
        self._beside = False

    def next(self, took: float, *, contended: bool) -> None:
        self._beside = self._beside or contended
        longest = _LONGEST_BESIDE if self._beside else _LONGEST_SECONDS
        if took > longest:
            self.size = max(_LEAST, self.size // 2)
        elif took < longest / 2:
            self.size = min(_MOST, self.size * 2)

    def pause_after(self, took: float) -> float:
        """Seconds; also while nobody else was seen, since who waits for the file cannot be seen."""
        return max(_GAP_SECONDS, took * (1 - _BUSY_SHARE) / _BUSY_SHARE if self._beside else 0.0)
