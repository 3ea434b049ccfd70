"""kill -9 of the gateway: its commands end, its containers are found again."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from tests.sandbox.docker.daemon import IMAGE
from tests.sandbox.processes import marked

if TYPE_CHECKING:
    from tests.sandbox.docker.conftest import Gateway

LONG = 60.0
ROOT = Path(__file__).resolve().parents[3]

GATEWAY = """
import asyncio, sys
from pathlib import Path
from sandbox.config import SandboxSettings
from sandbox.config import DockerSettings
from sandbox.docker.provider import DockerProvider
from sandbox.files.workspace import Workspaces

host, image, instance, data, command = sys.argv[1:]

async def main():
    settings = SandboxSettings.model_validate({"limits": {"free_disk_mb": 1}})
    workspaces = Workspaces(lambda thread: Path(data) / "threads" / thread / "user-data", settings)
    provider = DockerProvider(settings, DockerSettings(image=image, host=host), workspaces, instance=instance)
    await provider.start()
    sandbox = await provider.acquire("thread")
    await sandbox.execute_command(command, timeout=900, on_output=lambda text: print(text, flush=True))

asyncio.run(main())
"""


async def test_no_command_and_no_container_is_lost(gateway: Gateway) -> None:
    mark = f"600.{uuid.uuid4().int % 10**9}"
    command = f"setsid nohup sleep {mark} & sleep {mark} & echo begun; sleep {mark}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", GATEWAY, gateway.daemon.host, IMAGE, gateway.instance, str(gateway.data), command),
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=asyncio.subprocess.PIPE,
        cwd="/",
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"begun\n"
        # What runs in the background may be forked already and not yet the program that it becomes.
        async with asyncio.timeout(LONG):
            while not await asyncio.to_thread(marked, mark):
                pass
    finally:
        process.kill()
        await process.communicate()
    # The wrapper hears of it by the end of its input, before anybody looks for the container.
    async with asyncio.timeout(LONG):
        while await asyncio.to_thread(marked, mark):
            pass
    made = gateway.containers()
    assert len(made) == 1
    provider = await gateway.start()
    sandbox = await provider.acquire("thread")
    assert (await sandbox.execute_command("echo fine", timeout=LONG)).output == "fine\n"
    assert gateway.containers() == made
