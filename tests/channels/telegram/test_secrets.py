"""The token is in every URL of the Bot API and must be in no log, no error and nothing that is kept."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

import pytest

from channels.errors import ChannelError
from channels.message import Address, Message, OutboundMessage
from tests.channels.telegram.test_fetching import CountingSink
from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import ALICE, FileSpec

if TYPE_CHECKING:
    from tests.channels.telegram.support import Bench

DM = Address(account="telegram", chat=str(ALICE.id))
FAULTS = [
    faults.unauthorized(),
    faults.not_found(),
    faults.flood(1),
    faults.bad_gateway(),
    faults.reset(),
    faults.garbage(),
]


async def test_the_token_is_in_no_log(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    (part,) = bench.channel.layout(OutboundMessage(text="hello", final=True))
    async with bench.running():
        await bench.telegram.wait_polled()
        for fault in FAULTS[2:]:
            await bench.telegram.fail("getUpdates", fault)
        await bench.telegram.user_says("see", file=FileSpec(content=b"x"))
        event = await bench.gateway.event()
        assert isinstance(event, Message)
        sent = await bench.channel.send(DM, part, "k")
        await bench.channel.delete(DM, sent)
        await bench.channel.fetch(event.attachments[0], CountingSink())
    await bench.channel.close()
    logged = "\n".join(f"{record.name} {record.getMessage()} {record.exc_text or ''}" for record in caplog.records)
    assert "sendMessage" in logged
    assert bench.telegram.token not in logged
    assert bench.telegram.token.partition(":")[2] not in logged + repr(event)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_the_token_is_in_no_error(bench: Bench, fault: faults.Fault) -> None:
    await bench.telegram.user_says("hi")
    await bench.telegram.fail("*", fault)
    with pytest.raises(ChannelError) as failure:
        await bench.channel.delete(DM, "1")
    shown = "".join(traceback.TracebackException.from_exception(failure.value, capture_locals=True).format())
    assert "deleteMessage" in shown
    assert bench.telegram.token not in shown
