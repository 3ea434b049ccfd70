"""The agent is built while channels run: whoever came earlier gets it, or hears why there is none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bot.files.sandboxes import Sandboxes
from bot.process.agent import Agent
from bot.store import Store
from bot.store.retrying import RetryingStore
from bot.store.run_events import StoreEffectLog, StoreRunLedger
from harness.agents.parts import Parts
from harness.errors import ModelSetupError, SetupError
from harness.mcp.pool import McpPool
from sandbox.config import SandboxSettings
from tests.bot.settings_files import settings_of
from tests.clock import VirtualClock
from tests.simulators.sandbox.provider import USE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.settings import Settings

CONSOLE = "channels: {console: {}}\n"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[RetryingStore]:
    clock = VirtualClock()
    opened = await Store.open(f"sqlite:///{tmp_path}/antler.db", clock=clock)
    yield RetryingStore(opened, clock)
    await opened.close()


def configured(folder: Path, models: str = "") -> Settings:
    settings = settings_of(folder, CONSOLE + models)
    return settings.model_copy(update={"data_dir": folder})


def agent_of(settings: Settings, store: RetryingStore) -> Agent:
    sandboxes = Sandboxes(SandboxSettings(use=USE), settings.data_dir)

    def servers(settings: Settings) -> McpPool:
        return McpPool({}, folder=settings.data_dir, route=settings.network_route, clock=store.clock)

    def parts(settings: Settings) -> Parts:
        effects, ledger = StoreEffectLog(store), StoreRunLedger(store)
        return Parts(
            models=settings.models, effects=effects, ledger=ledger, clock=store.clock, route=settings.model_route
        )

    return Agent(settings, sandboxes, servers, parts)


async def test_who_came_earlier_gets_it(tmp_path: Path, store: RetryingStore) -> None:
    agent = agent_of(configured(tmp_path), store)
    early = asyncio.create_task(agent.harness())
    given_up = asyncio.create_task(agent.harness())
    await asyncio.sleep(0)
    given_up.cancel()  # a run that was stopped while it waited takes the agent from nobody
    assert await agent.build() is None
    assert await early is await agent.harness()
    assert (await (await early).head("t")).id is None
    await agent.close()


async def test_without_its_model_everybody_hears_why(tmp_path: Path, store: RetryingStore) -> None:
    models = "models: [{name: m, use: 'json:JSONDecoder', model: x}]\n"
    agent, why = agent_of(configured(tmp_path, models), store), "is not a LangChain chat model"
    early = asyncio.create_task(agent.harness())
    error = await agent.build()
    assert isinstance(error, ModelSetupError)
    assert why in str(error)
    with pytest.raises(ModelSetupError, match=why):
        await early
    await agent.close()


async def test_a_damaged_file_is_named(tmp_path: Path, store: RetryingStore) -> None:
    settings = configured(tmp_path)
    file = tmp_path / "checkpoints.db"
    file.write_bytes(b"nonsense" * 1000)
    agent = agent_of(settings, store)
    error = await agent.build()
    assert isinstance(error, SetupError)
    assert str(error) == f"{file} is damaged (file is not a database): restore a backup, or move the file away"
    await agent.close()


async def test_whatever_keeps_it_from_being_built_is_heard_too(tmp_path: Path, store: RetryingStore) -> None:
    settings = configured(tmp_path)
    (tmp_path / "checkpoints.db").mkdir()
    agent = agent_of(settings, store)
    early = asyncio.create_task(agent.harness())
    assert str(await agent.build()) == "the agent cannot be built"
    with pytest.raises(OSError, match="directory"):
        await early
    await agent.close()
