"""A run as one answer, for OpenAI's protocol: its text as it grows, how it ended, its usage, its errors."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bot.http.api.runs import decisions_of
from bot.http.api.stream import RunReader
from bot.http.errors import HttpProblem, not_found
from bot.store import programs
from bot.store.rows import RunState
from bot.store.usage import NOTHING, Totals

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from bot.http.api.content import Said
    from bot.http.api.runs import Problem, Runs
    from bot.http.api.threads import Interrupts, Threads
    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.store.programs import ProgramThread
    from bot.store.rows import RunRow

HTTP_STATUS = {
    "rate_limited": 429,
    "budget": 429,
    "quota": 429,
    "overloaded": 503,
    "context_length": 400,
    "content_filter": 400,
    "bad_request": 400,
    "timeout": 504,
}
"""Statuses of failures, by their kinds; 502 for the others: the model's server is at fault."""


@dataclass(slots=True)
class Answer:
    """The outcome of a run. texts: of its messages, by id. waits: for decisions of a person."""

    row: RunRow
    thread: ProgramThread
    tokens: Totals = NOTHING
    problem: Problem | None = None
    waits: Interrupts = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text as shown in a chat: all messages, each a paragraph, and what is waited for."""
        said = [text.strip("\n") for text in self.texts.values() if text.strip()]
        return "\n\n".join([*said, *(asks(each) for each in self.waits)])

    @property
    def is_cut(self) -> bool:
        return self.row.state is RunState.LIMITED

    def error(self) -> HttpProblem | None:
        """Why there is no answer, None where there is one."""
        if self.problem is not None:
            status = HTTP_STATUS.get(self.problem.code, 502)
            kind = "server_error" if status >= 500 else "invalid_request_error"
            return HttpProblem(status, self.problem.code, self.problem.message, type=kind, param=None)
        if self.row.state is RunState.INTERRUPTED:
            return HttpProblem(409, "stopped", "the run was stopped before it ended", type="server_error", param=None)
        if self.waits and self.thread.temporary:
            text = "the agent asks for approval of a call: continue a thread (thread_id), where it can be answered"
            return HttpProblem(409, "approval_required", text, type="invalid_request_error", param=None)
        return None


def asks(interrupt: dict[str, Any]) -> str:
    """A pending request in words; the next message of the thread answers it."""
    value = interrupt["value"]
    options = ", ".join(value["options"])
    about = f" because {value['reason']}" if value["reason"] else ""
    return (
        f"`{value['tool']}` needs approval{about}:\n\n```\n{value['arguments']}\n```\n\nAnswer with one of: {options}"
    )


@dataclass(frozen=True, slots=True)
class Answers:
    """Runs for clients that send messages and expect text."""

    parts: HttpParts
    threads: Threads
    runs: Runs

    def agent(self, model: str) -> str:
        """The agent that a client names as its model. Raises HttpProblem."""
        if model not in self.parts.agents.definitions:
            known = ", ".join(self.parts.agents.definitions)
            text = f"there is no model {model[:100]!r}; available: {known}"
            raise HttpProblem(404, "model_not_found", text, type="invalid_request_error", param="model")
        return model

    async def begin(
        self, caller: Caller, thread: ProgramThread | None, said: Sequence[Said], agent: str, **options: Any
    ) -> Reading:
        """Have the last of these messages answered: in this thread, which has its own history, or in one created for
        this answer alone, which begins with the other messages."""
        if thread is None:
            thread, _ = await self.threads.create(caller, temporary=True)
        elif await self.threads.newest_run(thread.key) is not None:
            said = said[-1:]
            if (resumed := await self._answered(caller, thread, said)) is not None:
                return Reading(self, thread, resumed, resumed=True)
        row = await self.runs.begin(caller, thread, said, agent=agent, **options)
        return Reading(self, thread, row)

    async def _answered(self, caller: Caller, thread: ProgramThread, said: Sequence[Said]) -> RunRow | None:
        """Resume the run that waits, by the message; None if none waits. Raises HttpProblem if it decides nothing."""
        last = await self.threads.newest_run(thread.key)
        open_ = [] if last is None else await self.runs.waits(last)
        if not open_ or not said:
            return None
        word = said[-1].text.strip().lower()
        try:
            decisions_of([word] * len(open_), open_)
        except HttpProblem:
            text = "this thread waits for approval of a call: answer once, chat or deny first"
            raise HttpProblem(409, "approval_required", text, type="invalid_request_error", param="messages") from None
        row, _ = await self.runs.resume(caller, thread, [word] * len(open_))
        return row

    async def by_run(self, caller: Caller, run_id: str) -> tuple[ProgramThread, RunRow]:
        """One of the caller's runs with its thread. Raises HttpProblem."""
        row = await self.runs.load(run_id)
        thread = await self.parts.store.read(lambda tx: programs.load(tx, row.conversation))
        if thread is None or thread.person != caller.person:
            raise not_found("there is no such response")
        return thread, row


class Reading:
    """One client's reading of one run, which is stopped with it: no other client waits for that answer."""

    def __init__(self, answers: Answers, thread: ProgramThread, row: RunRow, *, resumed: bool = False) -> None:
        self._answers = answers
        self._resumed = resumed
        self.answer = Answer(row, thread)

    async def pieces(self, *, stops: bool = True) -> AsyncGenerator[str, None]:
        """The text as it grows, until the run has ended or waits; `answer` is complete then. Text that was sent cannot
        be taken back: where a message starts over, its new text is a separate paragraph. stops: stop the run where this
        is left early."""
        through, answer, runs = False, self.answer, self._answers.runs
        try:
            reader = RunReader(
                *(runs, self._answers.threads, answer.thread, answer.row, ("messages-tuple",)),
                self._answers.parts.redact,
                whole=not self._resumed,
                resumed=self._resumed,
            )
            ended, told = False, False
            async with aclosing(reader.frames()) as frames:
                paragraph = ""
                async for frame in frames:
                    ended = ended or frame.event == "end"
                    if frame.event != "messages":
                        continue
                    message, message_id = frame.data[0], frame.data[0]["id"]
                    if message["type"] == "tool":
                        continue
                    if message["type"] == "remove":
                        answer.texts.pop(message_id, None)
                        paragraph = ""
                        continue
                    text = message["content"]
                    answer.texts[message_id] = answer.texts.get(message_id, "") + text
                    if text and told and paragraph != message_id:
                        text = f"\n\n{text}"
                    if text:
                        told, paragraph = True, message_id
                        yield text
            await self._complete()
            if not ended:
                raise HttpProblem(503, "restarting", "the service is restarting; try again", {"Retry-After": "5"})
            for each in answer.waits:
                yield f"\n\n{asks(each)}"
            through = True
        finally:
            if stops and not through and not self._answers.parts.runs.suspending:
                runs.cancel_soon(answer.row)

    async def whole(self) -> Answer:
        """The answer, once the run has ended or waits. Raises HttpProblem where there is none."""
        async with aclosing(self.pieces()) as pieces:
            async for _ in pieces:
                pass
        if (error := self.answer.error()) is not None:
            raise error
        return self.answer

    async def _complete(self) -> None:
        answer, runs = self.answer, self._answers.runs
        answer.row = await runs.load(answer.row.run_id)
        answer.tokens = await runs.tokens(answer.row)
        answer.problem = await runs.problem(answer.row)
        if not answer.row.state.ended:
            answer.waits = await self._answers.threads.approvals(answer.row)
            if answer.thread.temporary and answer.waits:
                runs.cancel_soon(answer.row)  # no one could answer there
