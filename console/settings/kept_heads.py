"""The newest head of each store's audit chain that this machine has seen, in a file of its own beside no database.

A ledger that no longer has that event was restored from a backup: what was sent since then is not on record there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_SIZE = 256  # every write covers what was there before


@dataclass(frozen=True, slots=True)
class KeptHead:
    count: int
    hash: str
    at: datetime  # when it was kept
    lost_at: datetime | None = None  # acts up to this moment are missing in the ledger


def _count(number: object) -> int:
    """Raises ValueError where no chain can have so many events."""
    if not isinstance(number, int) or not 0 < number < 2**63:
        raise ValueError(number)
    return number


def _aware(text: str) -> datetime:
    """Raises ValueError for a time without a zone, which cannot be compared with others."""
    moment = datetime.fromisoformat(text)
    if moment.utcoffset() is None:
        raise ValueError(text)
    return moment


class KeptHeads:
    def __init__(self, environ: Mapping[str, str] = os.environ, folder: Path | None = None) -> None:
        home = environ.get("XDG_STATE_HOME")
        state = Path(home) if home else Path.home() / ".local" / "state"
        self._folder = folder or state / "dlq-console" / "heads"

    def read(self, store_id: str) -> KeptHead | None:
        try:
            kept = json.loads(self._path(store_id).read_text(encoding="utf-8"))
            lost = kept.get("lost_at")
            return KeptHead(
                _count(kept["count"]), str(kept["hash"]), _aware(kept["at"]), _aware(lost) if lost else None
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def keep(self, store_id: str, head: KeptHead) -> None:
        """Ignores failures to write: the venue is asked all the same."""
        lost = head.lost_at.isoformat() if head.lost_at else None
        text = json.dumps({"count": head.count, "hash": head.hash, "at": head.at.isoformat(), "lost_at": lost})
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._path(store_id), os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(file, text.ljust(_SIZE).encode(), 0)  # one short write: what others read is whole
            finally:
                os.close(file)
        except OSError:
            return

    def _path(self, store_id: str) -> Path:
        name = hashlib.sha256(store_id.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return self._folder / f"{name}.json"
