"""Files that somebody made to hang, fill or crash the console end with the right code, soon and in little memory."""

from __future__ import annotations

import os
import zipfile
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
