"""Whom the practice exchange takes for the signer: the SDK's own signatures, and what is none."""

from __future__ import annotations

import msgpack
import pytest
from eth_account import Account
from eth_utils.crypto import keccak as own_keccak
from hyperliquid.utils.signing import sign_agent, sign_l1_action

from venues.practice.signer import SignatureError, action_signer, approval_signer, keccak, pack

KEY = Account.from_key("0x" + "c4a7" * 16)
NONCE = 1_794_790_933_000
VAULT = "0x" + "ab" * 20
ORDER = {
    "type": "order",
    "orders": [{"a": 1, "b": True, "p": "1100", "s": "0.2", "r": False, "t": {"limit": {"tif": "Gtc"}}}],
    "grouping": "na",
}


@pytest.mark.parametrize("length", [0, 1, 135, 136, 137, 272, 500])
def test_the_hash_is_ethereums(length: int) -> None:
    data = bytes(at % 251 for at in range(length))
    assert keccak(data) == own_keccak(data)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [True, False],
        [0, 127, 128, 255, 256, 65_535, 65_536, 2**32, 2**64 - 1],
        ["", "x" * 31, "x" * 32, "x" * 255, "x" * 256, "x" * 65_536],
        [*range(15)],
        [*range(16)],
        {str(at): at for at in range(16)},
    ],
)
def test_values_are_packed_as_the_sdk_packs_them(value: object) -> None:
    assert pack(value) == msgpack.packb(value)


@pytest.mark.parametrize("value", [-1, 1.5, b"x", 2**64])
def test_what_an_action_does_not_hold_is_not_packed(value: object) -> None:
    with pytest.raises(SignatureError):
        pack(value)


@pytest.mark.parametrize("vault", [None, VAULT])
@pytest.mark.parametrize("expires", [None, NONCE + 30_000])
@pytest.mark.parametrize("live", [True, False])
def test_the_signer_of_an_action(vault: str | None, expires: int | None, live: bool) -> None:
    signature = sign_l1_action(KEY, ORDER, vault, NONCE, expires, live)
    for source in ("a", "b"):
        found = action_signer(ORDER, signature, nonce=NONCE, vault=vault, expires=expires, source=source)
        assert (found == KEY.address.lower()) is (source == ("a" if live else "b"))


def test_the_signer_of_an_approval() -> None:
    action: dict[str, object] = {"type": "approveAgent", "agentAddress": VAULT, "agentName": "", "nonce": NONCE}
    signature = sign_agent(KEY, action, False)
    assert approval_signer(action, signature) == KEY.address.lower()


@pytest.mark.parametrize(
    "signature",
    [
        {},
        {"r": "0x1", "s": "0x2", "v": 27},
        {"r": "0x" + "f" * 64, "s": "0x" + "1" * 64, "v": 27},
        {"r": "0x" + "1" * 64, "s": "0x" + "1" * 64, "v": 29},
        {"r": "r", "s": "s", "v": "v"},
    ],
)
def test_what_is_no_signature(signature: dict[str, object]) -> None:
    with pytest.raises(SignatureError):
        action_signer(ORDER, signature, nonce=NONCE, vault=None, expires=None, source="b")
