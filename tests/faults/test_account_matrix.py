"""A sample of the account matrix in every suite, and that its witness sees a key that is not the entry's own.

The whole matrix is `python -m tests.faults.account_matrix`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from console.services.replay.venue_pool import VenueAccount, VenuePool
from console.settings.secrets import Vault
from tests.faults.account_ibkr import GatewayCell
from tests.faults.account_matrix import (
    BATCHES,
    KINDS,
    VERBS,
    AccountCell,
    BatchCell,
    Cell,
    Figures,
    cells,
    run_cell,
)
from tests.support.account_desk import Venues, venues
from tests.support.account_who import WHOS, Who
from venues import Credentials, Mode, SecretSet

EVERY = cells()
ONES = [cell for cell in EVERY if isinstance(cell, AccountCell)]
NUMBERS = iter(range(10_001, 20_000, 4))


def sample() -> list[Cell]:
    """Every account, every batch and some of a gateway, each once; venues, verbs, places and faces take turns."""
    batches = [cell for cell in EVERY if isinstance(cell, BatchCell)]
    gateways = [cell for cell in EVERY if isinstance(cell, GatewayCell)]
    return [
        *(_picked([cell for cell in ONES if cell.who is who], n) for n, who in enumerate(WHOS)),
        *(_picked([cell for cell in batches if cell.what == what], n) for n, what in enumerate(BATCHES)),
        *(_picked(gateways, n) for n in range(8)),
    ]


def _picked(some: Sequence[Cell], turn: int) -> Cell:
    return some[turn * 7 % len(some)]


@pytest.fixture(scope="module")
def there() -> Iterator[Venues]:
    with venues() as made:
        yield made


def run(there: Venues, cell: Cell, folder: Path) -> Figures:
    figures = Figures()
    run_cell(there, cell, folder, next(NUMBERS), figures)
    there.at("alpaca").faults.clear()
    return figures


@pytest.mark.parametrize("cell", sample(), ids=str)
def test_an_order_goes_out_with_its_own_accounts_key_or_not_at_all(cell: Cell, there: Venues, tmp_path: Path) -> None:
    figures = run(there, cell, tmp_path)
    assert (figures.violations, figures.foreign) == ([], 0)


def test_the_whole_matrix_is_large_and_has_every_account_venue_and_verb() -> None:
    assert len(EVERY) >= 500
    assert {(cell.kind, cell.who.name) for cell in ONES} == {(kind, who.name) for kind in KINDS for who in WHOS}
    assert {cell.verb for cell in ONES} == set(VERBS)
    assert {(cell.place, cell.face, cell.mode) for cell in ONES} == {
        (place, face, mode) for place in ("files", "keyring") for face in ("session", "command") for mode in _MODES
    }


_MODES: tuple[Mode, ...] = ("paper", "live")


# What the witness must see: consoles that take somebody else's key.


def named(name: str) -> Who:
    return next(who for who in WHOS if who.name == name)


def without_account(pool: VenuePool, at: VenueAccount, mode: Mode) -> Credentials:
    wanted = SecretSet(at.venue, pool.kind(at.venue), None, mode)
    return pool._credentials(wanted)


def of_the_type(pool: VenuePool, at: VenueAccount, mode: Mode) -> Credentials:
    kind = pool.kind(at.venue)
    return pool._credentials(SecretSet(kind, kind, at.account, mode, venue_too=True))


def any_of_the_venue(pool: VenuePool, at: VenueAccount, mode: Mode) -> Credentials:
    return pool._credentials(SecretSet(at.venue, pool.kind(at.venue), at.account, mode, venue_too=True))


@pytest.mark.parametrize("kind", ["alpaca", "kalshi", "ccxt:binance", "hyperliquid"])
@pytest.mark.parametrize(
    ("who", "planted"),
    [
        ("second", without_account),
        ("nowhere", any_of_the_venue),
        ("custom without secrets", of_the_type),
    ],
)
def test_a_foreign_key_is_seen(
    kind: str,
    who: str,
    planted: Callable[..., Credentials],
    there: Venues,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(VenuePool, "_secrets", planted)
    figures = run(there, AccountCell(kind, named(who), "new", "paper", "files", "session"), tmp_path)
    assert figures.foreign
    assert any(" carried " in one for one in figures.violations)


def test_a_secret_that_does_not_belong_to_its_key_is_seen(
    there: Venues, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One field filled from the venue's own set: the key is right, the secret is another's."""
    real = Vault.credentials

    def filled(vault: Vault, wanted: SecretSet) -> Credentials:
        own = real(vault, wanted._replace(account=None))
        mine = real(vault, wanted._replace(account="hedge"))
        first, *rest = own.fields()
        return Credentials({first: mine.reveal(first)} | {name: own.reveal(name) for name in rest})

    monkeypatch.setattr(Vault, "credentials", filled)
    for kind in ("alpaca", "kalshi", "ccxt:binance"):
        folder = tmp_path / kind.replace(":", "-")
        folder.mkdir()
        assert run(there, AccountCell(kind, named("second"), "new", "paper", "keyring", "session"), folder).foreign


def test_a_second_client_that_keeps_the_first_ones_key_is_seen(
    there: Venues, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool that shares a client between the accounts of a venue."""
    real = VenuePool.client

    async def shared(pool: VenuePool, at: VenueAccount, mode: Mode) -> object:
        return await real(pool, replace_account(at), mode)

    def replace_account(at: VenueAccount) -> VenueAccount:
        return at._replace(account=None)

    monkeypatch.setattr(VenuePool, "client", shared)
    figures = run(there, BatchCell("kalshi", "one id, two accounts", "paper", "files", "session"), tmp_path)
    assert figures.foreign


def test_an_answer_of_another_account_that_settles_is_seen(
    there: Venues, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.services.evidence.reconcile.account_match", lambda *_: "same")
    cell = BatchCell("alpaca", "keys swapped before the reconcile", "paper", "files", "session")
    assert any("accepted, replayed" in one for one in run(there, cell, tmp_path).violations)


def test_an_order_for_another_account_of_the_gateway_is_seen(there: Venues, tmp_path: Path) -> None:
    cell = next(one for one in EVERY if isinstance(one, GatewayCell) and one.account and one.goes_to == one.account)
    wrong = run(there, replace(cell, verb="new", goes_to="DU1000009"), tmp_path)
    assert (wrong.foreign, len(wrong.violations)) == (1, 1)
