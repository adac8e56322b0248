"""A password typed into the attach screen is shown at no moment: while typed, edited, recalled, refused or in use."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from console.app import ConsoleApp
from console.screens.attach import AttachScreen
from console.settings.recent_stores import Recent
from console.settings.typed_store import typed_store
from tests.support.app import Stage, make_store, order, press, screen_text, settled, until
from tests.support.orders import postgres_store, row

SECRET = "^~^~~^"  # of characters that no screen has
TEXTS = (
    f"postgresql://ops:{SECRET}@127.0.0.1:1/trading",
    f"host=127.0.0.1 port=1 password='{SECRET}' user=ops",
)


def shows_none(app: ConsoleApp) -> bool:
    return not set(SECRET) & set(screen_text(app))


@pytest.mark.parametrize("text", TEXTS)
async def test_a_typed_password_is_never_on_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    stage = Stage(make_store(tmp_path / "a.db", [order(1)]), changes={"store": None})
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "G", "enter")
        for one in text:
            await pilot.press(one)
            assert shows_none(app), f"after {one!r}"
        assert "••••" in screen_text(app)
        for _ in range(len(text)):
            await pilot.press("left")
            assert shows_none(app), "wherever the cursor stands"
        await press(pilot, "end", "enter")
        await until(pilot, lambda: isinstance(app.screen, AttachScreen) and "cannot be reached" in screen_text(app))
        assert shows_none(app)
        assert "postgres 127.0.0.1:1" in screen_text(app)
        await press(pilot, "G", "enter", "up")
        assert shows_none(app), "in the history"
        assert "••••" in screen_text(app)


def test_recent_stores_keep_no_password(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    recent = Recent(environ)
    for text in (*TEXTS, f"postgresql://db1/x?sslpassword={SECRET}", f"postgresql://db1/x?password={SECRET}"):
        recent.add(text)
    file = tmp_path / "dlq-console" / "recent.json"
    assert SECRET not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert "postgresql://ops@127.0.0.1:1/trading" in recent.read()


async def test_the_frame_names_the_server_and_not_the_password(postgres_db: str, tmp_path: Path) -> None:
    await asyncio.to_thread(postgres_store, postgres_db, [row(1)])
    where = postgres_db.partition("@")[2]
    text = f"postgresql://postgres:{SECRET}@127.0.0.1:1,{where}"
    stage = Stage(tmp_path / "none.db", store=typed_store(text))
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        assert shows_none(app)
        await until(pilot, lambda: app.session is not None)
        await settled(pilot)
        assert f"postgres {where}" in screen_text(app)
        assert shows_none(app)
        assert not set(SECRET) & set(f"{app.title}{app.sub_title}{app.header_state}")
