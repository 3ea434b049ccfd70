"""Plays one round of a script into an answer."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING

from tests.simulators.model.scripts import (
    Call,
    ContextLength,
    Cut,
    Fault,
    Finish,
    Garbage,
    Hang,
    Pause,
    Quote,
    Reason,
    Refuse,
    Reset,
    Say,
    Status,
    Step,
    StreamError,
    TellResults,
    Tokens,
    Wait,
)
from tests.simulators.model.wires import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiohttp import web

    from tests.simulators.model.records import Record, RecordLog
    from tests.simulators.model.request import Asked
    from tests.simulators.model.wire import Answer
    from tests.simulators.model.wires import Wire

WORDS = ("one ", "two ", "three ", "four ", "five ", "six ", "seven ", "eight ", "nine ", "ten ")
SCRIPTED_RESET = "reset by the script"


class Gates:
    """The pauses: closed until released, open from then on."""

    def __init__(self) -> None:
        self._gates: dict[str, asyncio.Event] = {}

    def gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    def clear(self) -> None:
        """Release all waiters and forget the names."""
        for gate in self._gates.values():
            gate.set()
        self._gates.clear()


class FaultCounts:
    """How often each fault with `times` has struck, per conversation."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, Fault], int] = {}

    def strikes(self, conversation: str, fault: Fault) -> bool:
        """Whether the fault is still due; counts it."""
        if fault.times is None:
            return True
        key = (conversation, fault)
        count = self._counts.get(key, 0)
        self._counts[key] = count + 1
        return count < fault.times

    def clear(self) -> None:
        self._counts.clear()


class Player:
    """Plays steps for one request."""

    def __init__(
        self, asked: Asked, record: Record, log: RecordLog, gates: Gates, faults: FaultCounts, wire: Wire
    ) -> None:
        self._asked = asked
        self._wire = wire
        self._record = record
        self._log = log
        self._gates = gates
        self._faults = faults

    async def play(self, steps: Sequence[Step], answer: Answer) -> web.StreamResponse:
        """Play the steps; returns the finished response. Raises ConnectionResetError when the connection is gone."""
        for step in steps:
            response = await self._step(step, answer)
            if response is not None:
                return response
        if not answer.told:
            await self._say(Say(text=self.echo()), answer)
        return await answer.finish("stop")

    async def _step(self, step: Step, answer: Answer) -> web.StreamResponse | None:
        """Play one step; returns a response if it was the last."""
        match step:
            case Say():
                await self._say(step, answer)
            case Tokens():
                await self._tokens(step, answer)
            case Reason(text=text):
                for piece in _pieces(text, 4):
                    await answer.reasoning(piece)
            case Refuse(text=text):
                await answer.refusal(text)
            case TellResults():
                await self._say(Say(text=self._results()), answer)
            case Quote(words=words):
                await self._say(Say(text=self._quoted(words)), answer)
            case Wait(seconds=seconds):
                await asyncio.sleep(seconds)
            case Pause(name=name):
                await self._pause(name, answer)
            case Call(calls=calls) if self._asked.tools:
                await answer.calls(calls)
                return await answer.finish("tool_calls")
            case Call():
                await self._say(Say(text=f"No tools are offered to me. {self._results()}"), answer)
                return await answer.finish("stop")
            case Finish(reason=reason):
                return await answer.finish(reason)
            case _:
                return await self._fault(step, answer)
        return None

    async def _fault(self, step: Step, answer: Answer) -> web.StreamResponse | None:
        if isinstance(step, ContextLength) and self._asked.messages < step.messages:
            return None
        if not isinstance(step, Fault) or not self._faults.strikes(self._asked.conversation, step):
            return None
        match step:
            case Status() if answer.begun:
                await answer.error(step.code or "server_error", step.message or MESSAGES[500])
                return await answer.finish(None)
            case Status():
                return self._wire.refusal(self._record, step)
            case ContextLength():
                return self._wire.refusal(
                    self._record, Status(status=400, code="context_length_exceeded", message=_TOO_LONG)
                )
            case Hang():
                # Ends when the client disconnects, which cancels this handler, or with the simulator itself.
                await asyncio.Event().wait()
            case Reset():
                answer.reset()
                raise ConnectionResetError(SCRIPTED_RESET)
            case Garbage():
                await answer.garbage()
                return await answer.finish(None)
            case StreamError(code=code, message=message):
                await answer.error(code, message)
                return await answer.finish(None)
            case Cut():
                return await answer.finish(None)
        return None

    async def _say(self, step: Say, answer: Answer) -> None:
        await _paced(_pieces(step.text, step.pieces), step.delay_ms, answer.text)

    async def _tokens(self, step: Tokens, answer: Answer) -> None:
        words = [WORDS[index % len(WORDS)] for index in range(step.count)]
        await _paced(words, step.delay_ms, answer.text)

    async def _pause(self, name: str, answer: Answer) -> None:
        gate = self._gates.gate(name)
        if gate.is_set():
            return
        await answer.begin()
        self._record.state, self._record.paused_at = "paused", name
        self._log.changed(self._record)
        await gate.wait()
        self._record.state, self._record.paused_at = "open", None
        self._log.changed(self._record)

    def _results(self) -> str:
        if not self._asked.results:
            return "There were no tool results."
        return "\n\n".join(f"Tool result: {result}" for result in self._asked.results)

    def _quoted(self, words: str) -> str:
        sentences = (part for result in self._asked.results for part in re.split(r"(?<=[.!?])\s+|\n", result))
        return next((f"I read: {sentence}" for sentence in sentences if words in sentence), "It is not in the results.")

    def echo(self) -> str:
        """The answer to a message without directives or a script."""
        text = self._asked.last_user_text
        if "Messages to summarize:" in text:
            return f"Summary of a conversation of {len(text)} characters."
        images = "".join(
            f"\n\nImage: {image.width}x{image.height}, {image.size} bytes" for image in self._record.images
        )
        return f"You said: {text}{images}"


_TOO_LONG = "This model's maximum context length is exceeded. Please reduce the length of the messages."


async def _paced(pieces: Sequence[str], delay_ms: float, tell: Callable[[str], Awaitable[None]]) -> None:
    """Send pieces on a fixed schedule, so that a late one does not delay those after it."""
    due = time.monotonic()
    for piece in pieces:
        await tell(piece)
        due += delay_ms / 1000
        left = due - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)


def _pieces(text: str, count: int) -> list[str]:
    size = max(1, -(-len(text) // count))
    return [text[start : start + size] for start in range(0, len(text), size)]
