"""The tests' view of a running model simulator: register scripts, release pauses, wait for requests."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Self

import httpx

from tests.simulators.model import keeper
from tests.simulators.model.records import CHANGES, Record
from tests.simulators.model.scripts import STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from tests.simulators.model.scripts import Step
    from tests.simulators.model.server import Match

API_KEY = "sk-simulator"


def take_malformed(port: int) -> list[str]:
    """The malformed requests found by the strict provider since the last call; a reset does not clear them."""
    with httpx.Client(trust_env=False, timeout=40.0) as http:
        answer = http.post(f"http://127.0.0.1:{port}/control/malformed").raise_for_status()
    problems: list[str] = answer.json()["problems"]
    return problems


class ModelSimulator:
    """A client; use with `async with`. ca_file: the authority of the simulator's certificate, None for plain HTTP."""

    def __init__(self, port: int, ca_file: Path | None = None) -> None:
        scheme = "http" if ca_file is None else "https"
        self._origin = f"{scheme}://127.0.0.1:{port}"
        verify = ssl.create_default_context(cafile=ca_file) if ca_file else False
        self._http = httpx.AsyncClient(base_url=self._origin, trust_env=False, verify=verify, timeout=40.0)
        self._records: dict[int, Record] = {}
        self._version = 0

    @property
    def base_url(self) -> str:
        """The value for `models[].base_url`."""
        return f"{self._origin}/v1"

    def vendor_url(self, vendor: str) -> str:
        """The same for a vendor's own API: anthropic, gemini, deepseek, ollama."""
        return f"{self._origin}/{vendor}"

    @property
    def api_key(self) -> str:
        """A key that the simulator accepts."""
        return API_KEY

    async def requests(self) -> list[Record]:
        """All requests since the start or the last reset, in the order of their arrival."""
        await self._update(wait=0.0)
        return sorted(self._records.values(), key=lambda record: record.id)

    async def completions(self) -> list[Record]:
        """The requests for an answer, without those that list models or update memories."""
        return [record for record in await self._asked() if not keeper.is_update(record.last_user_text)]

    async def updates(self) -> list[Record]:
        """The requests that update memories, outside the conversations."""
        return [record for record in await self._asked() if keeper.is_update(record.last_user_text)]

    async def _asked(self) -> list[Record]:
        return [record for record in await self.requests() if record.method == "POST"]

    async def wait_for_request(self, predicate: Callable[[Record], bool], timeout: float = 40.0) -> Record:
        """Wait for the first matching request. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            await self._update(wait=0.0)  # the known records may be outdated
            while True:
                found = next((r for _, r in sorted(self._records.items()) if predicate(r)), None)
                if found is not None:
                    return found
                await self._update(wait=timeout)

    async def wait_for_pause(self, name: str, timeout: float = 40.0) -> Record:
        """The request that waits at `!pause NAME`."""
        return await self.wait_for_request(lambda record: record.paused_at == name, timeout)

    async def script(self, last_user_text: str, steps: Sequence[Step], match: Match = "exact") -> None:
        """Answer requests whose last user message is (or contains) this text with these steps."""
        dumped: list[Any] = STEPS.dump_python(tuple(steps), mode="json")
        await self._post("/control/scripts", {"match": match, "text": last_user_text, "steps": dumped})

    async def release(self, name: str) -> None:
        """Continue the answers that wait at this pause, now and in the future."""
        await self._post("/control/release", {"name": name})

    async def reset(self) -> None:
        """Forget scripts, counts, releases and records; paused answers continue."""
        await self._post("/control/reset", {})
        self._records.clear()

    async def keep_lean(self, lean: bool = True) -> None:
        """Drop the bodies of ended requests, so that hours of traffic fit into memory."""
        await self._post("/control/lean", {"lean": lean})

    async def open_connections(self) -> int:
        """Number of open connections over which answers were requested, of all clients together."""
        return int((await self._http.get("/control/connections")).raise_for_status().json()["open"])

    async def _update(self, wait: float) -> None:
        response = await self._http.get("/control/records", params={"after": self._version, "wait": wait})
        response.raise_for_status()
        changes = CHANGES.validate_json(response.content)
        self._version = changes.version
        self._records.update({record.id: record for record in changes.records})

    async def _post(self, path: str, body: dict[str, Any]) -> None:
        (await self._http.post(path, json=body)).raise_for_status()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.aclose()
