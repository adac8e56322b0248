"""How many entries a bulk act takes in one transaction, and how long it leaves the store to others in between. Pure."""

from __future__ import annotations

_LEAST, _MOST = 50, 5000  # entries in a transaction
_FIRST = 100  # in the first, when nobody knows yet who else writes
_LONGEST_SECONDS = 0.020  # that a transaction may hold the write lock
_LONGEST_BESIDE = 0.010  # the same once somebody else wrote: an engine that comes meanwhile waits as long
_AIM = 0.8  # of the longest, while nobody else writes: each transaction costs a sync
_BUSY_SHARE = 0.6  # of the time, once somebody else wrote
_GAP_SECONDS = 0.002  # at least between two transactions: a sink that waits for the file asks every millisecond
# Where only the rows themselves are locked, no engine waits for them; but its server works for one as for the other.
_FIRST_OF_ROWS, _LONGEST_OF_ROWS, _LONGEST_OF_ROWS_BESIDE = 100, 0.050, 0.006


class BulkPace:
    """Of one act. Once somebody else was seen to write, the rest of the act goes in smaller steps.

    `holds_all`: a transaction keeps every other writer out of the store, as on SQLite.
    """

    def __init__(self, *, holds_all: bool) -> None:
        self.size = _FIRST if holds_all else _FIRST_OF_ROWS
        self._holds_all = holds_all
        self._beside = False

    def next(self, took: float, *, contended: bool) -> None:
        self._beside = self._beside or contended
        if took > self._longest:
            self.size = max(_LEAST, self.size // 2)
        elif self._holds_all and not self._beside:
            self.size = min(_MOST, max(self.size, int(self.size * min(2.0, _AIM * self._longest / max(took, 1e-6)))))
        elif took < self._longest / 2:
            self.size = min(_MOST, self.size * 2)

    def pause_after(self, took: float, idle: float = 0.0) -> float:
        """Seconds; also while nobody else was seen, since who waits for the file cannot be seen.

        `idle`: for how long an act leaves the store to others before and after its transaction.
        """
        gap = _GAP_SECONDS if self._holds_all else 0.0
        if not self._beside:
            return max(gap / 2, gap - idle)
        return max(took * (1 - _BUSY_SHARE) / _BUSY_SHARE, gap)

    @property
    def _longest(self) -> float:
        if not self._holds_all:
            return _LONGEST_OF_ROWS_BESIDE if self._beside else _LONGEST_OF_ROWS
        return _LONGEST_BESIDE if self._beside else _LONGEST_SECONDS
