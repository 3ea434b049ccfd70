"""Plays situations with a model through the real gateway, and scores what it did."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.evals.checks import Seen
from tests.evals.recorder import Recorder
from tests.evals.situations import WEB, Aspect
from tests.flow.gateway import World
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess
from tests.simulators.telegram import client as telegram_client
from tests.simulators.telegram.seen import Person, Room
from tests.torture.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.evals.checks import Check
    from tests.evals.situations import Situation
    from tests.simulators.telegram.client import TelegramSimulator

_FIRST_PERSON = 30_001
_FIRST_GROUP = -1_002_000_000_000
_QUIET_SECONDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The model that is tried. seconds: the longest that it may take for one message."""

    base_url: str
    model: str
    key: str = ""
    context_window: int = 32_000
    max_tokens: int = 2000
    seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Result:
    """One situation. problems: of checks, and why it could not be played. seconds: until its last answer stood."""

    situation: Situation
    seen: Seen
    problems: tuple[str, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.problems


async def evaluate(endpoint: Endpoint, situations: Sequence[Situation], told: Callable[[Result], None]) -> list[Result]:
    """Play the situations one after another, each with a person whom the gateway does not know yet.

    told: called with each result as soon as it is known.
    """
    recorder, results = Recorder(endpoint.base_url, endpoint.key), []
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antler-evals-")))
        site = stack.enter_context(SimulatorProcess("tests.simulators.web"))
        platform = stack.enter_context(SimulatorProcess(telegram_client.MODULE))
        await stack.enter_async_context(recorder.serve())
        telegram = await stack.enter_async_context(telegram_client.connect(platform))
        address = await stack.enter_async_context(ModelSimulator(recorder.port))
        world = World(await telegram.fresh_bot(), address, folder)
        web = f"http://127.0.0.1:{site.port}"
        world.settings = _settings(endpoint, recorder.base_url, web, len(situations))
        await world.start()
        stack.push_async_callback(world.end)
        for number, situation in enumerate(situations):
            result = await _Play(world, recorder, endpoint, web, number).play(situation)
            told(result)
            results.append(result)
    return results


def _settings(endpoint: Endpoint, base_url: str, web: str, count: int) -> dict[str, Any]:
    model = {
        "name": "tried",
        "model": endpoint.model,
        "base_url": base_url,
        "api_key": "$MODEL_KEY",
        "context_window": endpoint.context_window,
        "max_tokens": endpoint.max_tokens,
        "timeout": endpoint.seconds,
    }
    return {
        "models": [model],
        "access": {
            "dm": "open",
            "i_accept_public": True,
            "groups": {"allow": [f"telegram:{_FIRST_GROUP - number}" for number in range(count)]},
        },
        "web": {
            "search": {"provider": "searxng", "base_url": web},
            "fetch": {"enabled": True, "allow": [web.removeprefix("http://")]},
        },
        "limits": {"run_seconds": max(60, int(endpoint.seconds))},
    }


@dataclass
class _Play:
    """One situation at work. number: which, from 0; it makes the person and the group."""

    world: World
    recorder: Recorder
    endpoint: Endpoint
    web: str
    number: int

    @property
    def telegram(self) -> TelegramSimulator:
        return self.world.telegram

    async def play(self, situation: Situation) -> Result:
        began, calls, failures = time.monotonic(), len(self.recorder.calls), len(self.recorder.failures)
        person = Person(_FIRST_PERSON + self.number, "Robin", f"robin{self.number}")
        room = Room(_FIRST_GROUP - self.number, "supergroup", "Team") if situation.group else person.dm()
        problems: list[str] = []
        try:
            for turn in range(len(situation.says)):
                await self._say(situation, turn, person, room)
                await self._answered()
        except TimeoutError:
            problems.append(f"no answer within {self.endpoint.seconds:g} s")
            await self.telegram.user_says("/stop", user=person)
        messages = await self.telegram.bot_messages(room)
        seen = Seen(
            calls=tuple(self.recorder.calls[calls:]),
            answer="\n\n".join(message.text for message in messages if message.text),
            files=tuple(str(file["name"]) for message in messages for file in message.files),
        )
        problems += [problem for check in situation.checks if (problem := _placed(check, self.web).problem(seen))]
        problems += [f"the endpoint said {said}" for said in self.recorder.failures[failures:]]
        return Result(situation, seen, tuple(problems), time.monotonic() - began)

    async def _say(self, situation: Situation, turn: int, person: Person, room: Room) -> None:
        text = situation.says[turn].replace(WEB, self.web)
        if situation.group:
            text = f"@antler_bot {text}"
        chat = room if situation.group else None
        if turn == 0 and situation.forwarded:
            await self.telegram.forwards(text, user=person, chat=chat)
        else:
            await self.telegram.user_says(text, user=person, chat=chat, file=situation.file if turn == 0 else None)

    async def _answered(self) -> None:
        """Until nothing is at work any more. Raises TimeoutError."""
        ledger = Ledger.of(self.world.data_dir)
        async with asyncio.timeout(self.endpoint.seconds):
            await self._quiet()
            while await asyncio.to_thread(ledger.open_work):
                await self._quiet()

    async def _quiet(self) -> None:
        await self.telegram.wait_idle(quiet=_QUIET_SECONDS, timeout=self.endpoint.seconds)


def _placed(check: Check, web: str) -> Check:
    """The check with the website's address where WEB stands."""
    changed = {
        name: value.replace(WEB, web) if isinstance(value, str) else tuple(each.replace(WEB, web) for each in value)
        for name, value in vars(check).items()
        if isinstance(value, (str, tuple))
    }
    return dataclasses.replace(check, **changed)  # type: ignore[type-var]  # every check is a dataclass


def scores(results: Sequence[Result]) -> dict[str, tuple[int, int]]:
    """(passed, played) of each aspect that was played, and of all together."""
    found = {}
    for aspect in Aspect:
        of_it = [result for result in results if result.situation.aspect is aspect]
        if of_it:
            found[aspect.value] = (sum(result.passed for result in of_it), len(of_it))
    found["all"] = (sum(result.passed for result in results), len(results))
    return found


def to_json(endpoint: Endpoint, results: Sequence[Result]) -> dict[str, Any]:
    """Everything that is known, for later comparison; never the key."""
    return {
        "model": endpoint.model,
        "scores": scores(results),
        "situations": [
            {
                "name": result.situation.name,
                "aspect": result.situation.aspect.value,
                "problems": list(result.problems),
                "seconds": round(result.seconds, 1),
                "calls": [dataclasses.asdict(call) for call in result.seen.calls],
                "answer": result.seen.answer,
                "files": list(result.seen.files),
            }
            for result in results
        ],
    }
