"""What people say is answered like what they write, on every platform; what cannot be heard is told honestly."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.flow.platforms.base import Person, shows
from tests.flow.platforms.world import PLATFORMS, Everywhere, everywhere, simulators
from tests.simulators.model.client import ModelSimulator
from tests.simulators.transcription import client as transcription_client
from tests.simulators.transcription import faults, speech

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.platforms.base import Platform
    from tests.simulators.process import SimulatorProcess
    from tests.simulators.transcription.client import TranscriptionSimulator

pytestmark = pytest.mark.asyncio(loop_scope="module")

KNOWN = range(100, 160)
WITH_RECORDINGS = ("telegram", "slack", "feishu")
"""Where bots get what was recorded; WeCom gives them the words."""

_people = itertools.count(KNOWN.start)


@dataclass
class Here:
    gateway: Everywhere
    service: TranscriptionSimulator
    platform: Platform
    ada: Person

    async def asked(self) -> str:
        """What the model was given with the newest question."""
        return str((await self.gateway.model.completions())[-1].body["messages"][-1])

    async def heard(self) -> list[str | None]:
        """What the service heard of this test's person."""
        return [asked.words for asked in await self.service.asked() if f"for {self.ada.number}" in str(asked.words)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    telegram_process: SimulatorProcess,
    model_process: SimulatorProcess,
    transcription_process: SimulatorProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Everywhere, TranscriptionSimulator]]:
    with simulators(telegram_process) as processes:
        async with (
            ModelSimulator(model_process.port) as model,
            transcription_client.connect(transcription_process) as service,
            everywhere(processes, model, tmp_path_factory.mktemp("gateway")) as world,
        ):
            accounts = [world.platforms[account] for account in PLATFORMS]
            allow = [platform.id(Person(number)) for platform in accounts for number in KNOWN]
            world.settings = {"access": {"dm": "allowlist", "allow": allow}, "transcription": service.settings}
            world.environment = {"VOICE_KEY": service.api_key}
            async with world:
                yield world, service


@pytest_asyncio.fixture(loop_scope="module", params=PLATFORMS)
async def here(gateway: tuple[Everywhere, TranscriptionSimulator], request: pytest.FixtureRequest) -> Here:
    world, service = gateway
    await world.model.reset()
    await service.clear_faults()
    return Here(world, service, world.platforms[request.param], Person(next(_people)))


async def test_what_is_said_is_answered(here: Here) -> None:
    words = f"remember the word zebra for {here.ada.number}"
    await here.platform.send_voice(words, here.ada)
    answer = await shows(here.platform, here.ada, f"You said: {words}")
    assert "machine" not in answer.text
    assert "transcribed by a machine" in await here.asked()
    given = here.platform.account in WITH_RECORDINGS
    assert await here.heard() == ([words] if given else [])
    recordings = [path.read_bytes() for path in here.gateway.data_dir.glob("threads/*/user-data/uploads/*")]
    assert [speech.heard(recording) for recording in recordings].count(words) == given
    await here.platform.say("which word?", here.ada)
    await shows(here.platform, here.ada, "You said: which word?")
    await here.platform.quiet(here.ada)
    assert len(await here.platform.seen(here.ada)) == 2


async def test_a_command_that_is_spoken_is_not_done(here: Here) -> None:
    await here.platform.send_voice("/new please", here.ada)
    await shows(here.platform, here.ada, "You said: /new please")


@pytest.mark.parametrize("here", WITH_RECORDINGS, indirect=True)
async def test_the_chat_shows_that_somebody_listens(here: Here) -> None:
    await here.service.fail(faults.hold())
    words = f"are you there for {here.ada.number}"
    await here.platform.send_voice(words, here.ada)
    await shows(here.platform, here.ada, "Listening…")
    await here.service.release()
    await shows(here.platform, here.ada, f"You said: {words}")
    await here.platform.quiet(here.ada)
    assert not any("Listening" in seen.text for seen in await here.platform.seen(here.ada))


@pytest.mark.parametrize("here", WITH_RECORDINGS, indirect=True)
async def test_a_busy_service_is_asked_again_when_it_says(here: Here) -> None:
    await here.service.fail(faults.error(429, retry_after="1"))
    words = f"try again for {here.ada.number}"
    await here.platform.send_voice(words, here.ada)
    await shows(here.platform, here.ada, f"You said: {words}")
    refused, answered = (await here.service.asked())[-2:]
    assert refused.outcome == "error 429"
    assert answered.arrived - refused.arrived >= 0.9


@pytest.mark.parametrize("here", WITH_RECORDINGS, indirect=True)
async def test_a_service_that_refuses_is_told(here: Here) -> None:
    await here.service.fail(faults.error(401, "invalid_api_key"))
    await here.platform.send_voice(f"nobody hears this for {here.ada.number}", here.ada)
    answer = await shows(here.platform, here.ada, "I could not listen to the voice message")
    assert "An administrator needs to correct the key" in answer.text
    assert "refused the API key" in await here.asked()
    assert here.service.api_key not in here.gateway.log
    await here.platform.quiet(here.ada)
    assert len(await here.platform.seen(here.ada)) == 1
