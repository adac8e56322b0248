"""The tutorial, played from its first line to its last with the installed command, as a stranger would."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.docs.walk import walk

ROOT = Path(__file__).parents[2]


def test_the_tutorial_works_from_first_to_last_line(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "bot"
    home.mkdir()
    folder.mkdir()
    environ = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    printed = walk(ROOT / "docs" / "tutorial.md", folder, environ)
    assert "-> venue order" in printed
