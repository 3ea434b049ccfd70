"""The routers of the API for programs, with shared threads and runs, and the description of all routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request

from bot.http.api.langgraph import langgraph_router
from bot.http.api.openai import openai_router
from bot.http.api.responses import responses_router
from bot.http.api.runs import Runs
from bot.http.api.threads import Threads
from bot.http.auth import SignedIn  # noqa: TC001  FastAPI reads the annotation

if TYPE_CHECKING:
    from bot.http.parts import HttpParts


def api_routers(parts: HttpParts) -> list[APIRouter]:
    """LangGraph's protocol, OpenAI's, and /api/docs."""
    threads = Threads(parts)
    runs = Runs(parts, threads)
    parts.gatekeeper.upkeep["api threads"] = threads.tidy
    return [
        langgraph_router(parts, threads, runs),
        openai_router(parts, threads, runs),
        responses_router(parts, threads, runs),
        _docs(),
    ]


def _docs() -> APIRouter:
    router = APIRouter()

    @router.get("/api/docs", include_in_schema=False)
    async def docs(caller: SignedIn, request: Request) -> dict[str, Any]:
        """OpenAPI's description as JSON; a page to display it would need scripts from other servers."""
        described: dict[str, Any] = request.app.openapi()
        return described

    return router
