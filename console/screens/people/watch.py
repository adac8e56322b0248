"""Follows, for one console, what waits for this person and what others did about what was asked for here.

Reads after the store's own change signals; nothing polls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from textual.timer import Timer

from console.render.line import line, untrusted
from console.screens.frame import FramedScreen
from console.screens.queue.coalescer import Coalescer
from console.services.session import WAITS_SECONDS

if TYPE_CHECKING:
    from console.services.session import StoreSession


@runtime_checkable
class FollowsStore(Protocol):
    """A gate or screen that wants to know when the store has changed."""

    def store_changed(self) -> None: ...


class PeopleWatch:
    def __init__(self, screen: FramedScreen) -> None:
        self._screen = screen
        self._reading = Coalescer(self._read)
        self._asked: dict[str, tuple[str, str]] = {}  # plans that wait for a second person, asked for here
        self._lapse: Timer | None = None

    def asked(self, plan: str, what: str, then: str) -> None:
        """Tell when somebody has approved this plan; `then`: what to do about it."""
        self._asked[plan] = what, then
        self.read()

    def forget(self, done: str) -> None:
        """It was done: what was asked for, by its plan or in its words, is told no more."""
        self._asked = {plan: told for plan, told in self._asked.items() if done not in (plan, told[0])}

    def store_changed(self) -> None:
        self.read()
        for screen in self._screen.app.screen_stack:
            if isinstance(screen, FollowsStore):
                screen.store_changed()

    def read(self) -> None:
        console = self._screen.console
        if console.session is not None and not console.header_state.read_only:
            self._screen.start(self._reading, group="people", exclusive=False)

    async def _read(self) -> None:
        console = self._screen.console
        session = console.session
        if session is None:
            return
        waiting = await session.waits_for_me()
        if session is console.session:
            console.update_header(asked=len(waiting))
            self._read_again_when_one_lapses([one.asked_ago for one in waiting])
            await self._tell_approved(session)

    def _read_again_when_one_lapses(self, ages: Sequence[float]) -> None:
        """Nothing in the store changes when a plan has waited too long."""
        if self._lapse is not None:
            self._lapse.stop()
        soonest = min((WAITS_SECONDS - one for one in ages), default=None)
        self._lapse = None if soonest is None else self._screen.set_timer(max(1.0, soonest + 1.0), self.read)

    async def _tell_approved(self, session: StoreSession) -> None:
        """Say that somebody approved what was asked for here; a gate that waits for it says so itself."""
        for plan, (what, then) in tuple(self._asked.items()):
            approval = await session.store.approval(plan)
            if plan not in self._asked:
                continue  # done meanwhile
            if approval is None or approval.asked_ago > WAITS_SECONDS:
                self._asked.pop(plan, None)
            elif approval.approved_by is not None:
                self._asked.pop(plan, None)
                who = approval.approved_by.partition("|")[0]
                top = self._screen.app.screen
                shown_on = top if isinstance(top, FramedScreen) else self._screen
                shown_on.show_notice(line(untrusted(f"{what} by {who}: {then}", "good", limit=200)))
