"""An answer whose blocks Slack refuses: delivery and the adapter together show all of it, as plain text in parts."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from bot.clock import SystemClock
from bot.delivery import Delivery, Outcome
from bot.redaction import Redactor
from bot.store import Store
from bot.texts.en import EN
from channels.errors import Rejected
from channels.message import Button, OutboundMessage
from tests.simulators.slack import faults
from tests.simulators.slack.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.channels.slack.support import Bench
    from tests.simulators.slack.seen import SeenMessage

SECRET = "xq_9-secret_token"
WORDS = [f"word{number}." for number in range(1200)]
BUTTONS = ((Button(label="Yes", data="p:0"),),)


@asynccontextmanager
async def delivery_of(bench: Bench, folder: Path) -> AsyncIterator[Delivery]:
    clock = SystemClock()
    store = await Store.open(f"sqlite:///{folder}/antler.db", clock=clock)
    delivery = Delivery(store, clock, Redactor([SECRET]), lambda: True)
    delivery.register(bench.channel)
    await delivery.start()
    try:
        yield delivery
    finally:
        await delivery.close(0)
        await store.close()


async def shown(bench: Bench) -> list[SeenMessage]:
    return await bench.slack.bot_messages(ALICE)


@pytest.mark.parametrize(("secret_at", "buttons"), [(0, ()), (600, ()), (1200, ()), (600, BUTTONS)])
async def test_a_long_answer_arrives_whole_in_parts(
    make_bench: Callable[..., Bench], tmp_path: Path, secret_at: int, buttons: tuple[tuple[Button, ...], ...]
) -> None:
    bench = make_bench(rate={"per_chat_per_second": 50})
    refused = faults.error("invalid_blocks", errors=["no more than 50 items allowed"])
    await bench.slack.fail("chat.postMessage", refused, times=2 if buttons else 1)  # first without the buttons only
    words = [*WORDS[:secret_at], SECRET, *WORDS[secret_at:]]
    async with delivery_of(bench, tmp_path) as delivery:
        answer = OutboundMessage(text=f"**{' '.join(words)}**", buttons=buttons, final=True)
        reply = await delivery.say("r1", bench.dm, None, answer)
        async with asyncio.timeout(60):
            await reply.delivered()
    assert reply.outcome is Outcome.PLAIN
    messages = await shown(bench)
    assert len(messages) > 1
    text = " ".join(message.text for message in messages)
    assert re.findall(r"word\d+\.", text) == WORDS
    assert "\\" not in text
    assert SECRET not in text
    assert not any(message.elements for message in messages)
    assert messages[-1].text.endswith(EN.platform_refused["buttons"]) is bool(buttons)
    assert ("1. Yes" in messages[-1].text) is bool(buttons)


async def test_nothing_is_cut_off_to_fit_one_message(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    (part,) = bench.channel.layout(OutboundMessage(text=" ".join(WORDS), final=True))
    await bench.slack.fail("chat.postMessage", faults.error("invalid_blocks"))
    with pytest.raises(Rejected):
        await bench.channel.send(bench.dm, part, "k1")
    assert await shown(bench) == []
