"""Assistants of LangGraph's protocol: the agents of this gateway, which are defined in its folder and not over HTTP."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from bot.http.api.models import AssistantSearch, AssistantTold
from bot.http.auth import requires
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


class Assistants:
    """The agents as LangGraph's assistants. since: the start of this process, as agents have no other time."""

    def __init__(self, parts: HttpParts) -> None:
        self._agents = parts.agents
        self._since = parts.clock.now().isoformat()

    def told(self, name: str) -> dict[str, Any]:
        """An assistant. Raises HttpProblem."""
        if name not in self._agents.definitions:
            raise not_found("there is no such assistant")
        return {
            "assistant_id": name,
            "graph_id": name,
            "name": name,
            "description": self._agents.descriptions.get(name) or None,
            "config": {},
            "context": {},
            "metadata": {"created_by": "system"},
            "version": 1,
            "created_at": self._since,
            "updated_at": self._since,
        }

    def found(self, body: AssistantSearch) -> list[dict[str, Any]]:
        every = [self.told(name) for name in self._agents.definitions]
        every = [each for each in every if body.graph_id in (None, each["graph_id"])]
        every = [each for each in every if body.name is None or body.name.lower() in each["name"].lower()]
        return [each for each in every if body.metadata.items() <= each["metadata"].items()]


def assistants_router(parts: HttpParts) -> APIRouter:
    """The routes of /assistants, and those by which the SDK queries the server itself."""
    router, assistants = APIRouter(), Assistants(parts)

    @router.get("/ok")
    async def ok() -> dict[str, bool]:
        return {"ok": True}

    @router.get("/info", dependencies=[READ])
    async def info() -> dict[str, Any]:
        return {"name": "antler", "version": version("antler"), "flags": {"assistants": True, "crons": False}}

    @router.post("/assistants/search", dependencies=[READ], response_model=list[AssistantTold])
    async def search(body: AssistantSearch) -> JSONResponse:
        every, after = assistants.found(body), body.offset + body.limit
        headers = {"X-Pagination-Next": str(after)} if after < len(every) else {}
        return JSONResponse(every[body.offset : after], headers=headers)

    @router.post("/assistants/count", dependencies=[READ], response_model=int)
    async def count(body: AssistantSearch) -> JSONResponse:
        return JSONResponse(len(assistants.found(body)))

    @router.get("/assistants/{assistant_id}", dependencies=[READ], response_model=AssistantTold)
    async def get(assistant_id: str) -> dict[str, Any]:
        return assistants.told(assistant_id)

    @router.get("/assistants/{assistant_id}/graph", dependencies=[READ])
    async def graph(assistant_id: str) -> dict[str, Any]:
        assistants.told(assistant_id)
        edges = [{"source": source, "target": target} for source, target in EDGES]
        return {"nodes": [{"id": name, "type": "runnable", "data": {"name": name}} for name in NODES], "edges": edges}

    @router.get("/assistants/{assistant_id}/schemas", dependencies=[READ])
    async def schemas(assistant_id: str) -> dict[str, Any]:
        state = dict.fromkeys(("input_schema", "output_schema", "state_schema"), MESSAGES)
        name = assistants.told(assistant_id)["graph_id"]
        return {"graph_id": name, **state, "config_schema": None, "context_schema": None}

    @router.get("/assistants/{assistant_id}/subgraphs", dependencies=[READ])
    @router.get("/assistants/{assistant_id}/subgraphs/{namespace}", dependencies=[READ], include_in_schema=False)
    async def subgraphs(assistant_id: str) -> dict[str, Any]:
        """Always empty: subagents are tools of the agent."""
        assistants.told(assistant_id)
        return {}

    @router.post("/assistants/{assistant_id}/versions", dependencies=[READ], response_model=list[AssistantTold])
    async def versions(assistant_id: str) -> JSONResponse:
        """The current version, which is the only one."""
        return JSONResponse([assistants.told(assistant_id)])

    return router
