"""Postgres servers that differ from the tests' usual one: with TLS, with a unix socket, in recovery."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.support.fake_postgres import certificate
from tests.support.postgres import Postgres

_DEBIAN = Path("/usr/lib/postgresql")


def debian_binaries() -> Path | None:
    """Of the newest server that Debian's packages have put here; the wheel's has no TLS."""
    found = [path.parent for path in sorted(_DEBIAN.glob("*/bin/postgres"))]
    return found[-1] if found else None


class TLSPostgres(Postgres):
    """With a certificate for `localhost` and 127.0.0.1, and without any login over TCP that is not TLS."""

    def _initdb(self, data: Path) -> None:
        super()._initdb(data)
        self.certificate, key = certificate(self._home, "localhost", "127.0.0.1")
        self.certificate.chmod(0o644)
        shutil.copy(key, data / "server.key")
        shutil.copy(self.certificate, data / "server.crt")
        (data / "server.key").chmod(0o600)
        if self._as_root:
            for name in ("server.key", "server.crt"):
                shutil.chown(data / name, 65534, 65534)
        with (data / "postgresql.conf").open("a") as file:
            file.write("\nssl = on\n")
        (data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")

    def _binaries(self) -> Path:
        found = debian_binaries()
        assert found is not None, "the test is skipped without it"
        return found


class StandbyPostgres(Postgres):
    """In recovery for good, as a replica whose primary is gone; it answers reads."""

    def _initdb(self, data: Path) -> None:
        super()._initdb(data)
        (data / "standby.signal").touch()
        if self._as_root:
            os.chown(data / "standby.signal", 65534, 65534)
