"""Loads Kalshi's private key and signs timestamp, method and path. Must not know orders."""

from __future__ import annotations

import base64

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from venues.client import BadCredentials
from venues.credentials import Credentials

Key = RSAPrivateKey | Ed25519PrivateKey
_SALT = 32


def load_key(credentials: Credentials) -> Key:
    credentials.reveal("private_key")
    key = _loaded(credentials)
    if key is None:
        raise BadCredentials("private_key: not an unencrypted PEM private key (RSA or Ed25519)")
    return key


def _loaded(credentials: Credentials) -> Key | None:
    """Return None for a bad key: the library's error would carry frames that hold the PEM."""
    try:
        key = load_pem_private_key(credentials.reveal("private_key").encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, RSAPrivateKey | Ed25519PrivateKey) else None


def sign(key: Key, timestamp: str, *, method: str, path: str) -> str:
    """Sign a request; `path` is the whole path as sent, without the query."""
    message = f"{timestamp}{method}{path}".encode()
    if isinstance(key, Ed25519PrivateKey):
        signature = key.sign(message)
    else:
        signature = key.sign(message, PSS(mgf=MGF1(SHA256()), salt_length=_SALT), SHA256())
    return base64.b64encode(signature).decode()
