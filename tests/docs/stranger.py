"""Plays a stranger in a fresh clone with an empty home: the demo, an installation, the tutorial, then every test.

Standard library only: `python3 -m tests.docs.stranger [--tests]` from the project's root, or `make stranger`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.docs.walk import walk

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="stranger-") as place:
        clone, home, tool, bot = (Path(place, name) for name in ("clone", "home", "tool", "bot"))
        home.mkdir()
        bot.mkdir()
        environ = _bare(home)
        _timed("clone", lambda: _run(["git", "clone", "-q", str(ROOT), str(clone)], Path(place), environ))
        _timed("make demo", lambda: _run(["make", "demo"], clone, environ))
        _say(f"  .venv: {_packages(clone / '.venv')} packages, {_megabytes(clone / '.venv')} MB")
        _timed("an environment of its own", lambda: _run([sys.executable, "-m", "venv", str(tool)], clone, environ))
        _timed("pip install .", lambda: _run([str(tool / "bin" / "pip"), "install", "-q", "."], clone, environ))
        _say(f"  installed: {_packages(tool)} packages, {_megabytes(tool)} MB")
        path = {**environ, "PATH": f"{tool / 'bin'}:{environ['PATH']}"}
        _timed("the tutorial, first to last line", lambda: walk(clone / "docs" / "tutorial.md", bot, path))
        if "--tests" in sys.argv[1:]:
            _timed("make test", lambda: _run(["make", "test"], clone, environ))


def _bare(home: Path) -> dict[str, str]:
    """What a machine gives a new user: a path, and where packages come from."""
    kept = ("PATH", "LANG", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
    pip = [name for name in os.environ if name.startswith("PIP_")]
    given = {name: os.environ[name] for name in (*kept, *pip) if name in os.environ}
    return {**given, "HOME": str(home), "PIP_NO_CACHE_DIR": "1"}


def _timed(title: str, act: Callable[[], object]) -> None:
    started = time.monotonic()
    act()
    _say(f"{title}: {time.monotonic() - started:.0f} s")


def _run(words: list[str], where: Path, environ: Mapping[str, str]) -> None:
    done = subprocess.run(
        words, cwd=where, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def _packages(venv: Path) -> int:
    return len(list(venv.glob("lib/python*/site-packages/*.dist-info")))


def _megabytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink()) >> 20


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
