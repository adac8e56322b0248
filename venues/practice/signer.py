"""Recovers who signed a Hyperliquid action: Keccak-256, MessagePack, EIP-712 and secp256k1, in plain Python.

Needs no SDK, so that the exchange runs without an extra. For practice only: it signs nothing and holds no key.
Must not know orders or accounts.
"""

from __future__ import annotations

from collections.abc import Mapping

_P = 2**256 - 2**32 - 977
_N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)
_LEAST = 1 << 160  # a real signature's numbers are larger, save by a chance of 2**-95
_MASK = (1 << 64) - 1
_RATE = 136
Point = tuple[int, int]


class SignatureError(ValueError):
    """These numbers are nobody's signature, or the action cannot be packed."""


def action_signer(
    action: object, signature: Mapping[str, object], *, nonce: int, vault: str | None, expires: int | None, source: str
) -> str:
    """Return the address that signed this action for the chain `source` ("a": the live one, "b": the test chain)."""
    packed = pack(action) + nonce.to_bytes(8, "big")
    packed += b"\x00" if vault is None else b"\x01" + bytes.fromhex(vault[2:])
    packed += b"" if expires is None else b"\x00" + expires.to_bytes(8, "big")
    agent = keccak(b"Agent(string source,bytes32 connectionId)") + keccak(source.encode()) + keccak(packed)
    return _signer(_domain("Exchange", 1337), keccak(agent), signature)


def approval_signer(action: Mapping[str, object], signature: Mapping[str, object]) -> str:
    """Return the address that signed an `approveAgent` action. Raises SignatureError, KeyError or ValueError."""
    fields = "string hyperliquidChain,address agentAddress,string agentName,uint64 nonce"
    parts = [
        keccak(f"HyperliquidTransaction:ApproveAgent({fields})".encode()),
        keccak(str(action["hyperliquidChain"]).encode()),
        int(str(action["agentAddress"]), 16).to_bytes(32, "big"),
        keccak(str(action.get("agentName") or "").encode()),
        int(str(action["nonce"])).to_bytes(32, "big"),
    ]
    chain = int(str(action["signatureChainId"]), 16)
    return _signer(_domain("HyperliquidSignTransaction", chain), keccak(b"".join(parts)), signature)


def _domain(name: str, chain: int) -> bytes:
    kind = b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
    return keccak(keccak(kind) + keccak(name.encode()) + keccak(b"1") + chain.to_bytes(32, "big") + bytes(32))


def _signer(domain: bytes, message: bytes, signature: Mapping[str, object]) -> str:
    digest = int.from_bytes(keccak(b"\x19\x01" + domain + message), "big")
    try:
        r, s = (int(str(signature[name]), 16) for name in ("r", "s"))
        odd = {0: 0, 1: 1, 27: 0, 28: 1}[int(str(signature["v"]))]
    except (KeyError, ValueError):
        raise SignatureError("not a signature") from None
    return _address(_recovered(digest, r, s, odd=odd))


def _recovered(digest: int, r: int, s: int, *, odd: int) -> Point:
    """Return the public key for which (r, s) is a signature of the digest."""
    if not (_LEAST <= r < _N and _LEAST <= s < _N):
        raise SignatureError("not a signature")
    square = (pow(r, 3, _P) + 7) % _P
    y = pow(square, (_P + 1) // 4, _P)
    if y * y % _P != square:
        raise SignatureError("not a signature")
    point = (r, y if y % 2 == odd else _P - y)
    inverse = pow(r, -1, _N)
    found = _sum(_times(_G, -digest * inverse % _N), _times(point, s * inverse % _N))
    if found is None:
        raise SignatureError("not a signature")
    return found


def _address(key: Point) -> str:
    return "0x" + keccak(b"".join(part.to_bytes(32, "big") for part in key))[12:].hex()


def _sum(one: Point | None, two: Point | None) -> Point | None:
    if one is None or two is None:
        return one or two
    (x1, y1), (x2, y2) = one, two
    if x1 == x2 and (y1 + y2) % _P == 0:
        return None
    slope = 3 * x1 * x1 * pow(2 * y1, -1, _P) if one == two else (y2 - y1) * pow(x2 - x1, -1, _P)
    x3 = (slope * slope - x1 - x2) % _P
    return x3, (slope * (x1 - x3) - y1) % _P


def _times(point: Point, factor: int) -> Point | None:
    total: Point | None = None
    power: Point | None = point
    while factor:
        if factor & 1:
            total = _sum(total, power)
        power = _sum(power, power)
        factor >>= 1
    return total


def pack(value: object) -> bytes:
    """Return the value as MessagePack. Raises SignatureError for what an action does not hold."""
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int() if 0 <= value < 1 << 64:
            return _pack_number(value)
        case str():
            raw = value.encode()
            return _sized(len(raw), 0xA0, 32, wide=(0xD9, 0xDA, 0xDB)) + raw
        case list():
            return _sized(len(value), 0x90, 16, wide=(None, 0xDC, 0xDD)) + b"".join(map(pack, value))
        case dict():
            rows = b"".join(pack(key) + pack(item) for key, item in value.items())
            return _sized(len(value), 0x80, 16, wide=(None, 0xDE, 0xDF)) + rows
        case _:
            raise SignatureError(f"a {type(value).__name__} in the action")


def _pack_number(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    for mark, size in ((0xCC, 1), (0xCD, 2), (0xCE, 4)):
        if value < 1 << 8 * size:
            return bytes((mark,)) + value.to_bytes(size, "big")
    return b"\xcf" + value.to_bytes(8, "big")


def _sized(length: int, short: int, below: int, *, wide: tuple[int | None, int, int]) -> bytes:
    """Return the head of a text, list or map of this length."""
    if length < below:
        return bytes((short | length,))
    for mark, size in zip(wide, (1, 2, 4), strict=True):
        if mark is not None and length < 1 << 8 * size:
            return bytes((mark,)) + length.to_bytes(size, "big")
    raise SignatureError("too long")


def keccak(data: bytes) -> bytes:
    """Return the Keccak-256 hash, which differs from SHA3-256 in its padding only."""
    data += b"\x01" + bytes(-(len(data) + 1) % _RATE)
    data = data[:-1] + bytes((data[-1] | 0x80,))
    state = [0] * 25
    for start in range(0, len(data), _RATE):
        for at in range(_RATE // 8):
            state[at] ^= int.from_bytes(data[start + 8 * at : start + 8 * at + 8], "little")
        state = _mixed(state)
    return b"".join(word.to_bytes(8, "little") for word in state[:4])


def _mixed(state: list[int]) -> list[int]:
    """Return the state after the 24 rounds of Keccak-f[1600]."""
    for constant in _ROUNDS:
        columns = [state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20] for x in range(5)]
        mixed = [columns[(x - 1) % 5] ^ _rolled(columns[(x + 1) % 5], 1) for x in range(5)]
        state = [word ^ mixed[at % 5] for at, word in enumerate(state)]
        moved = [0] * 25
        for at, word in enumerate(state):
            x, y = at % 5, at // 5
            moved[y + 5 * ((2 * x + 3 * y) % 5)] = _rolled(word, _SHIFTS[at])
        state = [
            moved[at] ^ (~moved[at // 5 * 5 + (at + 1) % 5] & moved[at // 5 * 5 + (at + 2) % 5]) for at in range(25)
        ]
        state[0] ^= constant
    return state


def _rolled(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & _MASK


def _shifts() -> list[int]:
    found = [0] * 25
    x, y = 1, 0
    for step in range(24):
        found[x + 5 * y] = (step + 1) * (step + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    return found


def _rounds() -> list[int]:
    constants, register = [], 1
    for _ in range(24):
        constant = 0
        for bit in range(7):
            if register & 1:
                constant |= 1 << ((1 << bit) - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return constants


_SHIFTS = _shifts()
_ROUNDS = _rounds()
