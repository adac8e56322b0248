"""Owns the intents of one process: renews their leases while they are open, and tries again what could not be resolved.

Knows no database: a sink's `IntentRows` keeps them.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
import time
from itertools import islice
from secrets import token_hex
from typing import TYPE_CHECKING

from dlq_sink.contract import check_usable
from dlq_sink.error import CommitUnknown, SinkClosed, StoreError, Unreachable
from dlq_sink.values import storable
from dlq_sink.witness.table import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dlq_sink.contract import IntentRows
    from dlq_sink.record import DeadLetteredOrder

RENEWAL_SECONDS = LEASE_SECONDS / 3
LINGER_SECONDS = 0.1  # that a note may wait for others; an engine that dies meanwhile leaves its order in doubt
CLEANING_SECONDS = 600.0
_MOST_CLEANED = 500  # in one transaction
_MOST_NOTED = 200  # in one statement
_log = logging.getLogger("dlq_sink.witness")


class IntentKeeper:
    """May be used from any thread. After a fork it belongs to the parent alone."""

    def __init__(self, rows: IntentRows) -> None:
        self.rows = rows
        self.owner = f"{os.getpid()}.{token_hex(8)}"
        self.host = socket.gethostname()
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._noting = threading.Lock()  # one at a time, so that after `flush` nothing is under way
        self._open: set[str] = set()
        self._placed: dict[str, str | None] = {}  # and the note of it is not written yet
        self._unkept: dict[str, DeadLetteredOrder] = {}  # entries of failed orders that could not be written yet
        self._thread: threading.Thread | None = None
        self._is_waiting = False  # for a renewal, so that a note has to wake it
        self._over = False

    @property
    def is_mine(self) -> bool:
        return self._pid == os.getpid()

    def open(self, entry: DeadLetteredOrder) -> None:
        """Durable once it returns, and renewed until it is resolved."""
        if not self.is_mine:
            raise SinkClosed("this intent belongs to the process that made it: make another after a fork")
        check_usable(closed=self._over)
        self.rows.open(entry, self.owner, self.host)
        with self._changed:
            self._open.add(entry.dlq_id)
            if self._thread is None:
                # A daemon, so that an engine that forgets to close its sink can still exit.
                self._thread = threading.Thread(target=self._renew, name="dlq-sink-leases", daemon=True)
                self._thread.start()
                atexit.register(self.end)  # such an engine leaves no note unwritten, either

    def resolve(self, dlq_id: str, venue_order_id: str | None) -> None:
        """Never raises for the store: the order is placed, and an engine must not take that for a failure."""
        if not self.is_mine:
            return  # its parent goes on with it
        # An odd answer must not keep the notes of other orders from being written.
        order_id = None if venue_order_id is None else storable(venue_order_id)
        with self._changed:
            self._placed[dlq_id] = order_id
            if self.rows.lingers and not self._over:
                if self._is_waiting:
                    self._is_waiting = False
                    self._changed.notify_all()
                return
        self.flush()

    def flush(self) -> bool:
        """Write the notes of placed orders that wait; those that cannot be written yet are tried again."""
        with self._noting:
            with self._changed:
                placed = dict(islice(self._placed.items(), _MOST_NOTED))
            if not placed:
                return True
            try:
                found = self.rows.resolve(placed)
            except StoreError:
                _log.exception("an intent of a placed order could not be resolved yet; it is tried again")
                return False
            with self._changed:
                for dlq_id in placed:
                    self._open.discard(dlq_id)
                    del self._placed[dlq_id]
                is_done = not self._placed
        for dlq_id in found:
            _log.error("%s was taken for dead, and its order was placed after all: its entry is dismissed now", dlq_id)
        return is_done or self.flush()

    def fail(self, entry: DeadLetteredOrder) -> None:
        if not self.is_mine:
            raise SinkClosed("this intent belongs to the process that opened it: it is left to that one")
        try:
            self.rows.fail(entry)
        except StoreError:
            with self._changed:
                self._unkept[entry.dlq_id] = entry
            raise
        self._forget(entry.dlq_id)

    def keep(self) -> None:
        """Try the entries again that could not be written; until then their orders are open intents."""
        with self._changed:
            waiting = list(self._unkept.values())
        for entry in waiting:
            try:
                self.rows.fail(entry)
            except (Unreachable, CommitUnknown):
                return  # the others would only wait as long, and the leases with them
            except StoreError:
                continue
            self._forget(entry.dlq_id)
            _log.warning("%s could not be written before; it is an entry now", entry.dlq_id)

    def _forget(self, dlq_id: str) -> None:
        with self._changed:
            self._open.discard(dlq_id)
            self._unkept.pop(dlq_id, None)

    def end(self) -> None:
        """Write what waits, and renew no longer: what is open now belongs to an owner that is gone."""
        atexit.unregister(self.end)
        if not self.is_mine:
            return
        with self._changed:
            self._over = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(RENEWAL_SECONDS)
        self.flush()
        self.keep()

    def _renew(self) -> None:
        cleaned, due = 0.0, time.monotonic() + RENEWAL_SECONDS
        while not self._over:
            if not cleaned or time.monotonic() - cleaned > CLEANING_SECONDS:
                cleaned = time.monotonic()
                self._quietly(self._clean)
            self._wait(due - time.monotonic())
            if self._over:
                return
            is_written = self.flush()
            if time.monotonic() >= due:
                due = time.monotonic() + RENEWAL_SECONDS
                self.keep()
                if self._open:
                    self._quietly(lambda: self.rows.renew(self.owner))
            elif not is_written:
                self._pause(due - time.monotonic())

    def _wait(self, seconds: float) -> None:
        """Until a renewal is due; or until an order is placed, and some time more for the notes of others."""
        with self._changed:
            self._is_waiting = not self._placed
            self._changed.wait_for(lambda: self._over or bool(self._placed), max(0.0, seconds))
            self._is_waiting = False
            has_notes = bool(self._placed)
        if has_notes:
            self._pause(LINGER_SECONDS)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._over, seconds)

    def _clean(self) -> None:
        while not self._over and self.rows.clean(_MOST_CLEANED) == _MOST_CLEANED:
            self.flush()
            time.sleep(0.1)  # so that the engine's own writes go in between

    def _quietly(self, work: Callable[[], object]) -> None:
        try:
            work()
        except StoreError:
            _log.warning("leases of intents could not be renewed; it is tried again", exc_info=True)
