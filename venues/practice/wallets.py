"""Tells whose request a Hyperliquid one is: by the address it asks about, or by its signature, vault and agent.

The signature does not say for which chain it was made, so an address that is known already decides between the two.
Must not know orders.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from venues.practice.book import Book
from venues.practice.signer import action_signer, approval_signer

NOBODY = "0x" + "0" * 40  # the account of everything that names none or has no real signature
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_CHAINS = ("b", "a")  # the test chain first, which every client uses on loopback, save for live orders


def address(value: object) -> str | None:
    return value.lower() if isinstance(value, str) and _ADDRESS.fullmatch(value) else None


class Wallets:
    """The addresses that one exchange has met."""

    def __init__(self) -> None:
        self._met: set[str] = set()
        self._same: dict[str, str] = {}  # what a signature yields for the other chain, and the account it went to

    def asked(self, user: object) -> str:
        """Return the account that a question is about."""
        found = address(user) or NOBODY
        self._met.add(found)
        return self._same.get(found, found)

    def sender(self, body: Mapping[str, object], book: Book) -> str:
        """Return the account that an action is for: its vault, else the account of the agent or key that signed it."""
        signer = self._signer(body, book)
        return address(body.get("vaultAddress")) or book.agents.get(signer, signer)

    def _signer(self, body: Mapping[str, object], book: Book) -> str:
        try:
            first, other = (_signed_for(chain, body) for chain in _CHAINS)
        except (ValueError, OverflowError, KeyError, AttributeError):
            return NOBODY
        for found in (first, other):
            if found in self._met or found in book.agents or any(book.listed("account", "hyperliquid", found)):
                return found
            if found in self._same:
                return self._same[found]
        self._same[other] = first
        return first


def _signed_for(chain: str, body: Mapping[str, object]) -> str:
    signature, nonce, expires = body["signature"], body["nonce"], body.get("expiresAfter")
    vault = body.get("vaultAddress")
    if not isinstance(signature, dict) or not isinstance(nonce, int):
        raise ValueError("not signed")
    return action_signer(
        body["action"],
        signature,
        nonce=nonce,
        vault=vault if isinstance(vault, str) else None,
        expires=expires if isinstance(expires, int) else None,
        source=chain,
    )


def approved(body: Mapping[str, object]) -> tuple[str, str] | None:
    """Return the agent and the account in an `approveAgent` action; None if it is not signed."""
    action, signature = body.get("action"), body.get("signature")
    agent = address(action.get("agentAddress")) if isinstance(action, dict) else None
    if not isinstance(action, dict) or not isinstance(signature, dict) or agent is None:
        return None
    try:
        return agent, approval_signer(action, signature)
    except (ValueError, OverflowError, KeyError):
        return None
