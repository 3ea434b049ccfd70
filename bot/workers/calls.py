"""Calls: what a gateway has workers do beside runs, that is all that asks a model: titles, memories, summaries.

A call is a method of harness.ports.Harness with its arguments, and its result. Both travel as JSON in rows, and the
gateway that asked waits for the answer. A call that nobody waits for any more is worth nothing: the next gateway does
not follow it, but ends it. None of the methods stores what would be there twice if another worker began anew.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from bot.store import worker_runs
from bot.store.sql import to_json
from bot.store.worker_runs import OrderState
from harness.context import Titled
from harness.errors import HarnessError, ModelFailure
from harness.events import FailureKind, Usage
from harness.memory.model import Exchange, Memory, Updated

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bot.store.retrying import RetryingStore
    from bot.workers.listening import Listener
    from harness.ports import Harness

log = logging.getLogger(__name__)
A = TypeVar("A")
R = TypeVar("R")

LOOK_SECONDS = 3.0
"""After which a call's rows are read again although no word of them came."""
NOBODY_SECONDS = 30.0
"""Without a worker at it, after which the gateway does it itself: all are away, or of a version before there were
calls."""


class CallFailed(HarnessError):
    """A call ended at a worker without a result. The text is for the log."""


@dataclass(frozen=True, slots=True)
class Method(Generic[A, R]):
    """A method of the port that workers are asked for. arguments, result: their JSON. do: calls it."""

    name: str
    arguments: TypeAdapter[A]
    result: TypeAdapter[R]
    do: Callable[[Harness, A], Awaitable[R]]


TITLE: Method[tuple[str, str, str], Titled | None] = Method(
    "title",
    TypeAdapter(tuple[str, str, str]),
    TypeAdapter(Titled | None),
    lambda harness, given: harness.title(*given),
)
REMEMBER: Method[tuple[Memory, tuple[Exchange, ...]], Updated | None] = Method(
    "remember",
    TypeAdapter(tuple[Memory, tuple[Exchange, ...]]),
    TypeAdapter(Updated | None),
    lambda harness, given: harness.remember(*given),
)
COMPACT: Method[tuple[str, str], Usage | None] = Method(
    "compact", TypeAdapter(tuple[str, str]), TypeAdapter(Usage | None), lambda harness, given: harness.compact(*given)
)
METHODS: dict[str, Method[Any, Any]] = {method.name: method for method in (TITLE, REMEMBER, COMPACT)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a call's row says. arguments: by the method's own codec."""

    method: str
    arguments: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A ModelFailure as it travels; see there."""

    kind: FailureKind
    model: str
    detail: str
    retry_after: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a call ended. result: by the method's own codec. failure: raised in its place. declined: that worker, of
    another version, does not know what was asked."""

    result: Any = None
    failure: Failure | None = None
    declined: bool = False


ASKED: TypeAdapter[Asked] = TypeAdapter(Asked)
ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)


class Calls:
    """The gateway's side. let_go: stops the work on a call, and returns when no worker is at it. leaving: this process
    stops, and what it asked for is ended by the next one."""

    def __init__(
        self,
        store: RetryingStore,
        listener: Listener,
        let_go: Callable[[str], Awaitable[None]],
        leaving: Callable[[], bool],
    ) -> None:
        self._store = store
        self._listener = listener
        self._let_go = let_go
        self._leaving = leaving
        self._waited_for: set[str] = set()

    async def ask(self, method: Method[A, R], given: A, local: Harness, thread_id: str = "") -> R:
        """What the method returns or raises at a worker; at `local` where no worker takes it or knows it. thread_id:
        in which nothing else is to work meanwhile. A cancellation stops the work. Raises CallFailed where a defect, or
        who wants the thread for something else, ended it."""
        call_id = f"{worker_runs.CALL}{uuid.uuid4().hex}"
        asked = Asked(method=method.name, arguments=method.arguments.dump_python(given, mode="json"))
        ordering = partial(worker_runs.call, call_id=call_id, thread_id=thread_id, asked=to_json(ASKED, asked))
        self._waited_for.add(call_id)
        over = False
        try:
            await self._store.write(ordering)
            answer = await self._answer(call_id)
            over = True
        finally:
            try:
                if not over and not self._leaving():
                    await self._let_go(call_id)
                if over or not self._leaving():
                    await self._store.write(partial(worker_runs.discard, run_ids=(call_id,)))
            finally:
                self._waited_for.discard(call_id)  # what a further cancellation leaves is tidied away
        if answer.declined:
            log.warning("no worker does %s, so that this process does it itself", method.name)
            return await method.do(local, given)
        return _result(method, answer)

    async def _answer(self, call_id: str) -> Answer:
        """What became of it. One that nobody takes is withdrawn, and has been declined."""
        now = self._store.clock.monotonic
        taken_at, withdrawn = now(), False
        with self._listener.listening(call_id) as word:
            while True:
                word.clear()
                order, at_it, answer = await self._store.read(partial(worker_runs.called, call_id=call_id))
                if order is None or order.state is not OrderState.OPEN:
                    break
                if at_it:
                    taken_at = now()
                elif now() - taken_at >= NOBODY_SECONDS:
                    await self._let_go(call_id)
                    withdrawn = True
                    continue
                with suppress(TimeoutError):
                    await asyncio.wait_for(word.wait(), LOOK_SECONDS)
        if answer is not None:
            return _read(answer)
        if withdrawn:
            return Answer(declined=True)
        raise CallFailed(f"{call_id} was stopped, or broke at its worker, whose log tells more")

    async def tidy(self) -> None:
        """End and forget what nobody waits for: who asked for it is gone."""
        for call_id in await self._store.read(worker_runs.calls):
            if call_id not in self._waited_for and await self._store.write(partial(worker_runs.stop, run_id=call_id)):
                await self._store.write(partial(worker_runs.discard, run_ids=(call_id,)))


async def answered(harness: Harness, body: str) -> str:
    """The worker's side: does what a call's row asks, and returns the row with the answer. Raises what no caller of the
    port expects."""
    try:
        asked = ASKED.validate_json(body)
        method = METHODS[asked.method]
        given = method.arguments.validate_python(asked.arguments)
    except (ValidationError, KeyError):
        log.warning("a call of another version is not understood here; its gateway does it itself")
        return to_json(ANSWER, Answer(declined=True))
    try:
        result = method.result.dump_python(await method.do(harness, given), mode="json")
        answer = Answer(result=result)
    except ModelFailure as error:
        failure = Failure(kind=error.kind, model=error.model, detail=error.detail, retry_after=error.retry_after)
        answer = Answer(failure=failure)
    return to_json(ANSWER, answer)


def _read(answer: str) -> Answer:
    try:
        return ANSWER.validate_json(answer)
    except ValidationError:
        raise CallFailed("a worker of another version gave an answer that cannot be read") from None


def _result(method: Method[A, R], answer: Answer) -> R:
    if (failure := answer.failure) is not None:
        raise ModelFailure(failure.kind, model=failure.model, detail=failure.detail, retry_after=failure.retry_after)
    try:
        return method.result.validate_python(answer.result)
    except ValidationError:
        raise CallFailed(f"a worker of another version gave a result of {method.name} that cannot be read") from None
