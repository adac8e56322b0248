"""What an archive's file looks like inside, and whether one is sound. Needs nothing but the file."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from backends.ledger.audit_chain import Verifier
from backends.records import AuditEvent

FORMAT = "dlq-archive/1"
SUMS = "SHA256SUMS"
MANIFEST = "manifest.json"
ENTRIES, ATTEMPTS, AUDIT = "entries.jsonl", "attempts.jsonl", "audit.jsonl"
BLOCK = 1 << 20
SEAL = b"0" * 64  # the zip's comment, and so the file's last bytes: the SHA-256 of everything before it
_MEMBERS = (ENTRIES, ATTEMPTS, AUDIT, MANIFEST)


@dataclass(frozen=True, slots=True)
class BundleVerdict:
    """What a bundle says of itself, and everything that is wrong with it."""

    problems: tuple[str, ...]
    entries: int = 0
    events: int = 0
    head: str = ""
    digest: str = ""  # of SHA256SUMS, to be compared with one kept elsewhere

    @property
    def sound(self) -> bool:
        return not self.problems


def seal(file: IO[bytes]) -> None:
    """After the zip was closed with SEAL as its comment. Even a flipped bit that no reader looks at is found by it."""
    file.write(_seal(file))


def _seal(file: IO[bytes]) -> bytes:
    """Leaves the file at its seal."""
    left = file.seek(0, os.SEEK_END) - len(SEAL)
    file.seek(0)
    found = hashlib.sha256()
    while left > 0 and (block := file.read(min(BLOCK, left))):
        found.update(block)
        left -= len(block)
    return found.hexdigest().encode()


def verify(path: Path) -> BundleVerdict:
    try:
        with path.open("rb") as file:
            sealed = _seal(file) == file.read()
        with zipfile.ZipFile(path) as bundle:
            verdict = _verify(bundle)
        return verdict if sealed else replace(verdict, problems=("the file was altered", *verdict.problems))
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as problem:
        # zipfile says RuntimeError where a damaged header asks for a password or an unknown method.
        return BundleVerdict((f"cannot be read: {problem}",))
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        return BundleVerdict((f"is not what an archive looks like: {problem!r}",))


def _verify(bundle: zipfile.ZipFile) -> BundleVerdict:
    problems: list[str] = []
    names = bundle.namelist()
    if sorted(names) != sorted((*_MEMBERS, SUMS)):
        problems.append(f"holds {sorted(names)}, not {sorted((*_MEMBERS, SUMS))}")
    listed = bundle.read(SUMS)
    manifest = json.loads(bundle.read(MANIFEST))
    if manifest["format"] != FORMAT:
        problems.append(f"is of the format {manifest['format']!r}")
    sums = {name: digest for digest, name in (line.split("  ", 1) for line in listed.decode().splitlines())}
    for name in _MEMBERS:
        digest, lines = _digest(bundle, name)
        if sums.get(name) != digest:
            problems.append(f"{name} was altered: its checksum is another")
        told = manifest["members"].get(name)
        if name != MANIFEST and (told["sha256"], told["lines"]) != (digest, lines):
            problems.append(f"{name} is not the one the manifest speaks of")
    ids = [json.loads(line)["id"] for line in _lines(bundle, ENTRIES)]
    if strangers := {json.loads(line)["entry_id"] for line in _lines(bundle, ATTEMPTS)} - set(ids):
        problems.append(f"attempts of {len(strangers)} entries that are not in the bundle")
    verifier = _chain(bundle)
    if broken := verifier.finish():
        problems.append(f"the audit chain is broken: {broken}")
    elif str(verifier.head) != manifest["audit_head"]:
        problems.append("the audit chain does not end at the manifest's head")
    head = verifier.head
    return BundleVerdict(tuple(problems), len(ids), head.count, str(head), hashlib.sha256(listed).hexdigest())


def _chain(bundle: zipfile.ZipFile) -> Verifier:
    verifier = Verifier()
    for line in _lines(bundle, AUDIT):
        one = json.loads(line)
        if not verifier.feed([AuditEvent(one["seq"], one["body"].encode(), bytes.fromhex(one["hash"]))]):
            break
    return verifier


def _lines(bundle: zipfile.ZipFile, name: str) -> Iterable[bytes]:
    with bundle.open(name) as file:
        yield from file


def _digest(bundle: zipfile.ZipFile, name: str) -> tuple[str, int]:
    found, lines = hashlib.sha256(), 0
    with bundle.open(name) as file:
        while block := file.read(BLOCK):
            found.update(block)
            lines += block.count(b"\n")
    return found.hexdigest(), lines
