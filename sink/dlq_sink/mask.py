"""Whether an error's text may hold a credential; what hides it is loaded only then. Pure."""

from __future__ import annotations

MASKED = "[masked]"
# Most errors hold no credential, and searching for words is much faster than the expressions.
_HINTS = (
    "sig", "key", "secret", "token", "pass", "auth", "cookie", "credential", "0x", "@", "eyj", "bearer", "basic", "pwd",
    "akia", "k_", "mnemonic", "hmac", "jwt", "session",
)  # fmt: skip
_clean = [""]  # the last error without a hint


def masked_error(text: str) -> str:
    """Mask credentials in the error of an order: prose with pieces of requests in it. The prose stays whole."""
    if text is _clean[0]:  # the same text is asked for several times for one row
        return text
    low = text.lower()
    for hint in _HINTS:
        if hint in low:
            from dlq_sink.error_mask import without_credentials  # its expressions are rarely needed

            return without_credentials(text)
    _clean[0] = text
    return text
