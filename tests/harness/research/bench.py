"""A research on a saver in memory, with a team that says what a test wants and can be killed before any task."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from bot.texts.en import EN
from harness.config import ModelSettings
from harness.context import InputFile, ResearchRequest, RunContext, RunInput, Speaker
from harness.events import FileReady, ReadyFile
from harness.graph.signals import RunScope, Told
from harness.graph.state import thread_config
from harness.research.config import ResearchParts, ResearchSettings
from harness.research.graph import make_research
from harness.research.record import begun, belongs, research_of
from harness.research.team import Done, Role, Task
from harness.run.ending import last_word
from harness.skills.library import NO_SKILLS
from harness.tools.asking import question_of
from harness.web.sources import MemorySources, Source, hash_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langgraph.checkpoint.base import BaseCheckpointSaver

    from harness.research.record import Research
    from harness.web.sources import Sources

WORDS: Mapping[str, str] = EN.research
THREAD = "t1"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = Speaker(id="telegram:1", display_name="Ann")


class Killed(BaseException):
    """The process ended here."""


def coordinated(action: str = "research", **more: str) -> str:
    return json.dumps({"action": action, "topic": "The topic", "text": "", "locale": "en-US", **more})


def planned(*steps: Mapping[str, Any], **more: Any) -> str:
    return json.dumps({"title": "A title", "locale": "en-US", "thought": "So.", "steps": [*steps], **more})


def step(title: str, *depends_on: int, kind: str = "research") -> dict[str, Any]:
    return {"title": title, "description": f"Do {title}", "step_type": kind, "depends_on": [*depends_on]}


@dataclass
class PlayedTeam:
    """says: by role what it answers, one after the other, the last again and again. ends: by the title of a step how it
    ends, where that is not well. pages: by title what it reads, (address, text), kept in `sources` as web_fetch keeps
    it; a researcher without an entry reads a page of its own. kill_at: the number of the task, from 1, before whose
    answer the process ends. lacks: roles that nothing is there for. dead: pages that do not answer any more, and why;
    reaches: whether that can be asked. drawn: charts that were handed over. asked: all tasks, in order. scopes: by role
    those that the tasks were given with."""

    says: dict[Role, list[str | Done]] = field(default_factory=dict)
    ends: dict[str, Done] = field(default_factory=dict)
    pages: dict[str, tuple[str, str]] = field(default_factory=dict)
    kill_at: int = 0
    lacks: frozenset[Role] = frozenset()
    files: bool = True
    dead: dict[str, str] = field(default_factory=dict)
    reaches: bool = True
    drawn: tuple[str, ...] = ()
    sources: Sources = field(default_factory=MemorySources)
    asked: list[Task] = field(default_factory=list)
    scopes: dict[Role, list[RunScope]] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    presented: list[str] = field(default_factory=list)

    async def perform(self, task: Task, scope: RunScope, runtime: Any) -> Done:
        self.asked.append(task)
        self.scopes.setdefault(task.role, []).append(scope)
        if len(self.asked) == self.kill_at:
            raise Killed
        if task.role is Role.RESEARCHER or task.description in self.pages:
            own = (f"https://a.example/{task.description}", f"Words of {task.description}.")
            await self._read(*self.pages.get(task.description, own), task.description, scope.ctx.run_id)
        self.done[task.description] += 1
        if task.description in self.ends:
            return self.ends[task.description]
        queue = self.says.get(task.role, [])
        said: str | Done = (queue.pop(0) if len(queue) > 1 else queue[0]) if queue else f"Found: {task.description}"
        return said if isinstance(said, Done) else Done(state="completed", text=said)

    async def _read(self, address: str, text: str, title: str, run_id: str) -> None:
        source = Source(
            thread_id=THREAD,
            run_id=run_id,
            url=address,
            address=address,
            title=f"Page {title}",
            kind="text/html",
            fetched_at=NOW + timedelta(seconds=len(self.asked)),
            sha256=hash_of(text),
            characters=len(text),
        )
        await self.sources.keep(source, text)

    def can(self, role: Role) -> bool:
        return role not in self.lacks

    def model(self, role: Role) -> ModelSettings:
        return ModelSettings(name="main")

    async def gone(self, addresses: Sequence[str], scope: RunScope) -> Mapping[str, str]:
        return {address: self.dead.get(address, "") for address in addresses if self.reaches}

    async def charts(self, run_ids: Sequence[str]) -> Sequence[str]:
        return self.drawn

    async def present(self, name: str, text: str, formats: Sequence[str], scope: RunScope) -> Sequence[ReadyFile]:
        if not self.files:
            return ()
        self.presented.append(text)
        path = f"/mnt/user-data/outputs/{name}.md"
        return [ReadyFile(name=f"{name}.md", path=path, mime_type="text/markdown", size=1, kind="file", spooled="r/x")]

    def tasks(self, role: Role) -> list[Task]:
        return [task for task in self.asked if task.role is role]


@dataclass
class Writes:
    """The writes of checkpoints. kill_at: the number, from 1, of the one at which the process ends, 0 for none; after:
    behind it. done: how many there were, of all processes."""

    kill_at: int = 0
    after: bool = False
    done: int = 0

    def begins(self) -> None:
        self.done += 1
        if self.kill_at and (self.done > self.kill_at or (self.done == self.kill_at and not self.after)):
            raise Killed

    def ends(self) -> None:
        if self.kill_at == self.done and self.after:
            raise Killed


class KilledSaver(InMemorySaver):
    """A saver in memory whose process can end at a write; no write of that process comes later."""

    def __init__(self, kill_at: int = 0, *, after: bool = False) -> None:
        super().__init__()
        self.count = Writes(kill_at, after)  # an object of its own: LangGraph makes copies of the saver

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        self.count.begins()
        config = await super().aput(*args, **kwargs)
        self.count.ends()
        return config

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        self.count.begins()
        await super().aput_writes(*args, **kwargs)
        self.count.ends()

    def revive(self) -> None:
        """Another process goes on with what is kept."""
        self.count.kill_at = 0


class Bench:
    """One thread with a graph of its own. events: that were told, of all runs."""

    def __init__(self, team: PlayedTeam, saver: BaseCheckpointSaver[Any] | None = None, **settings: Any) -> None:
        self.team = team
        self.saver = saver or InMemorySaver()
        self.given = settings
        self.settings = ResearchSettings(**{"background": False, **settings})
        parts = ResearchParts(settings=self.settings, words=lambda _: WORDS)
        self.graph = make_research(team, parts, team.sources, self.saver)
        self.events: list[Any] = []
        self._runs = 0
        self.context = RunContext(
            thread_id=THREAD,
            run_id="",
            account="telegram",
            conversation="telegram:1",
            owner="telegram:1",
            speaker=ANN,
            is_group=False,
            locale="en",
            model="main",
        )

    @classmethod
    def of(cls, other: Bench) -> Bench:
        """The same thread in another process."""
        bench = cls(other.team, other.saver, **other.given)
        bench.context, bench._runs = other.context, other._runs
        return bench

    async def ask(
        self,
        question: str = "What is it?",
        *,
        files: tuple[InputFile, ...] = (),
        collections: tuple[str, ...] = (),
        **request: Any,
    ) -> str:
        """A new research; returns what its turn ends with."""
        asked = ResearchRequest(**request)
        run_input = RunInput(message_id="", text=question, files=files, research=asked, collections=collections)
        return await self._turn(run_input)

    async def say(self, text: str, choice: str = "") -> str:
        return await self._turn(RunInput(message_id="", text=text, choice=choice))

    async def start(self) -> str:
        return await self.say("Start", "start")

    async def resume(self) -> str:
        """`/research resume`."""
        return await self._turn(RunInput(message_id="", text="resume", research=ResearchRequest(resumes=True)))

    async def go_on(self) -> str:
        """The run of now goes on after the end of a process."""
        return await self._run(None)

    async def _turn(self, run_input: RunInput) -> str:
        self._runs += 1
        self.context = replace(self.context, run_id=f"r{self._runs}")
        values = await self.values()
        assert belongs(values, self.context, run_input)
        message = HumanMessage(run_input.text, id=f"m{self._runs}")
        return await self._run({"messages": [message], **begun(values, self.context, run_input, self.settings.style)})

    async def _run(self, graph_input: Any) -> str:
        config = thread_config(THREAD, run_id=self.context.run_id)
        config["max_concurrency"] = self.settings.at_once
        scope = RunScope(self.context, NO_SKILLS)
        stream: Any = self.graph.astream(graph_input, config, context=scope, stream_mode="custom", durability="sync")
        async for signal in stream:
            if isinstance(signal, Told):
                self.events.append(signal.make(run_id=self.context.run_id, seq=0))
        answer = last_word((await self.values())["messages"])
        assert answer is not None
        question = question_of(answer)
        return question.text if question is not None else str(answer.text)

    async def values(self) -> Mapping[str, Any]:
        values: Mapping[str, Any] = (await self.graph.aget_state(thread_config(THREAD))).values
        return values

    async def research(self) -> Research:
        found = research_of(await self.values())
        assert found is not None
        return found

    @property
    def files(self) -> list[str]:
        return [event.file.name for event in self.events if isinstance(event, FileReady)]
