"""A small honest twin of the agent: follows the Harness port, keeps heads of threads, answers by a script."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from harness.context import HistoryEntry
from harness.events import BaseEvent, Failed, FailureKind, Finished, Outcome, Resumed, TextDelta, Usage
from harness.ports import Head
from harness.research.record import exported, research_view

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from harness.context import (
        Removal,
        ResearchFiles,
        ResearchView,
        RunContext,
        RunInput,
        ThreadView,
        Titled,
        Unfinished,
    )
    from harness.events import AnyRunEvent
    from harness.memory.model import Exchange, Memory, Updated
    from harness.ports import Steering
    from harness.research.record import Research

    Script = Callable[["Teller"], AsyncGenerator[AnyRunEvent, None]]

E = TypeVar("E", bound=BaseEvent)


@dataclass
class Teller:
    """Numbers a run's events."""

    ctx: RunContext
    run_input: RunInput
    seq: int
    message_id: str = "a"

    def __call__(self, kind: type[E], /, **fields: object) -> E:
        event = kind(run_id=self.ctx.run_id, seq=self.seq, **fields)
        self.seq += 1
        self.message_id = getattr(event, "message_id", self.message_id)
        return event

    def answer(self, text: str, outcome: Outcome = Outcome.SUCCESS) -> Finished:
        return self(Finished, outcome=outcome, text=text, message_id=self.message_id)

    def failed(self, kind: FailureKind, retry_after: float | None = None) -> Failed:
        return self(Failed, kind=kind, model="sim", detail_for_log="detail-for-the-log", retry_after=retry_after)


@dataclass(frozen=True)
class Start:
    ctx: RunContext
    run_input: RunInput
    attempt: int
    next_seq: int


@dataclass
class ScriptedHarness:
    """scripts: what happens for a message of that text; any other is echoed. heads: steps that each thread made.
    meanwhile: what happens while a model is asked for something beside runs, by the method's name.
    steering: what is said to runs, for scripts that ask. researches: of threads, as tests put them there."""

    scripts: dict[str, Script] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    starts: list[Start] = field(default_factory=list)
    rewinds: list[str | None] = field(default_factory=list)
    forks: list[tuple[str, str, str, str]] = field(default_factory=list)
    abandoned: list[str] = field(default_factory=list)
    lost: bool = False
    said: dict[str, list[HistoryEntry]] = field(default_factory=dict)
    compacted: list[tuple[str, str]] = field(default_factory=list)
    summary: Usage | None = None
    titles: list[Titled] = field(default_factory=list)
    titled: list[tuple[str, str, str]] = field(default_factory=list)
    updates: list[Updated] = field(default_factory=list)
    remembered: list[list[Exchange]] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    meanwhile: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    steering: Steering | None = None
    researches: dict[str, Research] = field(default_factory=dict)
    closed: int = 0
    scrubbed: int = 0
    condensed: list[tuple[str, tuple[str, ...], bool]] = field(default_factory=list)
    working: int = 0
    most_at_work: int = 0

    async def run(
        self,
        ctx: RunContext,
        run_input: RunInput,
        *,
        attempt: int = 1,
        next_seq: int = 1,
        head: Head | None = None,
    ) -> AsyncGenerator[AnyRunEvent, None]:
        self.starts.append(Start(ctx, run_input, attempt, next_seq))
        self.working += 1
        self.most_at_work = max(self.most_at_work, self.working)
        tell = Teller(ctx, run_input, next_seq)
        try:
            if attempt > 1:
                yield tell(Resumed, attempt=attempt)
            script = self.scripts.get(run_input.text, self.echo)
            async with aclosing(script(tell)) as events:
                async for event in events:
                    yield event
        finally:
            self.working -= 1
            self.closed += 1

    def step(self, thread_id: str) -> None:
        """The thread has a new checkpoint."""
        self.heads[thread_id] = self.heads.get(thread_id, 0) + 1

    async def echo(self, tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        self.step(tell.ctx.thread_id)
        text = f"echo: {tell.run_input.text}"
        for piece in (text[:3], text[3:]):
            yield tell(TextDelta, message_id="a", text=piece)
        yield tell(Usage, model="sim", input_tokens=10, output_tokens=2)
        yield tell.answer(text)

    def hold(self, text: str, half: str = "The first half", whole: str = "The whole answer") -> asyncio.Event:
        """For that message the answer stops half way until the event is set."""
        gate = asyncio.Event()

        async def held(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            self.step(tell.ctx.thread_id)
            if half:
                yield tell(TextDelta, message_id="a", text=half)
            await gate.wait()
            yield tell.answer(whole)

        self.scripts[text] = held
        return gate

    def tells(self, text: str, *events: Callable[[Teller], AnyRunEvent]) -> None:
        """For that message these events."""

        async def told(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            for event in events:
                yield event(tell)

        self.scripts[text] = told

    @property
    def asked(self) -> list[str]:
        return [start.run_input.text for start in self.starts]

    async def retire(self) -> None:
        """It has nothing to give back."""

    async def head(self, thread_id: str) -> Head:
        return Head(str(self.heads[thread_id])) if thread_id in self.heads else Head()

    async def remember(self, memory: Memory, exchanges: Sequence[Exchange]) -> Updated | None:
        self.remembered.append(list(exchanges))
        await self._asked("remember")
        return self.updates.pop(0) if self.updates else None

    async def title(self, model: str, said: str, answered: str) -> Titled | None:
        self.titled.append((model, said, answered))
        await self._asked("title")
        return self.titles.pop(0) if self.titles else None

    def abandon(self, run_id: str) -> None:
        self.abandoned.append(run_id)

    async def settle(self, thread_id: str, unfinished: Unfinished | None = None) -> None:
        if unfinished is not None:
            self.unfinished.append(unfinished.text)

    async def rewind(self, thread_id: str, checkpoint_id: str | None) -> None:
        if self.lost:
            raise LookupError("no such checkpoint")
        self.rewinds.append(checkpoint_id)
        if checkpoint_id is None:
            self.heads.pop(thread_id, None)
        else:
            self.heads[thread_id] = int(checkpoint_id)

    async def compact(self, thread_id: str, model: str) -> Usage | None:
        """Of what was said only the newest stays."""
        self.compacted.append((thread_id, model))
        await self._asked("compact")
        self.said[thread_id] = self.said.get(thread_id, [])[-1:]
        return self.summary

    async def _asked(self, method: str) -> None:
        if method in self.meanwhile:
            self.working += 1
            try:
                await self.meanwhile[method]()
            finally:
                self.working -= 1

    async def history(self, thread_id: str) -> list[HistoryEntry]:
        return self.said.get(thread_id, [])

    async def views(
        self, thread_id: str, *, at: str | None = None, before: str | None = None, limit: int = 1
    ) -> list[ThreadView]:
        return []

    async def seed(self, thread_id: str, said: Sequence[HistoryEntry]) -> None:
        self.said[thread_id] = list(said)

    async def change(self, thread_id: str, changes: Sequence[HistoryEntry | Removal], *, at: str | None = None) -> None:
        if at is not None:
            raise LookupError("no such checkpoint")
        self.said.setdefault(thread_id, []).extend(each for each in changes if isinstance(each, HistoryEntry))

    async def fork(
        self, thread_id: str, fork_id: str, *, before: str = "", through: str = "", checkpoint_id: str | None = None
    ) -> bool:
        """It has no messages of its own: what is not kept is told by who asks."""
        self.forks.append((thread_id, fork_id, before, through))
        return False

    async def research(self, thread_id: str) -> ResearchView | None:
        known = self.researches.get(thread_id)
        return research_view(known, ()) if known is not None else None

    async def research_record(self, thread_id: str) -> Research | None:
        return self.researches.get(thread_id)

    async def research_files(self, thread_id: str) -> ResearchFiles | None:
        known = self.researches.get(thread_id)
        return exported(known) if known is not None else None

    async def forget(self, thread_id: str) -> None:
        self.heads.pop(thread_id, None)

    async def condense(self, thread_id: str, keep: Sequence[str], *, drop: bool) -> None:
        self.condensed.append((thread_id, tuple(keep), drop))

    async def scrub(self) -> None:
        self.scrubbed += 1

    async def close(self) -> None:
        return None
