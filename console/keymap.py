"""The registry of keys: id, where each works, what it does. Feeds footer, help, palette and README.

Knows no screen and no Textual; a screen has a `do_<id>` method for each of its keys.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Literal, NamedTuple

from console.settings.config import ConfigError
from console.text.untrusted import safe

KeyContext = Literal[
    "queue", "entry", "batch", "audit", "event", "attach", "groups", "health", "shift", "approvals", "help"
]
EVERYWHERE: tuple[KeyContext, ...] = (
    "queue",
    "entry",
    "batch",
    "audit",
    "event",
    "attach",
    "groups",
    "health",
    "shift",
    "approvals",
    "help",
)
_LISTS: tuple[KeyContext, ...] = ("queue", "attach", "groups", "approvals", "batch", "audit", "event")
_OPENING: tuple[KeyContext, ...] = (*_LISTS, "health")
_READING: tuple[KeyContext, ...] = ("entry", "health", "shift", "help")
_ENTRIES: tuple[KeyContext, ...] = ("queue", "entry")
_ACTS: tuple[KeyContext, ...] = ("queue", "entry", "groups")
_PICKING: tuple[KeyContext, ...] = ("queue", "groups")
_REPORTED: tuple[KeyContext, ...] = (*_ENTRIES, "batch")


class Key(NamedTuple):
    id: str
    keys: tuple[str, ...]
    label: str
    tooltip: str
    where: tuple[KeyContext, ...]
    dangerous: bool = False  # changes something: not offered read-only or on a screen that is too small
    acting: bool = False  # changes nothing, but is only useful where something can be changed

    @property
    def action(self) -> str:
        return self.id.replace("-", "_")

    @property
    def shown(self) -> str:
        return spelled(self.keys[0])


_MOVES = (*_LISTS, *_READING)
KEYS: tuple[Key, ...] = (
    Key("down", ("j", "down"), "down", "one line down", _MOVES),
    Key("up", ("k", "up"), "up", "one line up", _MOVES),
    Key("top", ("g", "home"), "top", "to the top; what is new counts as seen", _MOVES),
    Key("bottom", ("G", "end"), "bottom", "to the bottom", _MOVES),
    Key("page-up", ("pageup", "ctrl+b"), "page up", "one page up", _MOVES),
    Key("page-down", ("pagedown", "ctrl+f"), "page down", "one page down", _MOVES),
    Key("open", ("enter",), "open", "open what is under the cursor", _OPENING),
    Key("back", ("escape",), "back", "back; here: clear the filter, then the marks", EVERYWHERE),
    Key("filter", ("/",), "filter", "filter by text, venue:alpaca, age>1h, !timeout", (*_PICKING, "audit")),
    Key("command", (":",), "command", "type a command", _ENTRIES),
    Key("palette", ("ctrl+p",), "palette", "find a command by its name", _ENTRIES),
    Key("help", ("?", "f1"), "help", "all keys", EVERYWHERE[:-1]),
    Key("mark", ("space",), "mark", "mark or unmark the entry", _PICKING),
    Key("range", ("v",), "range", "mark from here: move, then v again", ("queue",)),
    Key("mark-all", ("a",), "all", "mark all that match now; later arrivals are not", _PICKING),
    Key("unmark", ("u",), "unmark", "unmark all", _PICKING),
    Key("copy", ("y",), "copy id", "copy the entry's id", _REPORTED),
    Key("copy-json", ("Y",), "copy JSON", "copy the entry as JSON, as dlq show --json prints it", _ENTRIES),
    Key("next", ("J",), "next", "the next entry, also while the pane or the entry is read", _ENTRIES),
    Key("previous", ("K",), "previous", "the entry before", _ENTRIES),
    Key("pane", ("tab",), "panes", "to the other pane", ("queue", "groups", "audit")),
    Key("tab-before", ("[",), "tab before", "the tab before", _ENTRIES),
    Key("tab-after", ("]",), "next tab", "the next tab", _ENTRIES),
    Key("sort", ("s",), "sort", "by age, value, tries or venue; :sort -value reverses it", _PICKING),
    Key("groups", ("f",), "groups", "like failures together", ("queue", "health")),
    Key("health", ("i",), "health", "depth, arrivals, venues and alerts as a picture", ("queue", "groups")),
    Key("report", ("r",), "shift report", "what came and what was done in the last 8 hours", ("health",)),
    Key("mode", ("m",), "paper/live", "paper or live; LIVE asks for the word", _ENTRIES, dangerous=True),
    Key("dismiss", ("D",), "dismiss", "close without sending; the row stays", _ACTS, dangerous=True),
    Key(
        "replay", ("R",), "replay", "plan a replay and show it; nothing is sent yet", (*_ACTS, "batch"), dangerous=True
    ),
    Key("reconcile", ("C",), "ask venue", "ask the venue; what is in doubt is reconciled", _REPORTED, dangerous=True),
    Key("settle", ("S",), "settle", "settle what is in doubt by what you saw", _REPORTED, dangerous=True),
    Key(
        "restore",
        ("U",),
        "restore",
        "take a dismissal or paper replay back, or clear poison",
        _ENTRIES,
        dangerous=True,
    ),
    Key("undo", ("z",), "undo", "undo the last dismiss, at once", _ACTS, dangerous=True),
    Key("note", ("N",), "note", "write a note on the entry, or on the group", _ACTS, dangerous=True),
    Key("approve", ("P",), "approvals", "what waits for a second person: look, then approve", _ACTS, dangerous=True),
    Key("withdraw", ("w",), "withdraw", "withdraw what you asked another person for", ("approvals",), dangerous=True),
    Key("audit", ("A",), "audit", "the audit trail, and whether it holds", _ENTRIES),
    Key("halt", ("H",), "halt", "stop every replay on this store at once; again to resume", _ACTS, dangerous=True),
    Key("stop", ("!",), "stop", "stop the running batch, at once", ("queue", "entry", "groups", "batch"), acting=True),
    Key("batch", ("b",), "batch", "show the running or last batch", ("queue",), acting=True),
    Key("mark-unsent", ("M",), "mark unsent", "in the report: mark what was not sent", ("batch",), acting=True),
    Key("verify", ("v",), "verify", "check the whole chain of the audit trail", ("audit",)),
    Key("export", ("x",), "export", "write what is shown to a file", ("queue", "batch", "audit")),
    Key("pager", ("p",), "pager", "the whole text in $PAGER", _ENTRIES),
    Key("editor", ("e",), "editor", "a copy of the whole text in $EDITOR", _ENTRIES),
    Key("stores", ("o",), "stores", "attach to another store", ("queue",)),
    Key("theme", ("t",), "theme", "dark, light or high contrast", EVERYWHERE),
    Key("refresh", ("ctrl+r",), "refresh", "read everything again", ("queue", "health", "shift", "approvals")),
    Key("quit", ("q", "ctrl+q", "ctrl+c"), "quit", "leave; asks while a batch runs", EVERYWHERE),
)

# The keys by what somebody wants to do, as the help shows them.
TASKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Move", ("down", "up", "page-down", "page-up", "top", "bottom", "open", "back", "pane", "next", "previous",
              "tab-before", "tab-after")),
    ("Find", ("filter", "sort", "groups", "health", "report", "refresh")),
    ("Mark", ("mark", "range", "mark-all", "unmark", "mark-unsent")),
    ("Decide", ("dismiss", "undo", "replay", "reconcile", "settle", "restore", "note", "approve",
                "withdraw")),
    ("Control", ("mode", "halt", "stop", "batch")),
    ("Take along", ("copy", "copy-json", "export", "pager", "editor", "audit", "verify")),
    ("The console", ("help", "command", "palette", "stores", "theme", "quit")),
)  # fmt: skip

# What a key is called on stores whose entries are no orders: its label and its tooltip, {origin} as in `queue`.
_NOT_ORDERS: Mapping[str, tuple[str, str]] = {
    "filter": ("filter", "filter by text, {origin}:NAME, age>1h, !timeout"),
    "sort": ("sort", "by age, tries or {origin}; :sort -age reverses it"),
    "health": ("health", "depth, arrivals, {origin}s and alerts as a picture"),
    "mode": ("paper/live", "replays are real in both; LIVE asks for the word as well"),
    "dismiss": ("dismiss", "close without sending; its gate says what happens to the row"),
    "reconcile": ("reconcile", "end what is in doubt by what is known of it; sends nothing"),
    "restore": ("restore", "take a dismissal back, or clear poison"),
}

# What a key does in one place only, where that is not what it does in the queue.
_THERE: Mapping[tuple[KeyContext, str], str] = {
    ("groups", "back"): "back; first undo the filter typed here, then the marks",
    ("groups", "mark"): "mark or unmark the group",
    ("groups", "mark-all"): "mark all groups that are listed",
    ("groups", "sort"): "by count, last seen, value or oldest",
    ("groups", "open"): "list the group's entries",
    ("groups", "top"): "to the top",
    ("health", "back"): "back",
    ("shift", "back"): "back",
    ("health", "open"): "list the entries that the row counts",
}

_NAMES = {
    "esc": "escape", "pgup": "pageup", "pgdn": "pagedown", "return": "enter", "escape": "escape", "enter": "enter",
    "tab": "tab", "space": "space", "up": "up", "down": "down", "left": "left", "right": "right", "home": "home",
    "end": "end", "pageup": "pageup", "pagedown": "pagedown", "delete": "delete", "insert": "insert",
    "backspace": "backspace", **{f"f{n}": f"f{n}" for n in range(1, 13)},
}  # fmt: skip
_MODIFIED = re.compile(r"(?P<modifiers>((ctrl|alt|shift)\+)+)(?P<key>.+)")
_SHOWN = {"escape": "esc", "pageup": "PgUp", "pagedown": "PgDn", "down": "↓", "up": "↑"} | {
    f"f{n}": f"F{n}" for n in range(1, 13)
}


def spelled(key: str) -> str:
    """The key as people read it."""
    return _SHOWN.get(key, key)


def parse_key(text: str) -> str | None:
    """The name of a key written as `D`, `ctrl+d`, `/` or `esc`; None where it is no key."""
    if len(text) == 1:
        return text if text.isprintable() and not text.isspace() else None
    modified = _MODIFIED.fullmatch(text)
    if modified is None:
        return _NAMES.get(text.lower())
    bare = modified["key"]
    name = bare.lower() if len(bare) == 1 and bare.isalnum() else _NAMES.get(bare.lower())
    return f"{modified['modifiers']}{name}" if name else None


def remapped(keymap: Mapping[str, str]) -> tuple[Key, ...]:
    """The keys with the config's `[keymap]` applied. Raises ConfigError."""
    known = {key.id for key in KEYS}
    if unknown := sorted(set(keymap) - known):
        from difflib import get_close_matches  # only for who misspelt something

        near = get_close_matches(unknown[0], known, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(known))}"
        raise ConfigError(f"keymap.{safe(unknown[0], 80)} is not a key id; {hint}")
    chosen = {key.id: _chosen(key, keymap[key.id]) for key in KEYS if key.id in keymap}
    taken = {name for names in chosen.values() for name in names}
    keys = tuple(key._replace(keys=_kept(key, chosen.get(key.id), taken)) for key in KEYS)
    for place in EVERYWHERE:
        _check_apart(place, keys)
    return keys


def _chosen(key: Key, text: str) -> tuple[str, ...]:
    parts = [part.strip() for part in text.split(",")] if len(text) > 1 else [text]
    parsed = [parse_key(part) for part in parts]
    if None in parsed or not parsed:
        raise ConfigError(f'keymap.{key.id}: "{text}" is not a key; write D, ctrl+d, f5, space or several: j,down')
    chosen = tuple(name for name in parsed if name is not None)
    if key.dangerous and set(chosen) & {"enter", "escape", "space"}:
        raise ConfigError(f"keymap.{key.id}: an act may not lie on {' '.join(chosen)}")
    return chosen


def _kept(key: Key, chosen: tuple[str, ...] | None, taken: Container[str]) -> tuple[str, ...]:
    """One new key replaces the first of its action: the others, such as an arrow, stay unless somebody took them.

    Several new keys replace them all.
    """
    if chosen is None:
        return key.keys
    others = key.keys[1:] if len(chosen) == 1 else ()
    return (*chosen, *(name for name in others if name not in taken))


def _check_apart(place: KeyContext, keys: Iterable[Key]) -> None:
    taken: dict[str, str] = {}
    for key in keys:
        if place not in key.where:
            continue
        for name in key.keys:
            if name in taken:
                raise ConfigError(f"keymap: {spelled(name)} would mean both {taken[name]} and {key.id} ({place})")
            taken[name] = key.id


def at(
    place: KeyContext, keys: Iterable[Key] = KEYS, *, read_only: bool = False, origin: str | None = None
) -> tuple[Key, ...]:
    """The keys of a place. `origin`: the word for a queue or a provider, where the store's entries are no orders."""
    there = (key for key in keys if place in key.where and not (read_only and (key.dangerous or key.acting)))
    worded = there if origin is None else (_worded(key, origin) for key in there)
    return tuple(key._replace(tooltip=_THERE.get((place, key.id), key.tooltip)) for key in worded)


def _worded(key: Key, origin: str) -> Key:
    label, tooltip = _NOT_ORDERS.get(key.id, (key.label, key.tooltip))
    return key._replace(label=label, tooltip=tooltip.replace("{origin}", origin))


def why_not(key: Key) -> str:
    """Why the key does nothing where the console is read-only."""
    return f"READ-ONLY: {key.shown} does nothing here; this console looks, and reads no secret"


def named(key_id: str, keys: Iterable[Key] = KEYS) -> Key:
    return next(key for key in keys if key.id == key_id)


def table(keys: Iterable[Key] = KEYS) -> str:
    """The keys as a Markdown table for the README."""
    lines = ["| key | id | does |", "|---|---|---|"]
    for key in keys:
        shown = " ".join(f"`{spelled(name)}`" for name in key.keys).replace("|", "\\|")
        lines.append(f"| {shown} | `{key.id}` | {key.tooltip} |")
    return "\n".join(lines)
