"""Streams of an earlier process: which of them go on, and how long any may last. Called by sender.py."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bot.delivery.parts import Live

if TYPE_CHECKING:
    from bot.delivery.reply import Reply
    from channels.base import Channel

STREAM_SHARE = 0.9
"""We end a stream ourselves when this share of the time that the platform gives it has passed."""


def stream_ends(channel: Channel, begun: float) -> float:
    """When a stream that began at that time must be finished, on the same clock."""
    ttl = channel.capabilities.stream_ttl
    return math.inf if ttl is None else begun + ttl * STREAM_SHARE


def resume(reply: Reply, channel: Channel, answered: str | None, now: float) -> None:
    """Go on with the stream that an earlier process left, where the platform still takes it."""
    for state in [state for state in reply.states if state.left_open]:
        state.left_open = False
        ends = stream_ends(channel, state.begun)
        if ends <= now or reply.live is not None or reply.live_over:
            continue
        stream = channel.resume_stream(reply.address, state.idem_key, answered, now - state.begun)
        if stream is not None:
            reply.resume_stream(Live(stream, state, ends))
