"""Every call goes out with its own tenant's authorization or not at all, and tenants do not hold each other up."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from keyring.backends import fail

from console.services.replay.flow_control import Breaker
from console.services.resend.plan import ResendTools
from console.services.resend.provider import Providers, ProviderTenant
from console.services.resend.target import _to_providers
from console.settings.config import ProviderConfig
from console.settings.secret_names import provider_set
from console.settings.secrets import Vault
from tests.support.http_server import Loopback, Received, reply
from tests.support.integration import REQUEST, IntegrationRig, Time, clock, entries, entry_id, failed_row, redelivery
from tests.support.store import ACTOR
from venues.credentials import Credentials

Kept = Mapping[tuple[str, str | None], str]


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[IntegrationRig]:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


def tenants(url: str, kept: Kept, *, table: frozenset[str] | None = None) -> Providers:
    def authorization(provider: str, tenant: str | None) -> Credentials | None:
        held = kept.get((provider, tenant))
        return None if held is None else Credentials({"authorization": held})

    return Providers({"prov-1": ProviderConfig(url, tenants=table)}, authorization)


async def calls(rig: IntegrationRig, *tenant_ids: str | None) -> None:
    """One call per tenant, with the tenant's id in its body."""
    for number, tenant in enumerate(tenant_ids, 1):
        request = json.dumps({**REQUEST, "body": {"tenant": tenant}})
        await rig.failed(failed_row(number, tenantId=tenant, originalRequest=request))


async def send(
    rig: IntegrationRig, there: Providers, count: int, time: Time | None = None
) -> dict[str, tuple[str, str]]:
    store = rig.opened[0] if rig.opened else await rig.store()
    try:
        run = redelivery(store, there, time)
        ended = await run.run(await entries(store, *(entry_id(n) for n in range(1, count + 1))))
    finally:
        await there.aclose()
    return {one.entry_id: (one.outcome, one.detail or "") for one in ended}


def on_the_wire(requests: list[Received]) -> set[tuple[object, str | None]]:
    return {(json.loads(got.body)["tenant"], got.headers.get("authorization")) for got in requests}


async def test_each_tenant_s_calls_carry_its_own_authorization(rig: IntegrationRig) -> None:
    await calls(rig, "a", "b", "a", "c", None, "b", "A")
    kept: Kept = {
        ("prov-1", None): "own",
        ("prov-1", "a"): "of a",
        ("prov-1", "b"): "of b",
        ("prov-2", "c"): "?",
    }
    async with Loopback(lambda _: reply(200)) as server:
        ended = await send(rig, tenants(server.url, kept), 7)
    assert {outcome for outcome, _ in ended.values()} == {"accepted"}
    assert len(server.requests) == 7
    assert on_the_wire(server.requests) == {("a", "of a"), ("b", "of b"), ("c", "own"), (None, "own"), ("A", "own")}


async def test_a_provider_with_a_table_of_tenants_has_no_fallback(rig: IntegrationRig) -> None:
    await calls(rig, "a", "b", "c", None)
    kept: Kept = {("prov-1", None): "own", ("prov-1", "a"): "of a", ("prov-1", "c"): "of c"}
    async with Loopback(lambda _: reply(200)) as server:
        ended = await send(rig, tenants(server.url, kept, table=frozenset({"a", "b"})), 4)
    assert on_the_wire(server.requests) == {("a", "of a")}
    assert [ended[entry_id(n)][0] for n in (1, 2, 3, 4)] == ["accepted", "refused", "refused", "refused"]
    details = [ended[entry_id(n)][1] for n in (2, 3, 4)]
    assert all(one.startswith("unknown-account: ") for one in details)
    for place in (
        "dlq secrets set provider/prov-1/b",
        "dlq-console/provider/prov-1/b",
        "provider.prov-1.b.authorization",
    ):
        assert place in details[0]
    assert "c = {}" in details[1]
    assert "[providers.prov-1.tenants]" in details[1]
    assert "names no tenant" in details[2]
    assert await rig.opened[0].attempts(entry_id(2)) == ()


async def test_an_empty_table_lets_nothing_out(rig: IntegrationRig) -> None:
    await calls(rig, "a", None)
    async with Loopback(lambda _: reply(200)) as server:
        ended = await send(
            rig, tenants(server.url, {("prov-1", None): "x", ("prov-1", "a"): "y"}, table=frozenset()), 2
        )
    assert ({outcome for outcome, _ in ended.values()}, server.requests) == ({"refused"}, [])


async def test_a_tenant_s_breaker_holds_no_other_tenant(rig: IntegrationRig) -> None:
    await calls(rig, *(["sick"] * 8), *(["well"] * 3))
    kept: Kept = {("prov-1", "sick"): "s", ("prov-1", "well"): "w"}

    def answer(got: Received) -> bytes:
        return reply(200 if got.headers["authorization"] == "w" else 503)

    async with Loopback(answer) as server:
        there = tenants(server.url, kept)
        ended = await send(rig, there, 11, Time())
    assert [ended[entry_id(n)][0] for n in (9, 10, 11)] == ["accepted"] * 3
    assert ended[entry_id(8)] == ("skipped", "breaker open: nothing was sent")
    assert there.breaker(ProviderTenant("prov-1", "sick")).state == "open"
    assert there.breaker(ProviderTenant("prov-1", "well")).state == "closed"
    assert there.breaker(ProviderTenant("prov-1", None)) == Breaker()


async def test_the_worst_of_a_provider_s_breakers_is_shown(rig: IntegrationRig) -> None:
    await calls(rig, "a", "b")
    store = await rig.store()
    async with Loopback(lambda _: reply(200)) as server:
        there = tenants(server.url, {("prov-1", "a"): "x"})
        time = Time()
        run = redelivery(store, there, time)
        await run.run(await entries(store, entry_id(1), entry_id(2)))
        await there.aclose()
    assert run.breakers() == {"prov-1": "closed", "Acme Pay": "closed"}
    there.breakers[ProviderTenant("prov-1", "a").key] = Breaker("open", opened_at=time.now)
    assert run.breakers() == {"prov-1": "open", "Acme Pay": "open"}


async def test_the_plan_names_the_tenants_and_refuses_as_the_send_does(rig: IntegrationRig) -> None:
    await calls(rig, "a", "a", "b", "c")
    store = await rig.store()
    going = await entries(store, *(entry_id(n) for n in (1, 2, 3, 4)))
    kept: Kept = {("prov-1", "a"): "x", ("prov-1", "b"): "y"}
    there = tenants("http://127.0.0.1:9", kept, table=frozenset("ab"))
    tools = ResendTools(ACTOR, clock, there._known, there._authorization)
    plan = await _to_providers(going, (), tools)
    assert [(one.name, one.entries) for one in plan.routes] == [("prov-1/a", 2), ("prov-1/b", 1)]
    (held,) = plan.held
    assert (held.entry_id, held.outcome, (held.detail or "")[:17]) == (entry_id(4), "refused", "unknown-account: ")


async def test_the_attempt_keeps_the_tenant_and_the_key(rig: IntegrationRig) -> None:
    store = await rig.store()
    intended = []
    really = store.intend

    async def intend(claim, intent, *rest):  # type: ignore[no-untyped-def]  # passes on what it is given
        intended.append(intent)
        return await really(claim, intent, *rest)

    store.intend = intend  # type: ignore[method-assign]
    await calls(rig, "a", "b")
    async with Loopback(lambda _: reply(200)) as server:
        await send(rig, tenants(server.url, {("prov-1", "a"): "x", ("prov-1", None): "y"}), 2)
    expected = {("a", Credentials({"authorization": "x"}).digest), ("b", Credentials({"authorization": "y"}).digest)}
    assert {(one.account, one.key_digest) for one in intended} == expected


async def test_the_secrets_of_the_vault_reach_the_wire_of_their_tenant_only(
    rig: IntegrationRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyring.get_keyring", fail.Keyring)
    for tenant in ("a.b", "a/b", "a"):
        path = tmp_path / f"{provider_set('prov-1', tenant).prefix}.authorization"
        path.touch(0o600)
        path.write_text(f"of {tenant}")
    await calls(rig, "a", "a.b", "a/b", "b")
    async with Loopback(lambda _: reply(200)) as server:
        known = {"prov-1": ProviderConfig(server.url, "Authorization")}
        ended = await send(rig, Providers(known, Vault(tmp_path, {}).authorization), 4)
    assert on_the_wire(server.requests) == {(one, f"of {one}") for one in ("a", "a.b", "a/b")}
    assert ended[entry_id(4)][0] == "refused"


def test_keys_of_breakers_are_told_apart() -> None:
    pairs = [("a", None), ("a", "b"), ("a/b", None), ("a", "b/c"), ("a/b", "c")]
    assert len({ProviderTenant(*pair).key for pair in pairs}) == len(pairs)
    assert ProviderTenant("prov-1", None).key == "prov-1"
