"""The same verbs on an outbox's messages and an integration's calls: as a process, beside running servers."""

from __future__ import annotations

import asyncio
import csv
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked_command import ran
from tests.support.http_server import Loopback, reply
from tests.support.integration import REQUEST, SECRET, IntegrationRig, entry_id, failed_row
from tests.support.outbox import Consumer, OutboxRig, broker, dead_row
from tests.support.venue.hub import TOKEN, FakeHub, failed_item

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def outcomes(self) -> dict[str, str]:
        return {row["dlq_id"]: row["outcome"] for row in self.rows}


@dataclass
class Command:
    folder: Path
    target: str
    store: dict[str, Any] = field(default_factory=dict)
    rest: str = ""
    secrets: dict[str, str] = field(default_factory=dict)

    async def __call__(self, *words: str) -> Ran:
        config, vault = self.folder / "config.toml", self.folder / "vault.json"
        pairs = "\n".join(f"{name} = {json.dumps(value)}" for name, value in self.store.items())
        config.write_text(f"[stores.desk]\nurl = {json.dumps(self.target)}\n{pairs}\n{self.rest}\n")
        vault.write_text(json.dumps(self.secrets))
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": str(ROOT),
            "PYTHON_KEYRING_BACKEND": "tests.support.keyrings.FileKeyring",
            "DLQ_TEST_VAULT": str(vault),
        }
        given = [*words, "--db", "desk", "--config", str(config)]
        return Ran(*await asyncio.to_thread(ran, given, environ, cwd=ROOT, timeout=90))


@pytest.fixture
async def outbox(postgres_db: str) -> AsyncIterator[OutboxRig]:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


@pytest.fixture
async def integration(postgres_db: str) -> AsyncIterator[IntegrationRig]:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


async def test_an_outbox_is_listed_shown_and_exported(outbox: OutboxRig, tmp_path: Path) -> None:
    await outbox.dead(1, dead_row(2, payload=b"\xff\x00", headers=None, failure_reason="rejected", last_exception=None))
    dlq = Command(tmp_path, outbox.target)
    listed = await dlq("list", "--json")
    first, second = listed.rows
    assert (first["dlq_id"], first["layout"], first["state"]) == ("1", "outbox", "pending")
    assert (first["id"], first["queue"], first["payload"]) == (1, "orders", '{"n": 1}')
    assert first["headers"] == {"content-type": "application/json", "correlation_id": "c-1"}
    assert (first["correlation_id"], first["seconds_to_failure"]) == ("c-1", 1.0)
    assert {"category", "fingerprint", "failed_at", "deliveries_count"} <= set(first)
    assert (second["payload"], second["headers"], second["last_exception"]) == ("\\xff00", None, None)
    plain = await dlq("list")
    assert plain.out.splitlines()[:2] == [
        "1  2026-04-18T14:32:16Z  orders  retry_terminal after 3 deliveries in 1s  [pending]",
        "  error: ValueError('order 1 is bad')",
    ]
    shown = await dlq("show", "1")
    assert '      "n": 1' in shown.out
    assert "correlation id: c-1" in shown.out
    assert "malformed" not in shown.out
    assert json.loads((await dlq("show", "1", "--json")).out)["entry"]["dlq_id"] == "1"
    sheet = list(csv.DictReader((await dlq("export", "--format", "csv")).out.splitlines()))
    assert [(line["dlq_id"], line["layout"], line["payload"]) for line in sheet] == [
        ("1", "outbox", '{"n": 1}'), ("2", "outbox", "\\xff00"),
    ]  # fmt: skip
    assert len((await dlq("export", "--format", "jsonl")).rows) == 2
    report = json.loads((await dlq("doctor", "--json")).out)
    codes = [finding["code"] for finding in report["findings"]]
    assert (report["layout"], report["table"], codes) == ("outbox", "outbox_dlq", ["superuser", "advisory"])


async def test_an_outbox_is_replayed_and_dismissed(outbox: OutboxRig, tmp_path: Path) -> None:
    await outbox.dead(*range(1, 6))
    dlq = Command(tmp_path, outbox.target)
    planned = await dlq("replay", "1", "2", "--dry-run", "--json")
    assert (planned.code, set(planned.outcomes.values())) == (0, {"planned"})
    assert await outbox.outbox_rows() == []
    consumer = Consumer()
    async with broker(outbox, consumer):
        sent = await dlq("replay", "1", "2", "--json")
        await consumer.until(2)
    assert sent.code == 0
    (row, _) = sent.rows
    assert set(row) >= {"dlq_id", "outcome", "venue_order_id", "client_order_id", "mode", "detail"}
    assert (row["dlq_id"], row["outcome"], row["venue_order_id"], row["mode"]) == ("1", "accepted", "1", None)
    again = await dlq("replay", "1", "3", "--json")
    assert (again.code, again.outcomes) == (4, {"1": "skipped", "3": "accepted"})
    assert (await dlq("dismiss", "4", "--reason", "test")).out == "dismissed 4\n"
    assert [one["state"] for one in (await dlq("list", "--json", "--all")).rows] == [
        "replayed", "replayed", "replayed", "dismissed", "pending",
    ]  # fmt: skip
    assert (await dlq("restore", "4")).code == 0
    everything = await dlq("replay", "--venue", "orders", "--expect", "2", "--json")
    assert everything.outcomes == {"4": "accepted", "5": "accepted"}
    assert (await dlq("audit", "verify")).code == 0
    assert (await dlq("reconcile", "--json")).code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "1", "--paper"),
        ("replay", "1", "--live", "--yes"),
        ("replay", "1", "--venue", "alpaca"),
        ("replay", "1", "--override", "stale", "--note", "x"),
        ("replay", "999"),
        ("replay", "--venue", "orders", "--expect", "7"),
        ("reconcile", "--live"),
        ("reconcile", "999"),
    ],
)
async def test_words_that_are_for_orders_are_usage_errors(
    outbox: OutboxRig, tmp_path: Path, words: tuple[str, ...]
) -> None:
    await outbox.dead(1)
    ran = await Command(tmp_path, outbox.target)(*words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("dlq: ")
    assert await outbox.outbox_rows() == []


async def test_which_outbox_must_be_clear(outbox: OutboxRig, tmp_path: Path) -> None:
    await outbox.tables(outbox="events", dlq=None)
    await outbox.dead(1)
    undecided = Command(tmp_path, outbox.target)
    ran = await undecided("replay", "1", "--json")
    assert (ran.code, ran.outcomes, "outbox_table" in ran.err) == (4, {"1": "refused"}, True)
    dry = await undecided("replay", "1", "--dry-run", "--json")
    assert (dry.code, dry.outcomes, "outbox_table" in dry.rows[0]["detail"]) == (4, {"1": "refused"}, True)
    decided = Command(tmp_path, outbox.target, {"outbox_table": "events", "delete_after_replay": True})
    assert (await decided("replay", "1", "--json")).outcomes == {"1": "accepted"}
    assert len(await outbox.outbox_rows("events")) == 1
    assert await outbox.sql("SELECT count(*) FROM outbox_dlq") == [(0,)]


async def test_a_role_without_a_ledger_is_told_once_what_an_owner_would_run(outbox: OutboxRig, tmp_path: Path) -> None:
    await outbox.dead(1, 2)
    dlq = Command(tmp_path, await outbox.role("least", "SELECT ON outbox_dlq"))
    ran = await dlq("replay", "1", "2")
    assert (ran.code, [line[:9] for line in ran.out.splitlines()]) == (4, ["refused 1", "refused 2"])
    assert "CREATE SCHEMA" not in ran.out
    sql = ran.err.partition("an owner would run:\n")[2].rpartition("dlq: ")[0]
    async with outbox.connect() as owner:
        await owner.execute(sql)
    assert (await dlq("replay", "1", "2", "--json")).outcomes == {"1": "accepted", "2": "accepted"}


async def test_read_only_and_halt_refuse(outbox: OutboxRig, tmp_path: Path) -> None:
    await outbox.dead(1)
    dlq = Command(tmp_path, outbox.target)
    assert (await dlq("replay", "1", "--read-only", "--json")).code == 4
    assert (await dlq("halt", "--note", "stop")).code == 0
    halted = await dlq("replay", "1", "--json")
    assert (halted.code, halted.outcomes) == (4, {"1": "refused"})
    assert await outbox.outbox_rows() == []


async def test_an_integration_is_listed_with_its_secrets_masked(integration: IntegrationRig, tmp_path: Path) -> None:
    request = {**REQUEST, "headers": {"Authorization": "Bearer leaked-123456"}}
    await integration.failed(failed_row(1, originalRequest=json.dumps(request)), failed_row(2, tenantId="t-2"))
    dlq = Command(tmp_path, integration.target)
    first, second = (await dlq("list", "--json")).rows
    assert (first["dlq_id"], first["layout"], first["providerId"]) == (entry_id(1), "integration", "prov-1")
    assert first["originalRequest"]["headers"] == {"Authorization": "[masked]"}
    assert first["findings"] == ["stored-credentials: headers.Authorization"]
    assert "findings" not in second
    assert isinstance(first["days_left"], int)
    assert [one["dlq_id"] for one in (await dlq("list", "--account", "t-2", "--json")).rows] == [entry_id(2)]
    for words in (("list",), ("show", entry_id(1)), ("export", "--format", "csv"), ("doctor",), ("list", "--json")):
        ran = await dlq(*words)
        assert (ran.code, "leaked" in ran.out + ran.err) == (0, False)
    assert "stored-credentials" in (await dlq("doctor")).out


async def test_an_integration_s_call_is_sent_again_with_a_secret_of_the_keyring(
    integration: IntegrationRig, tmp_path: Path
) -> None:
    await integration.failed(1, 2, failed_row(3, providerId="unknown", providerName="Nobody"))
    async with Loopback(lambda got: reply(200 if got.json() == REQUEST["body"] else 400)) as server:
        dlq = Command(
            tmp_path,
            integration.target,
            {"on_success": "soft-delete"},
            f'[providers.prov-1]\nbase_url = "{server.url}"\nauth_header = "Authorization"\n',
            {"dlq-console/provider/prov-1|authorization": SECRET},
        )
        ran = await dlq("replay", entry_id(1), entry_id(3), "--json")
    assert (ran.code, ran.outcomes) == (4, {entry_id(1): "accepted", entry_id(3): "refused"})
    (got,) = server.requests
    assert got.headers["authorization"] == SECRET
    accepted = next(row for row in ran.rows if row["outcome"] == "accepted")
    assert (accepted["client_order_id"], accepted["mode"]) == (got.headers["idempotency-key"], None)
    assert "s3cr3t" not in ran.out + ran.err
    assert await integration.column("deletedAt", 1) is not None
    assert [one["dlq_id"] for one in (await dlq("list", "--json")).rows] == [entry_id(2), entry_id(3)]
    shown = json.loads((await dlq("show", entry_id(1), "--json")).out)
    assert [one["outcome"] for one in shown["attempts"]] == ["accepted"]
    assert "s3cr3t" not in json.dumps(shown)


async def test_a_role_without_the_right_is_told_before_anything_is_sent(
    integration: IntegrationRig, tmp_path: Path
) -> None:
    await integration.failed(1)
    role = await integration.role("least", "SELECT ON integration_dlq")
    async with Loopback(lambda _: reply(200)) as server:
        rest = f'[providers.prov-1]\nbase_url = "{server.url}"\n'
        dlq = Command(tmp_path, role, {"on_success": "delete"}, rest)
        ran = await dlq("replay", entry_id(1))
        assert (ran.code, server.requests) == (4, [])
        assert "GRANT DELETE" in ran.err
        for _ in range(2):  # the rights of the row, then those of the ledger
            sql = ran.err.partition("an owner would run:\n")[2].partition("\ndlq: ")[0]
            async with integration.connect() as owner:
                await owner.execute(sql)
            ran = await dlq("replay", entry_id(1), "--json")
        assert (ran.code, ran.outcomes, len(server.requests)) == (0, {entry_id(1): "accepted"}, 1)
        assert await integration.column("attempts", 1) == "gone"
        await integration.failed(2)
        unsaid = Command(tmp_path, role, {}, rest)
        ran = await unsaid("replay", entry_id(2), "--json")
    assert (ran.code, ran.outcomes, "on_success" in ran.rows[0]["detail"]) == (4, {entry_id(2): "refused"}, True)
    assert len(server.requests) == 1


async def test_a_dry_run_names_what_could_not_be_sent(integration: IntegrationRig, tmp_path: Path) -> None:
    elsewhere = {**REQUEST, "path": "//elsewhere"}
    await integration.failed(
        1, failed_row(2, originalRequest=json.dumps(elsewhere)), failed_row(3, providerId="p", providerName=None)
    )
    rest = '[providers.prov-1]\nbase_url = "http://127.0.0.1:9"\n'
    dlq = Command(tmp_path, integration.target, {"on_success": "keep"}, rest)
    ran = await dlq("replay", *(entry_id(n) for n in (1, 2, 3)), "--dry-run", "--json")
    assert (ran.code, [ran.outcomes[entry_id(n)] for n in (1, 2, 3)]) == (0, ["planned", "refused", "refused"])
    details = {row["dlq_id"]: row["detail"] for row in ran.rows}
    assert details[entry_id(2)].startswith("unparsable: ")
    assert "[providers.p]" in details[entry_id(3)]
    assert (await dlq("replay", entry_id(2), "--dry-run")).code == 4


async def test_a_refused_call_is_rejected_and_counted(integration: IntegrationRig, tmp_path: Path) -> None:
    await integration.failed(1)
    async with Loopback(lambda _: reply(422, {"error": "bad iban"})) as server:
        rest = f'[providers."Acme Pay"]\nbase_url = "{server.url}"\n'
        ran = await Command(tmp_path, integration.target, {"on_success": "keep"}, rest)("replay", entry_id(1), "--json")
    assert (ran.code, ran.rows[0]["outcome"], "bad iban" in ran.rows[0]["detail"]) == (1, "rejected", True)
    assert await integration.column("attempts", 1) == 7


async def test_a_hub_is_worked_through_its_api(postgres_db: str, tmp_path: Path) -> None:
    there = FakeHub().add(failed_item(1), failed_item(2), failed_item(3, providerId="prov-2"))
    async with Loopback(there) as server:
        store = {"hub_url": server.url, "hub_wait": 10}
        dlq = Command(tmp_path, postgres_db, store, secrets={"dlq-console/hub/desk|token": TOKEN})
        assert [one["dlq_id"] for one in (await dlq("list", "--json")).rows] == [entry_id(n) for n in (1, 2, 3)]
        assert [one["id"] for one in (await dlq("list", "--venue", "prov-2", "--json")).rows] == [entry_id(3)]
        ran = await dlq("replay", "--venue", "prov-1", "--expect", "2", "--json")
        assert (ran.code, set(ran.outcomes.values())) == (0, {"accepted"})
        assert sorted(there.items) == [entry_id(3)]
        assert (await dlq("dismiss", entry_id(3), "--reason", "test")).code == 0
        assert (await dlq("list", "--json")).out == ""
        assert (await dlq("audit", "verify")).code == 0
        nobody = Command(tmp_path, postgres_db, store)
        assert (await nobody("list")).code == 2
    assert (await dlq("list")).code == 5


LITTLE = "[limits]\nmax_batch = 3\n"


async def test_all_calls_of_a_provider_go_by_a_filter(integration: IntegrationRig, tmp_path: Path) -> None:
    await integration.failed(*range(1, 6), failed_row(6, tenantId="t-9"), failed_row(7, providerId="prov-2"))
    async with Loopback(lambda _: reply(200)) as server:
        rest = f'[providers.prov-1]\nbase_url = "{server.url}"\n{LITTLE}'
        dlq = Command(tmp_path, integration.target, {"on_success": "delete"}, rest)
        ran = await dlq("replay", "--filter", "provider:prov-1 tenant:tenant-1", "--expect", "6", "--json")
        assert (ran.code, server.requests) == (2, [])
        ran = await dlq("replay", "--filter", "provider:prov-1 tenant:tenant-1", "--expect", "5", "--json")
    assert (ran.code, ran.outcomes) == (4, {entry_id(n): "accepted" if n < 4 else "refused" for n in range(1, 6)})
    assert all(row["detail"].startswith("max-batch") for row in ran.rows if row["outcome"] == "refused")
    assert len({got.headers["idempotency-key"] for got in server.requests}) == len(server.requests) == 3


async def test_all_of_a_provider_at_a_hub_go_by_a_filter_and_nothing_that_came_later(
    postgres_db: str, tmp_path: Path
) -> None:
    theirs = [failed_item(n) for n in range(1, 6)]
    there = FakeHub().add(*theirs, failed_item(6, tenantId="t-9"), failed_item(7, providerId="prov-2"))
    there.on_look = lambda: there.items.update({entry_id(8): failed_item(8)})  # it fails while the batch runs
    async with Loopback(there) as server:
        store = {"hub_url": server.url, "hub_wait": 30}
        dlq = Command(tmp_path, postgres_db, store, LITTLE, {"dlq-console/hub/desk|token": TOKEN})
        ran = await dlq("replay", "--filter", "provider:prov-1 tenant:tenant-1", "--expect", "5", "--json")
    assert (ran.code, ran.outcomes) == (4, {entry_id(n): "accepted" if n < 4 else "refused" for n in range(1, 6)})
    assert sorted(there.items) == [entry_id(n) for n in range(4, 9)]
    assert not [path for _, path in there.asked if "retry-all" in path]


async def test_an_archive_says_which_requests_a_hub_does_not_tell(postgres_db: str, tmp_path: Path) -> None:
    async with Loopback(FakeHub().add(failed_item(1, originalRequest=None), failed_item(2))) as server:
        dlq = Command(tmp_path, postgres_db, {"hub_url": server.url}, secrets={"dlq-console/hub/desk|token": TOKEN})
        ran = await dlq("archive", "--before", "2030-01-01", "--out", str(tmp_path / "a.zip"))
    assert (ran.code, "the request of 1 entry is missing" in ran.err) == (0, True)


async def test_secrets_of_a_provider_and_a_hub_are_kept_without_a_mode(tmp_path: Path) -> None:
    dlq = Command(tmp_path, "postgresql://nobody@127.0.0.1:1/x")
    assert (await dlq("secrets", "list", "provider/acme")).out.endswith("authorization: not set\n")
    assert (await dlq("secrets", "list", "provider/acme", "--live")).code == 2
    assert (await dlq("secrets", "check", "hub/desk")).code == 2
    dlq.secrets = {"dlq-console/provider/acme|authorization": "x", "dlq-console/hub/desk|token": "y"}
    assert (await dlq("secrets", "list", "provider/acme")).out.endswith("authorization: set\n")
    assert (await dlq("secrets", "delete", "hub/desk")).code == 0
