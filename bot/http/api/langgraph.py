"""LangGraph's protocol for `langgraph_sdk`: assistants (the agents), threads, runs; below /api/langgraph."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse

from bot.http.api.assistants import assistants_router
from bot.http.api.content import read_messages
from bot.http.api.models import (
    CancelMany,
    ModesAsked,
    RunCreate,
    RunStatus,
    RunTold,
    ThreadCreate,
    ThreadPrune,
    ThreadSearch,
    ThreadTold,
    ThreadUpdate,
)
from bot.http.api.runs import file_json, message_of_program
from bot.http.api.states import states_router
from bot.http.api.stream import RunReader
from bot.http.api.threads import lengthened, values_of
from bot.http.auth import HOLDS_SECONDS, Caller, SignedIn, requires, signed_out
from bot.http.chats import file_of_answer
from bot.http.errors import HttpProblem, not_found
from bot.http.sse import HEARTBEAT_SECONDS, EventStream, event
from bot.store.identity import harmless_name

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from bot.http.api.runs import Runs
    from bot.http.api.threads import Threads
    from bot.http.parts import HttpParts
    from bot.store.programs import ProgramThread
    from bot.store.rows import RunRow

PREFIX = "/api/langgraph"
RUN = "/threads/{thread_id}/runs/{run_id}"
MOST_OFFSET = 1_000_000
ALL_MODES = ("values", "updates", "messages-tuple", "custom")
Ending = Literal["interrupt", "rollback"]
AGENTS = "assistants are the gateway's agents: change their files in the agents folder"
CRONS = "crons are not supported: the agent creates schedules in its conversations, and /api/schedules lists them"
STORE = "the store is not supported: a person's memory is at /api/memory"
FOLLOWED = "a stream belongs to a run: follow it at /threads/{thread_id}/runs/{run_id}/stream"
UNSUPPORTED = (
    ("POST", "/assistants", AGENTS),
    ("PATCH", "/assistants/{assistant_id}", AGENTS),
    ("DELETE", "/assistants/{assistant_id}", AGENTS),
    ("POST", "/assistants/{assistant_id}/latest", AGENTS),
    ("GET", "/threads/{thread_id}/stream", FOLLOWED),
    ("POST", "/threads/{thread_id}/stream/events", FOLLOWED),
    ("POST", "/threads/{thread_id}/commands", FOLLOWED),
    ("POST", "/runs/batch", "batches are not supported: create each run separately"),
    ("POST", "/threads/{thread_id}/runs/crons", CRONS),
    ("POST", "/runs/crons", CRONS),
    ("POST", "/runs/crons/search", CRONS),
    ("POST", "/runs/crons/count", CRONS),
    ("PATCH", "/runs/crons/{cron_id}", CRONS),
    ("DELETE", "/runs/crons/{cron_id}", CRONS),
    ("PUT", "/store/items", STORE),
    ("GET", "/store/items", STORE),
    ("DELETE", "/store/items", STORE),
    ("POST", "/store/items/search", STORE),
    ("POST", "/store/namespaces", STORE),
)
"""Routes of the protocol that are not supported, and why."""
LastEventId = Annotated[str | None, Header(alias="Last-Event-ID")]
Once = Annotated[str | None, Header(alias="Idempotency-Key")]
READ, THREADS, RUNS = requires("read"), requires("threads"), requires("runs")


class Protocol:
    """What the routes have in common."""

    def __init__(self, parts: HttpParts, threads: Threads, runs: Runs) -> None:
        self.parts = parts
        self.threads = threads
        self.runs = runs

    def agent(self, assistant_id: str) -> str:
        """The agent of that name. Raises HttpProblem."""
        if assistant_id not in self.parts.agents.definitions:
            raise not_found(f"there is no assistant {assistant_id!r}"[:200])
        return assistant_id

    async def run(self, caller: Caller, thread_id: str, run_id: str) -> tuple[ProgramThread, RunRow]:
        """One of the caller's runs with its thread. Raises HttpProblem."""
        thread = await self.threads.find(caller, thread_id)
        return thread, await self.runs.find(thread, run_id)

    async def thread_json(self, thread: ProgramThread, *, values: bool = True) -> dict[str, Any]:
        status, interrupts = await self.threads.status(thread)
        last = await self.threads.newest_run(thread.key)
        views = await self.threads.views(thread) if values else []
        return {
            "thread_id": thread.name,
            "created_at": thread.created_at.isoformat(),
            "updated_at": thread.updated_at.isoformat(),
            "metadata": dict(thread.metadata),
            "status": status,
            "config": {},
            "values": values_of(views[0]) if views else None,
            "interrupts": {last.run_id: interrupts} if interrupts and last is not None else {},
        }

    async def begin(
        self, caller: Caller, thread_id: str | None, body: RunCreate, client_id: str | None
    ) -> tuple[ProgramThread, RunRow, bool]:
        """The run that a request asks for, its thread, and whether it continues after an answer. client_id: the
        client's own id for this request in its thread; the same id again returns the same run. Raises HttpProblem."""
        agent = self.agent(body.assistant_id)
        if body.at is not None and (thread_id is None or body.command is not None):
            raise HttpProblem(422, "invalid", "checkpoint: only with the input of a run in a thread")
        if body.at is not None and not caller.may("threads"):
            why = "checkpoint: changes the thread, which needs the scope threads"
            raise HttpProblem(403, "missing_scope", why, scopes=["threads"])
        thread = await self._thread(caller, thread_id, body)
        if body.command is not None and body.command.resume is not None:
            if body.input is not None:
                raise HttpProblem(422, "invalid", "send input or command, not both")
            row, resumed = await self.runs.resume(caller, thread, body.command.resume, agent=agent)
            return thread, row, resumed
        if not body.input or "messages" not in body.input:
            raise HttpProblem(422, "invalid", "input.messages is missing")
        said = read_messages(body.input["messages"], "input.messages")
        if body.at is not None and not (client_id and await self.runs.was_sent(thread, client_id)):
            message_of_program(said, frozenset())  # faults are reported before anything is changed
            await self.threads.write(thread, (), body.at)
        known: frozenset[str] = frozenset()
        if len(said) > 1:
            known = frozenset(str(each["id"]) for each in (await self.threads.values(thread))["messages"])
        row = await self.runs.begin(
            *(caller, thread, said),
            agent=agent,
            strategy=body.multitask_strategy,
            metadata=body.metadata,
            client_id=client_id or "",
            known=known,
        )
        return thread, row, False

    async def _thread(self, caller: Caller, thread_id: str | None, body: RunCreate) -> ProgramThread:
        if thread_id is None:
            made, _ = await self.threads.create(caller, temporary=body.on_completion == "delete")
            return made
        try:
            return await self.threads.find(caller, thread_id)
        except HttpProblem:
            if body.if_not_exists == "reject":
                raise
        try:
            name = str(uuid.UUID(thread_id))
        except ValueError:
            raise HttpProblem(422, "invalid", "thread_id must be a UUID") from None
        made, _ = await self.threads.create(caller, name)
        return made

    def stream(
        self, caller: Caller, reader: RunReader, thread: ProgramThread, row: RunRow, *, cancels: bool
    ) -> StreamingResponse:
        """A stream of a run's events. cancels: the run ends with its stream."""
        answer = self.parts.gatekeeper.stream(caller, self._events(reader, row, cancels=cancels))
        answer.headers.update(_places(thread, row, "stream"))
        return answer

    async def _events(self, reader: RunReader, row: RunRow, *, cancels: bool) -> AsyncGenerator[str, None]:
        through = False
        try:
            async with aclosing(reader.frames()) as frames:
                async for frame in frames:
                    yield self.parts.redact(event(frame.event, frame.data, "" if frame.more else frame.id))
            through = True
        finally:
            if cancels and not through:
                self._cut_off(row)

    def _cut_off(self, row: RunRow) -> None:
        """Cancel the run of a client that is gone; where this process is stopping, the run continues in the next."""
        if not self.parts.runs.suspending:
            self.runs.cancel_soon(row)

    def wait(self, caller: Caller, thread: ProgramThread, row: RunRow, *, cancels: bool = False) -> StreamingResponse:
        """The values that a run leaves, once it has ended or waits for a person. Like a stream it counts, and ends with
        the caller's session or token. Raises HttpProblem for too many streams."""
        self.parts.gatekeeper.check_streams(caller)
        return StreamingResponse(
            self.parts.gatekeeper.counted(caller, self._awaited(caller, thread, row, cancels=cancels)),
            media_type="application/json",
            headers=_places(thread, row, "join"),
        )

    async def _awaited(
        self, caller: Caller, thread: ProgramThread, row: RunRow, *, cancels: bool
    ) -> AsyncGenerator[str, None]:
        settled = asyncio.create_task(self.runs.settled(row), name=f"join:{row.run_id}")
        try:
            silent = HEARTBEAT_SECONDS
            while not settled.done():
                if silent >= HEARTBEAT_SECONDS:
                    yield "\n"  # no content in JSON; prevents timeouts of proxies, and detects clients that are gone
                    silent = 0.0
                await asyncio.wait({settled}, timeout=HOLDS_SECONDS)
                silent += HOLDS_SECONDS
                if not self.parts.gatekeeper.signins.holds(caller.key):
                    problem = signed_out()
                    yield json.dumps({"__error__": {"error": problem.code, "message": str(problem)}})
                    return
            values = await self.runs.values(thread, settled.result())
            yield self.parts.redact(json.dumps(values, ensure_ascii=False))
        finally:
            if not settled.done():
                settled.cancel()
                if cancels:
                    self._cut_off(row)

    def told(self, value: Any, headers: dict[str, str] | None = None) -> Response:
        """A JSON response with secrets redacted."""
        text = self.parts.redact(json.dumps(value, ensure_ascii=False))
        return Response(text, headers=headers, media_type="application/json")


def _places(thread: ProgramThread, row: RunRow, what: str) -> dict[str, str]:
    """The headers by which a client finds the run again: relative to the base address of the API, as the SDK reads
    them."""
    run = f"/threads/{thread.name}/runs/{uuid.UUID(row.run_id)}"
    return {"Location": f"{run}/{what}", "Content-Location": run}


def langgraph_router(parts: HttpParts, threads: Threads, runs: Runs) -> APIRouter:
    """The routes below PREFIX."""
    router, protocol = APIRouter(prefix=PREFIX, tags=["langgraph"]), Protocol(parts, threads, runs)
    router.include_router(assistants_router(parts))
    _threads(router, protocol)
    router.include_router(states_router(protocol))
    _runs(router, protocol)
    _running(router, protocol)
    _ending(router, protocol)
    for method, path, why in UNSUPPORTED:
        router.add_api_route(path, _refusal(why), methods=[method], include_in_schema=False)
    return router


def _refusal(why: str) -> Callable[[Caller], Awaitable[None]]:
    async def refuse(caller: SignedIn) -> None:
        raise HttpProblem(422, "unsupported", why)

    return refuse


def _threads(router: APIRouter, the: Protocol) -> None:
    threads = the.threads

    @router.post("/threads", dependencies=[THREADS], response_model=ThreadTold)
    async def create(caller: SignedIn, body: ThreadCreate) -> Response:
        thread, made = await threads.create(caller, body.thread_id, body.metadata)
        if not made and body.if_exists == "raise":
            raise HttpProblem(409, "exists", "a thread with this id already exists")
        return the.told(await the.thread_json(thread))

    @router.post("/threads/search", dependencies=[READ], response_model=list[dict[str, Any]])
    async def search(caller: SignedIn, body: ThreadSearch) -> Response:
        return the.told(await _found(the, caller, body))

    @router.post("/threads/count", dependencies=[READ], response_model=int)
    async def count(caller: SignedIn, body: ThreadSearch) -> JSONResponse:
        return JSONResponse(len(await _matching(the, caller, body)))

    @router.post("/threads/{thread_id}/copy", dependencies=[THREADS], response_model=ThreadTold)
    async def copy(caller: SignedIn, thread_id: str) -> Response:
        return the.told(await the.thread_json(await threads.copy(caller, await threads.find(caller, thread_id))))

    @router.post("/threads/prune", dependencies=[THREADS])
    async def prune(caller: SignedIn, body: ThreadPrune) -> dict[str, int]:
        pruned = 0
        for thread_id in dict.fromkeys(body.thread_ids):
            with suppress(HttpProblem):  # it does not exist, or belongs to someone else
                await threads.delete(await threads.find(caller, thread_id), caller.person)
                pruned += 1
        return {"pruned_count": pruned}

    @router.get("/threads/{thread_id}", dependencies=[READ], response_model=ThreadTold)
    async def get(caller: SignedIn, thread_id: str) -> Response:
        return the.told(await the.thread_json(await threads.find(caller, thread_id)))

    @router.patch(
        "/threads/{thread_id}",
        dependencies=[THREADS],
        response_model=ThreadTold,
        responses={204: {"description": "With Prefer: return=minimal"}},
    )
    async def update(caller: SignedIn, thread_id: str, body: ThreadUpdate, request: Request) -> Response:
        thread = await threads.update(await threads.find(caller, thread_id), body.metadata)
        if request.headers.get("prefer") == "return=minimal":
            return Response(status_code=204)
        return the.told(await the.thread_json(thread))

    @router.delete("/threads/{thread_id}", dependencies=[THREADS], status_code=204)
    async def delete(caller: SignedIn, thread_id: str) -> None:
        await threads.delete(await threads.find(caller, thread_id), caller.person)


async def _matching(the: Protocol, caller: Caller, body: ThreadSearch) -> list[ProgramThread]:
    """The caller's threads that match the search, in order."""
    if body.values:
        raise HttpProblem(422, "invalid", "values: threads cannot be searched by their content")
    ids = None if body.ids is None else set(body.ids)
    every = [each for each in await the.threads.all(caller) if ids is None or each.name in ids]
    every = [each for each in every if body.metadata.items() <= dict(each.metadata).items()]
    if body.status is not None:
        every = [each for each in every if (await the.threads.status(each))[0] == body.status]
    key = {"thread_id": "name", "created_at": "created_at"}.get(body.sort_by, "updated_at")
    every.sort(key=lambda each: str(getattr(each, key)), reverse=body.sort_order == "desc")
    return every


async def _found(the: Protocol, caller: Caller, body: ThreadSearch) -> list[dict[str, Any]]:
    every = await _matching(the, caller, body)
    shows_values = body.select is None or "values" in body.select
    page = every[body.offset : body.offset + body.limit]
    found: list[dict[str, Any]] = []
    size = 0
    for each in page:
        told = await the.thread_json(each, values=shows_values)
        size = lengthened(size, told["values"]["messages"] if told["values"] else ())
        found.append(told)
    if body.select is None:
        return found
    return [{name: told[name] for name in body.select if name in told} for told in found]


def _runs(router: APIRouter, the: Protocol) -> None:
    """The routes that start runs, in a thread or without one."""
    runs = the.runs

    async def created(caller: Caller, thread_id: str | None, body: RunCreate, once: str | None = None) -> Response:
        thread, row, _ = await the.begin(caller, thread_id, body, once)
        told = await runs.as_json(thread, [row])
        return the.told(told[0], headers={"Content-Location": _places(thread, row, "")["Content-Location"]})

    async def streamed(caller: Caller, thread_id: str | None, body: RunCreate, once: str | None = None) -> Response:
        the.parts.gatekeeper.check_streams(caller)
        thread, row, resumed = await the.begin(caller, thread_id, body, once)
        reader = RunReader(
            runs, the.threads, thread, row, body.stream_mode, the.parts.redact, whole=not resumed, resumed=resumed
        )
        return the.stream(caller, reader, thread, row, cancels=body.on_disconnect == "cancel")

    async def waited(caller: Caller, thread_id: str | None, body: RunCreate, once: str | None = None) -> Response:
        the.parts.gatekeeper.check_streams(caller)
        thread, row, _ = await the.begin(caller, thread_id, body, once)
        return the.wait(caller, thread, row, cancels=body.on_disconnect == "cancel")

    @router.post("/threads/{thread_id}/runs", dependencies=[RUNS], response_model=RunTold)
    async def create(caller: SignedIn, thread_id: str, body: RunCreate, once: Once = None) -> Response:
        return await created(caller, thread_id, body, once)

    @router.post("/threads/{thread_id}/runs/stream", dependencies=[RUNS], response_class=EventStream)
    async def create_stream(caller: SignedIn, thread_id: str, body: RunCreate, once: Once = None) -> Response:
        return await streamed(caller, thread_id, body, once)

    @router.post("/threads/{thread_id}/runs/wait", dependencies=[RUNS], response_model=dict[str, Any])
    async def create_wait(caller: SignedIn, thread_id: str, body: RunCreate, once: Once = None) -> Response:
        return await waited(caller, thread_id, body, once)

    @router.post("/runs", dependencies=[RUNS], response_model=RunTold)
    async def stateless(caller: SignedIn, body: RunCreate) -> Response:
        return await created(caller, None, body)

    @router.post("/runs/stream", dependencies=[RUNS], response_class=EventStream)
    async def stateless_stream(caller: SignedIn, body: RunCreate) -> Response:
        return await streamed(caller, None, body)

    @router.post("/runs/wait", dependencies=[RUNS], response_model=dict[str, Any])
    async def stateless_wait(caller: SignedIn, body: RunCreate) -> Response:
        return await waited(caller, None, body)


def _running(router: APIRouter, the: Protocol) -> None:
    """The routes of existing runs."""
    runs, find = the.runs, the.run

    @router.get("/threads/{thread_id}/runs", dependencies=[READ], response_model=list[dict[str, Any]])
    async def listed(
        caller: SignedIn,
        thread_id: str,
        limit: Annotated[int, Query(ge=1, le=100)] = 10,
        offset: Annotated[int, Query(ge=0, le=MOST_OFFSET)] = 0,
        status: RunStatus | None = None,
        select: Annotated[list[str] | None, Query()] = None,
    ) -> Response:
        thread = await the.threads.find(caller, thread_id)
        found: Sequence[dict[str, Any]] = await runs.as_json(
            thread, await runs.of_thread(thread, limit, offset, status)
        )
        if select:
            found = [{name: each[name] for name in select if name in each} for each in found]
        return the.told(found)

    @router.get(RUN, dependencies=[READ], response_model=RunTold)
    async def get(caller: SignedIn, thread_id: str, run_id: str) -> Response:
        thread, row = await find(caller, thread_id, run_id)
        return the.told((await runs.as_json(thread, [row]))[0])

    @router.get(f"{RUN}/join", dependencies=[READ], response_model=dict[str, Any])
    async def join(caller: SignedIn, thread_id: str, run_id: str) -> Response:
        return the.wait(caller, *await find(caller, thread_id, run_id))

    @router.get(f"{RUN}/files", dependencies=[READ])
    async def files(caller: SignedIn, thread_id: str, run_id: str) -> Response:
        """List the files of the run's answer in order, also while it is running."""
        _, row = await find(caller, thread_id, run_id)
        return the.told([file_json(each) for each in await runs.files(row)])

    @router.get(f"{RUN}/file", dependencies=[READ])
    async def file(caller: SignedIn, thread_id: str, run_id: str, path: str = "") -> FileResponse:
        """One of these files. path: as in the list."""
        _, row = await find(caller, thread_id, run_id)
        found = next((each for each in await runs.files(row) if each.path == path), None)
        if found is None:
            raise not_found("there is no such file")
        return file_of_answer(runs.spool / found.spooled, harmless_name(found.name, "file"), found.mime_type)

    @router.get(f"{RUN}/stream", dependencies=[READ], response_class=EventStream)
    async def join_stream(
        caller: SignedIn,
        thread_id: str,
        run_id: str,
        stream_mode: Annotated[ModesAsked, Query()] = None,
        last_event_id: LastEventId = None,
        cancel_on_disconnect: bool = False,
    ) -> Response:
        thread, row = await find(caller, thread_id, run_id)
        if cancel_on_disconnect and not caller.may("runs"):
            raise HttpProblem(403, "missing_scope", "this needs the scope runs", scopes=["runs"])
        modes = stream_mode or ALL_MODES
        reader = RunReader(runs, the.threads, thread, row, modes, the.parts.redact, after=last_event_id)
        return the.stream(caller, reader, thread, row, cancels=cancel_on_disconnect)


def _ending(router: APIRouter, the: Protocol) -> None:
    """The routes that end runs."""
    runs, find = the.runs, the.run

    @router.post(
        f"{RUN}/cancel",
        dependencies=[RUNS],
        response_model=dict[str, Any],
        responses={202: {"description": "Without wait: the run ends soon"}},
    )
    async def cancel(
        caller: SignedIn, thread_id: str, run_id: str, wait: bool = False, action: Ending = "interrupt"
    ) -> Response:
        thread, row = await find(caller, thread_id, run_id)
        await runs.cancel(row, rewinds=action == "rollback")
        return the.wait(caller, thread, row) if wait else Response(status_code=202)

    @router.delete(RUN, dependencies=[RUNS], status_code=204)
    async def delete(caller: SignedIn, thread_id: str, run_id: str) -> None:
        await find(caller, thread_id, run_id)
        raise HttpProblem(422, "unsupported", "a run is deleted with its thread; cancel ends an active one")

    @router.post("/runs/cancel", dependencies=[RUNS], status_code=204)
    async def cancel_many(caller: SignedIn, body: CancelMany, action: Ending = "interrupt") -> None:
        threads = await the.threads.all(caller) if body.thread_id is None else []
        if body.thread_id is not None:
            threads = [await the.threads.find(caller, body.thread_id)]
        wanted = {"pending", "running", "interrupted"} if body.status in (None, "all") else {body.status}
        run_ids = set(body.run_ids or ())
        for thread in threads:
            rows = [row for row in await runs.of_thread(thread, 100, 0, None) if not row.state.ended]
            for told, row in zip(await runs.as_json(thread, rows), rows, strict=True):
                if told["status"] in wanted and (not run_ids or told["run_id"] in run_ids):
                    await runs.cancel(row, rewinds=action == "rollback")
