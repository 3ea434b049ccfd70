"""The stage of every scenario: simulators in separate processes, the real gateway between them, and a crowd."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.gauge import Meter
from tests.flow.gateway import World, merged
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess
from tests.simulators.telegram import client as telegram_client
from tests.simulators.telegram.seen import Person

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from tests.simulators.telegram.client import TelegramSimulator

FIRST_PERSON = 50_001
LOOK_SECONDS = 0.03
QUIET_SECONDS = 0.3
LIFTED: dict[str, Any] = {
    "channels": {"telegram": {"rate": {"per_second": 10_000, "per_chat_per_second": 100}}},
    "conversations": {"busy": "queue", "join_seconds": 0},
    "limits": {"messages_per_minute": 1_000_000, "message_burst": 1_000_000},
}
"""Settings with the rate limits of accounts and persons lifted, so that the gateway and not a limit is measured. Each
message has its own answer, however soon the next one arrives."""


@dataclass(frozen=True)
class Question:
    """The question that everyone asks, and the model's answer."""

    text: str
    answer: str


_TEN_TOKENS = "one two three four five six seven eight nine ten"
SHORT = Question("!tokens 20 10", " ".join([_TEN_TOKENS] * 2))
"""20 tokens, one every 10 ms."""
LONG = Question("!tokens 100 50", " ".join([_TEN_TOKENS] * 10))
"""100 tokens over five seconds."""


@dataclass
class Stage:
    """The stage. people: the crowd, all with access, each in a private chat."""

    telegram: TelegramSimulator
    model: ModelSimulator
    world: World
    people: list[Person]
    simulators: tuple[int, ...]

    @property
    def pid(self) -> int:
        """The gateway's process."""
        assert self.world.process is not None
        return self.world.process.pid

    def meter(self) -> Meter:
        return Meter(self.pid, (*self.simulators, os.getpid()))

    async def say_at_once(self, people: Sequence[Person], text: Callable[[Person], str]) -> None:
        """Let all write at the same moment."""
        await self.telegram.inject(*(_message(person, text(person)) for person in people))

    async def until_shown(self, text: str, count: int, timeout: float) -> bool:
        """Wait until `count` messages show the text; False on a timeout."""
        deadline = time.monotonic() + timeout
        while await self.telegram.count_showing(text) < count:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        return True

    async def until_quiet(self, quiet: float = QUIET_SECONDS) -> None:
        """Wait until nothing is in progress between gateway and platform."""
        await self.telegram.wait_idle(quiet=quiet, timeout=30.0)


@contextlib.asynccontextmanager
async def stage(people: int, settings: dict[str, Any]) -> AsyncIterator[Stage]:
    """Simulators for a crowd of this size, and a gateway that is configured but not started yet."""
    crowd = [Person(FIRST_PERSON + number, f"Person{number}") for number in range(people)]
    allowed = {"access": {"allow": [f"telegram:{person.id}" for person in crowd]}}
    async with (
        SimulatorProcess("tests.simulators.model") as model_process,
        SimulatorProcess(telegram_client.MODULE) as telegram_process,
        telegram_client.connect(telegram_process) as telegram,
        ModelSimulator(model_process.port) as model,
    ):
        with tempfile.TemporaryDirectory(prefix="antler-bench-", ignore_cleanup_errors=True) as folder:
            world = World(telegram, model, Path(folder), merged(allowed, settings), whole=True)
            yield Stage(telegram, model, world, crowd, (model_process.pid, telegram_process.pid))


_message_ids = iter(range(1_000_000, 2_000_000_000))


def _message(person: Person, text: str) -> dict[str, Any]:
    chat = person.dm().to_json()
    message = {"message_id": next(_message_ids), "date": int(time.time()), "chat": chat, "from": person.to_json()}
    return {"message": {**message, "text": text}}
