"""A provider on a daemon of the tests' own."""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.config import DockerSettings, SandboxSettings
from sandbox.docker.plan import INSTANCE
from sandbox.docker.provider import DockerProvider
from sandbox.files.workspace import Workspaces
from tests.sandbox.docker.daemon import IMAGE, Daemon, the_daemon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from sandbox.base import Report


@pytest.fixture(scope="session")
def daemon() -> Daemon:
    return the_daemon()


@pytest.fixture
def mark() -> str:
    """An argument that only this test's processes have."""
    return f"600.{uuid.uuid4().int % 10**9}"


@pytest.fixture
def data() -> Iterator[Path]:
    """A gateway's data folder."""
    folder = Path(tempfile.mkdtemp(prefix="antler-data-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@dataclass
class Gateway:
    """Makes providers as one gateway would, before and after its restarts, and looks at its containers."""

    daemon: Daemon
    data: Path
    instance: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    providers: list[DockerProvider] = field(default_factory=list)
    report: Report | None = None
    runtime: Path | None = None
    skills: dict[str, Path] = field(default_factory=dict)

    def folder(self, thread_id: str) -> Path:
        return self.data / "threads" / thread_id / "user-data"

    def make(
        self, settings: dict[str, Any] | None = None, now: Callable[[], float] = time.monotonic, **docker: Any
    ) -> DockerProvider:
        """A provider that has not been started. settings: of the sandbox. docker: of the section docker."""
        common = SandboxSettings.model_validate({"limits": {"free_disk_mb": 1}} | (settings or {}))
        own = DockerSettings.model_validate({"image": IMAGE, "host": self.daemon.host} | docker)
        workspaces = Workspaces(self.folder, common, skills=lambda _: self.skills)
        provider = DockerProvider(common, own, workspaces, instance=self.instance, runtime=self.runtime, now=now)
        self.providers.append(provider)
        return provider

    async def start(
        self, settings: dict[str, Any] | None = None, now: Callable[[], float] = time.monotonic, **docker: Any
    ) -> DockerProvider:
        provider = self.make(settings, now, **docker)
        self.report = await provider.start()
        return provider

    def containers(self) -> dict[str, str]:
        """The gateway's containers: id by name."""
        return self.daemon.containers(lambda labels: labels.get(INSTANCE) == self.instance)

    def inspect(self) -> dict[str, Any]:
        """Its only container, as the daemon describes it."""
        (container,) = self.containers().values()
        with self.daemon.client() as client:
            found: dict[str, Any] = client.get(f"/containers/{container}/json").raise_for_status().json()
        return found

    def processes(self, mark: str) -> list[str]:
        """The ids of those in its only container that have the mark among their arguments."""
        (container,) = self.containers().values()
        with self.daemon.client() as client:
            found = client.get(f"/containers/{container}/top").raise_for_status().json()
        pid, command = found["Titles"].index("PID"), found["Titles"].index("CMD")
        return [each[pid] for each in found["Processes"] if mark in each[command].split()]

    def leave_running(self, user: str, *command: str) -> None:
        """Start a program in its only container that no gateway looks after, as one that was killed leaves it."""
        (container,) = self.containers().values()
        with self.daemon.client() as client:
            asked = client.post(f"/containers/{container}/exec", json={"Cmd": command, "User": user})
            started = asked.raise_for_status().json()["Id"]
            client.post(f"/exec/{started}/start", json={"Detach": True}).raise_for_status()


@pytest.fixture
async def gateway(daemon: Daemon, data: Path) -> AsyncIterator[Gateway]:
    made = Gateway(daemon, data)
    yield made
    for provider in made.providers:
        await provider.shutdown()
