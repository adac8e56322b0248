"""The `dlq` command for tests: in this process, or as a process of its own, with config, keyring and venue at hand."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from console.cli.main import run
from tests.support.forked_command import Started, ran

ROOT = Path(__file__).parents[2]
KEYRING = "tests.support.keyrings.FileKeyring"
MODES = ("paper", "live")
SECRETS = {"alpaca": {"api_key": "practice", "secret_key": "practice"}}


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def row(self) -> dict[str, Any]:
        (one,) = self.rows
        return one

    @property
    def outcomes(self) -> dict[str, str]:
        return {row["dlq_id"]: row["outcome"] for row in self.rows}


@dataclass
class Console:
    """Commands against one store and one practice exchange."""

    folder: Path
    target: str
    url: str
    settings: dict[str, Any] = field(default_factory=dict)  # of the venue alpaca
    limits: dict[str, Any] = field(default_factory=dict)
    store: dict[str, Any] = field(default_factory=dict)  # environment, mode
    venues: dict[str, dict[str, Any]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: SECRETS)

    @property
    def environ(self) -> dict[str, str]:
        vault = self.folder / "vault.json"
        items = {
            f"dlq-console/{venue}/{mode}|{name}": value
            for venue, fields in self.secrets.items()
            for mode in MODES
            for name, value in fields.items()
        }
        vault.write_text(json.dumps(items))
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "XDG_STATE_HOME") if name in os.environ}
        return {
            **kept,
            "PYTHONPATH": str(ROOT),
            "PYTHON_KEYRING_BACKEND": KEYRING,
            "DLQ_TEST_VAULT": str(vault),
            "XDG_CONFIG_HOME": str(self.folder / "xdg"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }

    def config(self) -> Path:
        alpaca = {"paper_endpoint": self.url, "live_endpoint": self.url, "timeout": 3.0, "visibility_seconds": 0.3}
        alpaca |= {"default_account": "main"}
        lines = [f"[stores.desk]\nurl = {json.dumps(self.target)}", *_pairs(self.store)]
        for name, settings in {"alpaca": alpaca | self.settings, **self.venues}.items():
            lines += [f"[venues.{json.dumps(name)}]", *_pairs(settings)]
        lines += ["[limits]", *_pairs(self.limits)]
        path = self.folder / "config.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def inline(self, *given: str) -> Ran:
        """In this process, without a keyring: files of the config's own directory instead."""
        secrets = self.folder / "secrets"
        secrets.mkdir(mode=0o700, exist_ok=True)
        for venue, fields in self.secrets.items():
            for name, value in ((f"{venue}.{mode}.{name}", v) for mode in MODES for name, v in fields.items()):
                (secrets / name).write_text(value)
                (secrets / name).chmod(0o600)
        path = self.config()
        path.write_text(f"credentials_dir = {json.dumps(str(secrets))}\n{path.read_text()}")
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run([*given, "--db", "desk", "--config", str(path)])
        return Ran(code, out.getvalue(), err.getvalue())

    def words(self, *given: str) -> list[str]:
        return [*given, "--db", "desk", "--config", str(self.config())]

    def command(self, *given: str) -> list[str]:
        return [sys.executable, "-m", "console", *self.words(*given)]

    def __call__(self, *given: str, stdin: str = "", user: int | None = None, timeout: float = 60) -> Ran:
        return Ran(*ran(self.words(*given), self.environ, cwd=ROOT, stdin=stdin, user=user, timeout=timeout))

    def start(self, *given: str, **files: Any) -> Started:
        """It runs beside the test; see `ran` for what starts it."""
        return Started(self.words(*given), self.environ, cwd=ROOT, **files)

    def launch(self, *given: str, **more: Any) -> subprocess.Popen[str]:
        """As `start`, by an interpreter of its own: for what depends on how one ends."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
        return subprocess.Popen(self.command(*given), text=True, env=self.environ, cwd=ROOT, **pipes)


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {json.dumps(value)}" for name, value in table.items()]
