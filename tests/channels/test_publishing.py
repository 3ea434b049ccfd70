"""The step before each acknowledgement: whatever goes wrong behind the port, nothing counts as committed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from channels.adapter import commit
from channels.base import ChannelPorts, Health, Route
from channels.errors import NotCommitted
from tests.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from channels.message import InboundEvent


def ports(raised: BaseException | None) -> ChannelPorts:
    async def publish(events: Sequence[InboundEvent]) -> None:
        if raised is not None:
            raise raised

    return ChannelPorts(publish=publish, clock=VirtualClock(), route=lambda url: Route())


async def test_what_was_committed_is_a_sign_of_life() -> None:
    health = Health()
    await commit([], ports(None), health)
    assert health.last_inbound == 1000.0


@pytest.mark.parametrize("raised", [OSError("disk full"), TimeoutError(), KeyError("a mistake"), RecursionError()])
async def test_any_failure_means_that_it_is_not_committed(raised: Exception) -> None:
    health = Health()
    with pytest.raises(NotCommitted, match=type(raised).__name__) as failure:
        await commit([], ports(raised), health)
    assert failure.value.__cause__ is raised
    assert "disk full" not in str(failure.value), "people are shown it"
    assert health.last_inbound is None


async def test_being_cancelled_is_no_failure() -> None:
    with pytest.raises(asyncio.CancelledError):
        await commit([], ports(asyncio.CancelledError()), Health())
