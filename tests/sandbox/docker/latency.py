"""How long things take with containers, on a daemon of its own: `python -m tests.sandbox.docker.latency`, as root."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.config import DockerSettings, SandboxSettings
from sandbox.docker.provider import DockerProvider
from sandbox.files.workspace import Workspaces
from tests.sandbox.docker.daemon import IMAGE, Daemon

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine

    from sandbox.base import CommandResult, Sandbox

_COMMANDS = 60
_PAUSE_SECONDS = 0.3
"""Between commands of an agent there is at least a model's answer."""


async def _milliseconds(work: Awaitable[object]) -> float:
    started = time.perf_counter()
    await work
    return (time.perf_counter() - started) * 1000


def _trivial(sandbox: Sandbox) -> Coroutine[None, None, CommandResult]:
    return sandbox.execute_command("true", timeout=60)


def _show(name: str, times: list[float]) -> None:
    cuts = statistics.quantiles(times, n=20, method="inclusive")
    print(f"{name:32} p50 {cuts[9]:7.1f} ms  p95 {cuts[18]:7.1f} ms  of {len(times)}")


async def _measure(provider: DockerProvider) -> None:
    print(f"{'start, with probe':32} {await _milliseconds(provider.start()):.0f} ms")
    cold = [await _milliseconds(provider.acquire(f"t{number}")) for number in range(6)]
    _show("cold acquire", cold)
    sandbox = await provider.acquire("t0")
    for name, pause in (("true, one after the other", 0.0), ("true, with pauses", _PAUSE_SECONDS)):
        times = []
        for _ in range(_COMMANDS):
            await asyncio.sleep(pause)
            times.append(await _milliseconds(_trivial(sandbox)))
        _show(name, times)
    at_once = await _milliseconds(asyncio.gather(*(_trivial(sandbox) for _ in range(20))))
    print(f"{'20 at once in one container':32} {20_000 / at_once:.0f} commands/s")
    warm = []
    for number in range(6):
        await provider.release(f"t{number}")
        warm.append(await _milliseconds(provider.acquire(f"t{number}")))
    _show("warm acquire", warm)
    print(f"{'shutdown of 6 containers':32} {await _milliseconds(provider.shutdown()):.0f} ms")


def main() -> None:
    daemon = Daemon()
    try:
        daemon.start()
        daemon.load_image()
        with tempfile.TemporaryDirectory() as data:
            settings = SandboxSettings()
            workspaces = Workspaces(lambda thread: Path(data) / thread / "user-data", settings)
            docker = DockerSettings(image=IMAGE, host=daemon.host)
            asyncio.run(_measure(DockerProvider(settings, docker, workspaces, instance="latency")))
    finally:
        daemon.close()


if __name__ == "__main__":
    main()
