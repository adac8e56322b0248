"""Looks at the markets of a plan's orders, once each: quote, position and open orders. Asks, never sends.

All accounts at once, and no look is waited for longer than its venue's time limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from console.services.replay.command import Command
from console.services.replay.venue_pool import VenueAccount, VenuePool
from venues import MarketView, Mode, OrderAction, VenueClient
from venues.quote import MOST_MARKETS

_SHARE_OF_RATE = 4  # a look takes at most this part of a minute's requests
_SLACK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Group:
    client: VenueClient
    timeout: float
    commands: tuple[Command, ...]
    most: int

    async def views(self) -> dict[str, MarketView]:
        """By entry, each in its order's own contract."""
        first: dict[str, OrderAction] = {}
        for command in self.commands:
            first.setdefault(self.client.market_key(command.action), command.action)
        asked = list(first.values())[: self.most]
        nothing = MarketView(problems=("quote: the venue said nothing about this market",))
        seen: Mapping[str, MarketView] = {}
        try:
            seen = await asyncio.wait_for(self.client.look(asked), self.timeout)
        except TimeoutError:
            nothing = MarketView(problems=("quote: no answer in time",))
        return {
            command.entry_id: self.client.seen_by(
                command.action, seen.get(self.client.market_key(command.action), nothing)
            )
            for command in self.commands
        }


async def look_at(pool: VenuePool, commands: Mapping[VenueAccount, list[Command]], mode: Mode) -> dict[str, MarketView]:
    """The view of each command's market, by entry. The clients are open already."""
    groups = []
    for at, some in commands.items():
        rate = pool.rate(at.venue)
        most = MOST_MARKETS if rate is None else min(MOST_MARKETS, max(1, rate // _SHARE_OF_RATE))
        client, timeout = await pool.client(at, mode), pool.settings(at.venue).timeout + _SLACK_SECONDS
        groups.append(_Group(client, timeout, tuple(some), most))
    found = await asyncio.gather(*(group.views() for group in groups))
    return {entry_id: view for views in found for entry_id, view in views.items()}
