"""What waits for a second person: the list, kept up to date by the store's own changes, and the gate that signs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from textual.widget import Widget

from backends.records import Approval
from console.render.gates.waiting import FOR_YOU, waiting_choice, waiting_page
from console.render.line import line, trusted
from console.screens.frame import FramedScreen
from console.screens.gates.approve import ApproveGate, ApproveSteps
from console.services.session import WAITS_SECONDS, StoreSession
from console.services.triage.approvals import WaitingPlan, waiting_plan
from console.text.untrusted import safe
from console.widgets.canvas import Canvas
from console.widgets.choice_list import ChoiceList
from console.widgets.text_pane import TextPane

_TICK_SECONDS = 1.0
_BESIDE = 4  # columns of the frame
_NOTHING = "Nothing waits for a second person; a plan that does appears by itself."
YOURS = "yours, waits for another"
_SENT = ("replayed", "in_doubt", "in_flight")


class AskedPlan(NamedTuple):
    plan: WaitingPlan
    state: str  # how it stands, in words


class ApprovalsScreen(FramedScreen):
    key_context = "approvals"

    def __init__(self) -> None:
        super().__init__()
        self._head = Canvas(id="head")
        self._list = ChoiceList(id="people-list")
        self._list.on_move = self._show_story
        self._story = TextPane(id="people-story")
        self._asked: dict[str, AskedPlan] = {}

    def body(self) -> Iterable[Widget]:
        yield self._head
        yield self._list
        yield self._story

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(_TICK_SECONDS, self._show)
        self.store_changed()

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self.store_changed()

    def store_changed(self) -> None:
        if self.console.session is not None:
            self.start(self._read, group="people", exclusive=True)

    async def _read(self) -> None:
        session = self.console.session
        if session is None:
            return
        asked = [one for one in await session.store.approvals() if min(one.asked_ago, _ago(one)) <= WAITS_SECONDS]
        read = [AskedPlan(waiting_plan(one), await _standing(session, one)) for one in asked]
        self._asked = {one.plan.plan: one for one in sorted(read, key=lambda one: one.state != FOR_YOU)}
        self._show()

    def hints(self) -> tuple[str, ...]:
        one = self._asked.get(self._list.chosen or "")
        if one is None:
            return ("back", "refresh")
        return ("open", *(("withdraw",) if one.state == YOURS else ()), "back", "down", "refresh")

    def _show(self) -> None:
        """Paint the list and how long each still waits; nothing is written where that has not changed."""
        now = self.console.now()
        waiting = sum(one.state == FOR_YOU for one in self._asked.values())
        text = (
            f"{waiting:,} for you to look at and sign" if waiting else _NOTHING if not self._asked else "none for you"
        )
        title = "What waits for a second person   " if self._asked else ""
        self._head.show(line(trusted(title, "strong"), trusted(text)))
        room = self.size.width - _BESIDE
        self._list.put([(name, waiting_choice(one.plan, one.state, now, room)) for name, one in self._asked.items()])
        self._show_story()
        self._show_footer()

    def _show_story(self) -> None:
        one = self._asked.get(self._list.chosen or "")
        page = [] if one is None else waiting_page(one.plan, self.console.now(), one.state)
        self._story.put([row.line for row in page], keep_place=True)

    def do_down(self) -> None:
        self._list.move_by(1)

    def do_up(self) -> None:
        self._list.move_by(-1)

    def do_page_down(self) -> None:
        self._story.scroll_lines(self._story.size.height - 1)

    def do_page_up(self) -> None:
        self._story.scroll_lines(1 - self._story.size.height)

    def do_top(self) -> None:
        self._list.move_to(0)

    def do_bottom(self) -> None:
        self._list.move_to(1 << 30)

    def do_refresh(self) -> None:
        self.store_changed()

    def on_choice_list_opened(self) -> None:
        self.do_open()

    def do_open(self) -> None:
        session, one = self.console.session, self._asked.get(self._list.chosen or "")
        if session is None or one is None:
            return

        def answered(plan: str | None) -> None:
            if plan is not None:
                self.show_notice(line(trusted(f"approved: {safe(plan, 8)}; the one who asked can send it now", "good")))

        self.app.push_screen(ApproveGate(one.plan, _steps(session)), answered)

    def do_withdraw(self) -> None:
        """Take back what this person asked for: at once, as it only takes away; it can be asked for again."""
        session, one = self.console.session, self._asked.get(self._list.chosen or "")
        if session is not None and one is not None:
            self.start(lambda: self._withdraw(session, one.plan), group="act", exclusive=False)

    async def _withdraw(self, session: StoreSession, plan: WaitingPlan) -> None:
        if await session.withdraw(plan.plan):
            self.console.queue.people.forget(plan.plan)
            self.show_notice(line(trusted(f"withdrawn: {safe(plan.plan, 8)}; nobody can approve it now", "good")))
        else:
            self.warn(f"{plan.asked_by} asked for it: only they can withdraw it, and only while it waits")
        await self._read()


def _steps(session: StoreSession) -> ApproveSteps:
    async def sign(plan: str) -> str | None:
        answered = await session.approve(plan, typed=True)
        return None if answered == "approved" else await session.why_not_approved(answered, plan)

    async def standing(plan: str) -> str | None:
        approval = await session.store.approval(plan)
        if approval is None:
            return "it no longer waits: the one who asked withdrew it"
        if approval.approved_by is not None:
            return f"it no longer waits: {_name(approval.approved_by)} approved it"
        return None

    return ApproveSteps(sign, standing)


def _ago(one: Approval) -> float:
    return WAITS_SECONDS + 1 if one.approved_ago is None else one.approved_ago


def _name(identity: str) -> str:
    return identity.partition("|")[0]


async def _standing(session: StoreSession, one: Approval) -> str:
    """How it stands: for whom it waits, who approved it, and whether it has been sent since."""
    if one.approved_by is None:
        return FOR_YOU if session.may_sign(one) else YOURS
    mine = f"{session.setting.actor.os_user}|{one.reader_role}"
    by = f"approved by {'you' if one.approved_by == mine else _name(one.approved_by)}"
    if one.kind != "replay":
        return by
    ids = tuple(str(row.get("dlq_id")) for row in waiting_plan(one).orders)
    states = [entry.state for entry in (await session.store.many(ids)).values()]
    sent = sum(state in _SENT for state in states)
    return f"{by}, {sent:,} of {len(ids):,} sent" if sent else f"{by}, not sent yet"
