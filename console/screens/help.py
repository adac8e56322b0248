"""The help screen: every key of the screen below, from the registry."""

from __future__ import annotations

from console import keymap as keys
from console.render.line import HANG, Cell, Line, columns, fit, line, trusted
from console.render.row import legend
from console.screens.frame import ReadingScreen
from console.services.layout_fields import LAYOUTS

_STATES = "pending in_flight in_doubt replayed dismissed, open, all; several with commas"
_READING = "SELL stands in capitals, buy in small letters; a VALUE without a currency is in USD, USDT or USDC."
_GATES = (
    "Capitals only open a gate. Esc cancels it at any moment; Enter alone confirms nothing.",
    "What was typed before a gate could be read does not count; a paste never does.",
    "Dismiss asks for a reason's digit, then the number of entries. Replay for the number, in LIVE for the word "
    "and the number.",
    "! stops a running batch at once and never asks; z undoes the last dismiss at once.",
)


class HelpScreen(ReadingScreen):
    key_context = "help"
    FOOTER = ("back", "down", "up")

    def __init__(self, about: keys.KeyContext) -> None:
        super().__init__()
        self._about = about

    def on_mount(self) -> None:
        super().on_mount()
        self.head.show(
            line(trusted("Keys", "strong"), trusted("   remap them in the config: [keymap] id = key", "dim"))
        )
        self.text.put(self._lines())

    def _lines(self) -> list[Line]:
        there = self.console.keys_at(self._about)
        lines = columns([(" ".join(keys.spelled(name) for name in key.keys), _meaning(key)) for key in there])
        lines += [(), line(trusted("The filter line", "strong"))]
        lines += columns([(word, line(trusted(text))) for word, text in _filters(self.console.header_state.layout)])
        lines += [(), line(trusted("Signs in front of the rows", "strong"))]
        signs = legend(self.console.header_state.layout)
        lines += columns([(one.sign, line(trusted(one.meaning, one.tone))) for one in signs])
        if LAYOUTS[self.console.header_state.layout].has_worth:
            lines.append(line(trusted(" "), HANG, trusted(_READING)))
        if not self.console.header_state.read_only:
            lines += [(), line(trusted("Gates", "strong"))]
            lines += [line(trusted(" "), HANG, trusted(text)) for text in _GATES]
        return lines


def _filters(layout: str) -> tuple[tuple[str, str], ...]:
    words = LAYOUTS[layout].words
    return (
        ("some text", f"in {words.searched}"),
        ("!timeout", f"not there; !{words.origin}:x excludes a value"),
        (words.example, f"also {words.filters} category: group: mark: reason: operator: id: error:"),
        ("state:in_doubt", _STATES),
        ("age>1h  age<15m", "older, younger; also since:8h until:2026-04-18"),
        *((("notional>50k", "also qty price tries; >= <= < and : for equal"),) if LAYOUTS[layout].has_worth else ()),
        (f'{words.origin}:a,b*  {words.origin}:""', "either, * for anything; has none"),
    )


def _meaning(key: keys.Key) -> Line:
    return (Cell(fit(key.id, 12), "accent"), trusted(key.tooltip))
