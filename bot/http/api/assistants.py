"""Assistants of LangGraph's protocol: the agents of this gateway, which are made in its folder and not over HTTP."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from bot.http.api.models import AssistantSearch  # noqa: TC001  FastAPI reads the annotation
from bot.http.auth import SignedIn, requires
from bot.http.errors import not_found

if TYPE_CHECKING:
    from bot.http.parts import HttpParts

READ = requires("read")
MESSAGES = {
    "type": "object",
    "properties": {"messages": {"type": "array", "items": {"type": "object"}}},
    "required": ["messages"],
}
NODES = ("__start__", "model", "tools", "__end__")
EDGES = (("__start__", "model"), ("model", "tools"), ("tools", "model"), ("model", "__end__"))


def assistants_router(parts: HttpParts) -> APIRouter:
    """/assistants, and what the SDK asks of the server itself."""
    router, since = APIRouter(), parts.clock.now().isoformat()

    def told(name: str) -> dict[str, Any]:
        return {
            "assistant_id": name,
            "graph_id": name,
            "name": name,
            "description": parts.agents.descriptions.get(name) or None,
            "config": {},
            "context": {},
            "metadata": {"created_by": "system"},
            "version": 1,
            "created_at": since,
            "updated_at": since,
        }

    def known(assistant_id: str) -> str:
        if assistant_id not in parts.agents.definitions:
            raise not_found("there is no such assistant")
        return assistant_id

    def found(body: AssistantSearch) -> list[dict[str, Any]]:
        every = [told(name) for name in parts.agents.definitions]
        every = [each for each in every if body.graph_id in (None, each["graph_id"])]
        every = [each for each in every if body.name is None or body.name.lower() in each["name"].lower()]
        return [each for each in every if body.metadata.items() <= each["metadata"].items()]

    @router.get("/ok")
    async def ok() -> dict[str, bool]:
        return {"ok": True}

    @router.get("/info", dependencies=[READ])
    async def info(caller: SignedIn) -> dict[str, Any]:
        return {"name": "antler", "version": version("antler"), "flags": {"assistants": True, "crons": False}}

    @router.post("/assistants/search", dependencies=[READ])
    async def search(caller: SignedIn, body: AssistantSearch) -> JSONResponse:
        every = found(body)
        after = body.offset + body.limit
        headers = {"X-Pagination-Next": str(after)} if after < len(every) else {}
        return JSONResponse(every[body.offset : after], headers=headers)

    @router.post("/assistants/count", dependencies=[READ])
    async def count(caller: SignedIn, body: AssistantSearch) -> JSONResponse:
        return JSONResponse(len(found(body)))

    @router.get("/assistants/{assistant_id}", dependencies=[READ])
    async def get(caller: SignedIn, assistant_id: str) -> dict[str, Any]:
        return told(known(assistant_id))

    @router.get("/assistants/{assistant_id}/graph", dependencies=[READ])
    async def graph(caller: SignedIn, assistant_id: str) -> dict[str, Any]:
        known(assistant_id)
        edges = [{"source": source, "target": target} for source, target in EDGES]
        return {"nodes": [{"id": name, "type": "runnable", "data": {"name": name}} for name in NODES], "edges": edges}

    @router.get("/assistants/{assistant_id}/schemas", dependencies=[READ])
    async def schemas(caller: SignedIn, assistant_id: str) -> dict[str, Any]:
        name = known(assistant_id)
        return {
            "graph_id": name,
            "input_schema": MESSAGES,
            "output_schema": MESSAGES,
            "state_schema": MESSAGES,
            "config_schema": None,
            "context_schema": None,
        }

    return router
