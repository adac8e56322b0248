"""A config is refused, with what mends it, where it says what nobody knows or where others may write it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from console.settings.config import ConfigError, load_config
from console.settings.file_safety import who_may_write
from console.settings.secret_names import venue_set
from console.settings.secrets import SecretError, Vault

MISSPELT = {
    "four_eyes_ovr = 1": "four_eyes_ovr is not a setting",
    "[limit]\nmax_batch = 1": "limit is not a setting; did you mean limits?",
    "[limits]\nfour_eyes_ovr = 1": "limits.four_eyes_ovr is not a setting; did you mean four_eyes_over?",
    "[alerts]\ndept = 3": "alerts.dept is not a setting; did you mean depth?",
    '[stores.a]\nurl = "x.db"\nenvirnoment = "live"': "stores.a.envirnoment is not a setting; did you mean environment",
    "[venues.alpaca]\ntimout = 3": "venues.alpaca.timout is not a setting; did you mean timeout?",
    "[venues.alpaca.accounts.h]\nlive_numbr = '1'": "did you mean live_number?",
    '[providers.p]\nbase_ulr = "https://a.example"': "did you mean base_url?",
    '"\\u001b[2J" = 1': "<1B>[2J is not a setting; there are: stores, venues",
}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", MISSPELT)
def test_a_setting_that_nobody_knows_ends_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        load_config(str(written(tmp_path, text)), {})
    assert MISSPELT[text] in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_deep_nesting_is_no_bug(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(str(written(tmp_path, "theme = " + "[" * 100_000)), {})


@pytest.mark.parametrize("key", ["limits]\nstale_after", "limits]\nduplicate_window", "alerts]\noldest"])
@pytest.mark.parametrize("value", ["2000000d", "99999999999999999d"])
def test_a_time_that_no_date_reaches_is_refused(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(ConfigError, match="at most 365000d"):
        load_config(str(written(tmp_path, f'[{key} = "{value}"')), {})


def test_a_config_that_others_may_write_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    for mode, refused in ((0o600, False), (0o644, False), (0o646, True), (0o602, True)):
        path.chmod(mode)
        assert (who_may_write(path) == "everybody") is refused, oct(mode)
    with pytest.raises(ConfigError, match="everybody may change the config"):
        load_config(str(path), {})
    path.chmod(0o600)
    assert load_config(str(path), {}).path == path


def test_the_default_config_in_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """They could put another one in its place."""
    folder = tmp_path / "dlq-console"
    folder.mkdir()
    written(folder, "")
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match="everybody may change the config"):
        load_config(None, {"XDG_CONFIG_HOME": str(tmp_path)})
    folder.chmod(0o1777)
    assert load_config(None, {"XDG_CONFIG_HOME": str(tmp_path)}).path is not None, "in a sticky folder nobody can"


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a file to another group")
def test_a_group_that_is_not_the_owners_own_counts_as_others(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    path.chmod(0o660)
    assert who_may_write(path) is None, "root's own group"
    os.chown(path, 0, 2)
    assert (who_may_write(path) or "").startswith("the group ")


def test_credentials_in_a_folder_that_others_may_write_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o700)
    for field in ("api_key", "secret_key"):
        path = folder / f"alpaca.paper.{field}"
        path.write_text("x\n")
        path.chmod(0o600)
    folder.chmod(0o777)
    with pytest.raises(SecretError, match="everybody may change the credentials"):
        Vault(folder, {}).kept(venue_set("alpaca", None, "paper"), ("api_key", "secret_key"))


def test_credentials_that_are_no_file_or_never_end_are_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    os.mkfifo(tmp_path / "alpaca.paper.api_key", 0o600)
    large = tmp_path / "alpaca.live.api_key"
    large.write_text("x" * 100_001)
    large.chmod(0o600)
    vault = Vault(tmp_path, {})
    with pytest.raises(SecretError, match="it is not a file"):
        vault.kept(venue_set("alpaca", None, "paper"), ("api_key",))
    with pytest.raises(SecretError, match="it is larger than 100,000 bytes"):
        vault.kept(venue_set("alpaca", None, "live"), ("api_key",))


def test_a_folder_on_the_way_counts_too(tmp_path: Path) -> None:
    """Whoever may rename a folder can put another one, with another config, in its place."""
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    path = written(deep, "")
    assert load_config(str(path), {}).path == path
    for folder in (deep, deep.parent, deep.parent.parent):
        folder.chmod(0o777)
        with pytest.raises(ConfigError, match="everybody may change the config"):
            load_config(str(path), {})
        folder.chmod(0o755)
