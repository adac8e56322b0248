"""Writes the parts of docs/ that are made of the product's own tables, between their marks: `make pages`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench import bound  # noqa: E402
from console import keymap  # noqa: E402
from console.cli.usage.text import main_help, verb_help  # noqa: E402
from console.cli.usage.verb import VERBS  # noqa: E402
from console.settings import setting  # noqa: E402


def commands() -> str:
    """Every verb's own help, under the headings of `dlq --help`."""
    parts = [f"## dlq\n```text\n{main_help()}```"]
    for section in dict.fromkeys(one.section for one in VERBS.values()):
        parts.append(f"## {section.capitalize()}")
        parts += [
            f"### dlq {one.name}\n```text\n{verb_help(one)}```" for one in VERBS.values() if one.section == section
        ]
    return "\n\n".join(parts)


PARTS: dict[tuple[str, str], Callable[[], str]] = {
    ("docs/configuration.md", "settings"): setting.page,
    ("docs/commands.md", "commands"): commands,
    ("docs/keys.md", "keys"): keymap.table,
    ("docs/figures.md", "bounds"): bound.page,
}


def renewed(name: str, mark: str) -> str:
    """The page with the part between its marks as the product's table is now."""
    start, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    before, _, rest = (ROOT / name).read_text().partition(start)
    return f"{before}{start}{PARTS[name, mark]().strip()}\n{end}{rest.partition(end)[2]}"


def main() -> None:
    for name, mark in PARTS:
        (ROOT / name).write_text(renewed(name, mark))


if __name__ == "__main__":
    main()
