"""Taking over a changed config in one process: all of it or nothing, and what nothing uses any more is given back."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from bot.clock import SystemClock
from bot.operations.reload import Change, Outcome, Reloader, change
from bot.process.wiring import Wiring
from bot.redaction import Redactor
from bot.settings import Settings
from bot.settings.load import SettingsSource
from bot.store import Store
from harness.context import RunContext, RunInput, Speaker
from harness.mcp.pool import McpPool
from tests.simulators.sandbox.provider import USE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from harness.agents.parts import Parts

SERVER = {"command": "true", "enabled": False}


def settings(folder: Path, **more: Any) -> Settings:
    values: dict[str, Any] = {"data_dir": folder, "channels": {"console": {}}, "sandbox": {"use": USE}}
    return Settings.model_validate(values | {"skill_evolution": {"enabled": True}} | more)


def _ignore(*_: object) -> None:
    """Nothing of that happens here."""


@asynccontextmanager
async def built(folder: Path) -> AsyncIterator[Wiring]:
    """A gateway's parts with the agent built, serving nothing."""
    clock, first = SystemClock(), settings(folder)
    store = await Store.open(first.database_url, clock=clock)
    parts = Wiring(first, store, clock, Redactor(()), source=None, on_dead_letter=_ignore)
    try:
        assert await parts.agent.build() is None
        yield parts
    finally:
        await parts.agent.close()
        await parts.sandboxes.shutdown(1)
        await store.close()


async def adopt(parts: Wiring, new: Settings) -> Outcome:
    return await parts.adoption.adopt(change(parts.adoption.settings, new))


def said() -> tuple[RunContext, RunInput]:
    ctx = RunContext(
        thread_id="t",
        run_id="r",
        conversation="console:1",
        owner="console:1",
        account="console",
        speaker=Speaker(id="console:1", display_name="Ann"),
        locale="en",
        is_group=False,
        model="demo",
    )
    return ctx, RunInput(message_id="m", text="hello")


async def test_servers_are_closed_with_the_last_run_that_has_them(tmp_path: Path) -> None:
    async with built(tmp_path) as parts:
        agent, closed = parts.agent, asyncio.Event()
        servers, close = agent.servers, agent.servers.close

        async def closing() -> None:
            closed.set()
            await close()

        setattr(servers, "close", closing)  # noqa: B010
        events = (await agent.harness()).run(*said())
        await anext(events)
        more: dict[str, Any] = {"loop": {"warn": 4}}
        assert (await adopt(parts, settings(tmp_path, **more))).applied == ("loop",)
        more["mcp_servers"] = {"a": SERVER}
        assert (await adopt(parts, settings(tmp_path, **more))).applied == ("mcp_servers",)
        for _ in range(50):
            await asyncio.sleep(0)
        assert not closed.is_set()
        await events.aclose()
        await asyncio.wait_for(closed.wait(), 20)


async def test_what_cannot_be_made_leaves_all_as_it_was(tmp_path: Path) -> None:
    async with built(tmp_path) as parts:
        agent, before, servers = parts.agent, await parts.agent.harness(), parts.agent.servers
        wrong = {"mcp_servers": {"a": SERVER}, "budgets": {"run": {"tokens": 5}}}
        bad = BadServers({}, folder=tmp_path, route=lambda url: (None, None), clock=SystemClock())
        made, agent.make_servers = agent.make_servers, lambda _: bad
        with pytest.raises(RuntimeError):
            await adopt(parts, settings(tmp_path, **wrong))
        assert bad.closed
        agent.make_servers = made
        outcome = await adopt(parts, settings(tmp_path, tools=[{"use": "json:nothing"}], **wrong))
        assert "json has no nothing" in outcome.problems[0]
        assert (await agent.harness(), agent.servers) == (before, servers)
        assert parts.spending.budgets.none
        assert parts.adoption.settings == settings(tmp_path)


class BadServers(McpPool):
    closed = False

    def start(self) -> None:
        raise RuntimeError("nobody expects this")

    async def close(self) -> None:
        self.closed = True


async def test_skills_that_the_agent_may_write_are_those_of_now(tmp_path: Path) -> None:
    async with built(tmp_path) as parts:
        before = await parts.agent.harness()
        await adopt(parts, settings(tmp_path, skills={"enabled": False}))
        assert await parts.agent.harness() is not before


async def test_every_part_goes_by_the_settings_of_now(tmp_path: Path) -> None:
    async with built(tmp_path) as parts:
        await parts.open()
        former = parts.hearing._now
        more: dict[str, Any] = {
            "memory": {"debounce_seconds": 5, "max_facts": 7, "groups": False},
            "schedules": {"max_per_person": 3},
            "timezone": "Asia/Tokyo",
            "uploads": {"max_file_mb": 1, "convert": False},
            "data": {"keep_threads_days": 9},
            "transcription": {"model": "whisper"},
            "network": {"proxy": "http://127.0.0.1:3128"},
            "locale": "zh",
            "shutdown_grace_seconds": 3,
        }
        made, agents_parts = [], parts.agent._parts

        def make(settings: Settings) -> Parts:
            made.append(agents_parts(settings))
            return made[-1]

        parts.agent._parts = make
        outcome = await adopt(parts, settings(tmp_path, **more))
        assert set(outcome.applied) == set(more)
        assert made[0].remembering is not None
        assert made[0].remembering.settings.max_facts == 7
        assert outcome.complete
        assert (parts.memory.book.settings.max_facts, parts.memory.service.quiet) == (7, 5)
        assert not parts.memory.book.covers(is_group=True)
        assert parts.schedules.limits.max_per_person == 3
        assert parts.spending.days.zone == "Asia/Tokyo"
        assert (parts.uploads.limits.file, parts.converter.wanted) == (1_000_000, False)
        assert parts.retention.days == 9
        assert parts.hearing.works
        assert parts.hearing._now is not former
        assert parts.connections.policies["console"].locale == "zh"
        assert parts.settings.shutdown_grace_seconds == 3
        assert parts.settings.network_route("https://example.org")[0] == "http://127.0.0.1:3128"


class Steps(SystemClock):
    """Sleepers wait for the test."""

    def __init__(self) -> None:
        self._asleep: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def sleep(self, seconds: float) -> None:
        wake = asyncio.Event()
        self._asleep.put_nowait(wake)
        await wake.wait()

    async def step(self) -> None:
        """Wake who sleeps, until they sleep again."""
        async with asyncio.timeout(20):
            (await self._asleep.get()).set()
            self._asleep.put_nowait(await self._asleep.get())


class Watch:
    """A reloader on a file. fault: what adopting raises."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "config.yaml"
        self.write(10)
        self.source, self.clock = SettingsSource(self.file), Steps()
        self.settings = self.source.read()
        self.adopted: list[tuple[str, ...]] = []
        self.fault: Exception | None = None
        self.reloader = Reloader(self.source, lambda: self.settings, self._adopt, self.clock)

    def write(self, burst: int) -> None:
        """As an editor does that puts another file in its place."""
        new = self.file.with_suffix(".new")
        new.write_text(f"channels: {{console: {{}}}}\nlimits: {{message_burst: {burst}}}\n")
        new.rename(self.file)

    async def _adopt(self, found: Change) -> Outcome:
        self.adopted.append(found.applied)
        if self.fault is not None:
            raise self.fault
        self.settings = found.settings
        return Outcome(found.applied, found.restart)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.reloader.serve())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})


async def test_what_was_edited_before_anybody_watched_is_seen(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    watch.write(11)
    async with watch.serving():
        for _ in range(3):
            await watch.clock.step()
    assert watch.adopted == [("limits",)]


async def test_a_file_that_is_away_for_a_moment_changes_nothing(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    async with watch.serving():
        await watch.clock.step()
        watch.file.rename(tmp_path / "away")
        await watch.clock.step()
        (tmp_path / "away").rename(watch.file)
        for _ in range(3):
            await watch.clock.step()
    assert watch.adopted == []


async def test_a_reload_is_an_action_with_its_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch = Watch(tmp_path)
    caplog.set_level("INFO", "bot")
    async with watch.serving():
        watch.write(11)
        for _ in range(3):
            await watch.clock.step()
    watch.write(12)
    await watch.reloader.operation({})
    await watch.reloader.operation({})
    watch.file.write_text("channels: 1\n")
    await watch.reloader.operation({})
    found = [vars(record) for record in caplog.records if getattr(record, "action", "") == "reload"]
    assert [(each["event"], each["by"], each["state"], each["what"]) for each in found] == [
        ("admin_action", "the config's files", "applied", "limits"),
        ("admin_action", "antler on the machine", "applied", "limits"),
        ("admin_action", "antler on the machine", "unchanged", ""),
        ("admin_action", "antler on the machine", "refused", ""),
    ]


async def test_nothing_that_goes_wrong_ends_the_watch(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    watch.fault = RuntimeError("a bad class")
    async with watch.serving():
        watch.write(11)
        for _ in range(3):
            await watch.clock.step()
        assert watch.reloader.last.problems == ("unexpected error: RuntimeError; see the log",)
        watch.fault = None
        watch.write(12)
        for _ in range(3):
            await watch.clock.step()
    assert watch.settings.limits.message_burst == 12
