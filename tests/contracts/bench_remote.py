"""The benches of the provider `remote`: client and reference server over loopback, with providers behind it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pydantic import SecretStr

from sandbox.config import RemoteSettings
from sandbox.remote.provider import RemoteProvider
from sandbox.remote.server.__main__ import Service
from sandbox.remote.server.config import ListenSettings, ServerSettings
from tests.contracts.bench_bubblewrap import BUBBLEWRAP
from tests.contracts.sandbox_bench import SETTINGS, Ability, SandboxBench
from tests.simulators.sandbox.provider import USE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.base import Report, Sandbox
    from sandbox.files.skills import SkillsOf

TOKEN = SecretStr("a-token-of-the-tests")
LACKS = {Ability.HOST_FOLDERS: "its files are on another machine"}


class Served:
    """SandboxProvider port: the client, with a server of its own that starts and stops with it."""

    def __init__(self, folder_of: Callable[[str], Path], skills: SkillsOf, behind: str) -> None:
        self.service = Service(
            ServerSettings(
                token=TOKEN,
                data_dir=folder_of("server").parent,
                instance=f"contract-{uuid.uuid4().hex[:8]}",
                listen=ListenSettings(port=0),
                sandbox=SETTINGS.model_copy(update={"use": behind}),
            )
        )
        self._skills = skills
        self._client: RemoteProvider | None = None

    async def start(self) -> Report:
        await self.service.start()
        remote = RemoteSettings(url=f"http://{self.service.address}", token=TOKEN)
        settings = SETTINGS.model_copy(update={"use": "remote", "remote": remote})
        self._client = RemoteProvider(settings, skills=self._skills)
        return await self._client.start()

    @property
    def client(self) -> RemoteProvider:
        assert self._client is not None
        return self._client

    async def acquire(self, thread_id: str) -> Sandbox:
        return await self.client.acquire(thread_id)

    def get(self, thread_id: str) -> Sandbox | None:
        return self.client.get(thread_id)

    async def release(self, thread_id: str) -> None:
        await self.client.release(thread_id)

    async def forget(self, thread_id: str) -> None:
        await self.client.forget(thread_id)

    async def shutdown(self) -> None:
        await self.client.shutdown()
        await self.service.stop()


REMOTE_MEMORY = SandboxBench(
    lambda folder_of, skills: Served(folder_of, skills, USE),
    lacks={**LACKS, Ability.SHELL: "its commands are interpreted"},
)
REMOTE_BUBBLEWRAP = SandboxBench(
    lambda folder_of, skills: Served(folder_of, skills, "bubblewrap"), lacks=LACKS, missing=BUBBLEWRAP.missing
)
