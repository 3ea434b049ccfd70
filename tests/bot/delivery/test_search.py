"""On a platform like Telegram each answer is there exactly once, whatever gets lost on the way."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.store import outbox
from channels.errors import ChannelError, OutcomeUnknown, RateLimited, Temporary
from channels.message import OutboundMessage
from tests.delivery_world import ProbedChannel, World, dm, world
from tests.memory_channel import MemoryMode
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

CHATS = ("1", "2", "3")
ADOPTING = MemoryMode(idempotent=False, max_unit=60)
NOT_ADOPTING = MemoryMode(idempotent=False, max_unit=60, adopts=False)
ERRORS: dict[str, tuple[ChannelError, bool]] = {
    "refused": (Temporary("refused"), False),
    "limited": (RateLimited("slow down", 3.0), False),
    "not applied": (OutcomeUnknown("502"), False),
    "applied": (OutcomeUnknown("reset"), True),
}

faults = st.tuples(
    st.just("fault"), st.sampled_from(["send", "send", "edit", "delete"]), st.sampled_from(sorted(ERRORS))
)
shows = st.tuples(st.just("show"), st.sampled_from(CHATS), st.integers(1, 150))
finals = st.tuples(st.just("final"), st.sampled_from(CHATS), st.integers(1, 150))
people = st.tuples(st.just("write"), st.sampled_from(CHATS), st.integers(0, 3))
waits = st.tuples(st.just("wait"), st.sampled_from([0.1, 0.4, 1.0, 6.0]), st.none())
restarts = st.tuples(st.just("restart"), st.none(), st.none())
Action = tuple[str, Any, Any]


class Conversations:
    """Runs, one after the other in each chat, each with a question that it answers."""

    def __init__(self, w: World, platform: ProbedChannel) -> None:
        self.w = w
        self.platform = platform
        self.count = Counter[str]()
        self.questions: dict[str, str] = {}
        self.finished: list[tuple[str, str]] = []
        self.unseen = 0

    def key(self, chat: str) -> str:
        key = f"{chat}.{self.count[chat]}"
        self.questions.setdefault(key, self.platform.write(chat))
        return key

    async def show(self, chat: str, length: int) -> None:
        key = self.key(chat)
        reply = await self.w.delivery.open(key, dm(chat), self.questions[key])
        reply.show(OutboundMessage(text=f"<{key}>" + "x" * length, status="working"))

    async def final(self, chat: str, length: int) -> None:
        key = self.key(chat)
        text = f"<{key}>" + "y" * length
        await self.w.delivery.say(key, dm(chat), self.questions[key], OutboundMessage(text=text, final=True))
        self.finished.append((chat, text))
        self.count[chat] += 1

    async def play(self, actions: Sequence[Action]) -> None:
        for kind, first, second in actions:
            match kind:
                case "fault":
                    error, applied = ERRORS[second]
                    self.platform.fail(first, error, applied=applied)
                case "show":
                    await self.show(first, second)
                case "final":
                    await self.final(first, second)
                case "write":
                    # What nobody tells us of (a joined member, a pinned message) is rare.
                    seen = second != 0 or self.unseen >= 4
                    self.unseen += not seen
                    self.platform.write(first, seen=seen)
                case "wait":
                    await self.w.clock.advance(first)
                case _:
                    await self.w.restart()
        for key in sorted(self.questions):
            chat, _, number = key.partition(".")
            if int(number) == self.count[chat]:
                await self.final(chat, 5)
        await self.w.drained()


async def check(actions: Sequence[Action], mode: MemoryMode) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with world(Path(folder), mode, platform=ProbedChannel) as w:
            assert isinstance(w.channel, ProbedChannel)
            runs = Conversations(w, w.channel)
            await runs.play(actions)
            for chat in CHATS:
                said = "".join(text for where, text in runs.finished if where == chat)
                assert "".join(w.channel.texts(chat)) == said, (
                    "each answer once, in the order of the questions, no draft"
                )
            assert await w.store.read(outbox.undelivered) == []


@given(actions=st.lists(st.one_of(faults, faults, shows, finals, people, waits), max_size=40))
@settings(max_examples=examples(40))
def test_nothing_is_there_twice_or_not_at_all_while_the_process_lives(actions: list[Action]) -> None:
    asyncio.run(check(actions, NOT_ADOPTING))


@given(actions=st.lists(st.one_of(faults, shows, finals, people, waits, restarts), max_size=40))
@settings(max_examples=examples(40))
def test_nor_when_it_dies_and_adopts_what_it_had_begun(actions: list[Action]) -> None:
    asyncio.run(check(actions, ADOPTING))
