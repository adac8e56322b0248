"""What the config may say of layouts that others own: providers, and the further settings of a store."""

from __future__ import annotations

from dataclasses import dataclass

STORE_EXTRAS = (
    "outbox_table",
    "delete_after_replay",
    "replay_header",
    "on_success",
    "on_dismiss",
    "hub_url",
    "hub_wait",
)


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """An integration's provider, by its id or name; `auth_header` None: sent where there is a secret for it."""

    base_url: str
    auth_header: str | None = None
    key_header: str = "Idempotency-Key"
    timeout: float = 10.0
