"""An export makes a file of its own: it writes into nothing that lies there, and only its owner reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.screens.export import new_file


def test_what_lies_there_is_left_alone(tmp_path: Path) -> None:
    stem, victim = tmp_path / "dlq-entries-20261117T120000Z", tmp_path / "victim"
    victim.write_text("mine\n")
    planted = tmp_path / f"{stem.name}.jsonl"
    planted.symlink_to(victim)
    (tmp_path / f"{stem.name}-1.jsonl").write_text("theirs\n")
    (tmp_path / f"{stem.name}-2.jsonl").symlink_to(tmp_path / "nowhere")
    path, file = new_file(stem)
    with file:
        file.write("secret\n")
    assert path.name == f"{stem.name}-3.jsonl"
    assert (path.stat().st_mode & 0o777, path.read_text()) == (0o600, "secret\n")
    assert (victim.read_text(), (tmp_path / "nowhere").exists()) == ("mine\n", False)


def test_a_folder_full_of_such_names_ends_it(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"x{f'-{number}' if number else ''}.jsonl").touch()
    with pytest.raises(OSError, match="too many files"):
        new_file(tmp_path / "x")
