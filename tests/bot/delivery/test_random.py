"""Whatever fails, in whatever order: each answer is there, budgets and pauses are kept, nothing is left behind."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.delivery.budget import BURST
from bot.store import outbox
from channels.errors import ChannelError, MessageGone, OutcomeUnknown, RateLimited, Temporary
from channels.message import OutboundMessage
from tests.delivery_world import RATE, World, dm, world
from tests.memory_channel import APPEND_ONLY, CALLS, FULL, NO_EDIT, NO_IDEMPOTENCY, SEARCHED, MemoryMode
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

CHATS = ("1", "2")
ERRORS: dict[str, ChannelError] = {
    "temporary": Temporary("refused"),
    "limited": RateLimited("slow down", 17.0),
    "unknown": OutcomeUnknown("read timed out"),
    "lost": OutcomeUnknown("read timed out"),
    "gone": MessageGone("deleted"),
}
CHANGES = ("edit", "stream", "finish")
METHODS = ("send", "find", "open_stream", "delete", *CHANGES)

faults = st.tuples(st.just("fault"), st.sampled_from(METHODS), st.sampled_from(sorted(ERRORS)))
shows = st.tuples(st.just("show"), st.sampled_from(CHATS), st.integers(1, 40))
waits = st.tuples(st.just("wait"), st.sampled_from([0.1, 1.0, 6.0, 30.0]), st.none())
finals = st.tuples(st.just("final"), st.sampled_from(CHATS), st.none())
restarts = st.tuples(st.just("restart"), st.none(), st.none())
Action = tuple[str, object, object]


class Conversations:
    """Runs, one after the other in each chat, as a gateway has them."""

    def __init__(self, w: World) -> None:
        self.w = w
        self.count = Counter[str]()
        self.finished: list[tuple[str, str]] = []
        self.open: set[str] = set()

    def key(self, chat: str) -> str:
        return f"{chat}.{self.count[chat]}"

    async def show(self, chat: str, length: int) -> None:
        reply = await self.w.delivery.open(self.key(chat), dm(chat), None)
        self.open.add(chat)
        text = "" if length % 3 == 0 else f"<{self.key(chat)}>" + "x" * length
        reply.show(OutboundMessage(text=text, status="" if text else "working"))

    async def final(self, chat: str) -> None:
        text = f"<{self.key(chat)}> answer"
        await self.w.say(text, key=self.key(chat), chat=chat)
        self.finished.append((chat, text))
        self.count[chat] += 1
        self.open.discard(chat)

    async def play(self, actions: Sequence[Action]) -> None:
        for kind, first, second in actions:
            match kind:
                case "fault":
                    error = ERRORS[str(second)]
                    if second == "gone" and first not in CHANGES:
                        error = ERRORS["temporary"]
                    self.w.channel.fail(str(first), error, applied=second == "lost")
                case "show":
                    await self.show(str(first), int(str(second)))
                case "wait":
                    await self.w.clock.advance(float(str(first)))
                case "final":
                    await self.final(str(first))
                case _:
                    await self.w.die()
                    check_budgets(self.w)
                    await self.w.begin_anew()
        for chat in sorted(self.open):
            await self.final(chat)
        await self.w.drained()


async def stay_alive(w: World) -> None:
    """Signs of life on the wire, as polls give them: without any, an answer that got lost is rightly not repeated."""
    while True:
        await w.clock.sleep(20)
        w.channel.health.last_sign = w.clock.monotonic()


async def check(mode: MemoryMode, actions: Sequence[Action]) -> None:
    before = asyncio.all_tasks()
    with tempfile.TemporaryDirectory() as folder:
        async with world(Path(folder), mode) as w:
            runs = Conversations(w)
            alive = asyncio.create_task(stay_alive(w))
            await runs.play(actions)
            alive.cancel()
            await asyncio.wait({alive})
            unknown = sum(action[0] == "fault" and action[2] in ("unknown", "lost") for action in actions)
            restarted = sum(action[0] == "restart" for action in actions)
            # Where a send can neither be repeated nor looked up, each lost answer or kill may cost one copy, no more.
            copies = 0 if mode.idempotent else unknown + restarted
            # There, two lost answers in a row leave it open whether the answer arrived: it is not sent a third time.
            fewest = 1 if mode.idempotent or unknown < 2 else 0
            for chat, text in runs.finished:
                shown = sum(text in bubble for bubble in w.channel.texts(chat))
                assert fewest <= shown <= 1 + copies, (chat, text, w.channel.texts(chat))
            if not unknown and not restarted:
                check_order(w, runs)
            check_budgets(w)
            assert await w.store.read(outbox.undelivered) == []
    assert asyncio.all_tasks() == before


def check_order(w: World, runs: Conversations) -> None:
    for chat in CHATS:
        finals = [text for where, text in runs.finished if where == chat]
        shown = [text for bubble in w.channel.texts(chat) for text in finals if text in bubble]
        assert shown == finals


def check_budgets(w: World) -> None:
    """Of one process: the next one does not know what the platform was asked before. A typing action is no message."""
    for chat in CHATS:
        calls = [call.at for call in w.channel.calls if call.chat == chat and call.method != "typing"]
        for index, start in enumerate(calls):
            for count, at in enumerate(calls[index:], 1):
                assert count <= BURST + RATE.per_chat_per_second * (at - start) + 1e-3
    for chat, start, end in w.channel.limits:
        assert not [at for at in w.calls(chat=chat) if start < at < end - 1e-3], "429 is honoured"
    w.channel.calls.clear()
    w.channel.limits.clear()


@pytest.mark.parametrize(
    "mode",
    [FULL, NO_EDIT, APPEND_ONLY, NO_IDEMPOTENCY, SEARCHED, CALLS, replace(SEARCHED, notifies=True)],
    ids=["full", "no-edit", "append-only", "no-idempotency", "searched", "calls", "calls-searched"],
)
@given(actions=st.lists(st.one_of(faults, shows, waits, finals, restarts), max_size=25))
@settings(max_examples=examples(40))
def test_every_final_is_shown_whatever_happens(mode: MemoryMode, actions: list[Action]) -> None:
    asyncio.run(check(mode, actions))
