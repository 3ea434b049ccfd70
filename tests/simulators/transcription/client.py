"""The test client of the transcription simulator: a service with its own key, and the requests it received."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.simulators.client import SimulatorClient, control_connection
from tests.simulators.process import SimulatorProcess
from tests.simulators.seen import SeenCall
from tests.simulators.transcription.faults import TRANSCRIBE, Fault

MODULE = "tests.simulators.transcription"


@dataclass(frozen=True, kw_only=True)
class Asked(SeenCall):
    """A request; server.Record documents the fields."""

    client: str

    @property
    def words(self) -> str | None:
        """The transcribed text, None until it is answered."""
        words = self.params.get("words")
        return None if words is None else str(words)


@asynccontextmanager
async def connect(process: SimulatorProcess, ca_file: Path | None = None) -> AsyncIterator["TranscriptionSimulator"]:
    """A fresh client of a running simulator. ca_file: the authority that signed its certificate, if it has one."""
    scheme = "http" if ca_file is None else "https"
    async with control_connection(ca_file) as http:
        client = uuid.uuid4().hex[:12]
        yield TranscriptionSimulator(f"{scheme}://127.0.0.1:{process.port}", http, {"client": client}, Asked)


class TranscriptionSimulator(SimulatorClient[Asked]):
    """One customer of the service."""

    def owns(self, record: Asked) -> bool:
        return record.client == str(self._account["client"])

    @property
    def base_url(self) -> str:
        """The value for `transcription.base_url`."""
        return f"{self.root}/v1"

    @property
    def api_key(self) -> str:
        return f"sk-{self._account['client']}"

    @property
    def settings(self) -> dict[str, Any]:
        """The section of the config; the key is in the variable VOICE_KEY."""
        return {"model": "sim-voice", "base_url": self.base_url, "api_key": "$VOICE_KEY"}

    async def fail(self, fault: Fault, *, times: int = 1, skip: int = 0) -> None:
        """Apply this fault to the next `times` requests, after `skip` requests."""
        await self._ask("faults", method=TRANSCRIBE, fault=fault.to_json(), times=times, skip=skip)

    async def asked(self) -> list[Asked]:
        """All requests so far, in order of arrival."""
        return await self._all_records()
