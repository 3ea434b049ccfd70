"""The benches of the provider `remote`: client and reference server over loopback, with providers behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import SecretStr

from sandbox.memory.provider import MemoryProvider
from sandbox.remote.config import RemoteSettings
from sandbox.remote.provider import RemoteProvider
from sandbox.remote.server.config import ListenSettings, ServerSettings
from sandbox.remote.server.service import Service
from tests.contracts.bench_bubblewrap import BUBBLEWRAP
from tests.contracts.sandbox_bench import SETTINGS, Ability, SandboxBench

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.base import Report, Sandbox, SandboxProvider

TOKEN = SecretStr("a-token-of-the-tests")
LACKS = {Ability.HOST_FOLDERS: "its files are on another machine"}


class Served:
    """SandboxProvider port: the client, with a server of its own that starts and stops with it."""

    def __init__(
        self, folder_of: Callable[[str], Path], make: Callable[[Callable[[str], Path]], SandboxProvider]
    ) -> None:
        settings = ServerSettings(
            token=TOKEN, data_dir=folder_of("server").parent, listen=ListenSettings(port=0), sandbox=SETTINGS
        )
        self.service = Service(settings, make(lambda sandbox: settings.data_dir / "sandboxes" / sandbox / "user-data"))
        self._client: RemoteProvider | None = None

    async def start(self) -> Report:
        await self.service.start()
        remote = RemoteSettings(url=f"http://{self.service.address}", token=TOKEN)
        self._client = RemoteProvider(SETTINGS.model_copy(update={"use": "remote", "remote": remote}))
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
    lambda folder_of: Served(folder_of, lambda _: MemoryProvider(SETTINGS)),
    lacks={**LACKS, Ability.SHELL: "its commands are interpreted"},
)
REMOTE_BUBBLEWRAP = SandboxBench(
    lambda folder_of: Served(folder_of, BUBBLEWRAP.make), lacks=LACKS, missing=BUBBLEWRAP.missing
)
