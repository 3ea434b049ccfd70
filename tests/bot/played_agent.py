"""An agent that plays what a message's own text tells it to, and resumes after a crash as the real one does.

Used by gateway_play.py. A text is `say<number>v<version>x <acts>:<ending>`, the acts one letter each:

    t  a piece of the answer         s  a checkpoint          w  three seconds pass
    T  a tool call and a checkpoint  h  hangs until `release`

At each checkpoint it hears what was said meanwhile.

and the ending one of: ok, long, limited, fail, broken (raises), nothing (stops without an ending).
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.events import FailureKind, Outcome, Resumed, TextDelta, ToolEnded, ToolStarted, Usage
from tests.bot.scripted_harness import ScriptedHarness, Start, Teller

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from harness.context import RunContext, RunInput
    from harness.events import AnyRunEvent
    from harness.ports import Head
    from tests.clock import VirtualClock

SAID = re.compile(r"say(\d+)v(\d+)x")
PLAYED = re.compile(r"say\d+v\d+x ([a-zA-Z]*):(\w+)")
ENDINGS = ("ok", "ok", "ok", "long", "limited", "fail", "broken", "nothing")


def said_in(text: str) -> dict[int, int]:
    """The messages in a text: number -> version."""
    return {int(number): int(version) for number, version in SAID.findall(text)}


def mark_of(run_id: str, text: str) -> str:
    """What the answer of a run is recognised by: its first message's number, or the run where there is no text."""
    return str(next(iter(said_in(text)), run_id))


def ending_of(text: str) -> str:
    """How a run for this text ends when nobody interferes."""
    found = PLAYED.search(text)
    return found[2] if found else "ok"


@dataclass
class Memory:
    """What an agent's checkpoints keep of one run: acts that are done, what it heard on the way, and its answer and
    how that ended, once the graph has finished."""

    acts: int = 0
    heard: dict[int, int] = field(default_factory=dict)
    answer: str | None = None
    outcome: Outcome = Outcome.SUCCESS


@dataclass
class PlayedAgent(ScriptedHarness):
    """lives: of the process, so far. at_work, hanging: runs by conversation, which work and of these which hang.

    threads: what each remembers: (checkpoint, run). told: each start, in which life, and what the thread remembered.
    begun: runs that this life's process has started -> whether they told any words or did anything since.
    """

    clock: VirtualClock | None = None
    lives: int = 1
    memories: dict[str, Memory] = field(default_factory=dict)
    at_work: Counter[str] = field(default_factory=Counter)
    hanging: Counter[str] = field(default_factory=Counter)
    threads: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    told: list[tuple[int, Start, frozenset[str]]] = field(default_factory=list)
    begun: dict[str, bool] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """What hangs goes on; what comes later hangs anew."""
        self.gate.set()
        self.gate = asyncio.Event()

    async def run(
        self,
        ctx: RunContext,
        run_input: RunInput,
        *,
        attempt: int = 1,
        next_seq: int = 1,
        head: Head | None = None,
    ) -> AsyncGenerator[AnyRunEvent, None]:
        start = Start(ctx, run_input, attempt, next_seq)
        before = [life for life, known, _ in self.told if known.ctx.run_id == ctx.run_id]
        if self.lives in before and self.begun[ctx.run_id]:
            self.problems.append(f"run {ctx.run_id} was started twice by one process")
        if self.lives in before and any(run_id == ctx.run_id for _, run_id in self.threads.get(ctx.thread_id, ())):
            self.problems.append(f"run {ctx.run_id} began again in a thread that knows it")
        self.begun[ctx.run_id] = attempt > 1
        remembered = frozenset(run_id for _, run_id in self.threads.get(ctx.thread_id, ()))
        self.told.append((self.lives, start, remembered))
        tell, key = Teller(ctx, run_input, next_seq), ctx.conversation
        with self._working(key):
            if attempt > 1:
                yield tell(Resumed, attempt=attempt)
            memory = self.memories.setdefault(ctx.run_id, Memory())
            if memory.answer is not None:
                yield tell.answer(memory.answer, memory.outcome)
                return
            async for event in self._play(tell, memory):
                yield event

    @contextmanager
    def _working(self, conversation: str) -> Iterator[None]:
        self.at_work[conversation] += 1
        if self.at_work[conversation] > 1:
            self.problems.append(f"two runs at once in {conversation}")
        try:
            yield
        finally:
            self.at_work[conversation] -= 1

    async def _play(self, tell: Teller, memory: Memory) -> AsyncGenerator[AnyRunEvent, None]:
        found = PLAYED.search(tell.run_input.text)
        acts, ending = found.groups() if found else ("", "ok")
        answer = _Answer(mark_of(tell.ctx.run_id, tell.run_input.text))
        for index, act in enumerate(acts):
            if index < memory.acts:
                continue
            match act:
                case "t":
                    self.begun[tell.ctx.run_id] = True
                    yield tell(TextDelta, message_id=answer.message_id, text=answer.piece())
                case "T":
                    self.begun[tell.ctx.run_id] = True
                    yield tell(ToolStarted, call_id=f"c{index}", tool="read", summary="x")
                    yield tell(ToolEnded, call_id=f"c{index}", tool="read", ok=True)
                    answer.next_message(index)
                case "w":
                    assert self.clock is not None
                    await self.clock.sleep(3)
                case "h":
                    await self._hang(tell.ctx.conversation)
            if act in "sT":
                assert self.steering is not None
                for heard in await self.steering.said(tell.ctx):
                    memory.heard |= said_in(heard.text)
                memory.acts = index + 1
                self._checkpoint(tell.ctx)
        if ending == "broken":
            raise RuntimeError("a defect of the agent")
        if ending == "fail":
            yield tell.failed(FailureKind.QUOTA)
        elif ending != "nothing":
            text = answer.whole(said_in(tell.run_input.text) | memory.heard, long=ending == "long")
            self._checkpoint(tell.ctx)
            memory.answer = text
            memory.outcome = Outcome.LIMITED if ending == "limited" else Outcome.SUCCESS
            yield tell(Usage, model="sim", input_tokens=10, output_tokens=2)
            yield tell.answer(text, memory.outcome)

    def _checkpoint(self, ctx: RunContext) -> None:
        self.step(ctx.thread_id)
        self.threads.setdefault(ctx.thread_id, []).append((self.heads[ctx.thread_id], ctx.run_id))

    async def rewind(self, thread_id: str, checkpoint_id: str | None) -> None:
        await super().rewind(thread_id, checkpoint_id)
        kept, known = self.heads.get(thread_id, 0), self.threads.get(thread_id, [])
        self.threads[thread_id] = [(number, run_id) for number, run_id in known if number <= kept]
        for _, run_id in {*known} - {*self.threads[thread_id]}:
            self.memories.pop(run_id, None)

    async def _hang(self, conversation: str) -> None:
        self.hanging[conversation] += 1
        try:
            await self.gate.wait()
        finally:
            self.hanging[conversation] -= 1


class _Answer:
    """The text of an answer, whose pieces are its beginning: models take nothing back within one message."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self.message_id = "a"
        self._text = ""

    def next_message(self, index: int) -> None:
        self.message_id, self._text = f"a{index}", ""

    def piece(self) -> str:
        piece = " word" if self._text else f"answer{self._mark}x"
        self._text += piece
        return piece

    def whole(self, said: dict[int, int], *, long: bool) -> str:
        if not self._text:
            self.piece()
        to = " ".join(f"to{number}v{version}x" for number, version in said.items())
        return f"{self._text}{' filler' * 1500 if long else ''} {to} end{self._mark}x"
