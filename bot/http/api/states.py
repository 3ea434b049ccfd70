"""The content of threads in LangGraph's protocol: their state now and at checkpoints, read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response  # noqa: TC002  FastAPI reads the annotation

from bot.http.api.content import read_changes
from bot.http.api.models import CheckpointRequest, HistoryRequest, StateTold, StateUpdate, UpdatedTold
from bot.http.api.runs import MOST_BEFORE
from bot.http.api.threads import NO_CHECKPOINT, checkpoint_json, state_json
from bot.http.auth import Caller, SignedIn, requires
from bot.http.errors import HttpProblem, not_found
from harness.context import HistoryEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.http.api.langgraph import Protocol

READ, THREADS = requires("read"), requires("threads")
Selected = Annotated[list[str] | None, Query()]


def states_router(the: Protocol) -> APIRouter:
    """The routes below /threads/{thread_id} that concern its state."""
    router, threads = APIRouter(prefix="/threads/{thread_id}"), the.threads

    async def at(caller: Caller, thread_id: str, checkpoint_id: str | None, select: Sequence[str] | None) -> Response:
        thread = await threads.find(caller, thread_id)
        views = await threads.views(thread, at=checkpoint_id) if checkpoint_id else []
        if not views:
            raise not_found(NO_CHECKPOINT)
        return the.told(_selected(state_json(thread.name, views[0]), select))

    @router.get("/state", dependencies=[READ], response_model=StateTold)
    async def state(caller: SignedIn, thread_id: str, select: Selected = None) -> Response:
        thread = await threads.find(caller, thread_id)
        views = await threads.views(thread)
        status, interrupts = await threads.status(thread)
        told = state_json(thread.name, views[0] if views else None, interrupts)
        if status == "busy" and not told["next"]:  # not in the history yet: it has not begun, or a worker is at it
            told["next"] = ["model"]
        return the.told(_selected(told, select))

    @router.post("/state", dependencies=[THREADS], response_model=UpdatedTold)
    async def update_state(caller: SignedIn, thread_id: str, body: StateUpdate) -> Response:
        """Add, change or remove messages of the thread, while none of its runs works or waits."""
        thread = await threads.find(caller, thread_id)
        changes = [] if body.messages is None else read_changes(body.messages)
        if sum(len(each.text) for each in changes if isinstance(each, HistoryEntry)) > MOST_BEFORE:
            raise HttpProblem(413, "too_long", f"values.messages: at most {MOST_BEFORE} characters in total")
        await threads.write(thread, changes, body.at)
        views = await threads.views(thread)
        checkpoint = checkpoint_json(thread.name, views[0].checkpoint_id if views else "")
        told = {"checkpoint": checkpoint, "configurable": checkpoint, "checkpoint_id": checkpoint["checkpoint_id"]}
        return the.told(told)

    @router.get("/state/{checkpoint_id}", dependencies=[READ], response_model=StateTold)
    async def state_at(caller: SignedIn, thread_id: str, checkpoint_id: str, select: Selected = None) -> Response:
        return await at(caller, thread_id, checkpoint_id, select)

    @router.post("/state/checkpoint", dependencies=[READ], response_model=StateTold)
    async def state_of(caller: SignedIn, thread_id: str, body: CheckpointRequest) -> Response:
        if body.checkpoint.checkpoint_id is None:  # LangGraph's RemoteGraph means the newest one
            return await state(caller, thread_id, body.select)
        return await at(caller, thread_id, body.checkpoint.checkpoint_id, body.select)

    @router.get("/history", dependencies=[READ], response_model=list[StateTold])
    async def history_of(caller: SignedIn, thread_id: str, limit: Annotated[int, Query(ge=1, le=100)] = 10) -> Response:
        return await history(caller, thread_id, HistoryRequest(limit=limit))

    @router.post("/history", dependencies=[READ], response_model=list[StateTold])
    async def history(caller: SignedIn, thread_id: str, body: HistoryRequest) -> Response:
        thread = await threads.find(caller, thread_id)
        views = await threads.history(thread, body.older_than, body.limit)
        return the.told([_selected(state_json(thread.name, view), body.select) for view in views])

    return router


def _selected(state: dict[str, Any], select: Sequence[str] | None) -> dict[str, Any]:
    """The selected members of a state, such as `next` or `values.messages`; None: all."""
    if not select:
        return state
    found = {name: state[name] for name in select if name in state}
    inner = [name.removeprefix("values.") for name in select if name.startswith("values.")]
    if inner and "values" not in found:
        found["values"] = {name: state["values"][name] for name in inner if name in state["values"]}
    return found
