"""What the config says of providers and of stores that others own."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.config import Config, ConfigError, load_config
from console.integration import ProviderConfig


def load(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load_config(str(path), {})


def test_a_provider_is_read(tmp_path: Path) -> None:
    text = '[providers."Acme Pay"]\nbase_url = "https://api.acme.example/v1"\nauth_header = "X-Key"\ntimeout = 3\n'
    config = load(tmp_path, text + '[providers.p2]\nbase_url = "http://127.0.0.1:1"\n')
    acme = ProviderConfig("https://api.acme.example/v1", "X-Key", "Idempotency-Key", 3.0)
    assert config.providers == {"Acme Pay": acme, "p2": ProviderConfig("http://127.0.0.1:1")}
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("", "needs a base_url"),
        ('base_url = "https://x"\nauthorization = "Bearer secret"', "authorization is not a setting"),
        ('base_url = "https://x"\ntimeout = 0', "between 0 and 300"),
        ("base_url = 7", "wrong type"),
    ],
)
def test_what_is_wrong_is_named_at_its_place(tmp_path: Path, settings: str, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"providers\.acme.*{says}") as wrong:
        load(tmp_path, f"[providers.acme]\n{settings}\n")
    assert "secret" not in str(wrong.value)


def test_settings_of_a_store_that_nobody_knows_are_warned_of(tmp_path: Path) -> None:
    text = '[stores.desk]\nurl = "postgresql://x/y"\noutbox_table = "events"\ndelete_after_repaly = true\n'
    config = load(tmp_path, text)
    assert config.stores["desk"].extra["outbox_table"] == "events"
    assert [warning.rpartition("stores.")[2] for warning in config.warnings] == [
        "desk.delete_after_repaly is not a setting, ignored"
    ]
