"""Files that somebody made to hang, fill or crash the console end with the right code, soon and in little memory."""

from __future__ import annotations

import os
import zipfile
from copy import copy
from pathlib import Path

import pytest

from tests.support.bounded import ended


def test_a_pipe_is_no_store(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    code, _, said = ended("list", "--db", str(tmp_path / "pipe"))
    assert (code, said.count("\n")) == (5, 1)
    assert ended("list", "--db", "/dev/zero")[0] == 5


@pytest.mark.parametrize("large", ["SHA256SUMS", "manifest.json", "entries.jsonl"])
def test_a_small_bundle_that_would_be_huge(tmp_path: Path, large: str) -> None:
    path = tmp_path / "old.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name in ("entries.jsonl", "attempts.jsonl", "audit.jsonl", "manifest.json", "SHA256SUMS"):
            with bundle.open(name, "w", force_zip64=True) as file:
                for _ in range(300 if name == large else 0):
                    file.write(b"0" * 1_000_000)
    assert ended("archive", "--verify", str(path))[0] == 1


def test_what_is_no_bundle_is_two_and_what_was_altered_one(tmp_path: Path) -> None:
    path = tmp_path / "old.zip"
    assert ended("archive", "--verify", str(path))[0] == 2
    path.write_text("hello")
    assert ended("archive", "--verify", str(path))[0] == 2
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("other.txt", "x")
    assert ended("archive", "--verify", str(path))[0] == 2
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("manifest.json", "[" * 100_000)
        bundle.writestr("SHA256SUMS", "")
    assert ended("archive", "--verify", str(path))[0] == 1


def test_deep_toml_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("a = " + "[" * 200_000)
    assert ended("list", "--config", str(path), "--db", "x.db")[0] == 2


def test_a_bundle_of_odd_members(tmp_path: Path) -> None:
    """Names that climb, a link, members within each other, many of them, and a bundle that is cut off."""
    path = tmp_path / "old.zip"
    names = ("entries.jsonl", "attempts.jsonl", "audit.jsonl", "manifest.json", "SHA256SUMS")
    with zipfile.ZipFile(path, "w") as bundle:
        for name in (*names, "../../planted", "/planted", "\x1b[2J", "nested.zip"):
            bundle.writestr(name, "x")
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        bundle.writestr(link, "/etc/passwd")
        for number in range(20_000):
            bundle.writestr(f"m{number}", "")
    code, _, said = ended("archive", "--verify", str(path))
    assert (code, "\x1b" in said, (tmp_path.parent / "planted").exists()) == (1, False, False)
    whole = path.read_bytes()
    for size in (4, 30, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert ended("archive", "--verify", str(path))[0] in (1, 2), size
    path.unlink()
    os.mkfifo(path)
    assert ended("archive", "--verify", str(path))[0] == 2


def test_members_that_share_their_bytes(tmp_path: Path) -> None:
    """Every member of the list points at one packed block: small in the file, and large once they are all read."""
    path = tmp_path / "old.zip"
    names = ("entries.jsonl", "attempts.jsonl", "audit.jsonl", "manifest.json", "SHA256SUMS")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(names[0], b"[]\n" * 10_000_000)
        held = bundle.filelist[0]
        for name in names[1:]:
            other = copy(held)
            other.filename = name
            bundle.filelist.append(other)
            bundle.NameToInfo[name] = other
    assert ended("archive", "--verify", str(path))[0] == 1


CONFIGS = {
    "deep tables": b"[" + b".".join([b"a"] * 50_000) + b"]",
    "deep inline tables": b"a = " + b"{a = " * 50_000,
    "twice": b"theme = 'a'\ntheme = 'b'",
    "no text": b"theme = '\xff\xfe'",
    "huge": b"x = '" + b"y" * 3_000_000 + b"'",
    "a number without end": b"[limits]\nmax_batch = " + b"9" * 100_000,
    "NUL": b"\0" * 1000,
}


@pytest.mark.parametrize("what", CONFIGS)
def test_a_config_that_is_a_bomb_is_bad_input(tmp_path: Path, what: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(CONFIGS[what])
    code, _, said = ended("list", "--config", str(path), "--db", "x.db")
    assert (code, said.count("\n")) == (2, 1), said[-300:]


def test_a_config_that_is_no_file_is_bad_input(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.toml")
    for path in (tmp_path / "config.toml", tmp_path, Path("/dev/zero")):
        assert ended("list", "--config", str(path), "--db", "x.db")[0] == 2, path
