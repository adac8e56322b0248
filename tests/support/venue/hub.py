"""An integration hub's API as its documentation has it: entries in memory, retries that end when the test says so."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.http_server import Answer, Received, reply

TOKEN = "hub-t0ken"


def failed_item(number: int, **changes: Any) -> dict[str, Any]:
    item = {
        "id": str(uuid.UUID(int=number)),
        "providerId": "prov-1",
        "providerName": "Acme Pay",
        "originalRequest": {"method": "POST", "path": "/v1/x", "headers": {"X-Trace": "t"}, "body": {"amount": 1.5}},
        "error": "HTTP 503 after 6 attempts",
        "attempts": 6,
        "tenantId": "tenant-1",
        "createdAt": f"2026-04-18T14:32:{number % 60:02}Z",
        "lastRetryAt": None,
    }
    return item | changes


@dataclass
class FakeHub:
    """`ending` says how a queued retry ends when it is next looked at: "good", "bad" or "" for not yet."""

    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    ending: str = "good"
    queued: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    answer: Answer | None = None  # instead of its own, to every retry
    loses_answers: bool = False  # a retry is queued, but nobody hears of it
    on_look: Callable[[], None] = lambda: None  # before one entry is told

    def add(self, *items: dict[str, Any]) -> FakeHub:
        self.items |= {item["id"]: item for item in items}
        return self

    def __call__(self, got: Received) -> Answer:
        self.asked.append((got.method, got.target))
        if got.headers.get("authorization") != f"Bearer {TOKEN}":
            return reply(401, {"error": "no"})
        path = got.path.removeprefix("/integrations/dlq").strip("/")
        match got.method, path.split("/") if path else []:
            case "GET", []:
                return self._list(got.params)
            case "POST", ["retry-all"]:
                return self._retry_all(json.loads(got.body or b"{}"))
            case "GET", [entry_id]:
                self.on_look()
                self._settle(entry_id)
                return reply(200, self.items[entry_id]) if entry_id in self.items else reply(404, {"error": "gone"})
            case "POST", [entry_id, "retry"]:
                return self._retry(entry_id)
            case "DELETE", [entry_id]:
                return reply(204) if self.items.pop(entry_id, None) else reply(404)
            case _:
                return reply(405)

    def _list(self, params: dict[str, str]) -> Answer:
        page, limit = int(params.get("page", "1")), int(params.get("limit", "20"))
        if page < 1 or not 1 <= limit <= 100:
            return reply(400, {"error": "limit"})
        chosen = [item for item in self.items.values() if params.get("providerId") in (None, item["providerId"])]
        chosen = [item for item in chosen if item["createdAt"] >= params.get("since", "")]
        part = chosen[(page - 1) * limit : page * limit]
        return reply(200, {"items": part, "total": len(chosen), "page": page, "limit": limit})

    def _retry(self, entry_id: str) -> Answer:
        if self.answer is not None:
            return self.answer
        if entry_id not in self.items:
            return reply(404)
        key = str(uuid.uuid4())
        self.queued[entry_id] = key
        if self.loses_answers:
            return None
        return reply(202, {"dlqId": entry_id, "status": "queued", "idempotencyKey": key})

    def _retry_all(self, asked: dict[str, Any]) -> Answer:
        chosen = [one for one, item in self.items.items() if asked.get("providerId") in (None, item["providerId"])]
        for one in chosen:
            self._retry(one)
        return reply(202, {"queued": len(chosen), "status": "queued"})

    def _settle(self, entry_id: str) -> None:
        if entry_id not in self.queued or not self.ending or entry_id not in self.items:
            return
        del self.queued[entry_id]
        if self.ending == "good":
            del self.items[entry_id]
        else:
            item = self.items[entry_id]
            item |= {"attempts": item["attempts"] + 1, "lastRetryAt": "2026-04-18T15:00:00Z", "error": "HTTP 500 again"}
