"""One request through the transport, with a canary among its headers."""

from __future__ import annotations

from tests.support.http_server import Answer, Received, reply
from venues.http import Headers, Result, Transport

TIMEOUT = 0.4
CANARY = "canary-5d1e8842"
KEYS = Headers({"X-Key": CANARY})


def ok(_: Received) -> Answer:
    return reply(200, {"id": "x"})


async def sent(url: str, *, timeout: float = TIMEOUT) -> Result:
    return await Transport(url, timeout).request("POST", "/v2/orders", headers=KEYS, body=b"{}")
