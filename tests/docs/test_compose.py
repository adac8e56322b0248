"""The container example, as far as it can be tried without an engine: files, roles on a real Postgres, steps."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import asyncpg
import pytest
import yaml

from console.cli.parser import build_parser
from tests.support.command import Console

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "compose"
CONTAINERFILE = (ROOT / "Containerfile").read_text()
SERVICES = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]


def test_what_is_copied_into_the_image_exists() -> None:
    for sources in re.findall(r"^COPY (.+) \S+$", CONTAINERFILE, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source


def test_the_image_installs_what_is_pinned_and_runs_without_rights() -> None:
    assert "--require-hashes -r constraints.txt" in CONTAINERFILE
    assert re.search(r"^USER (?!0|root)", CONTAINERFILE, re.MULTILINE)
    command = json.loads(re.findall(r"^CMD (.+)$", CONTAINERFILE, re.MULTILINE)[0])
    assert build_parser().parse_args(command).verb == "metrics"


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_mounts_exists(name: str) -> None:
    for volume in SERVICES[name].get("volumes", []):
        assert (FOLDER / volume.split(":")[0]).exists(), volume
    for port in SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:"), "an example listens on loopback"


def test_prometheus_asks_where_the_metrics_are() -> None:
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    (target,) = scraped["scrape_configs"][0]["static_configs"][0]["targets"]
    assert target.split(":")[0] in SERVICES
    assert target.endswith(re.findall(r"^EXPOSE (\d+)$", CONTAINERFILE, re.MULTILINE)[0])
    assert yaml.safe_load((FOLDER / "datasource.yml").read_text())["datasources"][0]["url"] == "http://prometheus:9090"


def test_the_monitors_role_sees_everything_and_writes_nothing(postgres_db: str, tmp_path: Path) -> None:
    """The example's SQL, then its `table` step, then what its `metrics` service asks."""
    role = f"dlq_monitor_{postgres_db.rpartition('/')[2]}"
    asyncio.run(executed(postgres_db, (FOLDER / "roles.sql").read_text().replace("dlq_monitor", role)))
    owner = Console(tmp_path, postgres_db, "")
    assert owner.inline("init").code == 0
    monitor = Console(tmp_path, postgres_db.replace("postgres@", f"{role}@"), "")
    try:
        text = monitor.inline("metrics").out
        assert "dlq_ledger_readable 1" in text
        assert "dlq_open 0" in text
        assert monitor.inline("doctor", "--json").row["read_only_enforced_by"] == "database"
    finally:
        asyncio.run(executed(postgres_db, f"DROP OWNED BY {role}; DROP ROLE {role}"))


async def executed(target: str, sql: str) -> None:
    connection = await asyncpg.connect(target)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
