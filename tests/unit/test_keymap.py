"""The key registry: the contract's keys, one meaning each, remapping that cannot go wrong unseen."""

from __future__ import annotations

import re

import pytest

from console import keymap as keys
from console.settings.config import ConfigError

CONTRACT = {
    "down": "j", "up": "k", "top": "g", "bottom": "G", "page-up": "pageup", "page-down": "pagedown", "open": "enter",
    "back": "escape", "filter": "/", "command": ":", "palette": "ctrl+p", "help": "?", "mark": "space", "range": "v",
    "mark-all": "a", "unmark": "u", "copy": "y", "copy-json": "Y", "next": "J", "previous": "K",
    "pane": "tab", "tab-before": "[", "tab-after": "]", "sort": "s",
    "groups": "f", "mode": "m", "dismiss": "D", "replay": "R", "reconcile": "C", "undo": "z", "audit": "A",
    "halt": "H", "stop": "!", "export": "x", "refresh": "ctrl+r", "quit": "q",
}  # fmt: skip


@pytest.mark.parametrize(("key_id", "key"), CONTRACT.items())
def test_the_contract_s_keys_are_there(key_id: str, key: str) -> None:
    found = keys.named(key_id)
    assert key in found.keys
    assert "queue" in found.where


def test_ids_are_unique_and_every_key_says_what_it_does() -> None:
    assert len({key.id for key in keys.KEYS}) == len(keys.KEYS)
    assert all(key.label and key.tooltip and key.where for key in keys.KEYS)


@pytest.mark.parametrize("place", keys.EVERYWHERE)
def test_no_key_means_two_things_in_one_place(place: keys.KeyContext) -> None:
    names = [name for key in keys.at(place) for name in key.keys]
    assert len(names) == len(set(names))


def test_read_only_drops_everything_that_acts() -> None:
    left = {key.id for key in keys.at("queue", read_only=True)}
    assert not left & {"dismiss", "replay", "reconcile", "restore", "undo", "note", "halt", "mode", "approve", "stop"}
    assert {"audit", "filter", "export", "open", "quit"} <= left


def test_capitals_are_kept_for_what_opens_a_gate_or_a_screen_or_moves_or_copies() -> None:
    capitals = {key.id for key in keys.KEYS for name in key.keys if len(name) == 1 and name.isupper()}
    assert capitals == {
        "bottom", "dismiss", "replay", "reconcile", "settle", "restore", "note", "approve", "audit", "halt",
        "next", "previous", "copy-json", "mark-unsent",
    }  # fmt: skip


def test_a_remapped_key_moves_and_its_old_key_is_free() -> None:
    moved = keys.named("dismiss", keys.remapped({"dismiss": "ctrl+d", "sort": "D"}))
    assert moved.keys == ("ctrl+d",)
    assert keys.named("sort", keys.remapped({"dismiss": "ctrl+d", "sort": "D"})).keys == ("D",)


def test_several_keys_may_be_given() -> None:
    assert keys.named("down", keys.remapped({"down": "n, down"})).keys == ("n", "down")


@pytest.mark.parametrize(
    ("keymap", "says"),
    [
        ({"dismis": "D"}, "keymap.dismis is not a key id; did you mean dismiss?"),
        ({"\x1b[2J": "D"}, "keymap.<1B>.2J is not a key id; there are: "),
        ({"dismiss": ""}, "is not a key"),
        ({"dismiss": "shift+space+"}, "is not a key"),
        ({"dismiss": "\x1b"}, "is not a key"),
        ({"dismiss": "R"}, "would mean both"),
        ({"dismiss": "enter"}, "may not lie on enter"),
        ({"replay": "space"}, "may not lie on space"),
    ],
)
def test_a_bad_remap_is_refused_in_clear_words(keymap: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        keys.remapped(keymap)


def test_the_readme_table_has_every_key() -> None:
    table = keys.table()
    assert table.count("\n") == len(keys.KEYS) + 1
    assert all(f"`{key.id}`" in table for key in keys.KEYS)


def test_keys_of_messages_and_calls_speak_of_no_order() -> None:
    told = {f"{key.label}: {key.tooltip}" for place in keys.EVERYWHERE for key in keys.at(place, origin="queue")}
    assert [text for text in told if re.search(r"\b(venue|order|market|account)s?\b|\bpaper replay\b", text)] == []
    assert [text for text in told if "queue:NAME" in text]
    assert {key.id for key in keys.at("queue", origin="queue")} == {key.id for key in keys.at("queue")}


def test_remapping_one_key_of_an_action_keeps_its_others() -> None:
    moved = keys.remapped({"down": "n", "quit": "ctrl+x"})
    assert keys.named("down", moved).keys == ("n", "down")
    assert keys.named("quit", moved).keys == ("ctrl+x", "ctrl+q", "ctrl+c")
    taken = keys.remapped({"help": "f2", "theme": "f1"})  # somebody wants the other key for something else
    assert keys.named("help", taken).keys == ("f2",)
    assert keys.named("theme", taken).keys == ("f1",)


def test_every_key_belongs_to_one_task_of_the_help() -> None:
    listed = [name for _, names in keys.TASKS for name in names]
    assert sorted(listed) == sorted(key.id for key in keys.KEYS)
