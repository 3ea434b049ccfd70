"""Waiting for a server's answer, and putting into words why there is none; for connection.py."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import httpx
from mcp import McpError

from harness.mcp.errors import ServerFailed

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from harness.mcp.session import Session

T = TypeVar("T")


async def within(seconds: float, session: Session, work: Coroutine[Any, Any, T]) -> T:
    """The result of a request. Raises TimeoutError, ServerFailed when the session ends first, and what it raises."""
    task = asyncio.ensure_future(work)
    try:
        waited: set[asyncio.Future[Any]] = {task, session.ended}
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
    finally:
        task.cancel()
        await asyncio.wait({task})
    if session.ended.done():
        raise ServerFailed("the connection has ended")
    raise TimeoutError


def reason(error: BaseException) -> str:
    """Why a connection failed, for operators; never a URL, which may hold a key."""
    match error:
        case BaseExceptionGroup():
            inner = [each for each in error.exceptions if not isinstance(each, anyio.ClosedResourceError)]
            return reason(next((e for e in inner if _says(e)), inner[0] if inner else error.exceptions[0]))
        case ServerFailed():
            return str(error)
        case McpError():
            return error.error.message
        case httpx.HTTPStatusError():
            return f"it answers with status {error.response.status_code}"
        case httpx.HTTPError():
            return f"it cannot be reached ({type(error).__name__})"
        case TimeoutError():
            return "it does not answer"
        case OSError():
            return os.strerror(error.errno) if error.errno else type(error).__name__
        case RuntimeError():
            return str(error)
    return f"it does not speak MCP as it should ({type(error).__name__})"


def _says(error: BaseException) -> bool:
    return isinstance(error, BaseExceptionGroup | ServerFailed | McpError)
