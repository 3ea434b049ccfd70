"""Calls: work of workers other than runs, i.e. everything else that queries a model: titles, memories, summaries.

A call is a method of harness.ports.Harness with its arguments, and its result. Both are sent as JSON in rows, and the
requesting gateway waits for the answer. A call without a waiting gateway is worthless: the next gateway does not follow
it, but ends it. None of the methods stores anything that a second attempt by another worker would duplicate.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from bot.store import worker_runs
from bot.store.sql import to_json
from bot.store.worker_runs import OrderState
from channels.supervision import within
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
"""Seconds after which a call's rows are read again without a notification."""
NOBODY_SECONDS = 30.0
"""Seconds without a worker after which the gateway executes a call itself: all workers are away, or of a version
without calls."""


class CallFailed(HarnessError):
    """A call ended at a worker without a result. The text is for the log."""


@dataclass(frozen=True, slots=True)
class Method(Generic[A, R]):
    """A method of the port that workers execute. arguments, result: their JSON codecs. do: calls it."""

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
    """A call's request. arguments: encoded by the method's codec."""

    method: str
    arguments: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A serializable ModelFailure; see there."""

    kind: FailureKind
    model: str
    detail: str
    retry_after: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A call's outcome. result: encoded by the method's codec. failure: raised instead of returning a result. declined:
    the worker, of another version, does not know the request."""

    result: Any = None
    failure: Failure | None = None
    declined: bool = False


ASKED: TypeAdapter[Asked] = TypeAdapter(Asked)
ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)


class Calls:
    """The gateway's side. let_go: stops the work on a call, and returns when no worker has it. leaving: whether this
    process is stopping; its calls are then ended by the next one."""

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
        """Return or raise what the method does on a worker, or on `local` if no worker takes or knows the call.
        thread_id: where nothing else may run during the call. A cancellation stops the work. Raises CallFailed if a
        defect, or other work that needs the thread, ended the call."""
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
                self._waited_for.discard(call_id)  # what another cancellation leaves behind is tidied up later
        if answer.declined:
            log.warning("no worker took %s: running it in this process", method.name)
            return await method.do(local, given)
        return _result(method, answer)

    async def _answer(self, call_id: str) -> Answer:
        """Wait for the outcome. A call that no worker takes is withdrawn and counts as declined."""
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
                await within(LOOK_SECONDS, word.wait())
        if answer is not None:
            return _read(answer)
        if withdrawn:
            return Answer(declined=True)
        raise CallFailed(f"{call_id} was stopped, or failed on its worker; see the worker's log")

    async def tidy(self) -> None:
        """End and discard calls whose requesting gateway is gone."""
        for call_id in await self._store.read(worker_runs.calls):
            if call_id not in self._waited_for and await self._store.write(partial(worker_runs.stop, run_id=call_id)):
                await self._store.write(partial(worker_runs.discard, run_ids=(call_id,)))


async def answered(harness: Harness, body: str) -> str:
    """Execute a call's request and return the encoded answer; the worker's side. Raises only errors that callers of the
    port do not expect."""
    try:
        asked = ASKED.validate_json(body)
        method = METHODS[asked.method]
        given = method.arguments.validate_python(asked.arguments)
    except (ValidationError, KeyError):
        log.warning("a call from another version cannot be read here; its gateway runs it itself")
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
        raise CallFailed("a worker of another version returned an unreadable answer") from None


def _result(method: Method[A, R], answer: Answer) -> R:
    if (failure := answer.failure) is not None:
        raise ModelFailure(failure.kind, model=failure.model, detail=failure.detail, retry_after=failure.retry_after)
    try:
        return method.result.validate_python(answer.result)
    except ValidationError:
        raise CallFailed(f"a worker of another version returned an unreadable result of {method.name}") from None
