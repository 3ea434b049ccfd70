"""The one step between receiving and acknowledging: an event is committed, or it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.errors import NotCommitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from channels.base import ChannelPorts, Health
    from channels.message import InboundEvent


async def commit(events: Sequence[InboundEvent], ports: ChannelPorts, health: Health) -> None:
    """Hand events to the gateway; once this returns they may be acknowledged.

    Raises NotCommitted for anything that went wrong: then none may be, and they have to be handed over again.
    """
    try:
        await ports.publish(events)
    except Exception as error:
        # What lies behind the port is not known here (a full disk, a lost database, a mistake in it), and need not
        # be: none of it may end the receiving, and after none of it an event counts as taken.
        raise NotCommitted(f"events could not be stored ({type(error).__name__})") from error
    health.last_inbound = ports.clock.monotonic()
