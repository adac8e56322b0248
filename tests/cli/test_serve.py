"""`dlq serve`: the console comes to the person with the printed address, and to nobody else."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from console.web.door import Door, is_our_host, is_own_origin
from tests.cli.conftest import Dlq
from tests.support.orders import row, sqlite_store
from tests.support.serve import ROOT, server, serving

SIZE = json.dumps(["resize", {"width": 100, "height": 30}])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [row(1, market_id="SERVED", captured_at=datetime.now(UTC))]
    return sqlite_store(tmp_path_factory.mktemp("served") / "orders.db", rows)


@pytest.fixture(scope="module")
def served(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[URL]:
    with serving(store, tmp_path_factory.mktemp("home"), "--consoles", "2") as address:
        yield URL(address)


class Browser:
    """A client that came in by the printed address: it has the cookie and knows the path."""

    def __init__(self, session: aiohttp.ClientSession, address: URL, path: str, cookie: str) -> None:
        self.session, self.address, self.path, self.cookie = session, address, path, cookie

    async def status(self, path: str, **headers: str) -> int:
        asked = {"Cookie": self.cookie, **headers}
        async with self.session.get(self.address.join(URL(path)), headers=asked, allow_redirects=False) as got:
            return got.status

    async def socket(self, **headers: str) -> aiohttp.ClientWebSocketResponse:
        own = {"Cookie": self.cookie, "Origin": f"http://{self.address.authority}"}
        where = self.address.join(URL(f"{self.path}ws?width=100&height=30"))
        return await self.session.ws_connect(where, headers={**own, **headers})

    async def refused(self, **headers: str) -> int:
        with pytest.raises(aiohttp.WSServerHandshakeError) as problem:
            await self.socket(**headers)
        return problem.value.status

    @asynccontextmanager
    async def console(self, **headers: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A console that has drawn itself; waits for those of earlier tests to end."""
        async with asyncio.timeout(60):
            while (page := await self._unless_full(**headers)) is None:
                await asyncio.sleep(0.05)
        async with page:
            await page.send_str(SIZE)
            await drawn(page, "SERVED")
            yield page

    async def _unless_full(self, **headers: str) -> aiohttp.ClientWebSocketResponse | None:
        try:
            return await self.socket(**headers)
        except aiohttp.WSServerHandshakeError as problem:
            if problem.status == 503:
                return None
            raise


@pytest.fixture
async def browser(served: URL) -> AsyncIterator[Browser]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        async with session.get(served, allow_redirects=False) as entered:
            assert entered.status == 303
            path, cookie = entered.headers["Location"], entered.headers["Set-Cookie"]
        yield Browser(session, served.origin(), path, cookie.partition(";")[0])


async def insisted(page: aiohttp.ClientWebSocketResponse, key: str, wanted: str) -> str:
    """Press a key until this is drawn: a console that is still starting does not take it."""
    for _ in range(30):
        await page.send_str(json.dumps(["stdin", key]))
        with suppress(TimeoutError):
            return await drawn(page, wanted, seconds=2)
    raise AssertionError(f"never drew {wanted}")


async def drawn(page: aiohttp.ClientWebSocketResponse, wanted: str, seconds: float = 60) -> str:
    seen = b""
    async with asyncio.timeout(seconds):
        async for message in page:
            if message.type == aiohttp.WSMsgType.BINARY:
                seen += message.data
            if wanted.encode() in seen:
                return seen.decode("utf-8", "replace")
    raise AssertionError(f"never drew {wanted}")


async def test_the_printed_address_opens_the_console(served: URL, browser: Browser) -> None:
    async with browser.session.get(served, allow_redirects=False) as entered:
        said = entered.headers["Set-Cookie"]
    assert browser.path.startswith("/"), "without a host: a tunnel has its own"
    assert all(word in said for word in ("HttpOnly", "SameSite=Strict", f"Path={browser.path}")), said
    assert len(served.query["token"]) >= 43, "256 bits"
    async with browser.session.get(browser.address.join(URL(browser.path)), headers={"Cookie": browser.cookie}) as page:
        text, policy = await page.text(), page.headers["Content-Security-Policy"]
        assert page.headers["X-Frame-Options"] == "DENY"
    assert {"frame-ancestors 'none'", "default-src 'none'"} <= set(policy.split("; "))
    assert ("https://" in text, f"ws://{browser.address.authority}{browser.path}ws" in text) == (False, True)
    for name in ("page.css", "static/js/textual.js", "static/css/xterm.css"):
        assert await browser.status(f"{browser.path}{name}") == 200, name
    async with browser.console():
        pass


async def test_nobody_else_comes_in(served: URL, browser: Browser) -> None:
    path, entry = browser.path, f"/?token={served.query['token']}"
    for where in ("/", "/?token=wrong", "/?token=", f"{entry}x", path, f"{path}ws", "/static/", "/x"):
        assert await browser.status(where, Cookie="x=y") == 403, where
    assert await browser.status(path, Cookie=f"{browser.cookie}x") == 403
    assert await browser.status("/other/") == 403, "the cookie is of one path"
    for host in (
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "[::2]",
        "127.0.0.1:x",
        "127.0.0.2",
    ):
        assert [await browser.status(where, Host=host) for where in (path, entry)] == [421, 421], host
    for host in ("localhost:9", "[::1]:12345", "127.0.0.1"):
        assert await browser.status(path, Host=host) == 200, f"{host}: a tunnel's"


async def answer_to(address: URL, request: str) -> str:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(request.encode())
    async with asyncio.timeout(60):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    writer.close()
    return head


async def test_a_request_that_names_no_host_or_two_is_misdirected(served: URL, browser: Browser) -> None:
    own, entry = f"Host: {browser.address.authority}\r\n", served.raw_path_qs
    for line, hosts in (
        (entry, ""),
        (browser.path, f"Cookie: {browser.cookie}\r\n"),
        (entry, own * 2),
        (entry, f"{own}Host: evil.example\r\n"),
        (f"http://evil.example{entry}", own),
    ):
        head = await answer_to(browser.address, f"GET {line} HTTP/1.1\r\n{hosts}\r\n")
        assert head.split()[1] == "421", (line, hosts)
        assert "Server: dlq-console\r\n" in head
        assert "X-Frame-Options: DENY\r\n" in head
    head = await answer_to(browser.address, f"GET {served} HTTP/1.1\r\n{own}\r\n")
    assert head.split()[1] == "303", "our own host in the request line"


async def test_a_socket_comes_from_our_own_page_only(browser: Browser) -> None:
    port = browser.address.port
    near = (f"http://localhost:{port}", f"https://127.0.0.1:{port}", "http://127.0.0.1")
    for origin in ("https://evil.example", "null", "", *near):
        assert await browser.refused(Origin=origin) == 403, origin
    assert await browser.refused(Cookie="dlq-console=guess") == 403
    assert await browser.refused(Host="evil.example", Origin="http://evil.example") == 421
    async with browser.console(Host="localhost:7777", Origin="http://localhost:7777"):
        pass


async def test_no_more_consoles_than_allowed(browser: Browser) -> None:
    async with browser.console(), browser.console():
        assert await browser.refused() == 503


async def test_live_must_be_allowed_and_no_store_is_typed_in(browser: Browser) -> None:
    async with browser.console() as page:
        await insisted(page, "m", "--allow-live")
        assert "type a path" not in await insisted(page, "o", "Attach to a store")


async def test_odd_messages_of_a_page_end_nothing(browser: Browser) -> None:
    async with browser.console() as page:
        for odd in ("", "{", "[]", "[1]", '["resize", 3]', '["resize", {"width": -4, "height": 1e400}]', "[" * 50_000):
            await page.send_str(odd)
        await page.send_bytes(b"\xff")
        await insisted(page, "?", "Signs before the rows")


async def test_whoever_stays_outside_holds_nothing_for_long(served: URL, browser: Browser) -> None:
    """Another user of this machine reaches the port, but does not know the address."""
    assert served.host is not None
    kept = [await asyncio.open_connection(served.host, served.port) for _ in range(200)]
    asked = [f"GET /{n} HTTP/1.1\r\nHost: localhost\r\n".encode() for n in range(200)]
    for number, (_, writer) in enumerate(kept):
        writer.write(asked[number][: number % 40])
    assert await browser.status(browser.path) == 200, "whoever knows it is served meanwhile"
    async with asyncio.timeout(60):
        for reader, writer in kept:
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()


async def test_few_file_handles_end_nothing_and_tell_nothing(tmp_path: Path, store: str) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))"
    environ = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "CANARY": "canary-1"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", f"{limit}; from console.__main__ import main; main()"),
        *("serve", "--db", store, "--port", "0"),
        cwd=ROOT,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    address = URL((await process.stdout.readline()).decode().strip())
    kept = [await asyncio.open_connection(address.host, address.port) for _ in range(60)]
    for _, writer in kept:
        writer.close()
    async with aiohttp.ClientSession() as session, asyncio.timeout(60):
        while True:
            with suppress(aiohttp.ClientError):
                async with session.get(address, allow_redirects=False) as entered:
                    assert entered.status == 303
                    break
            await asyncio.sleep(0.2)
    process.terminate()
    _, said = await process.communicate()
    assert not any(word in said for word in (b"Traceback", b"canary-1", address.query["token"].encode())), said


async def test_the_target_is_in_no_argument_list(tmp_path: Path, store: str) -> None:
    """It may hold a password."""
    with server(store, tmp_path) as process:
        assert process.stdout is not None
        address = URL(process.stdout.readline().strip())
        jar = aiohttp.CookieJar(unsafe=True)  # it keeps cookies of an address too
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            async with session.get(address) as page:
                where = page.url.join(URL("ws"))
            async with session.ws_connect(where, headers={"Origin": f"http://{address.authority}"}) as socket:
                await socket.send_str(SIZE)
                await drawn(socket, "SERVED")
                lists = [_arguments(pid) for pid in _children(process.pid)]
    assert [store in words for words in lists] == [False]
    assert process.returncode == 0


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _arguments(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


BAD = (("--host", "0.0.0.0"), ("--host", "::"), ("--host", "example.org"), ("--port", "70000"), ("--consoles", "0"))


@pytest.mark.parametrize("words", BAD)
def test_a_bad_option_is_one_line(dlq: Dlq, words: tuple[str, ...]) -> None:
    ran = dlq("serve", "--db", "x", *words)
    assert (ran.code, ran.err.count("\n"), ran.out) == (2, 1, "")


def test_the_door_judges_headers_exactly() -> None:
    door = Door()
    assert [door.is_token(given) for given in ([door.token], [door.token] * 2, [], [""])] == [True, False, False, False]
    assert door.is_inside(f"{door.path}ws", door.cookie)
    assert not door.is_inside(door.path[:-1], door.cookie)
    assert not any(map(is_our_host, (["127.0.0.1", "127.0.0.1"], ["localhost.evil"], [])))
    assert not any(is_own_origin(given, "localhost") for given in ([], ["http://localhost"] * 2, ["http://localhos"]))
    assert Door().token != door.token
    assert not any(secret in repr(door) for secret in (door.token, door.cookie, door.path))
