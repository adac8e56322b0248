"""Stands for `PostgresDLQ` where asyncpg is not installed, so that the names of this package can always be imported."""

from __future__ import annotations

from typing import Any


class WithoutDriver:
    def __init__(self, *_: Any, **__: Any) -> None:
        raise ImportError("PostgresDLQ needs asyncpg: pip install 'dlq-sink[postgres]'", name="asyncpg")


PostgresDLQ = WithoutDriver
