"""The page about terms is true: its names are those that are read, its guards exist, its config loads."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from dlq_sink.terms import FIELDS, TERMS

from console.services.replay.guards import BLOCKS, OVERRIDABLE
from console.settings.config import load_config
from venues import NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "terms.md").read_text("utf-8")


def test_the_table_of_names_is_the_one_that_is_read() -> None:
    between = PAGE.split("<!-- names -->")[1].split("<!-- /names -->")[0]
    told = {}
    for line in between.strip().splitlines():
        name, others = line[1:-1].split("|")
        told[name.strip(" `")] = tuple(re.findall(r"`([^`]*)`", others))
    flat = {name: others for name, others in FIELDS.items() if others}
    flat |= {name: others for name, (kind, others) in TERMS.items() if kind not in ("exit", "legs")}
    assert {name: told[name] for name in flat} == flat
    assert told.keys() == flat.keys() | {name for name, (kind, _) in TERMS.items() if kind in ("exit", "legs")}


def test_the_guards_are_told_as_they_are() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| .* \| (never|with a note) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    for code, override in rows:
        assert code in (BLOCKS if override == "never" else OVERRIDABLE)


def test_the_config_loads(tmp_path: Path) -> None:
    (snippet,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    path = tmp_path / "config.toml"
    path.write_text(snippet)
    limits = load_config(str(path), {}).limits
    assert limits.max_notional == {"USD": Decimal(50000), "JPY": Decimal(7500000), "default": Decimal(50000)}
    assert (limits.labels, limits.quote_seconds) == (("desk",), 60)


def test_every_venue_has_its_part() -> None:
    parts = set(re.findall(r"^### (.*)$", PAGE, re.MULTILINE))
    assert parts == {*NAMES, "ccxt:EXCHANGE"}
