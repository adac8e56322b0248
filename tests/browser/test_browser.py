"""The console in a real browser: read, leaf, dismiss behind the gate, leave. `make browser` insists on Chromium."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import chromium
from tests.support.orders import row, sqlite_store
from tests.support.serve import serving

pytestmark = pytest.mark.skipif(
    chromium.PROGRAM is None and "DLQ_BROWSER" not in os.environ, reason="no Chromium here; make browser insists on it"
)


async def test_a_person_works_in_the_browser(tmp_path: Path) -> None:
    assert chromium.PROGRAM is not None, "install Chromium (Debian: apt install chromium)"
    store = sqlite_store(tmp_path / "orders.db", [row(n, market_id=f"SERVED{n}") for n in range(1, 4)])
    with serving(store, tmp_path) as url:
        async with chromium.browsing(url, tmp_path / "profile") as page:
            await page.until(r"SERVED3.*\n.*SERVED2")
            await page.focus()
            await page.press("?")
            await page.until("Signs before the rows")
            await page.press("Escape")
            await page.until("pending 3")
            (tmp_path / "page.png").write_bytes(await page.picture())
            await page.press("D")
            await page.until("market-closed")
            await page.insist("1", "type 1 to dismiss")
            await page.press("1", "Enter")
            await page.until("1 dismissed")
            assert page.faults == []
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("SELECT count(*) FROM order_dlq WHERE dismissed = 1").fetchone() == (1,)
