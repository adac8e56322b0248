"""Frames of the console as one animated SVG: a row that several frames share is drawn once. Knows no scene."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual._compositor import LayoutUpdate

from console.app import ConsoleApp

_CELL, _ROW, _FONT = 8.4, 17.0, 14
_EDGE, _CAPTION = 10.0, 40.0
_FONTS = "'Fira Code','DejaVu Sans Mono',Menlo,Consolas,monospace"
_FORE, _BACK, _PAPER = "#e0e0e0", "#121212", "#0b0d10"
_WEIGHTS = (("bold", "b"), ("italic", "i"), ("underline", "u"), ("dim", "d"))
_STYLE = f"""text{{font-family:{_FONTS};font-size:{_FONT}px;white-space:pre}}
.b{{font-weight:bold}} .i{{font-style:italic}} .u{{text-decoration:underline}} .d{{opacity:.6}}
.c{{font-size:15px;fill:#9aa4b2}} .k{{fill:#ffffff;font-weight:bold}}
g[class]{{animation-timing-function:step-end;animation-iteration-count:infinite;animation-delay:var(--from,0s)}}
@media (prefers-reduced-motion:reduce){{g[class]{{animation-play-state:paused}}}}"""


class Frame(NamedTuple):
    """What the screen showed, for how long, and what was pressed to get there."""

    rows: tuple[str, ...]  # each as SVG, at the top
    seconds: float
    key: str
    caption: str


def frame(app: ConsoleApp, seconds: float, key: str, caption: str) -> Frame:
    """The screen as it is painted now, with the screens that show through from behind."""
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens, simplify=True)
    assert isinstance(update, LayoutUpdate)
    rows = tuple(_row([segment for strip in line for segment in strip]) for line in update.strips)
    return Frame(rows, seconds, key, caption)


def _row(segments: Sequence[Segment]) -> str:
    """Backgrounds first, so that none covers a letter of the cell before."""
    backs: list[str] = []
    texts: list[str] = []
    at = 0
    for text, style, _ in Segment.simplify(segments):
        length = cell_len(text)
        fore, back, weights = _look(style)
        x, wide = f"{at * _CELL:.1f}", f"{length * _CELL:.1f}"
        if back != _BACK:
            backs.append(f'<rect x="{x}" width="{wide}" height="{_ROW:.0f}" fill="{back}"/>')
        if text.strip():
            texts.append(_text(text, at, fore, weights))
        at += length
    return "".join(backs + texts)


def _text(text: str, at: int, fore: str, weights: str) -> str:
    start = len(text) - len(text.lstrip(" "))
    kept = text.strip(" ")
    x, wide = f"{(at + start) * _CELL:.1f}", f"{cell_len(kept) * _CELL:.1f}"
    named = f' class="{weights}"' if weights else ""
    return f'<text x="{x}" y="13" textLength="{wide}" fill="{fore}"{named}>{escape(kept, quote=False)}</text>'


def _look(style: Style | None) -> tuple[str, str, str]:
    """Colour, background and the classes of the weights."""
    if style is None:
        return _FORE, _BACK, ""
    fore = _FORE if style.color is None or style.color.is_default else style.color.get_truecolor().hex
    back = _BACK if style.bgcolor is None or style.bgcolor.is_default else style.bgcolor.get_truecolor().hex
    weights = " ".join(letter for weight, letter in _WEIGHTS if getattr(style, weight))
    return (back, fore, weights) if style.reverse else (fore, back, weights)


def animated(frames: Sequence[Frame], columns: int) -> str:
    """One SVG that shows the frames one after the other, for ever."""
    drawn: dict[tuple[bool, ...], list[str]] = defaultdict(list)
    for y in range(max(len(one.rows) for one in frames)):
        for content in dict.fromkeys(one.rows[y] for one in frames):
            if content:
                shown = tuple(one.rows[y] == content for one in frames)
                drawn[shown].append(f'<g transform="translate(0,{y * _ROW:.0f})">{content}</g>')
    height = max(len(one.rows) for one in frames) * _ROW
    for number, one in enumerate(frames):
        drawn[tuple(at == number for at in range(len(frames)))].append(_caption(one, height))
    named = {shown: f"f{number}" for number, shown in enumerate(drawn) if not all(shown)}
    rules = "\n".join(_rule(name, shown, frames) for shown, name in named.items())
    groups = "\n".join(_group(named.get(shown), parts) for shown, parts in drawn.items())
    wide, high = columns * _CELL, height + _CAPTION
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide + 2 * _EDGE:.0f} {high + _EDGE:.0f}">\n'
        f"<style>{_STYLE}\n{rules}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{_PAPER}"/>\n'
        f'<g transform="translate({_EDGE:.0f},{_EDGE:.0f})">'
        f'<rect width="{wide:.1f}" height="{height:.0f}" fill="{_BACK}"/>\n{groups}\n</g></svg>\n'
    )


def _group(name: str | None, parts: Sequence[str]) -> str:
    return f'<g class="{name}">{"".join(parts)}</g>' if name else f"<g>{''.join(parts)}</g>"


def _caption(one: Frame, height: float) -> str:
    key = f'<tspan class="k">{escape(one.key, quote=False)}</tspan>   ' if one.key else ""
    return f'<text class="c" x="4" y="{height + 24:.0f}">{key}{escape(one.caption, quote=False)}</text>'


def _rule(name: str, shown: tuple[bool, ...], frames: Sequence[Frame]) -> str:
    whole = sum(one.seconds for one in frames)
    steps = "".join(f"{at:.2f}%{{opacity:{int(is_shown)}}}" for at, is_shown in _changes(shown, frames, whole))
    return f"@keyframes {name}{{{steps}}} .{name}{{animation-name:{name};animation-duration:{whole:.1f}s}}"


def _changes(shown: tuple[bool, ...], frames: Sequence[Frame], whole: float) -> Iterator[tuple[float, bool]]:
    at, last = 0.0, None
    for is_shown, one in zip(shown, frames, strict=True):
        if is_shown != last:
            yield 100 * at / whole, is_shown
        at, last = at + one.seconds, is_shown
    yield 100.0, shown[0]
