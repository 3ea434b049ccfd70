"""The daemon ends while a sandbox is in use, and comes back."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest

from sandbox.base import FileText, SandboxError

if TYPE_CHECKING:
    from tests.sandbox.docker.conftest import Gateway

LONG = 60.0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_a_command_fails_and_the_next_one_works(gateway: Gateway, how: signal.Signals) -> None:
    daemon = gateway.daemon
    provider = await gateway.start()
    sandbox = await provider.acquire("thread")
    begun = asyncio.Event()
    running = asyncio.create_task(
        sandbox.execute_command("echo begun; sleep 600", timeout=900, on_output=lambda _: begun.set())
    )
    await asyncio.wait_for(begun.wait(), LONG)
    try:
        await asyncio.to_thread(daemon.stop, how)
        with pytest.raises(SandboxError):
            await asyncio.wait_for(running, LONG)
        with pytest.raises(SandboxError):
            await sandbox.execute_command("true", timeout=LONG)
        await sandbox.write_file("kept", "kept\n")
        assert isinstance(await sandbox.read_file("kept"), FileText)
    finally:
        daemon.start()
    again = await provider.acquire("thread")
    assert (await again.execute_command("cat kept", timeout=LONG)).output == "kept\n"
    assert len(gateway.containers()) == 1
