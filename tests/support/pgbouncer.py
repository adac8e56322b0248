"""A real pgbouncer in transaction mode before a test's Postgres; started as nobody where the tests run as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.postgres import _NOBODY, _free_port

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


class PgBouncer:
    """`dsn(target)` is the same database through the pool, which has `size` sessions of the server."""

    def __init__(self, target: str, *, size: int = 1) -> None:
        parts = urlsplit(target)
        self._server = f"host={parts.hostname} port={parts.port}"
        self._size = size
        self._home = Path(tempfile.mkdtemp(prefix="dlq-bouncer-"))
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def dsn(self, target: str) -> str:
        return target.replace(f":{urlsplit(target).port}/", f":{self.port}/", 1)

    def start(self) -> PgBouncer:
        assert PROGRAM is not None
        # No ignore_startup_parameters: what it takes without being told to must be enough.
        lines = (
            *("[databases]", f"* = {self._server}", "[pgbouncer]", "pool_mode = transaction", "auth_type = any"),
            *("listen_addr = 127.0.0.1", f"listen_port = {self.port}", "unix_socket_dir =", "max_client_conn = 100"),
            *(f"default_pool_size = {self._size}", f"logfile = {self._home / 'log'}", "min_pool_size = 0"),
        )
        # auth_type any logs in as one user, whom the server's string must name.
        config = self._home / "pgbouncer.ini"
        config.write_text("\n".join(lines).replace(self._server, f"{self._server} user=postgres") + "\n")
        as_root = os.geteuid() == 0
        if as_root:
            os.chown(self._home, _NOBODY, _NOBODY)
            config.chmod(0o644)
        self._process = subprocess.Popen(
            [PROGRAM, str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            user=_NOBODY if as_root else None,
            group=_NOBODY if as_root else None,
            extra_groups=[] if as_root else None,
        )
        deadline = time.monotonic() + 30
        while "listening on 127.0.0.1" not in self._log():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(self._log())
            time.sleep(0.02)
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
        shutil.rmtree(self._home, ignore_errors=True)

    def _log(self) -> str:
        try:
            return (self._home / "log").read_text()
        except FileNotFoundError:
            return ""
