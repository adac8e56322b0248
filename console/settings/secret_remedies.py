"""What to say where secrets are missing: one line with the commands and config lines that mend it. Pure.

Names come from stores and may hold anything; here they are quoted so that a shell and the config take them as they are.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from console.settings.secret_names import SetName, provider_set
from console.text.shell import set_command, shell_word
from console.text.untrusted import safe

if TYPE_CHECKING:
    from venues import SecretSet

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(text: str) -> str:
    """The text as TOML writes it, on one line."""
    if text.isprintable():
        return json.dumps(text, ensure_ascii=False)
    return '"' + "".join(map(_toml_character, text)) + '"'


def _toml_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    return f"\\u{ord(character):04X}" if ord(character) < 0x10000 else f"\\U{ord(character):08X}"


def toml_key(text: str) -> str:
    return text if _BARE_KEY.fullmatch(text) else toml_text(text)


def shown_set(venue: str, account: str | None, mode: str) -> str:
    """`alpaca live`, `alpaca live of account hedge`."""
    return f"{safe(venue)} {mode}" + (f" of account {safe(account)}" if account else "")


def set_missing(wanted: SecretSet) -> str:
    """Nothing of this set is kept anywhere."""
    venue, account, mode = wanted.venue, wanted.account, wanted.mode
    told = f"no credentials are set for {shown_set(venue, account, mode)}: run {set_command(venue, account, mode)}"
    if not account:
        return told
    if wanted.venue_too:
        return f"{told}, or {set_command(venue, None, mode)}, as it is the venue's default_account"
    line = f"default_account = {toml_text(account)}"
    return f"{told}; or, if the venue's own credentials are that account's, put {line} into [venues.{toml_key(venue)}]"


def field_missing(wanted: SecretSet, field: str, place: str) -> str:
    """A part of this set is kept, but not this field."""
    shown = shown_set(wanted.venue, wanted.account, wanted.mode)
    again = set_command(wanted.venue, wanted.account, wanted.mode)
    return f"{field} of {shown} is not set in {place}, where its other fields are: run {again}"


def secret_missing(kept: SetName, field: str) -> str:
    """Where a secret of a provider or a hub is kept: the command, and both places that are looked in."""
    command = f"dlq secrets set {shell_word('/'.join(kept.parts))}"
    places = f"keyring service {kept.service}, item {field}, or the file {kept.prefix}.{field} in credentials_dir"
    return f"run {command} ({places})"


def tenant_missing(provider: str, tenant: str | None, *, listed: bool) -> str:
    """A tenant of a provider has no authorization of its own, or the provider's table does not name it."""
    if not tenant:
        return f"the entry names no tenant, and provider {safe(provider)} has credentials per tenant only"
    remedy = secret_missing(provider_set(provider, tenant), "authorization")
    table = f"[providers.{toml_key(provider)}.tenants]"
    if listed:
        return (
            f"no authorization is set for tenant {safe(tenant)} of provider {safe(provider)}: {remedy}; "
            f"or remove {table} if all tenants share the provider's own"
        )
    return (
        f"tenant {safe(tenant)} is not in {table}: put {toml_key(tenant)} = {{}} there and {remedy}; "
        f"or remove {table} if all tenants share the provider's own"
    )
