"""What is installed is pinned by version and digest, bounded on both sides, and can be listed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def pins(name: str) -> dict[str, tuple[str, int]]:
    """Name → version and number of digests."""
    text = (ROOT / name).read_text()
    blocks = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)((?:.*\\\n)*.*)", text, re.M)
    return {_plain(name): (version, rest.count("--hash=sha256:")) for name, version, rest in blocks}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-dev.txt", "constraints-docs.txt"])
def test_every_pinned_package_has_a_digest(name: str) -> None:
    found = pins(name)
    assert len(found) > 30
    assert [package for package, (_, digests) in found.items() if digests == 0] == []
    assert "://" not in (ROOT / name).read_text()


def test_every_requirement_of_the_product_is_pinned_within_its_bounds() -> None:
    core, everything = pins("constraints.txt"), pins("constraints-docs.txt") | pins("constraints-dev.txt")
    for text in PROJECT["dependencies"]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(core[_plain(wanted.name)][0]), text
    for text in chain.from_iterable(EXTRAS.values()):
        wanted = Requirement(text)
        if wanted.name != "dlq-console":
            assert wanted.specifier.contains(everything[_plain(wanted.name)][0]), text
    assert {name: everything[name][0] for name in core} == {name: version for name, (version, _) in core.items()}


def test_every_version_is_bounded_on_both_sides() -> None:
    for text in [*PROJECT["dependencies"], *chain.from_iterable(EXTRAS.values())]:
        wanted = Requirement(text)
        if wanted.name == "dlq-console":
            continue
        signs = {one.operator for one in wanted.specifier}
        assert signs & {"==", "~="} or ({">=", "<"} <= signs), f"{text} has no upper or no lower bound"


def test_the_demo_needs_few_packages() -> None:
    assert len(pins("constraints.txt")) <= 50


def test_the_bill_of_materials_lists_what_is_installed_with_its_digests() -> None:
    made = subprocess.run([sys.executable, ".ci/sbom.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    bill = json.loads(made.stdout)
    assert bill["bomFormat"] == "CycloneDX"
    rows = {row["name"]: row for row in bill["components"]}
    for name in ("textual", "sqlalchemy", "asyncpg", "cryptography"):
        assert rows[name]["version"] == pins("constraints.txt")[name][0]
        assert rows[name]["properties"], f"{name} has no digest"
