"""The secrets verb: set, list, check, delete. Reads values from a hidden prompt or stdin and never prints one."""

from __future__ import annotations

import asyncio
import getpass
import sys
from typing import cast

from console.cli.context import DONE, NOT_ACTED, REJECTED, Context, on_terminal
from console.cli.parser import UsageError
from console.services.replay.venue_pool import VenuePool
from console.settings.secrets import SecretError, Vault
from venues import Mode, VenueError, credential_fields

_WITHOUT_MODE = {"provider": ("authorization",), "hub": ("token",)}


def secrets_verb(context: Context) -> int:
    args = context.args
    if args.venue is None:
        raise UsageError("which venue? alpaca, kalshi, hyperliquid, polymarket, ibkr or ccxt:<exchange_id>")
    vault = Vault(context.config.credentials_dir)
    kind, _, name = args.venue.partition("/")
    if kind in _WITHOUT_MODE and name:
        return _without_mode(context, vault, kind, name)
    if args.mode is None:
        raise UsageError("say --paper or --live: their secrets are kept apart")
    settings = context.config.venues.get(args.venue)
    kind = settings.type if settings and settings.type else args.venue
    try:
        fields = credential_fields(kind)
        match args.what:
            case "set":
                return _set(vault, args.venue, args.mode, fields)
            case "list":
                return _list(vault, args.venue, args.mode, fields)
            case "delete":
                return _delete(vault, args.venue, args.mode, fields)
            case _:
                return asyncio.run(_check(context, vault))
    except (SecretError, VenueError) as problem:
        raise UsageError(str(problem)) from None


def _without_mode(context: Context, vault: Vault, kind: str, name: str) -> int:
    """Secrets of a provider or a hub. They have no mode, so their name takes its place."""
    if context.args.mode is not None:
        raise UsageError(f"a {kind} has neither paper nor live")
    at, fields = cast("Mode", name), _WITHOUT_MODE[kind]
    try:
        match context.args.what:
            case "set":
                return _set(vault, kind, at, fields)
            case "list":
                return _list(vault, kind, at, fields)
            case "delete":
                return _delete(vault, kind, at, fields)
            case _:
                raise UsageError(f"a {kind} cannot be asked whether it would let us in")
    except SecretError as problem:
        raise UsageError(str(problem)) from None


def _set(vault: Vault, venue: str, mode: Mode, fields: tuple[str, ...]) -> int:
    if not fields:
        print(f"{venue} needs no secrets")
        return DONE
    vault.keyring(venue, mode)
    values = _typed(venue, mode, fields) if on_terminal() else _piped(fields)
    place = vault.keyring(venue, mode, values)
    for field, value in values.items():
        vault.write(venue, mode, field, value)
    print(f"set {venue} {mode}: {', '.join(values)} ({place})")
    return DONE


def _typed(venue: str, mode: Mode, fields: tuple[str, ...]) -> dict[str, str]:
    """Prompts without echo. Reads a PEM key up to its END line."""
    values: dict[str, str] = {}
    for field in fields:
        line = getpass.getpass(f"{venue} {mode} {field}: ", stream=sys.stderr)
        lines = [line]
        while lines[0].startswith("-----BEGIN") and not lines[-1].startswith("-----END"):
            lines.append(getpass.getpass("", stream=sys.stderr))
        value = "\n".join(lines).strip()
        if not value:
            raise UsageError(f"{field} is empty: nothing was set")
        values[field] = value
    return values


def _piped(fields: tuple[str, ...]) -> dict[str, str]:
    """Reads `field=value` lines, or one bare value for the last field not given (`< key.pem`)."""
    text = "" if sys.stdin is None else sys.stdin.read()
    values: dict[str, str] = {}
    rest: list[str] = []
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.strip() in fields and not rest:
            values[name.strip()] = value.strip()
        else:
            rest.append(line)
    bare = "\n".join(rest).strip()
    if bare:
        missing = [field for field in fields if field not in values]
        if not missing:
            raise UsageError("stdin holds more than the fields of this venue")
        values[missing[-1]] = bare
    if not values:
        raise UsageError(f"stdin is empty: give lines like {fields[0]}=VALUE")
    return values


def _list(vault: Vault, venue: str, mode: Mode, fields: tuple[str, ...]) -> int:
    print(f"{venue} {mode} ({vault.where()})")
    for field in fields:
        print(f"  {field}: {'set' if vault.read(venue, mode, field) else 'not set'}")
    return DONE


def _delete(vault: Vault, venue: str, mode: Mode, fields: tuple[str, ...]) -> int:
    vault.keyring(venue, mode, fields)
    gone = [field for field in fields if vault.delete(venue, mode, field)]
    print(f"deleted {venue} {mode}: {', '.join(gone) or 'nothing was set'}")
    return DONE if gone else NOT_ACTED


async def _check(context: Context, vault: Vault) -> int:
    args = context.args
    pool = VenuePool(context.config.venues, vault.credentials)
    try:
        client = await pool.client(args.venue, args.mode)
        seen = await client.probe()
        good = seen.reachable and seen.account_usable is not False and seen.really_paper is not False
        print(f"{args.venue} {args.mode} at {client.host}: {'ok' if good else 'NOT ok'}: {seen.detail}")
        return DONE if good else REJECTED
    finally:
        await pool.aclose()
