"""/healthz and /readyz for supervisors and load balancers: whether all is well, and nothing else of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from bot.http.errors import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable


def health_router(ready: Callable[[], bool], otherwise: str = "not ready") -> APIRouter:
    """The health routes. healthz: the process answers, so no restart would help. readyz: messages are answered now.

    otherwise: what readyz says where they are not.
    """
    router = APIRouter()

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", response_class=PlainTextResponse)
    async def healthz() -> str:
        return "ok\n"

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", response_class=PlainTextResponse, responses={503: {"description": "Not ready", **PLAIN}})
    async def readyz() -> PlainTextResponse:
        well = ready()
        return PlainTextResponse("ok\n" if well else f"{otherwise}\n", 200 if well else 503)

    return router
