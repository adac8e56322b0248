"""The table of settings, of which docs/configuration.md is made, is what the config's reader takes."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from backends.layouts.columns import Options
from console.settings import setting
from console.settings.config import (
    AccountConfig,
    Alerts,
    Config,
    Limits,
    ProviderConfig,
    StoreConfig,
    VenueConfig,
    load_config,
)

NEEDED = {setting.STORE: 'url = "x.db"\n', setting.PROVIDER: 'base_url = "https://api.example.com"\n'}
RECORDS = {
    setting.STORE: {*(one.name for one in fields(StoreConfig)), *(one.name for one in fields(Options))}
    - {"name", "options"},
    setting.VENUE: {one.name for one in fields(VenueConfig)},
    setting.ACCOUNT: {one.name for one in fields(AccountConfig)},
    setting.PROVIDER: {one.name for one in fields(ProviderConfig)},
    setting.LIMITS: {one.name for one in fields(Limits)},
    setting.ALERTS: {one.name for one in fields(Alerts)},
}


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load_config(str(path), {})


def written(section: setting.Section, lines: str) -> str:
    title = section.title.replace("NAME", "alpaca").replace("ACCOUNT", "hedge")
    return (f"[{title}]\n" if title else "") + NEEDED.get(section, "") + lines


@pytest.mark.parametrize("section", RECORDS, ids=lambda section: section.title)
def test_every_setting_that_is_kept_is_in_the_table(section: setting.Section) -> None:
    assert set(setting.names(section)) == RECORDS[section]


@pytest.mark.parametrize("section", setting.SECTIONS, ids=lambda section: section.title or "top")
def test_the_defaults_of_the_table_are_the_readers(tmp_path: Path, section: setting.Section) -> None:
    given = "".join(f"{one.key} = {one.default}\n" for one in section.settings if one.default and one.key != "theme")
    assert read(tmp_path, written(section, given)) == read(tmp_path, written(section, ""))
