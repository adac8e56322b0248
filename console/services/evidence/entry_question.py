"""How a venue is asked about an entry that was not sent from here: by which id, and what its silence would prove."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from backends.records import Entry
from backends.store import Store
from console.services.evidence.lookup_verdict import LookupVerdict, shown_status
from console.services.replay.command import Command, Problem, aimed, read_command, read_names, with_client_id
from console.services.replay.venue_pool import VenuePool
from venues import NO_TERMS, Learner, Mode, OrderAction, Prepared, Refused, VenueClient, VenueError

_ANY = Decimal(1)  # no venue finds an order by its size


@dataclass(frozen=True, slots=True)
class EntryQuestion:
    command: Command
    client: VenueClient
    prepared: Prepared  # the request by which the venue is asked
    account: str | None
    gap: str | None  # why "not found" proves nothing, however late it is asked
    unread: str = ""  # why no order that is found can be compared with the stored one

    def judged(self, verdict: LookupVerdict) -> LookupVerdict:
        """An order under the id of one that cannot be read is no clear answer, whatever it is."""
        if not self.unread or verdict.order is None:
            return verdict
        text = f"conflict: {shown_status(verdict.order)}, and the stored order cannot be read ({self.unread})"
        return replace(verdict, kind="conflict", text=text)


@dataclass(frozen=True, slots=True)
class CannotAsk:
    why: str
    account: str | None = None


async def question_of(store: Store, pool: VenuePool, entry: Entry, mode: Mode) -> EntryQuestion | CannotAsk:
    command, unread = read_command(entry, venue=None), ""
    if isinstance(command, Problem):
        unread, named = f"{command.code}: {command.text}", read_names(entry)
        if named is None:
            return CannotAsk(unread)
        command = named
    try:
        client = await pool.client(command.at, mode)
        fitted = with_client_id(command, client.profile, store_id=await store.store_id(), attempts=())
    except VenueError as problem:
        return CannotAsk(str(problem))
    account = client.account_of(fitted.action)
    if isinstance(client, Learner):
        await client.learn((fitted.action.market_id,))
    aim = aimed(fitted, ())
    prepared = _askable(client, _stand_in(fitted.action) if unread else aim.asked_by(), fitted.client_order_id)
    if isinstance(prepared, Refused):
        return CannotAsk(unread or prepared.why, account)
    gap = None
    if fitted.action.verb == "new" and not fitted.own_id:
        gap = "the engine sent it without a client order id by which it could be asked for"
    if unread and not fitted.action.order_type:
        gap = "what kind of order it was cannot be read, and venues keep kinds apart"
    if len(aim.aims) > 1 or (aim.aims and not aim.is_aim_sure):
        gap = "its order may have another client order id"
    return EntryQuestion(fitted, client, prepared.by_aim, account, gap, unread)


def _stand_in(action: OrderAction) -> OrderAction:
    """An order that its venue's request can be made of: of one that cannot be read only the names are known."""
    order_type = "limit" if action.price is not None else "market"
    return replace(action, side=action.side or "buy", quantity=_ANY, order_type=order_type)


def _askable(client: VenueClient, action: OrderAction, client_order_id: str) -> Prepared | Refused:
    """The request by which the venue is asked. Terms that could not be sent again do not keep it from being asked."""
    prepared = client.prepare(action, client_order_id)
    if not isinstance(prepared, Refused) or not prepared.unsent:
        return prepared
    order_type, price = ("limit", action.price) if action.price is not None else ("market", None)
    return client.prepare(
        replace(action, order_type=order_type, price=price, terms=NO_TERMS, params={}), client_order_id
    )
