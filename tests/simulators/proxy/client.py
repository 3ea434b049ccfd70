"""The tests' view of a running proxy simulator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

import httpx

from tests.simulators.proxy.server import CONNECTS, Connect

if TYPE_CHECKING:
    from types import TracebackType


class ProxySimulator:
    """A client of the proxy simulator. Use with `async with`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._http = httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=40.0)

    async def route(self, target: str, port: int) -> None:
        """Send CONNECTs for "host:port" to this loopback port."""
        (await self._http.put("/control/map", json={target: port})).raise_for_status()

    async def connects(self, at_least: int = 0, timeout: float = 40.0) -> list[Connect]:
        """All requests to the proxy, once there are `at_least` that many. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while len(records := await self._after(0, 0.0)) < at_least:
                await self._after(len(records), timeout)
        return records

    async def cut(self) -> None:
        """Abort all open tunnels, like a failing network."""
        (await self._http.post("/control/cut")).raise_for_status()

    async def _after(self, count: int, wait: float) -> list[Connect]:
        response = await self._http.get("/control/records", params={"after": count, "wait": wait})
        response.raise_for_status()
        return CONNECTS.validate_json(response.content)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.aclose()
