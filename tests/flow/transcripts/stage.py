"""One play: the real gateway, a simulated platform and a simulated model in one event loop of virtual time."""

from __future__ import annotations

import asyncio
import contextvars
import random
import shutil
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import yaml
from aiohttp import web

from bot.process.gateway import Gateway
from bot.redaction import Redactor
from bot.settings.load import load
from channels.console.link import link_pair
from tests.bot.core import FlakyStore
from tests.flow.gateway import merged
from tests.flow.platforms.base import Group
from tests.flow.transcripts.eyes import ANN, Sign
from tests.flow.transcripts.pages import written
from tests.flow.transcripts.virtual_loop import LoopClock, VirtualLoop, side, virtual_time
from tests.simulators.model.client import ModelSimulator
from tests.simulators.model.server import ModelServer
from tests.simulators.sandbox.provider import USE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from bot.settings import Settings
    from channels.console.link import TerminalLink
    from tests.flow.platforms.base import Person, Said
    from tests.flow.transcripts.eyes import Eye
    from tests.simulators.model.scripts import Step

CURTAIN = 1100.0
"""The loop's time at which the play begins, when everything is connected."""
SEED = 15
READING_SECONDS = 3.0
"""Until somebody who sees a button presses it."""


class PlayedGateway(Gateway):
    """The process's gateway without what only a process of its own can have: signals, a terminal, a forced end."""

    terminal: TerminalLink | None = None

    async def start(self) -> None:
        """All accounts receive, and there is an agent."""
        await self._start()
        await self._parts.agent.harness()

    def _attach_terminal(self) -> None:
        for channel in self._consoles:
            gateway_end, self.terminal = link_pair("session")
            channel.attach(gateway_end)

    async def _warm_up(self) -> None:
        why = await self._parts.agent.build()
        assert why is None, why

    async def end(self) -> None:
        """Close what holds something; nothing is told any more."""
        parts = self._parts
        parts.runs.suspend()
        await self._tasks.cancel()
        await parts.conversation_tasks.cancel()
        await parts.delivery.close(0)
        await parts.hearing.close()
        await parts.connections.close()
        await parts.agent.close()
        await parts.sandboxes.shutdown(1)


@dataclass
class Stage:
    """What a scenario acts with. settings: merged over the usual ones."""

    eye: Eye
    loop: VirtualLoop
    folder: Path
    settings: Mapping[str, Any]
    model: ModelSimulator = field(init=False)
    gateway: PlayedGateway = field(init=False)
    store: FlakyStore = field(init=False)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _processes: int = 0

    # Before and after.

    async def open(self) -> None:
        """Start everything and wait for the curtain."""
        self._server = ModelServer()
        model = await self.serve(self._server.app())
        self.model = await self.stack.enter_async_context(ModelSimulator(model.port))
        await self.eye.open(self)
        await self.start()
        await self.eye.connected()
        await asyncio.sleep(CURTAIN - self.loop.time())
        random.seed(SEED)

    async def serve(self, app: web.Application, listening: Callable[[str], None] = lambda origin: None) -> Any:
        """Serve a simulator; what its client takes for a process."""
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        self.stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = int(runner.addresses[0][1])
        listening(f"http://127.0.0.1:{port}")
        return SimpleNamespace(port=port, ready={})

    async def start(self) -> None:
        """A gateway starts on what an earlier one left."""
        self._processes += 1
        settings, redact = self._settings()
        store = await FlakyStore.open(settings.database_url, clock=LoopClock())
        assert isinstance(store, FlakyStore)
        self.store = store
        self.gateway = await self._as_process(self._started(settings, redact))
        if self.gateway.terminal is not None:
            self.eye.attach(self.gateway.terminal)

    async def _started(self, settings: Settings, redact: Redactor) -> PlayedGateway:
        gateway = PlayedGateway(settings, self.store, LoopClock(), redact)
        await gateway.start()
        return gateway

    def _settings(self) -> tuple[Settings, Redactor]:
        (self.folder / "data").mkdir(exist_ok=True)
        base: dict[str, Any] = {
            "data_dir": str(self.folder / "data"),
            "models": [{"name": "main", "model": "sim", "base_url": self.model.base_url, "api_key": "$MODEL_KEY"}],
            "channels": {self.eye.account: self.eye.settings},
            "access": self.eye.access,
            "sandbox": {"use": USE},
            "memory": {"enabled": False},
            "title": {"enabled": False},
        }
        file = self.folder / "config.yaml"
        file.write_text(yaml.safe_dump(merged(base, dict(self.settings))))
        settings = load(file, {"MODEL_KEY": self.model.api_key, **self.eye.variables})
        return settings, Redactor(settings.secrets())

    async def _as_process(self, work: Awaitable[Any]) -> Any:
        context = contextvars.copy_context()
        context.run(side.set, self._processes)
        return await asyncio.ensure_future(context.run(asyncio.create_task, _awaited(work)))

    async def kill(self) -> None:
        """kill -9. Only then, when no task is left that could say anything, is closed what would stay open here."""
        self.store.gone = True
        self.loop.kill(self._processes)
        await self.loop.bury(self._processes)
        self.loop.dead.discard(self._processes)
        await self._as_process(self.gateway.end())
        await self.store.close()

    async def close(self) -> None:
        """The curtain falls. Neither the platform nor the model had anything to object to."""
        await self.eye.verify()
        assert self._server._malformed == []
        self.store.gone = True
        await self._as_process(self.gateway.end())
        await self.loop.bury(self._processes)
        await self.store.close()
        await self.stack.aclose()

    # What scenarios do.

    async def models(self, *steps: Step, to: str) -> None:
        """What the model answers to a message that contains a text."""
        await self.model.script(to, steps, match="contains")

    async def say(self, text: str, person: Person = ANN, *, mention: bool = True) -> Said:
        """Somebody writes into the place that is looked at."""
        group = self.eye.place if isinstance(self.eye.place, Group) else None
        self.eye.wrote(text)
        said: Said = await self.eye.platform.say(text, person, group, mention=mention)
        await self.loop.settle()
        return said

    async def send_file(self, name: str, content: bytes, text: str) -> None:
        await self.eye.send_file(name, content, text)
        await self.loop.settle()

    async def choose(self, label: str, person: Person = ANN) -> None:
        """Somebody presses a button, as soon as there is one that says this; without buttons they write its label."""
        place, platform = self.eye.place, self.eye.platform
        if not self.eye.buttons:
            await self.say(label, person)
            return
        seen = await platform.until(place, lambda message: label in message.labels)
        await asyncio.sleep(READING_SECONDS)
        self.eye.noted.append(Sign(self.loop.time(), f"presses [{label}]", person.name))
        await platform.press(seen, label, person, place if isinstance(place, Group) else None)
        await self.loop.settle()

    def note(self, what: str) -> None:
        """Something happens that nobody in the chat sees."""
        self.eye.noted.append(Sign(self.loop.time(), what, "-"))

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def answered(self) -> None:
        """Everything that was accepted is answered, and some seconds have passed."""
        parts = self.gateway._parts
        await parts.bus.handled()
        await parts.conversation_tasks.drain()
        await parts.delivery.drained()
        await asyncio.sleep(3)


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


def play(scene: Callable[[Stage], Awaitable[None]], eye: Eye, settings: Mapping[str, Any]) -> list[str]:
    """Play a scene before an eye, and return what it saw, line by line."""
    folder = Path(tempfile.mkdtemp(prefix="antler-play-"))
    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, VirtualLoop)
            with virtual_time(loop):
                return runner.run(_played(scene, Stage(eye, loop, folder, settings)))
    finally:
        shutil.rmtree(folder)


async def _played(scene: Callable[[Stage], Awaitable[None]], stage: Stage) -> list[str]:
    await stage.open()
    try:
        await scene(stage)
        return written(stage.eye, CURTAIN)
    finally:
        await stage.close()
