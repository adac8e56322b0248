"""Writes and verifies an archive: one zip of old entries, their attempts and the audit chain. Deletes nothing.

The zip can be read without this program: JSON Lines, a manifest, and SHA256SUMS for `sha256sum -c`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import zipfile
import zlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, NamedTuple

from backends.ledger.audit_chain import Verifier
from backends.records import STATES, Actor, Attempt, AuditEvent, Entry, Filter, RowKey, StoreInfo, readable
from backends.store import Store
from console.services.layout_fields import LAYOUTS
from console.services.triage.gone import gone_entry

FORMAT = "dlq-archive/1"
SUMS = "SHA256SUMS"
MANIFEST = "manifest.json"
ENTRIES, ATTEMPTS, AUDIT = "entries.jsonl", "attempts.jsonl", "audit.jsonl"
BLOCK = 1 << 20
SEAL = b"0" * 64  # placeholder for the zip's comment, the file's last bytes: the SHA-256 of all before it
_MEMBERS = (ENTRIES, ATTEMPTS, AUDIT, MANIFEST)
# Bounds of a bundle that somebody else may have made: it must take neither all memory nor all day.
_LARGEST_LIST = 1_000_000
_LONGEST_LINE = 64_000_000
_MOST_TIMES = 500
Counter = Callable[[int], None]  # is told how many entries, or lines, are done


@dataclass(frozen=True, slots=True)
class BundleVerdict:
    """The result of verifying a bundle: its figures, and every problem found."""

    problems: tuple[str, ...]
    entries: int = 0
    events: int = 0
    head: str = ""
    digest: str = ""  # of SHA256SUMS; compare it with the one kept elsewhere
    is_bundle: bool = True  # else it is no archive at all, or none that can be opened

    @property
    def sound(self) -> bool:
        return not self.problems


def seal(file: IO[bytes]) -> None:
    """Call after closing the zip with SEAL as its comment. The seal also covers bytes that no zip reader checks."""
    file.write(_seal(file))


def _seal(file: IO[bytes]) -> bytes:
    """The digest of everything before the seal; leaves the file positioned at the seal."""
    left = file.seek(0, os.SEEK_END) - len(SEAL)
    file.seek(0)
    found = hashlib.sha256()
    while left > 0 and (block := file.read(min(BLOCK, left))):
        found.update(block)
        left -= len(block)
    return found.hexdigest().encode()


def verify(path: Path, progress: Counter | None = None) -> BundleVerdict:
    """`progress` is told how many lines of the bundle are read."""
    try:
        if not path.is_file():
            missing = "is not a file" if path.exists() else "no such file; dlq archive --out wrote the bundle"
            return BundleVerdict((missing,), is_bundle=False)
        with path.open("rb") as file:
            is_zip = file.read(2) == b"PK"
            sealed = is_zip and _seal(file) == file.read()
        if not is_zip:
            return BundleVerdict(("is not a bundle that dlq archive wrote",), is_bundle=False)
        with zipfile.ZipFile(path) as bundle:
            if not set(_MEMBERS) & set(bundle.namelist()):
                return BundleVerdict(("is not a bundle that dlq archive wrote",), is_bundle=False)
            verdict = _verify(bundle, progress or _silent)
        return verdict if sealed else replace(verdict, problems=("the file was altered", *verdict.problems))
    except PermissionError as problem:
        return BundleVerdict((f"cannot be read: {problem.strerror}",), is_bundle=False)
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as problem:
        # zipfile raises RuntimeError if a damaged header asks for a password or an unknown method.
        return BundleVerdict((f"cannot be read: {problem}",))
    except MemoryError:
        return BundleVerdict(("is oversized: what it holds takes more memory than is allowed",))
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as problem:
        return BundleVerdict((f"is not a readable bundle: {problem or 'it is nested too deeply'}",))


def _verify(bundle: zipfile.ZipFile, progress: Counter) -> BundleVerdict:
    read = _LineReader(bundle, progress)
    problems: list[str] = []
    names = bundle.namelist()
    if sorted(names) != sorted((*_MEMBERS, SUMS)):
        problems.append(f"holds {', '.join(sorted(names))}, not {', '.join(sorted((*_MEMBERS, SUMS)))}")
    for one in bundle.infolist():
        if one.file_size > _MOST_TIMES * max(1, one.compress_size):
            raise ValueError(f"{one.filename} would be more than {_MOST_TIMES} times as large when unpacked")
    listed = _small(bundle, SUMS)
    manifest = json.loads(_small(bundle, MANIFEST))
    if manifest["format"] != FORMAT:
        problems.append(f"has the format {manifest['format']}, not {FORMAT}")
    sums = {name: digest for digest, name in (line.split("  ", 1) for line in listed.decode().splitlines())}
    for name in _MEMBERS:
        digest, lines = _digest(bundle, name)
        if sums.get(name) != digest:
            problems.append(f"{name} was altered: its checksum differs")
        told = manifest["members"].get(name)
        if name != MANIFEST and (told["sha256"], told["lines"]) != (digest, lines):
            problems.append(f"{name} does not match the manifest")
    ids = [json.loads(line)["id"] for line in read.lines(ENTRIES)]
    if strangers := {json.loads(line)["entry_id"] for line in read.lines(ATTEMPTS)} - set(ids):
        problems.append(f"attempts of {len(strangers)} entries that are not in the bundle")
    verifier = _chain(read)
    if broken := verifier.finish():
        problems.append(f"the audit chain is broken: {broken}")
    elif str(verifier.head) != manifest["audit_head"]:
        problems.append("the audit chain does not end at the manifest's head")
    head = verifier.head
    return BundleVerdict(tuple(problems), len(ids), head.count, str(head), hashlib.sha256(listed).hexdigest())


def _chain(read: _LineReader) -> Verifier:
    verifier = Verifier()
    for line in read.lines(AUDIT):
        one = json.loads(line)
        if not verifier.feed([AuditEvent(one["seq"], one["body"].encode(), bytes.fromhex(one["hash"]))]):
            break
    return verifier


class _LineReader:
    """The lines of a bundle's members, counted over all of them."""

    def __init__(self, bundle: zipfile.ZipFile, progress: Counter) -> None:
        self._bundle = bundle
        self._progress = progress
        self._done = 0

    def lines(self, name: str) -> Iterable[bytes]:
        with self._bundle.open(name) as file:
            while line := file.readline(_LONGEST_LINE + 1):
                if len(line) > _LONGEST_LINE:
                    raise ValueError(f"{name} has a line of more than {_LONGEST_LINE} bytes")
                self._done += 1
                self._progress(self._done)
                yield line


def _small(bundle: zipfile.ZipFile, name: str) -> bytes:
    with bundle.open(name) as file:
        held = file.read(_LARGEST_LIST + 1)
    if len(held) > _LARGEST_LIST:
        raise ValueError(f"{name} is larger than {_LARGEST_LIST} bytes")
    return held


def _digest(bundle: zipfile.ZipFile, name: str) -> tuple[str, int]:
    found, lines = hashlib.sha256(), 0
    with bundle.open(name) as file:
        while block := file.read(BLOCK):
            found.update(block)
            lines += block.count(b"\n")
    return found.hexdigest(), lines


_PAGE = 500


def _silent(_: int) -> None:
    """For who does not ask how far it is."""


class _MadeBy(NamedTuple):
    actor: Actor
    now: datetime


class ArchiveError(Exception):
    """The bundle cannot be written; `str()` says why."""


@dataclass(frozen=True, slots=True)
class Archived:
    path: Path
    entries: int
    attempts: int
    events: int
    head: str
    digest: str  # of SHA256SUMS; kept elsewhere, it proves the whole bundle


@dataclass(slots=True)
class _Member:
    """Writes JSON Lines to one member of the zip, and counts and hashes them."""

    file: IO[bytes]
    lines: int = 0
    size: int = 0
    hash: Any = field(default_factory=hashlib.sha256)

    def write(self, document: object) -> None:
        line = json.dumps(document, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        self.file.write(line)
        self.hash.update(line)
        self.lines += 1
        self.size += len(line)

    @property
    def told(self) -> dict[str, object]:
        return {"sha256": self.hash.hexdigest(), "bytes": self.size, "lines": self.lines}


async def archive(
    store: Store, before: datetime, out: Path, *, actor: Actor, now: datetime, progress: Counter = _silent
) -> Archived:
    """Archives every entry captured before that moment, in any state. Never overwrites a file."""
    if not out.name:
        raise ArchiveError(f"{out} is a folder: name a file in it")
    making = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        _free(out)
        with _private(making) as raw:
            made = await _write(store, before, raw, _MadeBy(actor, now), progress)
            seal(raw)
            raw.flush()
            os.fsync(raw.fileno())
        os.link(making, out)  # fails if another process created the file meanwhile
    except FileExistsError:
        raise ArchiveError(f"{out} exists already: archives are never overwritten, name another file") from None
    except FileNotFoundError:
        raise ArchiveError(f"cannot write {out}: its folder does not exist") from None
    except OSError as problem:
        raise ArchiveError(f"cannot write {out}: {problem.strerror or problem}") from None
    finally:
        with suppress(OSError):  # it was never made, or its name is none
            making.unlink()
    return Archived(out, *made)


def _free(out: Path) -> None:
    """Fails before the long work instead of after it."""
    if out.exists():
        raise FileExistsError


def _private(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w+b")


async def _write(
    store: Store, before: datetime, raw: IO[bytes], made_by: _MadeBy, progress: Counter
) -> tuple[int, int, int, str, str]:
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as bundle, tempfile.TemporaryFile() as spool:
        attempts = _Member(spool)
        with bundle.open(ENTRIES, "w", force_zip64=True) as file:
            entries = _Member(file)
            async for page in _pages(store, before):
                for entry in page:
                    entries.write(entry_document(entry))
                for made in (await store.attempts_of(tuple(entry.id for entry in page))).values():
                    for attempt in made:
                        attempts.write(attempt_document(attempt))
                progress(entries.lines)
            async for gone, made in _gone(store, before):
                entries.write({**entry_document(gone), "gone": True})
                for attempt in made:
                    attempts.write(attempt_document(attempt))
        with bundle.open(ATTEMPTS, "w", force_zip64=True) as file:
            spool.seek(0)
            while block := spool.read(BLOCK):
                file.write(block)
        verifier = Verifier()
        with bundle.open(AUDIT, "w", force_zip64=True) as file:
            audit = _Member(file)
            async for events in store.audit():
                if not verifier.feed(events):
                    raise ArchiveError(f"the audit chain is broken, nothing is archived: {verifier.finish()}")
                for event in events:
                    audit.write(_event(event))
                progress(entries.lines + audit.lines)
        told = {ENTRIES: entries.told, ATTEMPTS: attempts.told, AUDIT: audit.told}
        head = str(verifier.head)
        digest = _finish(bundle, await _manifest(store, before, made_by.actor, made_by.now), told, head)
    return entries.lines, attempts.lines, audit.lines, head, digest


async def _manifest(store: Store, before: datetime, actor: Actor, now: datetime) -> dict[str, object]:
    info = store.info
    return {
        "format": FORMAT,
        "before": before.isoformat(),
        "made_at": now.isoformat(),
        "made_by": {
            "operator": actor.operator,
            "os_user": actor.os_user,
            "host": actor.host,
            "program": actor.program,
            "db_role": info.role,
        },
        "store": {"id": await store.store_id(), "label": info.label, "layout": info.layout, "table": info.table},
        "columns": list(info.columns),
    }


def _finish(bundle: zipfile.ZipFile, manifest: dict[str, object], told: dict[str, Any], head: str) -> str:
    document = {**manifest, "audit_head": head, "members": told}
    text = json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"
    bundle.writestr(MANIFEST, text)
    sums = {name: str(one["sha256"]) for name, one in told.items()} | {MANIFEST: hashlib.sha256(text).hexdigest()}
    listed = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())).encode()
    bundle.writestr(SUMS, listed)
    bundle.comment = SEAL
    return hashlib.sha256(listed).hexdigest()


async def _pages(store: Store, before: datetime) -> AsyncIterator[list[Entry]]:
    row_key: RowKey | None = None
    old = Filter(states=frozenset(STATES), until=before)
    while True:
        page = await store.page(old, limit=_PAGE, after=row_key)
        yield [(await store.get(entry.id) or entry) if entry.clipped else entry for entry in page.entries]
        if not page.more:
            return
        row_key = page.entries[-1].row_key


async def _gone(store: Store, before: datetime) -> AsyncIterator[tuple[Entry, tuple[Attempt, ...]]]:
    """Entries whose row is gone, with their attempts, if the first act on them was before that moment."""
    first: dict[str, str] = {}
    async for events in store.audit():
        for event in events:
            for entry_id, at in _acted_on(event, store.info):
                first.setdefault(entry_id, at)
    ids = tuple(entry_id for entry_id, at in first.items() if at < before.isoformat())
    for start in range(0, len(ids), _PAGE):
        block = ids[start : start + _PAGE]
        there = await store.many(block)
        missing = tuple(entry_id for entry_id in block if entry_id not in there)
        attempts = await store.attempts_of(missing) if missing else {}
        for entry_id in missing:
            made = attempts.get(entry_id, ())
            entry = gone_entry(store.info, entry_id, made, await store.events(entry_id))
            if entry is not None:
                yield entry, made


def _acted_on(event: AuditEvent, info: StoreInfo) -> list[tuple[str, str]]:
    """(entry, moment) of an act after which a row may be gone. A dismissed order keeps its row."""
    kinds = ("intent",) if LAYOUTS[info.layout].says_dismissed else ("intent", "dismiss")
    if not any(f'"{kind}"'.encode() in event.body for kind in kinds):
        return []
    try:
        body = json.loads(event.body)
        is_one = body["kind"] in kinds and body["source"] == info.table
        named = [one[0] if isinstance(one, list) else one for one in body["entries"]] if is_one else []
        return [(one, str(body["at"])) for one in named if isinstance(one, str)]
    except (ValueError, KeyError, TypeError, IndexError):
        return []  # the chain itself is judged where it is written


def entry_document(entry: Entry) -> dict[str, object]:
    """The row as stored. Values without a JSON type are wrapped in an object that names their type."""
    row = {name: _value(value) for name, value in zip(entry.names, entry.values, strict=True)}
    return {"id": entry.id, "state": entry.state, "row": row}


def _value(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case float() if math.isfinite(value):
            return value
        case bytes():
            return {"bytes": value.hex()}
        case datetime():
            return {"time": value.isoformat()}
        case Decimal() | float():
            return {"number": str(value)}
        case _:
            return {"text": readable(value)}


def attempt_document(attempt: Attempt) -> dict[str, object]:
    names = [name for name in Attempt.__dataclass_fields__ if name not in ("payload", "lease_until")]
    return {**{name: getattr(attempt, name) for name in names}, "payload": attempt.payload.hex()}


def _event(event: AuditEvent) -> dict[str, object]:
    return {"seq": event.seq, "body": event.body.decode("utf-8", "backslashreplace"), "hash": event.hash.hex()}
