"""Archives: everything old, exactly as stored, sound by itself; any change to one is found; nothing is deleted."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import subprocess
import zipfile
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from backends.store import Store
from console.services.triage.archive import (
    ATTEMPTS,
    AUDIT,
    ENTRIES,
    MANIFEST,
    SEAL,
    SUMS,
    Archived,
    ArchiveError,
    archive,
    seal,
    verify,
)
from tests.support.shift_store import BEGAN, shift
from tests.support.store import ACTOR, BASE, PostgresRig, Rig, order_row, sqlite_rig, walk

BEFORE = BEGAN + timedelta(minutes=10)  # rows 0 to 9
NOW = BEGAN + timedelta(days=1)


def _rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    return sqlite_rig(tmp_path) if request.param == "sqlite" else PostgresRig(request.getfixturevalue("postgres_db"))


@pytest.fixture(params=["sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    rig = _rig(request, tmp_path)
    yield await shift(rig)
    await rig.aclose()


@pytest.fixture(scope="module")
def kept() -> dict[str, tuple[Archived, bytes]]:
    """The bundle of each engine, made once."""
    return {}


@pytest.fixture(params=["sqlite", "postgresql"])
async def done(request: pytest.FixtureRequest, tmp_path: Path, kept: dict[str, tuple[Archived, bytes]]) -> Archived:
    """A bundle to read and to tamper with."""
    if request.param not in kept:
        rig = _rig(request, tmp_path)
        bundle = await made(await shift(rig), tmp_path)
        await rig.aclose()
        kept[request.param] = bundle, bundle.path.read_bytes()
    bundle, content = kept[request.param]
    path = tmp_path / "old.zip"
    path.write_bytes(content)
    return replace(bundle, path=path)


async def made(store: Store, tmp_path: Path) -> Archived:
    return await archive(store, BEFORE, tmp_path / "old.zip", actor=ACTOR, now=NOW)


def lines(path: Path, name: str) -> list[dict[str, object]]:
    with zipfile.ZipFile(path) as bundle:
        return [json.loads(line) for line in bundle.read(name).splitlines()]


async def test_a_bundle_holds_the_old_entries_their_attempts_and_the_chain(store: Store, tmp_path: Path) -> None:
    before = await walk(store, limit=100)
    done = await made(store, tmp_path)
    assert (done.entries, done.attempts) == (10, 4)
    entries = lines(done.path, ENTRIES)
    assert [entry["id"] for entry in entries] == [order_row(n)["dlq_id"] for n in range(10)]
    states = ["dismissed"] * 3 + ["pending", "replayed", "pending", "in_doubt", "replayed", "pending", "pending"]
    assert [entry["state"] for entry in entries] == states
    assert {one["outcome"] for one in lines(done.path, ATTEMPTS)} == {"accepted", "rejected", "unknown"}
    assert len(lines(done.path, AUDIT)) == done.events == int(done.head.partition(":")[0])
    verdict = verify(done.path)
    assert verdict.sound, verdict.problems
    assert (verdict.head, verdict.digest, verdict.entries) == (done.head, done.digest, 10)
    assert await walk(store, limit=100) == before  # nothing was deleted, nothing was touched
    assert oct(done.path.stat().st_mode & 0o777) == "0o600"


async def test_any_sha256sum_can_check_it(done: Archived, tmp_path: Path) -> None:
    with zipfile.ZipFile(done.path) as bundle:
        bundle.extractall(tmp_path / "out")
    assert shutil.which("sha256sum")
    checked = await asyncio.to_thread(
        subprocess.run, ["sha256sum", "-c", SUMS], cwd=tmp_path / "out", capture_output=True, text=True
    )
    assert checked.returncode == 0
    assert checked.stdout.count("OK") == 4


def _rewrite(path: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    with zipfile.ZipFile(path) as bundle:
        members = {name: change(name, bundle.read(name)) for name in bundle.namelist()}
    with zipfile.ZipFile(path, "w") as bundle:
        for name, content in members.items():
            if content is not None:
                bundle.writestr(name, content)
        bundle.comment = SEAL
    with path.open("r+b") as file:
        seal(file)


TAMPERED: dict[str, Callable[[str, bytes], bytes | None]] = {
    "an entry's price": lambda name, text: text.replace(b"180.25", b"180.26", 1) if name == ENTRIES else text,
    "an entry is gone": lambda name, text: text.partition(b"\n")[2] if name == ENTRIES else text,
    "an outcome": lambda name, text: text.replace(b'"rejected"', b'"accepted"') if name == ATTEMPTS else text,
    "an event": lambda name, text: text.replace(b"market-closed", b"market-opened") if name == AUDIT else text,
    "the last event": lambda name, text: text.rstrip(b"\n").rpartition(b"\n")[0] + b"\n" if name == AUDIT else text,
    "who made it": lambda name, text: text.replace(b'"ann"', b'"eve"') if name == MANIFEST else text,
    "a sum": lambda name, text: text.replace(b"a", b"b", 1) if name == SUMS else text,
    "a member": lambda name, text: None if name == ATTEMPTS else text,
    "the sums": lambda name, text: None if name == SUMS else text,
}


@pytest.mark.parametrize("what", TAMPERED)
def test_any_change_is_found(done: Archived, what: str) -> None:
    _rewrite(done.path, lambda _, content: content)
    assert verify(done.path).sound  # the tamperer knows how to seal a file
    _rewrite(done.path, TAMPERED[what])
    assert not verify(done.path).sound


def test_any_flipped_bit_is_found(done: Archived) -> None:
    content = done.path.read_bytes()
    for at in (*range(0, len(content), 97), len(content) - 1):
        done.path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert not verify(done.path).sound, at
    done.path.write_bytes(content + b"x")
    assert not verify(done.path).sound
    done.path.write_bytes(content)
    assert verify(done.path).sound


def _consistently(path: Path, name: str, content: bytes) -> None:
    """One member replaced, and everything that speaks of it made to fit."""
    with zipfile.ZipFile(path) as bundle:
        members = {one: bundle.read(one) for one in bundle.namelist()} | {name: content}
    manifest = json.loads(members[MANIFEST])
    told = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), "lines": content.count(b"\n")}
    manifest["members"][name] = told
    members[MANIFEST] = json.dumps(manifest).encode()
    sums = [f"{hashlib.sha256(members[one]).hexdigest()}  {one}\n" for one in members if one != SUMS]
    members[SUMS] = "".join(sums).encode()
    _rewrite(path, lambda one, _: members[one])


def _read(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as bundle:
        return bundle.read(name)


def test_a_bundle_made_consistent_again_has_another_digest(done: Archived) -> None:
    """Whoever rewrites everything is found by the digest that was kept elsewhere."""
    _consistently(done.path, ENTRIES, _read(done.path, ENTRIES).replace(b"180.25", b"180.26"))
    verdict = verify(done.path)
    assert verdict.sound
    assert verdict.digest != done.digest


def test_the_chain_must_reach_the_head(done: Archived) -> None:
    _consistently(done.path, AUDIT, b"".join(_read(done.path, AUDIT).splitlines(keepends=True)[:-1]))
    assert verify(done.path).problems == ("the audit chain does not end at the manifest's head",)


def test_attempts_belong_to_entries_of_the_bundle(done: Archived) -> None:
    _consistently(done.path, ENTRIES, b"".join(_read(done.path, ENTRIES).splitlines(keepends=True)[:4]))
    assert verify(done.path).problems == ("attempts of 4 entries that are not in the bundle",)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x05\x06" + b"\0" * 18])
def test_what_is_no_bundle_is_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    assert not verify(path).sound
    assert not verify(tmp_path / "missing.zip").sound


async def test_an_archive_is_never_overwritten(store: Store, tmp_path: Path) -> None:
    (tmp_path / "old.zip").write_text("precious")
    with pytest.raises(ArchiveError, match="never overwritten"):
        await made(store, tmp_path)
    assert (tmp_path / "old.zip").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


async def test_a_folder_that_is_not_there_is_said(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="cannot write"):
        await archive(store, BEFORE, tmp_path / "no" / "old.zip", actor=ACTOR, now=NOW)


async def test_odd_values_are_kept_as_stored(tmp_path: Path) -> None:
    rig = sqlite_rig(tmp_path)
    await rig.make(
        [
            order_row(0, price=0.30000000000000004, error="x" * 200_000, quantity=1e-12),
            order_row(1, price=float("inf"), account_id=b"\xff\x00"),
        ]
    )
    store = await rig.open()
    done = await archive(store, BASE + timedelta(days=1), tmp_path / "a.zip", actor=ACTOR, now=NOW)
    assert verify(done.path).sound
    first, second = (one["row"] for one in lines(done.path, ENTRIES))
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert (first["price"], first["quantity"], len(first["error"])) == (0.30000000000000004, 1e-12, 200_000)
    assert (second["price"], second["account_id"]) == ({"number": "inf"}, {"bytes": "ff00"})
    await rig.aclose()


async def test_a_broken_chain_is_not_archived(tmp_path: Path) -> None:
    rig = sqlite_rig(tmp_path)
    store = await shift(rig)
    await rig.sql('DROP TRIGGER "console_audit_upd"')
    await rig.sql("UPDATE console_audit SET body = CAST(replace(body, 'stale', 'fresh') AS BLOB) WHERE seq = 1")
    with pytest.raises(ArchiveError, match="chain is broken"):
        await made(store, tmp_path)
    assert not (tmp_path / "old.zip").exists()
    await rig.aclose()
