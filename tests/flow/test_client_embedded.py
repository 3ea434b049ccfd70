"""A gateway inside another program: it holds its folder, leaves the program's own things alone, and ends tidily."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from typing import TYPE_CHECKING

import pytest

from antler.client import EmbeddedClient, NotFound, NotStarted
from bot.control.lock import DataDirLock
from bot.control.server import SOCKET
from tests.flow.client_world import WHOLE, written

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flow.gateway import World

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def config(public_world: World, tmp_path: Path) -> Path:
    return written(public_world, tmp_path / "own")


async def test_one_gateway_holds_a_folder_and_leaves_it_tidy(config: Path) -> None:
    folder = config.parent / "data"
    handlers = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    frozen = gc.get_freeze_count()
    async with EmbeddedClient(config) as client:
        assert (await client.ask("!say First.")).text == "First."
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == handlers
        with pytest.raises(NotStarted, match=rf"is in use by process {os.getpid()}"):
            async with EmbeddedClient(config):
                pass
        assert (await client.ask("!say Still.")).text == "Still."
    with DataDirLock(folder):
        assert not (folder / SOCKET).exists()
    assert gc.isenabled()
    assert gc.get_freeze_count() <= frozen
    left = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith(("gateway:", "embedded "))]
    assert left == []


async def test_what_works_at_the_end_goes_on_with_the_next_gateway(config: Path, public_world: World) -> None:
    async with EmbeddedClient(config, name="nightly") as client:
        run = await client.start("!pause client-put-aside")
        await public_world.model.wait_for_pause("client-put-aside")
    async with EmbeddedClient(config, name="nightly") as client:
        await public_world.model.release("client-put-aside")
        assert (await client.wait(run.thread_id, run.run_id)).text == WHOLE
        assert [message.role for message in await client.history(run.thread_id)] == ["user", "assistant"]
    async with EmbeddedClient(config, name="another") as client:
        with pytest.raises(NotFound):
            await client.history(run.thread_id)


@pytest.fixture
def broken(config: Path) -> Path:
    config.write_text(config.read_text().replace("shutdown_grace_seconds: 8", "shutdown_grace_seconds: soon"))
    return config


async def test_a_gateway_that_cannot_start_says_what_to_change(broken: Path) -> None:
    with pytest.raises(NotStarted, match="shutdown_grace_seconds"):
        async with EmbeddedClient(broken):
            pass
    with pytest.raises(NotStarted, match="lower-case letters"):
        async with EmbeddedClient(name="Nightly Report"):
            pass


async def test_the_programs_log_gets_no_secrets(
    config: Path, public_world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with EmbeddedClient(config):
        logging.getLogger("bot.http").warning("asked with %s", public_world.model.api_key)
    assert "asked with [redacted]" in caplog.text
    assert public_world.model.api_key not in caplog.text
    assert logging.getLogger("bot").propagate
