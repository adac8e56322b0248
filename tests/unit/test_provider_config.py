"""What the config says of providers and of stores that others own."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.layouts.columns import Options
from console.settings.config import Config, ConfigError, ProviderConfig, StoreConfig, load_config


def load(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load_config(str(path), {})


def test_a_provider_is_read(tmp_path: Path) -> None:
    text = '[providers."Acme Pay"]\nbase_url = "https://api.acme.example/v1"\nauth_header = "X-Key"\ntimeout = 3\n'
    config = load(tmp_path, text + '[providers.p2]\nbase_url = "http://127.0.0.1:1"\n')
    acme = ProviderConfig("https://api.acme.example/v1", "X-Key", "Idempotency-Key", 3.0)
    assert config.providers == {"Acme Pay": acme, "p2": ProviderConfig("http://127.0.0.1:1")}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("", "needs a base_url"),
        ('base_url = "https://x"\nauthorization = "Bearer secret"', "authorization is not a setting"),
        ('base_url = "https://x"\ntimeout = 0', "above 0 and at most 300"),
        ("base_url = 7", "wrong type"),
        ('base_url = "api.acme.example"', r"base_url: not a plain http\(s\)"),
        ('base_url = "http://api.acme.example"', "plain http only on loopback"),
        ('base_url = "https://me:secret@acme.example"', "scheme, host, port and path only"),
        ('base_url = "https://x"\nauth_header = "X Key"', "auth_header must be the name of an HTTP header"),
        ('base_url = "https://x"\nkey_header = ""', "key_header must be the name of an HTTP header"),
    ],
)
def test_what_is_wrong_is_named_at_its_place(tmp_path: Path, settings: str, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"providers\.acme.*{says}") as wrong:
        load(tmp_path, f"[providers.acme]\n{settings}\n")
    assert "secret" not in str(wrong.value)


def test_the_settings_of_a_store_are_read(tmp_path: Path) -> None:
    hub = 'url = "postgresql://x/y"\nhub_url = "https://hub.example"\nhub_wait = 5\non_dismiss = "delete"\n'
    rest = 'outbox_table = "events"\nreplay_header = false\non_success = "delete"\n'
    desk = load(tmp_path, f"[stores.desk]\n{hub}{rest}").stores["desk"]
    assert (desk.hub_url, desk.hub_wait) == ("https://hub.example", 5.0)
    assert desk.options == Options(outbox_table="events", replay_header=False, on_success="delete", on_dismiss="delete")


def test_a_store_of_which_the_config_says_nothing_more_has_the_defaults(tmp_path: Path) -> None:
    desk = load(tmp_path, '[stores.desk]\nurl = "orders.db"\n').stores["desk"]
    assert desk == StoreConfig("desk", "orders.db")
    assert (desk.hub_url, desk.hub_wait, desk.options) == (None, 120.0, Options())
    assert (desk.options.on_success, desk.options.on_dismiss) == (None, "keep")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ('hub_wait = "10"', "hub_wait must be a number of seconds above 0 and at most 3600"),
        ("hub_wait = true", "hub_wait must be a number of seconds"),
        ("hub_wait = 0", "hub_wait must be a number of seconds"),
        ("hub_wait = 3600.5", "hub_wait must be a number of seconds"),
        ("hub_wait = nan", "hub_wait must be a number of seconds"),
        ("hub_url = 7", "hub_url must be the address of a hub"),
        ('hub_url = ""', "hub_url must be the address of a hub"),
        ('hub_url = "hub.example"', r"hub_url: not a plain http\(s\)"),
        ('hub_url = "http://hub.example"', "hub_url hub.example: plain http only on loopback"),
        ('on_dismiss = "archive"', "on_dismiss must be delete, soft-delete or keep"),
        ('on_success = "archive"', "on_success must be delete, soft-delete or keep"),
        ("outbox_table = 3", "outbox_table must be the name of a table"),
        ('outbox_table = ""', "outbox_table must be the name of a table"),
        ('delete_after_replay = "yes"', "delete_after_replay must be true or false"),
        ("replay_header = 1", "replay_header must be true or false"),
    ],
)
def test_a_setting_of_a_store_that_is_wrong_is_named_at_its_place(tmp_path: Path, setting: str, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"config\.toml: stores\.desk\.{says}") as wrong:
        load(tmp_path, f'[stores.desk]\nurl = "postgresql://x/y"\n{setting}\n')
    assert "\n" not in str(wrong.value)


def test_a_hub_keeps_its_ledger_in_postgres(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"stores\.desk\.hub_url needs a Postgres url beside it"):
        load(tmp_path, '[stores.desk]\nurl = "orders.db"\nhub_url = "https://hub.example"\n')
