"""The test client of the simulator of pictures and speech: a service with its own key, and the requests it received."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.simulators.client import SimulatorClient, control_connection
from tests.simulators.process import SimulatorProcess
from tests.simulators.seen import SeenCall
from tests.simulators.transcription.faults import Fault

MODULE = "tests.simulators.media"
GENERATE, EDIT, SPEECH = "generations", "edits", "speech"


@dataclass(frozen=True, kw_only=True)
class Asked(SeenCall):
    """A request; server.Record documents the fields."""

    client: str


@asynccontextmanager
async def connect(process: SimulatorProcess) -> AsyncIterator["MediaSimulator"]:
    """A fresh client of a running simulator."""
    async with control_connection(None) as http:
        yield MediaSimulator(f"http://127.0.0.1:{process.port}", http, {"client": uuid.uuid4().hex[:12]}, Asked)


class MediaSimulator(SimulatorClient[Asked]):
    """One customer of the service."""

    def owns(self, record: Asked) -> bool:
        return record.client == str(self._account["client"])

    @property
    def base_url(self) -> str:
        """The value for `images.base_url` and `speech.base_url`."""
        return f"{self.root}/v1"

    @property
    def api_key(self) -> str:
        return f"sk-{self._account['client']}"

    @property
    def images(self) -> dict[str, Any]:
        """The section of the config; the key is in the variable MEDIA_KEY."""
        return {"model": "sim-image", "base_url": self.base_url, "api_key": "$MEDIA_KEY", "price": {"picture": 0.04}}

    @property
    def speech(self) -> dict[str, Any]:
        """The section for speech, as `images`."""
        return {"model": "sim-tts", "base_url": self.base_url, "api_key": "$MEDIA_KEY", "price": {"characters": 15}}

    async def fail(self, method: str, fault: Fault, *, times: int = 1, skip: int = 0) -> None:
        """Apply this fault to the next `times` requests of this method, after `skip` of them."""
        await self._ask("faults", method=method, fault=fault.to_json(), times=times, skip=skip)

    async def asked(self, method: str = "") -> list[Asked]:
        """All requests so far, or those of one method, in order of arrival."""
        return [record for record in await self._all_records() if not method or record.method == method]
