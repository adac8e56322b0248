"""Puts a connection together: the string, then the service file, then the environment, then what libpq defaults to."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

from dlq_sink.error import BadTarget
from dlq_sink.libpq.keyword import AUTH_METHODS, KEYWORDS, check_values
from dlq_sink.libpq.passfile import password_from
from dlq_sink.libpq.service import service_pairs

PORT = 5432
# Where the packages of distributions and Postgres itself put their sockets.
SOCKET_FOLDERS = ("/run/postgresql", "/var/run/postgresql", "/tmp")  # noqa: S108 - looked at with suspicion
_HOST = re.compile(r"[A-Za-z0-9_.-]{1,253}|[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9_.-]{1,16})?")
_CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """One place to try. `host` is a name, an address, a folder (or @name) of a socket, or "" for the local default."""

    host: str
    port: int
    address: str = ""  # hostaddr: where to connect; `host` is then only a name for TLS and the password file

    @property
    def is_socket(self) -> bool:
        return not self.address and self.host.startswith(("/", "@"))

    @property
    def is_default(self) -> bool:
        return not self.address and not self.host

    @property
    def shown(self) -> str:
        where = self.host or self.address or "localhost"
        if self.address and self.host and self.address != self.host:
            where = f"{where}({self.address})"
        if self.port == PORT:
            return where
        return f"[{where}]:{self.port}" if ":" in where else f"{where}:{self.port}"


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """A connection string with everything that it leaves to others filled in."""

    servers: tuple[ServerAddress, ...]
    user: str
    database: str
    names_database: bool  # somebody said the database; otherwise it is the user's name
    values: Mapping[str, str] = field(repr=False)  # the other keywords; has no password

    @property
    def ssl_mode(self) -> str | None:
        """What somebody said. None leaves it to where the server is."""
        if self.values.get("sslrootcert") == "system":
            return self.values.get("sslmode") or "verify-full"
        return self.values.get("sslmode") or None

    @property
    def connect_seconds(self) -> float | None:
        """For each server; None waits without end."""
        said = self.values.get("connect_timeout", "").strip()
        if not said:
            return _CONNECT_SECONDS
        return float(said) if int(said) > 0 else None

    @property
    def server_settings(self) -> dict[str, str]:
        """What the server is told at the start."""
        name = self.values.get("application_name") or self.values.get("fallback_application_name")
        told = {"application_name": name or "", "options": self.values.get("options", "")}
        return {key: value for key, value in told.items() if value}

    @property
    def auth_methods(self) -> frozenset[str] | None:
        """The ways to log in that `require_auth` allows; None allows all."""
        said = [one.strip() for one in self.values.get("require_auth", "").split(",") if one.strip()]
        if not said:
            return None
        refused = frozenset(one[1:] for one in said if one.startswith("!"))
        return frozenset(AUTH_METHODS) - refused if refused else frozenset(said)

    def kept_password(self, server: ServerAddress, environ: Mapping[str, str] | None = None) -> str:
        """From the password file; "" if it has none, so that the driver searches for none."""
        names = [server.host or server.address or "localhost"]
        if server.host in SOCKET_FOLDERS:
            names.insert(0, "localhost")
        wanted = [(name, str(server.port), self.database, self.user) for name in names]
        given = os.environ if environ is None else environ
        return password_from(self.values.get("passfile"), wanted, given) or ""


def resolved(said: Mapping[str, str], environ: Mapping[str, str]) -> tuple[ConnectionSettings, str | None]:
    """The settings, and the password where string, service or environment has one. Raises BadTarget."""
    pairs = dict(said)
    service = pairs.get("service", environ.get("PGSERVICE"))
    if service:
        pairs = service_pairs(service, pairs.get("servicefile") or environ.get("PGSERVICEFILE"), environ) | pairs
    pairs = {name: environ[variable] for name, variable in KEYWORDS.items() if variable in environ} | pairs
    if pairs.get("requiressl", "").startswith("1"):
        pairs.setdefault("sslmode", "require")
    # An empty value has stopped the search; from here it means the default.
    pairs = {key: value for key, value in pairs.items() if value}
    check_values(pairs)
    _check_rest(pairs)
    user = pairs.pop("user", None) or _os_user()
    database, password = pairs.pop("dbname", None), pairs.pop("password", None)
    servers = _servers(*(pairs.pop(key, "") for key in ("host", "hostaddr", "port")))
    return ConnectionSettings(servers, user, database or user, database is not None, pairs), password


def _check_rest(pairs: Mapping[str, str]) -> None:
    if not re.fullmatch(r"\s*-?[0-9]{1,6}\s*", pairs.get("connect_timeout", "0")):
        raise BadTarget("connect_timeout of the DSN must be whole seconds")
    mode = pairs.get("sslmode", "require")
    if pairs.get("sslnegotiation") == "direct" and mode not in ("require", "verify-ca", "verify-full"):
        raise BadTarget("sslnegotiation=direct needs sslmode=require, verify-ca or verify-full")
    if pairs.get("sslrootcert") == "system" and pairs.get("sslmode", "verify-full") != "verify-full":
        raise BadTarget("sslrootcert=system needs sslmode=verify-full")
    said = [one.strip() for one in pairs.get("require_auth", "").split(",") if one.strip()]
    refusals = sum(one.startswith("!") for one in said)
    if any(one.removeprefix("!") not in AUTH_METHODS for one in said) or refusals not in (0, len(said)):
        raise BadTarget(f"require_auth of the DSN must name some of {', '.join(AUTH_METHODS)}")


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise BadTarget("the DSN names no user, and the OS user of this process has no name") from None


def _servers(host: str, hostaddr: str, port: str) -> tuple[ServerAddress, ...]:
    hosts, addresses, ports = host.split(","), hostaddr.split(","), port.split(",")
    count = len(addresses) if hostaddr else len(hosts)
    if hostaddr and host and len(hosts) != count:
        raise BadTarget("the DSN's host and hostaddr differ in number")
    if len(ports) not in (1, count):
        raise BadTarget("the DSN's hosts and ports differ in number")
    hosts, addresses, ports = (
        given * count if len(given) == 1 and count > 1 else given for given in (hosts, addresses, ports)
    )
    return tuple(
        ServerAddress(_host(name), _port(number), _address(address))
        for name, number, address in zip(hosts, ports, addresses, strict=True)
    )


def _host(text: str) -> str:
    if not text or (text.startswith(("/", "@")) and len(os.fsencode(text)) < 100):
        return text
    if not _HOST.fullmatch(text) or (":" in text and not _is_address(text)):
        raise BadTarget("the DSN's host or port cannot be read: expected host=db1 port=5432")
    if ":" not in text and any(not 0 < len(label) < 64 for label in text.removesuffix(".").split(".")):
        raise BadTarget("the DSN's host name has an empty or too long part")
    return text


def _address(text: str) -> str:
    if text and not _is_address(text):
        raise BadTarget("hostaddr of the DSN must be an IP address")
    return text


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _port(text: str) -> int:
    if not text:
        return PORT
    if not re.fullmatch(r"\s*\+?[0-9]{1,9}\s*", text) or not 0 < int(text) < 65536:
        raise BadTarget("the DSN's port is not between 1 and 65535")
    return int(text)
