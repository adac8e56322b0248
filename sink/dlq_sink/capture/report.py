"""What an engine hears of its own captures: the audit event and the counter of Horizon, and one callback per event.

Reporting never stops the engine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

REJECTS = "horizon_order_rejects_total"
EVENTS = "dlq_sink_events_total"
# An intent is on disk; the venue took the order; it became an entry; neither placed nor kept.
EventKind = Literal["intent", "placed", "dead_letter", "lost"]
OnEvent = Callable[[str, Mapping[str, object]], object]
_log = logging.getLogger("dlq_sink.capture")


class AuditLog(Protocol):
    def append(self, category: str, payload: Mapping[str, object], /) -> object: ...


class Metrics(Protocol):
    def inc(self, name: str, labels: Mapping[str, str], /) -> object: ...


@dataclass(frozen=True, slots=True)
class Reporter:
    audit: AuditLog | None = None
    metrics: Metrics | None = None
    on_event: OnEvent | None = None

    def tell(self, kind: EventKind, facts: Mapping[str, object]) -> None:
        if (on_event := self.on_event) is not None:
            quietly(lambda: on_event(kind, facts))

    def count_reject(self, layer: str) -> None:
        if (metrics := self.metrics) is not None:
            quietly(lambda: metrics.inc(REJECTS, {"layer": layer}))

    def reject(self, facts: Mapping[str, object]) -> None:
        if (audit := self.audit) is not None:
            quietly(lambda: audit.append("OrderRejected", facts))


def quietly(report: Callable[[], object]) -> None:
    try:
        report()
    except Exception:  # noqa: BLE001 - the engine's own reporting must not stop the engine
        _log.exception("an event of a dead-lettered order could not be reported; the entry itself is stored")


class PrometheusMetrics:
    """Counters of prometheus-client, made when first counted: pass it as `metrics=` and as `on_event=`."""

    def __init__(self, registry: Any = None) -> None:
        import prometheus_client  # an engine's own choice; nothing here needs it

        self._counter = prometheus_client.Counter
        self._registry = registry if registry is not None else prometheus_client.REGISTRY
        self._made: dict[str, Any] = {}

    def inc(self, name: str, labels: Mapping[str, str]) -> None:
        made = self._made.get(name)
        if made is None:
            told = "orders that were not placed" if name == REJECTS else "what became of an engine's orders"
            made = self._counter(name, told, sorted(labels), registry=self._registry)
            self._made[name] = made
        made.labels(**labels).inc()

    def __call__(self, kind: str, facts: Mapping[str, object]) -> None:
        self.inc(EVENTS, {"event": kind, "venue": str(facts.get("venue", ""))})
