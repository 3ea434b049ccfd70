"""/healthz and /readyz for supervisors and load balancers: they tell well or not, and nothing else of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

if TYPE_CHECKING:
    from collections.abc import Callable


def health_router(ready: Callable[[], bool]) -> APIRouter:
    """healthz: the process answers at all, so that no restart would help. readyz: what people write is answered now."""
    router = APIRouter()

    @router.api_route("/healthz", methods=["GET", "HEAD"], response_class=PlainTextResponse)
    async def healthz() -> str:
        return "ok\n"

    @router.api_route("/readyz", methods=["GET", "HEAD"])
    async def readyz() -> PlainTextResponse:
        well = ready()
        return PlainTextResponse("ok\n" if well else "not ready\n", 200 if well else 503)

    return router
