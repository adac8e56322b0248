"""Prints a CycloneDX bill of materials of this environment: every installed package, its licence and pinned digests."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).parent.parent
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)(?P<rest>(?:.*\\\n)*.*)", re.M)


def pinned() -> dict[tuple[str, str], list[str]]:
    """The digests of each package in the constraints, by name and version."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in ("constraints.txt", "constraints-dev.txt"):
        for pin in PIN.finditer((ROOT / name).read_text()):
            digests = re.findall(r"--hash=sha256:([0-9a-f]{64})", pin["rest"])
            found[plain(pin["name"]), pin["version"]] = digests
    return found


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def component(package: Distribution, digests: list[str]) -> dict[str, object]:
    name, version = plain(package.metadata["Name"]), package.version
    licence = package.metadata.get("License-Expression") or package.metadata.get("License")
    row: dict[str, object] = {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "properties": [{"name": "pinned-sha256", "value": digest} for digest in digests],
    }
    if licence and len(licence) < 80:  # some packages put the whole text there
        row["licenses"] = [{"license": {"name": licence}}]
    return row


def main() -> None:
    pins = pinned()
    installed = {plain(one.metadata["Name"]): one for one in distributions()}
    own = installed.pop("dlq-console")
    rows = [component(one, pins.get((name, one.version), [])) for name, one in sorted(installed.items())]
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "dlq-console", "version": own.version}},
        "components": rows,
    }
    json.dump(bill, sys.stdout, indent=1)


main()
