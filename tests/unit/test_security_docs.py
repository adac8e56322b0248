"""docs/security.md names tests that exist, and every kind of attacker has one."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXT)


def test_every_named_test_exists() -> None:
    missing = [
        f"{path}::{name}"
        for path, name in NAMED
        if not (ROOT / path).exists() or (name and not re.search(rf"def {name}\(", (ROOT / path).read_text()))
    ]
    assert missing == []
    assert len(NAMED) > 30


def test_every_attacker_has_a_test() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| who |")]
    assert len(rows) >= 14
    assert all("`tests/" in row for row in rows)
