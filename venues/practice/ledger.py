"""The ledger file: JSON Lines, appended and on disk before the exchange answers.

Knows lines, not orders.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

Line = Mapping[str, object]


class LedgerError(Exception):
    """The file holds something that is not a ledger."""


class Ledger:
    """`lines` is the whole ledger in memory; without a path that is all there is."""

    def __init__(self, path: Path | None = None, *, fsync: bool = True) -> None:
        self.lines: list[Line] = []
        self._fsync = fsync
        self._file: int | None = None
        if path is not None:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self._load(path)

    def append(self, lines: Iterable[Line]) -> None:
        """One write for all lines, so that a request and what it booked are kept or lost together."""
        fresh = list(lines)
        if self._file is not None:
            self._write("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in fresh).encode())
        self.lines.extend(fresh)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        while data:
            data = data[os.write(self._file, data) :]
        if self._fsync:
            os.fsync(self._file)

    def _load(self, path: Path) -> None:
        assert self._file is not None
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            # A machine that lost power may leave half a line; nobody was answered on the strength of it.
            os.ftruncate(self._file, len(whole))
        for number, row in enumerate(whole.splitlines(), start=1):
            try:
                line = json.loads(row)
            except ValueError as error:
                raise LedgerError(f"{path}, line {number}: not JSON") from error
            if not isinstance(line, dict):
                raise LedgerError(f"{path}, line {number}: not a JSON object")
            self.lines.append(line)
