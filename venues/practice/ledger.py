"""The ledger file: JSON Lines, written to disk before the exchange answers.

Must not know what a line means.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from venues.practice.plain_file import decoded, open_plain

Line = Mapping[str, object]
_BEGUN = re.compile(rb'\{(?:"[ -~]*)?\Z')  # what a write of ours leaves when it breaks off


class LedgerError(Exception):
    """The file is not a ledger."""


class Ledger:
    """The lines in memory and, with a path, in a file."""

    def __init__(self, path: Path | None = None, *, fsync: bool = True) -> None:
        self.lines: list[Line] = []
        self._fsync = fsync
        self._file: int | None = None
        if path is not None:
            self._file = open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            try:
                self._load(path)
            except LedgerError:
                self.close()
                raise

    def append(self, lines: Iterable[Line]) -> None:
        """Write all lines at once, so that a request and what it booked are kept or lost together."""
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
        for number, row in enumerate(whole.splitlines(), start=1):
            try:
                line = decoded(row)
            except ValueError as error:
                raise LedgerError(f"{path}, line {number}: not JSON") from error
            if not isinstance(line, dict):
                raise LedgerError(f"{path}, line {number}: not a JSON object")
            self.lines.append(line)
        if whole != data:
            # A power cut may leave half a line, but the exchange did not answer before the line was complete.
            if not _BEGUN.match(data, len(whole)):
                raise LedgerError(f"{path}: its last line is not one of a ledger")
            os.ftruncate(self._file, len(whole))
