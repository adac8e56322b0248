"""The audit chain: canonical bytes of an event, hashes, and verification. Pure; knows no database."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlq_sink.values import to_bytes

from backends.records import AuditEvent, Chained

GENESIS = b"\0" * 32


def canonical(event: Mapping[str, object]) -> bytes:
    """One byte string per event: sorted keys, no spaces, ASCII only."""
    return json.dumps(event, sort_keys=True, separators=(",", ":"), default=str).encode("ascii")


def link(previous: bytes, body: bytes) -> bytes:
    return hashlib.sha256(previous + body).digest()


def mark(source: str, entry_id: str) -> int:
    """The number that the audit index keeps for an entry; entries may share one, so `is_about` must confirm a hit."""
    return marks(source, (entry_id,))[0]


def marks(source: str, ids: Sequence[str]) -> list[int]:
    begun = zlib.crc32(to_bytes(f"{source}\0"))
    return [zlib.crc32(entry_id.encode() if entry_id.isascii() else to_bytes(entry_id), begun) for entry_id in ids]


def is_about(event: AuditEvent, source: str, entry_id: str) -> bool:
    """Does this event name that entry? True also if its body cannot be read, so that it is not hidden."""
    try:
        body = json.loads(event.body)
        named = body["entries"]
        return body["source"] == source and any((n[0] if isinstance(n, list) else n) == entry_id for n in named)
    except (ValueError, KeyError, TypeError, IndexError):
        return True


@dataclass(frozen=True, slots=True)
class Head:
    count: int
    hash: bytes

    def __str__(self) -> str:
        return f"{self.count}:{self.hash.hex()}"

    @classmethod
    def parse(cls, text: str) -> Head:
        count, _, digest = text.strip().partition(":")
        if not count.isdecimal() or len(digest) != 64:
            raise ValueError("a head is COUNT:HASH, as `dlq audit verify` printed it")
        return cls(int(count), bytes.fromhex(digest))


class Verifier:
    """Verifies the chain block by block and stops at the first problem."""

    def __init__(self, expected: Head | None = None) -> None:
        self.head = Head(0, GENESIS)
        self.problem: str | None = None
        self._expected = expected

    def feed(self, events: Sequence[Chained]) -> bool:
        """False once there is a problem, and the rest need not be read."""
        if self.problem is not None:
            return False
        sha256 = hashlib.sha256
        previous, count = self.head.hash, self.head.count
        wanted = self._expected.count if self._expected else -1
        for seq, body, kept in events:
            count += 1
            if seq != count:
                return self._broken(f"event {count} is missing (the next one there is {seq})")
            digest = sha256(previous + (body or b"")).digest()
            if digest != kept:
                return self._broken(f"event {count} was altered, moved or inserted")
            previous = digest
            if count == wanted and self._expected is not None and digest != self._expected.hash:
                return self._broken(f"event {count} differs from the head kept elsewhere: rewritten")
        self.head = Head(count, previous)
        return True

    def finish(self) -> str | None:
        """The problem, if any; call after the last block."""
        if self.problem is None and self._expected and self.head.count < self._expected.count:
            self._broken(
                f"only {self.head.count} of the {self._expected.count} events known elsewhere are there: truncated"
            )
        return self.problem

    def _broken(self, problem: str) -> bool:
        self.problem = problem
        return False
