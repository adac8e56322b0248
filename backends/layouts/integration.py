"""The integration layout: calls of an integration hub that failed for good, in any spelling of its columns.

A failed retry writes `attempts` and `lastRetryAt`. A success writes nothing, sets the soft-delete mark or deletes the
row, as the store's config says.
"""

from __future__ import annotations

from collections.abc import Mapping

from backends.layouts.columns import LayoutColumns

RETENTION_DAYS = 30
_TEXT = ("text", "character varying", "uuid")
_TIME = ("timestamp with time zone",)

FAILED_CALLS = LayoutColumns(
    name="integration",
    columns=(
        "id",
        "providerId",
        "providerName",
        "originalRequest",
        "error",
        "attempts",
        "tenantId",
        "createdAt",
        "lastRetryAt",
        "deletedAt",
        "isDeleted",
        "deleted",
    ),
    anchors=frozenset({"providerId", "originalRequest", "attempts"}),
    required=frozenset({"id", "providerId", "originalRequest", "attempts", "createdAt", "error"}),
    moment="createdAt",
    origin=("providerId", "providerName"),
    account="tenantId",
    error="error",
    documents=frozenset({"originalRequest"}),
    types={
        "id": ("uuid", "text", "character varying"),
        "providerId": _TEXT,
        "providerName": _TEXT,
        "originalRequest": ("jsonb", "json"),
        "error": _TEXT,
        "attempts": ("integer", "bigint", "smallint"),
        "tenantId": _TEXT,
        "createdAt": _TIME,
        "lastRetryAt": _TIME,
        "deletedAt": _TIME,
        "isDeleted": ("boolean",),
        "deleted": ("boolean",),
    },
    degraded={
        "providerName": "providers are shown by their id",
        "tenantId": "tenants are not shown",
        "lastRetryAt": "the last retry is not recorded in the row",
    },
    seen=("attempts", "lastRetryAt"),
    sends=True,
)
SOFT_DELETE = ("deletedAt", "isDeleted", "deleted")


def soft_delete(parts: Mapping[str, str]) -> tuple[str, str] | None:
    """The soft-delete column: the layout's name of it, and the table's own."""
    return next(((name, parts[name]) for name in SOFT_DELETE if name in parts), None)
