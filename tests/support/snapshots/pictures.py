"""The pictures of the README and of `screenshots/`, rendered from the named states.

Run it with `python -m tests.support.snapshots.pictures`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import struct
import tempfile
import zlib
from pathlib import Path

import cairosvg
from textual._doc import take_svg_screenshot

from tests.support.snapshots.order_store import stores
from tests.support.snapshots.play import rested, then
from tests.support.snapshots.states import M, Scene, scenes
from tests.support.snapshots.triage_story import triage_svg

HOME = Path(__file__).parents[3] / "screenshots"
PICTURES = {
    "queue": "queue",
    "entry": "entry-history",
    "dismiss": "dismiss-reason",
    "replay-paper": "replay-paper",
    "replay-live": "replay-live",
    "batch": "batch-report",
    "groups": "groups-indexed",
    "health": "health",
    "audit": "audit",
}
_SIGNATURE_AND_HEADER = 8 + 25  # a PNG's first chunk is always this long
_PNG_SCALE = 13 / 12.2  # a cell is then a whole number of pixels: letters are hinted to those
_FONT_PIXELS = 20.264  # DejaVu's advance is 0.602 of its size, a cell is 12.2 wide


def render(scene: Scene, path: Path) -> str:
    """The scene on the store at `path`, as an SVG without the mark that differs by content alone."""
    app = scene.console(path).console()
    svg = take_svg_screenshot(app=app, terminal_size=M, run_before=then(rested, scene.play))
    return re.sub(r"\bterminal-\d+-", "terminal-", svg)


def png(svg: str) -> bytes:
    """Drawn with a font that is everywhere, as wide as the cells are; says which SVG it was made of."""
    fitted = svg.replace("Fira Code", "DejaVu Sans Mono").replace("font-size: 20px", f"font-size: {_FONT_PIXELS}px")
    drawn: bytes = cairosvg.svg2png(bytestring=fitted.encode(), scale=_PNG_SCALE)
    return drawn[:_SIGNATURE_AND_HEADER] + _chunk(made_of(svg)) + drawn[_SIGNATURE_AND_HEADER:]


def made_of(svg: str) -> bytes:
    return b"tEXtSource\0" + hashlib.sha256(svg.encode()).hexdigest().encode()


def _chunk(kind_and_data: bytes) -> bytes:
    return struct.pack(">I", len(kind_and_data) - 4) + kind_and_data + struct.pack(">I", zlib.crc32(kind_and_data))


def scene(name: str) -> Scene:
    return next(one for one in scenes() if one.name == name)


def main() -> None:
    os.environ["COLORTERM"] = "truecolor"  # whatever the terminal has that this is run in
    HOME.mkdir(exist_ok=True)
    for name, of in PICTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(stores(Path(folder)))
            svg = render(scene(of), Path(folder) / f"{scene(of).data}.db")
        (HOME / f"{name}.svg").write_text(svg, encoding="utf-8")
        if name == "queue":
            (HOME / "queue.png").write_bytes(png(svg))
        print(f"screenshots/{name}.svg")
    (HOME / "triage.svg").write_text(triage_svg(), encoding="utf-8")
    print("screenshots/triage.svg")


if __name__ == "__main__":
    main()
