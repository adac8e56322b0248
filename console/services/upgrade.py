"""What a config and secrets of version 0.1 still need, as findings with their remedy. Reads no secret, asks nobody."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from console.settings.config import Config, Limits, StoreConfig
from console.settings.secret_names import venue_set
from console.settings.secret_remedies import toml_key, toml_text
from console.text.shell import set_command
from console.text.untrusted import safe
from venues import Mode

_MODES: tuple[Mode, ...] = ("paper", "live")


class UpgradeFinding(NamedTuple):
    code: str
    text: str
    remedy: str


class UpgradeFacts(NamedTuple):
    """What is known of the store: its entries' accounts, whether its ledger is of 0.1, and its environment."""

    accounts: Collection[tuple[str, str]] = ()  # venue, account_id
    ledger_is_older: bool = False
    environment: str | None = None


def upgrade_findings(config: Config, store: StoreConfig, facts: UpgradeFacts) -> Iterator[UpgradeFinding]:
    if store.name in config.stores and facts.environment is None:
        yield _environment(store.name)
    for venue, account in sorted(facts.accounts):
        if _needs_account(config, venue, account, older=facts.ledger_is_older):
            yield _account(venue, account)
    if facts.ledger_is_older and (keys := _plain_limits(config.limits)):
        yield _limits(keys)


def _environment(store: str) -> UpgradeFinding:
    return UpgradeFinding(
        "environment-absent",
        "neither the config nor the policy says whether this store is live or paper, so an accepted paper replay "
        "settles its entry",
        f'put environment = "live" or "paper" into [stores.{toml_key(store)}]; in live, paper replays are rehearsals',
    )


def _needs_account(config: Config, venue: str, account: str, *, older: bool) -> bool:
    """Whether only secrets without an account can be there, as 0.1 kept them; a keyring is not asked."""
    settings = config.venue(venue)
    if account == settings.default_account or account in settings.accounts:
        return False
    if config.credentials_dir is None:
        return older
    return any(
        _has_files(config.credentials_dir, venue_set(venue, None, mode).prefix)
        and not _has_files(config.credentials_dir, venue_set(venue, account, mode).prefix)
        for mode in _MODES
    )


def _has_files(folder: Path, prefix: str) -> bool:
    try:
        return any(one.name.startswith(f"{prefix}.") for one in folder.iterdir())
    except OSError:
        return False


def _account(venue: str, account: str) -> UpgradeFinding:
    commands = " and ".join(set_command(venue, account, mode) for mode in _MODES)
    return UpgradeFinding(
        "account-without-secrets",
        f"entries of account {safe(account, 80)} at {safe(venue, 80)} go out with that account's own secrets only; "
        "version 0.1 kept one set for the whole venue",
        f"run {commands}; or, if the venue's set is that account's, "
        f"put default_account = {toml_text(account)} into [venues.{toml_key(venue)}]",
    )


def _plain_limits(limits: Limits) -> list[str]:
    """The limits that the config sets to one amount."""
    usual = Limits()
    pairs = {
        "max_notional": (limits.max_notional, usual.max_notional),
        "four_eyes_over": (limits.four_eyes_over, usual.four_eyes_over),
    }
    return [f"{key} = {held:f}" for key, (held, was) in pairs.items() if isinstance(held, Decimal) and held != was]


def _limits(keys: list[str]) -> UpgradeFinding:
    return UpgradeFinding(
        "limits-meaning",
        f"{' and '.join(keys)}: since 0.2 an amount counts in any one currency, orders without a price count at the "
        "quote, and four_eyes_over includes what you sent in the last hour",
        "check the amounts; { USD = 50000, JPY = 7500000, default = 50000 } sets one for each currency",
    )
