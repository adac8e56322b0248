"""The secrets verb: set, list, check, delete. Reads values from a hidden prompt or stdin and never prints one."""

from __future__ import annotations

import asyncio
import getpass
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from console.cli.context import DONE, NOT_ACTED, REJECTED, Context, on_terminal, say
from console.cli.parser import UsageError
from console.cli.printing.listing import Form, document_list
from console.cli.printing.table import TextColumn
from console.services.replay.venue_pool import VenueAccount, VenuePool
from console.settings.config import Config
from console.settings.secret_names import SetName, hub_set, provider_set, venue_set
from console.settings.secret_remedies import shown_set
from console.settings.secrets import SecretError, Vault
from console.text.untrusted import safe
from venues import (
    NAMES,
    BadEndpoint,
    MissingExtra,
    Mode,
    NoPaperMode,
    Readiness,
    UnknownVenue,
    VenueError,
    WrongAccount,
    WrongMode,
    credential_fields,
    has_paper,
)

_USAGE = (UnknownVenue, NoPaperMode, MissingExtra, BadEndpoint)  # asked for what there is not
_WHICH = f"which venue? {', '.join(NAMES)} or ccxt:<exchange_id>"
_MODES: tuple[Mode, ...] = ("paper", "live")


class SecretsOf(NamedTuple):
    """One set as the operator named it."""

    shown: str
    at: SetName
    fields: tuple[str, ...]


def secrets_verb(context: Context) -> int:
    args, config = context.args, context.config
    vault = Vault(config.credentials_dir, known=(*config.venues, *config.providers))
    if args.account == "":
        raise UsageError("--account is empty: leave it out for the venue's own secrets")
    if args.output and args.what != "list":
        raise UsageError("-o is for secrets list: leave it out")
    try:
        if args.what == "list":
            sets = _listed(context) if args.venue else _everything(vault, context)
            return _list_as(args.output, vault, sets) if args.output else _list(vault, sets)
        if args.venue is None:
            raise UsageError(_WHICH)
        one = _without_mode(context) or _of_venue(context)
        match args.what:
            case "set":
                return _set(vault, one)
            case "delete":
                return _delete(vault, one)
            case _:
                return asyncio.run(_check(context, vault))
    except (SecretError, VenueError) as problem:
        raise UsageError(str(problem)) from None


def _kind(config: Config, venue: str) -> str:
    return config.venue(venue).type or venue


def _venue_secrets(config: Config, venue: str, account: str | None, mode: Mode) -> SecretsOf:
    fields = credential_fields(_kind(config, venue))
    return SecretsOf(shown_set(venue, account, mode), venue_set(venue, account, mode), fields)


def _of_venue(context: Context) -> SecretsOf:
    args = context.args
    if args.mode is None:
        raise UsageError("say --paper or --live: their secrets are kept apart")
    return _venue_secrets(context.config, args.venue, args.account, args.mode)


def _without_mode(context: Context) -> SecretsOf | None:
    """The secrets of a provider, its tenant or a hub; None for a venue."""
    args = context.args
    kind, slash, name = args.venue.partition("/")
    if kind not in ("provider", "hub") or not slash:
        return None
    if args.mode is not None or args.account is not None:
        raise UsageError(f"a {kind} has neither paper nor live nor accounts")
    if args.what == "check":
        raise UsageError(f"a {kind} cannot be asked whether it accepts the secret")
    if kind == "hub":
        at, field = hub_set(name), "token"
    else:
        name, tenant = _provider_and_tenant(name, context.config.providers)
        at, field = provider_set(name, tenant), "authorization"
    if not name:
        raise UsageError(f"which {kind}? {kind}/NAME")
    return SecretsOf(safe(args.venue), at, (field,))


def _provider_and_tenant(name: str, providers: Iterable[str]) -> tuple[str, str | None]:
    """Of `NAME` or `NAME/TENANT`. A name with a slash is a provider's where the config has it."""
    known = [one for one in providers if name == one or name.startswith(f"{one}/")]
    provider = max(known, key=len, default=name.partition("/")[0])
    rest = name[len(provider) :]
    if rest == "/":
        raise UsageError("which tenant? provider/NAME/TENANT")
    return provider, rest[1:] or None


def _set(vault: Vault, one: SecretsOf) -> int:
    if not one.fields:
        print(f"{one.shown} needs no secrets")
        return DONE
    place = vault.keyring(one.at, one.fields)
    values = _typed(one) if on_terminal() else _piped(one.fields)
    for field, value in values.items():
        vault.write(one.at, field, value)
    print(f"set {one.shown}: {', '.join(values)} ({place})")
    kept = vault.kept(one.at, one.fields)
    if kept is not None and kept.missing:
        say(f"{one.shown} cannot be used yet: {', '.join(kept.missing)} is not set")
    return DONE


def _typed(one: SecretsOf) -> dict[str, str]:
    """Prompts without echo. Reads a PEM key up to its END line."""
    values: dict[str, str] = {}
    for field in one.fields:
        line = getpass.getpass(f"{one.shown} {field}: ", stream=sys.stderr)
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
    if not all(values.values()):
        raise UsageError("a value on stdin is empty: nothing was set")
    if not values:
        raise UsageError(f"stdin is empty: give lines like {fields[0]}=VALUE")
    return values


def _listed(context: Context) -> list[SecretsOf]:
    """The sets that the arguments name: of one account and mode, or of all that the config knows at this venue."""
    args = context.args
    other = _without_mode(context)
    if other is not None:
        return [other]
    accounts = [args.account] if args.account else _accounts(context.config, args.venue)
    modes = _modes(context, args.venue)
    return [_venue_secrets(context.config, args.venue, account, mode) for account in accounts for mode in modes]


def _accounts(config: Config, venue: str) -> list[str | None]:
    """The venue's own, then those of the config."""
    settings = config.venue(venue)
    default = [settings.default_account] if settings.default_account else []
    return [None, *dict.fromkeys([*default, *settings.accounts])]


def _modes(context: Context, venue: str) -> list[Mode]:
    """The one that was said, else those that the venue has."""
    if context.args.mode:
        return [context.args.mode]
    return [mode for mode in _MODES if mode == "live" or has_paper(_kind(context.config, venue))]


def _everything(vault: Vault, context: Context) -> Iterator[SecretsOf]:
    """Every set of the config's venues, and the sets of other venues that hold something."""
    config = context.config
    if context.args.account is not None:
        raise UsageError(_WHICH)
    for venue in config.venues:
        try:
            pairs = [(account, mode) for account in _accounts(config, venue) for mode in _modes(context, venue)]
            yield from [_venue_secrets(config, venue, account, mode) for account, mode in pairs]
        except VenueError as problem:
            say(f"{safe(venue)}: {problem}")
    for venue in NAMES:
        for mode in _modes(context, venue) if venue not in config.venues else ():
            one = _venue_secrets(config, venue, None, mode)
            if vault.kept(one.at, one.fields) is not None:
                yield one


def _list(vault: Vault, sets: Iterable[SecretsOf]) -> int:
    for one in sets:
        if not one.fields:
            print(f"{one.shown} needs no secrets")
            continue
        kept = vault.kept(one.at, one.fields)
        missing = one.fields if kept is None else kept.missing
        print(f"{one.shown} ({vault.where() if kept is None else kept.place})")
        for field in one.fields:
            print(f"  {field}: {'not set' if field in missing else 'set'}")
    return DONE


_COLUMNS = {
    "set": TextColumn("SET"),
    "field": TextColumn("FIELD"),
    "is_set": TextColumn("SET?"),
    "place": TextColumn("WHERE", least=12),
}


def _list_as(form: Form, vault: Vault, sets: Iterable[SecretsOf]) -> int:
    """One row a field; a venue that needs no secrets has none."""
    rows: list[dict[str, object]] = []
    for one in sets:
        kept = vault.kept(one.at, one.fields) if one.fields else None
        place = vault.where() if kept is None else kept.place
        missing = one.fields if kept is None else kept.missing
        rows += [{"set": one.shown, "field": it, "is_set": it not in missing, "place": place} for it in one.fields]
    for line in document_list(form, rows, _COLUMNS):
        print(line)
    return DONE


def _delete(vault: Vault, one: SecretsOf) -> int:
    vault.keyring(one.at, one.fields)
    gone = [field for field in one.fields if vault.delete(one.at, field)]
    print(f"deleted {one.shown}: {', '.join(gone) or 'nothing was set'}")
    return DONE if gone else NOT_ACTED


async def _check(context: Context, vault: Vault) -> int:
    """Ask the venue whether it would let this account in, and which account it is there."""
    args = context.args
    at, shown = VenueAccount(args.venue, args.account), shown_set(args.venue, args.account, args.mode)
    pool = VenuePool(context.config.venues, vault.credentials)
    try:
        client = await pool.client(at, args.mode)
        seen = await client.probe()
    except _USAGE:
        raise
    except VenueError as problem:
        say(f"{shown}: {problem}")
        unanswered = isinstance(problem, WrongAccount) and not await _answers(context, vault, at)
        return REJECTED if isinstance(problem, WrongAccount | WrongMode) and not unanswered else NOT_ACTED
    finally:
        await pool.aclose()
    code = _verdict(seen, args.mode)
    told = f"{':' if args.account else ''} account {safe(client.account)}" if client.account else ""
    print(f"{shown}{told} at {client.host}: {'NOT ok' if code else 'ok'}: {safe(seen.detail)}")
    return code


def _verdict(seen: Readiness, mode: Mode) -> int:
    """The exit code: whether the venue refuses this account, or was not heard. A shut market is no refusal. Pure."""
    if seen.account_usable is False or seen.really_paper not in (None, mode == "paper"):
        return REJECTED
    return DONE if seen.reachable and seen.account_usable else NOT_ACTED


async def _answers(context: Context, vault: Vault, at: VenueAccount) -> bool:
    """Whether the venue can be reached at all, whatever number the config demands."""
    settings = replace(context.config.venue(at.venue), accounts={})
    pool = VenuePool({at.venue: settings}, vault.credentials)
    try:
        client = await pool.client(at, context.args.mode)
        return (await client.probe()).reachable
    except VenueError:
        return False
    finally:
        await pool.aclose()
