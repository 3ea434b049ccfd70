"""What threads are told of the memory, turn by turn, as the model reads it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from harness.agents.profiles import AgentDefinition, AgentSettings, Features
from harness.config import SummarizationSettings
from harness.context import RunContext, Speaker
from harness.memory.config import MemorySettings
from harness.memory.store import MemoryUnavailable, Recalled, Remembering
from tests.harness.memory.in_memory import InMemoryMemories
from tests.harness.memory.support import ANN, fact, memory
from tests.harness.support import Bench, Script, collect, context, finished, said, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

    from harness.memory.model import Category, Fact

GROUP = "slack:C1"
BLOCK = re.compile(r"<antler-memory>.*?</antler-memory>", re.DOTALL)


@pytest.fixture
def memories(bench: Bench) -> InMemoryMemories:
    kept = InMemoryMemories(bench.clock)
    bench.remembering = Remembering(memories=kept, settings=kept.settings)
    kept.kept.kept[ANN] = memory(fact("Likes tea"))
    return kept


def blocks(messages: Sequence[BaseMessage]) -> list[str]:
    return [block for message in messages if message.type != "system" for block in BLOCK.findall(str(message.text))]


def assert_continues(script: Script) -> None:
    """The newest request is the one before with more behind it."""
    earlier, later = script.requests[-2:]
    assert [(each.type, each.content) for each in later[: len(earlier)]] == [
        (each.type, each.content) for each in earlier
    ]


async def test_a_thread_is_told_once_and_stays_one_prefix(
    bench: Bench, script: Script, memories: InMemoryMemories
) -> None:
    async with bench.open() as harness:
        for number in range(3):
            await collect(harness, context(f"r{number}"), said(f"hello {number}"))
            assert ["Likes tea" in block for block in blocks(script.requests[-1])] == [True]
            if number:
                assert_continues(script)
        await collect(harness, context("r9", thread="thread-2"), said("hello"))
    assert len(blocks(script.requests[-1])) == 1
    assert "<antler-memory>" in str(script.requests[0][0].text)


async def test_people_never_see_it(bench: Bench, script: Script, memories: InMemoryMemories) -> None:
    script.steps = ["Your memory: <antler-memory>\nfacts:\n- Likes tea\n</antler-memory> that is all"]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("show me your memory"))
        history = await harness.history("thread-1")
    assert finished(events).text == "Your memory:  that is all"
    assert visible(events).strip() == "Your memory:  that is all"
    assert [entry.text for entry in history] == ["show me your memory", "Your memory:  that is all"]


async def test_what_is_learnt_meanwhile_is_told_after_an_hour(
    bench: Bench, script: Script, memories: InMemoryMemories
) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("one"))
        memories.kept.kept[ANN] = memory(fact("Likes tea"), fact("Has a dog"))
        bench.clock.advance(3500)
        await collect(harness, context("r2"), said("two"))
        assert "Has a dog" not in str(blocks(script.requests[-1]))
        bench.clock.advance(200)
        await collect(harness, context("r3"), said("three"))
        (only,) = blocks(script.requests[-1])
        assert "Has a dog" in only
        assert "<antler-memory>" in str(script.requests[-1][-1].text)
        bench.clock.advance(4000)
        await collect(harness, context("r4"), said("four"))
        assert_continues(script)


async def test_what_a_person_forgets_leaves_the_thread_at_its_next_turn(
    bench: Bench, script: Script, memories: InMemoryMemories
) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("one"))
        memories.forget(ANN)
        await collect(harness, context("r2"), said("two"))
        assert "Likes tea" not in str(script.requests[-1])
        memories.kept.kept[ANN] = memory(fact("Has a dog"))
        await collect(harness, context("r3"), said("three"))
    assert ["Has a dog" in block for block in blocks(script.requests[-1])] == [True]


async def test_a_group_and_its_people_have_memories_of_their_own(
    bench: Bench, script: Script, memories: InMemoryMemories
) -> None:
    memories.kept.kept[GROUP] = memory(fact("Ships on Friday"))
    async with bench.open() as harness:
        group = context("r1", thread="thread-g", owner=GROUP, conversation=GROUP, is_group=True)
        await collect(harness, group, said("hello"))
        in_group = str(script.requests[-1])
        await collect(harness, context("r2"), said("hello"))
        alone = str(script.requests[-1])
        other = Speaker(id="telegram:2", display_name="Bob")
        await collect(harness, context("r3", thread="thread-b", owner="telegram:2", speaker=other), said("hello"))
    assert ("Ships on Friday" in in_group, "Likes tea" in in_group) == (True, False)
    assert ("Ships on Friday" in alone, "Likes tea" in alone) == (False, True)
    assert blocks(script.requests[-1]) == []


async def test_of_an_agents_own_memory_another_agent_of_the_thread_reads_nothing(
    bench: Bench, script: Script, memories: InMemoryMemories
) -> None:
    """/agent in mid-thread, to one that keeps a memory for itself and back: also within the hour in which a thread is
    told nothing new."""
    bench.definitions = {"support": AgentDefinition("support", "Kind.", AgentSettings(features=Features(memory="own")))}
    memories.own = {"support"}
    await memories.kept.save(ANN, memory(fact("Has a broken printer")), "support")
    told = []
    async with bench.open() as harness:
        for number, agent in enumerate(("default", "support", "default", "support")):
            await collect(harness, context(f"r{number}", agent=agent), said(f"hello {number}"))
            (block,) = blocks(script.requests[-1])
            told.append(("tea" in block, "printer" in block))
    assert told == [(True, False), (False, True)] * 2


async def test_with_an_empty_memory_of_its_own_an_agent_is_told_nothing(
    bench: Bench, script: Script, memories: InMemoryMemories
) -> None:
    memories.own = {"support"}
    bench.definitions = {"support": AgentDefinition("support", "Kind.", AgentSettings(features=Features(memory="own")))}
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("hello"))
        await collect(harness, context("r2", agent="support"), said("and you?"))
    assert blocks(script.requests[-1]) == []
    assert {"remember", "recall"} <= set(script.tool_names[-1])


async def test_it_outlasts_a_summary_and_is_in_none(bench: Bench, script: Script, memories: InMemoryMemories) -> None:
    bench.summarization = SummarizationSettings(max_messages=4, keep=2)
    async with bench.open() as harness:
        for number in range(3):
            await collect(harness, context(f"r{number}"), said(f"hello {number}"))
        asked = [request for request in script.requests if len(request) == 1]
        assert len(asked) == 1
        assert "hello 0" in str(asked)
        assert "Likes tea" not in str(asked)
        assert ["Likes tea" in block for block in blocks(script.requests[-1])] == [True]
        memories.forget(ANN)
        await collect(harness, context("r4"), said("and now?"))
    assert "Likes tea" not in str(script.requests[-1])


async def test_an_agent_without_memory(bench: Bench, script: Script, memories: InMemoryMemories) -> None:
    bench.definitions = {"plain": AgentDefinition("plain", "Be plain.", AgentSettings(features=Features(memory=False)))}
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("hello"))
        assert {"remember", "recall"} <= set(script.tool_names[-1])
        await collect(harness, context("r2", agent="plain"), said("hello"))
    assert "antler-memory" not in str(script.requests[-1])
    assert not {"remember", "recall"} & set(script.tool_names[-1])


async def test_a_resumed_run_is_not_told_twice(bench: Bench, script: Script, memories: InMemoryMemories) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("hello"))
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("hello"), attempt=2, next_seq=9)
        await collect(harness, context("r2"), said("again"))
    assert len(blocks(script.requests[-1])) == 1


@dataclass
class Lost:
    """A memory whose store is gone."""

    async def recalled(self, ctx: RunContext) -> Recalled:
        raise MemoryUnavailable("no disk")

    async def remember(self, ctx: RunContext, call: str, content: str, category: Category) -> Fact:
        raise MemoryUnavailable("no disk")


async def test_where_it_cannot_be_read_the_run_goes_on(
    bench: Bench, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    bench.remembering = Remembering(memories=Lost(), settings=MemorySettings())
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("hello"))
    assert finished(events).text == "answer 1"
    assert "no disk" in caplog.text


async def test_beside_a_picture(bench: Bench, script: Script, memories: InMemoryMemories, tmp_path: Any) -> None:
    from langchain_core.messages import HumanMessage

    from harness.memory.telling import memory_of, with_memory, without_memory

    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    plain = HumanMessage([{"type": "text", "text": "look"}, picture], id="m")
    told = with_memory(plain, "<antler-memory>\nx\n</antler-memory>")
    assert told.content[1] == picture
    assert memory_of([plain, told]) == "<antler-memory>\nx\n</antler-memory>"
    assert without_memory(told) == plain
    assert without_memory(plain) is plain
    assert memory_of([plain]) == ""


@dataclass
class Life:
    """What owners are known by, and what may stand in a request of theirs."""

    memories: InMemoryMemories
    known: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def learn(self, owner: str) -> None:
        self.count += 1
        self.known[owner] = f"canary {self.count} of {owner}"
        self.memories.kept.kept[owner] = memory(fact(self.known[owner], id=f"f{self.count:03}"))

    def forget(self, owner: str) -> None:
        self.memories.forget(owner)
        self.known.pop(owner, None)

    def look(self, request: str) -> set[str]:
        return set(re.findall(r"canary \d+ of [a-z]+:\w+", request))


OWNERS = (ANN, "telegram:2", GROUP, "slack:C2")


@pytest.mark.parametrize("seed", range(4))
async def test_nobody_reads_what_is_another_owners_or_forgotten(
    bench: Bench, script: Script, memories: InMemoryMemories, seed: int
) -> None:
    bench.summarization = SummarizationSettings(max_messages=6, keep=3)
    dice, life = random.Random(seed), Life(memories)
    memories.kept.kept.clear()
    async with bench.open() as harness:
        for number in range(30):
            owner = dice.choice(OWNERS)
            thread = f"{owner} {dice.randrange(2)}"
            match dice.choice(["turn", "turn", "turn", "turn", "learn", "forget", "wait", "compact"]):
                case "learn":
                    life.learn(owner)
                case "forget":
                    life.forget(owner)
                case "wait":
                    bench.clock.advance(dice.choice([600, 4000]))
                case "compact":
                    await harness.compact(thread, "main")
                case "turn":
                    asked = len(script.requests)
                    ctx = context(f"r{number}", thread=thread, owner=owner, is_group=owner.startswith("slack"))
                    await collect(harness, ctx, said(f"hello {number}"))
                    for request in script.requests[asked:]:
                        seen = life.look(str(request))
                        assert len(seen) <= 1
                        assert {each.rpartition(" ")[2] for each in seen} <= {owner}
                        assert not seen or owner in life.known, "it was forgotten"
                        assert len(blocks(request)) == len(seen)
                    if len(script.requests[-1]) == 2 and owner in life.known:  # the first turn of a thread
                        assert life.look(str(script.requests[-1])) == {life.known[owner]}
    assert life.count
