"""Opens a connection to a Postgres target: its servers in turn, each with its own password and TLS rules."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg

from dlq_sink.error import Unreachable
from dlq_sink.libpq.settings import ServerAddress
from dlq_sink.libpq.tls import context_for, mode_for
from dlq_sink.libpq.unix_socket import default_sockets, socket_path, trusted_owners, uid_of
from dlq_sink.libpq.wire import Asks, DialLoop, LoginWatch, socket_options
from dlq_sink.target import PostgresTarget

_OWN_DEFAULT = "default_transaction_read_only"  # of our readers; the server's own tells which host it is


@dataclass(frozen=True, slots=True)
class _Place:
    """One thing to connect to: a socket's path, or an IP address of a server."""

    server: ServerAddress
    path: str | None = None
    address: str = ""
    peers: frozenset[int] | None = None


async def connect(
    target: PostgresTarget, *, server_settings: dict[str, str], seconds: float | None = None, **options: Any
) -> Any:
    """A connection of the driver. `seconds` holds for all servers together; `options` are the driver's own.

    Raises a StoreError of its own where it can say more than the driver's error, which it raises otherwise.
    """
    if seconds is None:
        return await _connect(target, server_settings, options)
    async with asyncio.timeout(seconds):
        return await _connect(target, server_settings, options)


async def _connect(target: PostgresTarget, told: dict[str, str], options: dict[str, Any]) -> Any:
    wanted = target.settings.values.get("target_session_attrs", "any")
    servers = list(target.settings.servers)
    if target.settings.values.get("load_balance_hosts") == "random":
        random.shuffle(servers)
    problem: BaseException | None = None
    for asked in ("standby", "any") if wanted == "prefer-standby" else (wanted,):
        for server in servers:
            for place in await _places(target, server):
                try:
                    made = await _reach(target, place, told, asked, options)
                except (OSError, asyncpg.CannotConnectNowError) as failed:
                    problem = failed
                    continue
                if made is not None:
                    target.route.server = place.server
                    return made
    raise _unreached(target) or problem or Unreachable(f"{target.label}: no host is {wanted} (target_session_attrs)")


def _unreached(target: PostgresTarget) -> Unreachable | None:
    """Says which sockets were left alone; None where there are none."""
    ports = [server.port for server in target.settings.servers if server.is_default]
    folders = [folder for port in ports for folder in default_sockets(port)[1]]
    if not folders:
        return None
    return Unreachable(
        f"{target.label} cannot be reached: the socket in {folders[0]} belongs to another OS user and was not used; if "
        f"it is the right one, say host={folders[0]}"
    )


async def _places(target: PostgresTarget, server: ServerAddress) -> list[_Place]:
    required = _required_peers(target)
    if server.is_socket:
        return [_Place(server, socket_path(server.host, server.port), peers=required)]
    places: list[_Place] = []
    for folder in default_sockets(server.port)[0] if server.is_default else ():
        path = socket_path(folder, server.port)
        places.append(_Place(replace(server, host=folder), path, peers=required or _owners(path)))
    addresses = await _addresses(server.address or server.host or "localhost", server.port)
    return [*places, *(_Place(server, address=address) for address in addresses or [""])]


def _required_peers(target: PostgresTarget) -> frozenset[int] | None:
    name = target.settings.values.get("requirepeer")
    return frozenset({uid_of(name)}) if name else None


def _owners(path: str) -> frozenset[int]:
    try:
        return trusted_owners(Path(path), os.geteuid())
    except OSError:
        return frozenset()


async def _addresses(host: str, port: int) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(one[4][0]) for one in found))


async def _reach(
    target: PostgresTarget, place: _Place, told: dict[str, str], asked: str, options: dict[str, Any]
) -> Any:
    """The connection, or None where the server is not what `target_session_attrs` asks for."""
    # A reader's own default would hide the server's.
    late = {_OWN_DEFAULT: told[_OWN_DEFAULT]} if asked.startswith("read-") and _OWN_DEFAULT in told else {}
    early = {key: value for key, value in told.items() if key not in late}
    connection = await _log_in(target, place, early, options)
    try:
        if not await _is_wanted(connection, asked):
            connection.terminate()
            return None
        for key, value in late.items():
            await connection.execute(f"SET {key} = '{value}'")
    except BaseException:
        connection.terminate()
        raise
    return connection


async def _log_in(target: PostgresTarget, place: _Place, told: dict[str, str], options: dict[str, Any]) -> Any:
    said = target.settings.ssl_mode
    if place.path is not None:
        return await _dial(target, place, told, options, None)
    if not place.address:
        raise socket.gaierror(socket.EAI_NONAME, "no such host")
    mode = mode_for(said, place.address)
    if mode == "disable":
        return await _dial(target, place, told, options, None)
    context = context_for(mode, place.server.host or place.address, target.settings.values)
    first, second = (None, context) if mode == "allow" else (context, None)
    if mode not in ("allow", "prefer"):
        return await _must_have_tls(target, place, told, options, context)
    try:
        return await _dial(target, place, told, options, first, or_without=mode == "prefer")
    except (ConnectionError, ssl.SSLError, asyncpg.InvalidAuthorizationSpecificationError) as problem:
        # A port where nothing listens refuses the other way, too.
        if isinstance(problem, ConnectionRefusedError | asyncpg.InvalidPasswordError):
            raise
    return await _dial(target, place, told, options, second)


async def _must_have_tls(
    target: PostgresTarget, place: _Place, told: dict[str, str], options: dict[str, Any], context: ssl.SSLContext
) -> Any:
    label = target.label_of(place.server)
    try:
        return await _dial(target, place, told, options, context)
    except ssl.SSLCertVerificationError:
        raise Unreachable(f"{label}: its certificate does not verify: check sslrootcert= and sslmode=") from None
    except ssl.SSLError:
        raise Unreachable(
            f"{label}: the TLS handshake failed: check sslmode= and the TLS versions of both sides"
        ) from None
    except ConnectionError as problem:
        if isinstance(problem, ConnectionRefusedError | ConnectionResetError):
            raise
        asked = target.settings.ssl_mode
        raise Unreachable(
            f"{label} does not offer TLS, which sslmode={asked} asks for; nothing was sent"
            if asked
            else f"{label} does not offer TLS, and a host that is not loopback needs it; nothing was sent. Say "
            "sslmode=disable (in the string, the service file or PGSSLMODE) to do without"
        ) from None


async def _dial(
    target: PostgresTarget,
    place: _Place,
    told: dict[str, str],
    options: dict[str, Any],
    tls: ssl.SSLContext | None,
    *,
    or_without: bool = False,
) -> Any:
    """`or_without`: on the same connection, where the server has no TLS."""
    settings, server = target.settings, place.server
    loop, watch = asyncio.get_running_loop(), _watch(target, place, tls)
    asks: Asks = "no" if tls is None else "preferred" if or_without else "required"
    dial = DialLoop(loop, watch, path=place.path, tls=asks, options=socket_options(settings.values))
    try:
        connection = await asyncpg.connect(
            # Everything is said here, so that the driver asks neither the environment nor a file of its own.
            host="/" if place.path is not None else place.address,
            port=server.port,
            user=settings.user,
            password=target.password or settings.kept_password(server),
            database=settings.database,
            ssl=tls or False,
            direct_tls=tls is not None and settings.values.get("sslnegotiation") == "direct",
            target_session_attrs="any",
            krbsrvname=settings.values.get("krbsrvname", "postgres"),
            gsslib=settings.values.get("gsslib", "gssapi"),
            timeout=settings.connect_seconds,
            server_settings=told,
            loop=dial,
            **options,
        )
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        if watch.problem is not None:
            raise watch.problem from None
        raise
    connection._loop = loop  # asyncio keeps its tasks by loop, and knows nothing of the stand-in
    if not connection._protocol.is_ssl:  # it asks to end a statement the way it came here
        connection._params = connection._params._replace(ssl=None)
    return connection


def _watch(target: PostgresTarget, place: _Place, tls: ssl.SSLContext | None) -> LoginWatch:
    verified = tls is not None and tls.verify_mode is ssl.CERT_REQUIRED
    return LoginWatch(
        target.label_of(place.server),
        peers=place.peers,
        methods=target.settings.auth_methods,
        cleartext=place.path is not None or target.settings.ssl_mode is not None or verified,
    )


async def _is_wanted(connection: Any, asked: str) -> bool:
    if asked == "any":
        return True
    told = connection.get_settings()
    standby, read_only = (getattr(told, name, None) for name in ("in_hot_standby", _OWN_DEFAULT))
    if standby is None or read_only is None:  # Postgres before 14, or a pooler: ask
        row = await connection.fetchrow(
            "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('default_transaction_read_only')"
        )
        standby, read_only = "on" if row[0] else "off", row[1]
    match asked:
        case "primary":
            return bool(standby == "off")
        case "standby":
            return bool(standby == "on")
        case "read-write":
            return bool(standby == "off" and read_only == "off")
        case _:
            return bool(standby == "on" or read_only == "on")
