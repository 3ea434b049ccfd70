"""A session with a server, based on the SDK's: calls can be withdrawn, and the end is signalled.

The only module that depends on the SDK session's internals (mcp 1.30). The SDK leaves an abandoned request running on
the server, does not report that the connection has ended, and lists a server's tools before it accepts a result.
"""

from __future__ import annotations

import asyncio
import logging
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import anyio
from mcp import ClientSession, types

from harness.mcp.definitions import Offer

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]

MOST_PAGES, MOST_OFFERS = 50, 1000
"""Limits of a tool list."""


class Session(ClientSession):
    """on_changed: called when the server's tools have changed. Sampling, elicitation and roots are refused."""

    def __init__(self, streams: Streams, on_changed: Callable[[], None]) -> None:
        super().__init__(
            *streams,
            message_handler=self._heard,
            client_info=types.Implementation(name="antler", version=version("antler")),
        )
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_changed = on_changed
        self._withdrawing: set[asyncio.Task[None]] = set()

    async def _receive_loop(self) -> None:
        try:
            await super()._receive_loop()
        finally:
            self.end()

    def end(self) -> None:
        """Signal the end to all callers that wait for an answer."""
        if not self.ended.done():
            self.ended.set_result(None)
        for task in self._withdrawing:
            task.cancel()

    async def _heard(self, message: Any) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            self._on_changed()

    async def offers(self) -> list[Offer]:
        """All pages of the server's tool list; of an endless one the first MOST_OFFERS."""
        capabilities = self.get_server_capabilities()
        if capabilities is None or capabilities.tools is None:
            return []
        found: list[Offer] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            found += [_offer(tool) for tool in page.tools]
            cursor = page.nextCursor
            if not cursor or len(found) >= MOST_OFFERS:
                break
        return found[:MOST_OFFERS]

    async def call(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """Call a tool; on cancellation the server is notified, so that it can stop."""
        request_id = self._request_id
        params = types.CallToolRequestParams(name=tool, arguments=arguments)
        try:
            return await self.send_request(
                types.ClientRequest(types.CallToolRequest(params=params)), types.CallToolResult
            )
        except asyncio.CancelledError:
            self._withdraw(request_id)
            raise

    def _withdraw(self, request_id: int) -> None:
        if self.ended.done():
            return
        task = asyncio.get_running_loop().create_task(self._tell_withdrawn(request_id), name="mcp withdraw")
        self._withdrawing.add(task)
        task.add_done_callback(self._withdrawing.discard)

    async def _tell_withdrawn(self, request_id: int) -> None:
        params = types.CancelledNotificationParams(requestId=request_id, reason="no longer wanted")
        try:
            await self.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the connection has ended in the meantime


def _offer(tool: types.Tool) -> Offer:
    hints = tool.annotations or types.ToolAnnotations()
    return Offer(
        name=tool.name,
        description=tool.description or hints.title or tool.title or "",
        schema=tool.inputSchema,
        read_only=hints.readOnlyHint,
        idempotent=hints.idempotentHint,
    )


def silence_sdk_log() -> None:
    """Drop the SDK's own log lines: they quote servers at any length, and URLs with their keys."""
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    root = logging.getLogger()
    if _is_not_the_sdks not in root.filters:
        root.addFilter(_is_not_the_sdks)  # a logger's filter sees only records logged to that very logger


def _is_not_the_sdks(record: logging.LogRecord) -> bool:
    return "/mcp/" not in record.pathname or "site-packages" not in record.pathname
