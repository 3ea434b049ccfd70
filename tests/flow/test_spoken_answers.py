"""Answers that are spoken: /voice in a chat, voice notes on Telegram, files elsewhere; and recordings by the agent."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.texts.en import EN
from tests.flow.platforms.base import Person, shows
from tests.flow.platforms.world import Everywhere, everywhere, simulators
from tests.flow.sandboxed import call
from tests.simulators.media import client as media_client
from tests.simulators.media.client import SPEECH
from tests.simulators.model.client import ModelSimulator
from tests.simulators.sandbox.provider import USE
from tests.simulators.telegram.seen import ALICE
from tests.simulators.transcription import faults

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World
    from tests.flow.platforms.base import Platform
    from tests.simulators.media.client import MediaSimulator
    from tests.simulators.process import SimulatorProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

KNOWN = range(200, 230)
HERE = ("telegram", "slack")
_people = itertools.count(KNOWN.start)


@dataclass
class Here:
    gateway: Everywhere
    media: MediaSimulator
    platform: Platform
    ada: Person

    async def spoken(self) -> list[str]:
        """What the service said for this test's person."""
        asked = [str(each.params["input"]) for each in await self.media.asked(SPEECH)]
        return [words for words in asked if str(self.ada.number) in words]

    async def files(self) -> list[str]:
        await self.platform.quiet(self.ada)
        return [name for name, _ in await self.platform.files(self.ada)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    telegram_process: SimulatorProcess,
    model_process: SimulatorProcess,
    media_process: SimulatorProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Everywhere, MediaSimulator]]:
    with simulators(telegram_process) as processes:
        async with (
            ModelSimulator(model_process.port) as model,
            media_client.connect(media_process) as media,
            everywhere(processes, model, tmp_path_factory.mktemp("gateway")) as world,
        ):
            allow = [world.platforms[account].id(Person(number)) for account in HERE for number in KNOWN]
            speech = {**media.speech, "max_characters": 200, "voices": ["nova", "onyx"]}
            world.settings = {
                "access": {"dm": "allowlist", "allow": allow},
                "speech": speech,
                "sandbox": {"use": USE},
            }
            world.environment = {"MEDIA_KEY": media.api_key}
            async with world:
                yield world, media


@pytest_asyncio.fixture(loop_scope="module", params=HERE)
async def here(gateway: tuple[Everywhere, MediaSimulator], request: pytest.FixtureRequest) -> Here:
    world, media = gateway
    await world.model.reset()
    return Here(world, media, world.platforms[request.param], Person(next(_people)))


@pytest_asyncio.fixture
async def media(media_process: SimulatorProcess) -> AsyncIterator[MediaSimulator]:
    async with media_client.connect(media_process) as client:
        yield client


# This one first: it looks whether the model has connections left, which the shared gateway keeps.


@pytest.mark.asyncio(loop_scope="function")
async def test_a_recording_that_takes_too_long_does_not_cost_the_answer(world: World, media: MediaSimulator) -> None:
    """The answer is there before its time limit ends, without the recording that would have come behind it."""
    limits = {"run_seconds": 6}
    world.settings |= {"speech": {**media.speech, "answers": "on"}, "sandbox": {"use": USE}, "limits": limits}
    world.environment = {"MEDIA_KEY": media.api_key}
    async with world:
        await media.fail(SPEECH, faults.Fault.slow(60))
        await world.telegram.user_says("!say here in time")
        answer = await world.telegram.wait_for_text(ALICE, EN.voice["failed"])
        assert "here in time" in answer.text
        assert EN.timed_out.partition("{")[0] not in answer.text
        assert len([seen for seen in await world.telegram.bot_messages(ALICE) if "here in time" in seen.text]) == 1


async def test_answers_are_spoken_where_somebody_asked_for_it(here: Here) -> None:
    await here.platform.say(f"!say silent for {here.ada.number}", here.ada)
    await shows(here.platform, here.ada, "silent for")
    await here.platform.say("/voice on", here.ada)
    await shows(here.platform, here.ada, EN.voice["on"])
    await here.platform.say(f"!say **Good** morning, see [this](https://a.example) {here.ada.number}", here.ada)
    await shows(here.platform, here.ada, "morning, see")
    note = here.platform.account == "telegram"
    assert await here.files() == ["answer.ogg" if note else "answer.mp3"]
    assert await here.spoken() == [f"Good morning, see this {here.ada.number}"]
    asked = (await here.media.asked(SPEECH))[-1].params
    assert (asked["voice"], asked["response_format"]) == ("alloy", "opus" if note else "mp3")
    await here.platform.say("/voice off", here.ada)
    await shows(here.platform, here.ada, EN.voice["off"])
    await here.platform.say("hello again", here.ada)
    await shows(here.platform, here.ada, "You said: hello again")
    assert len(await here.files()) == 1


async def test_of_a_long_answer_the_beginning_is_spoken(here: Here) -> None:
    await here.platform.say("/voice on", here.ada)
    await shows(here.platform, here.ada, EN.voice["on"])
    sentence = f"This is one of many sentences for {here.ada.number}. "
    await here.platform.say(f"!say {sentence * 8}", here.ada)
    await shows(here.platform, here.ada, "many sentences")
    await here.files()
    (spoken,) = await here.spoken()
    assert spoken == f"{(sentence * 5).strip()}\n{EN.voice['rest']}"


async def test_a_service_that_fails_costs_the_recording_and_not_the_answer(here: Here) -> None:
    await here.platform.say("/voice on", here.ada)
    await shows(here.platform, here.ada, EN.voice["on"])
    await here.media.fail(SPEECH, faults.error(401, "invalid_api_key"))
    await here.platform.say(f"!say nobody says this {here.ada.number}", here.ada)
    answer = await shows(here.platform, here.ada, "nobody says this")
    await here.platform.quiet(here.ada)
    assert EN.voice["failed"] in answer.text or EN.voice["failed"] in (await here.platform.seen(here.ada))[-1].text
    assert await here.files() == []
    assert here.media.api_key not in here.gateway.log


@pytest.mark.parametrize("here", HERE[:1], indirect=True)
async def test_the_agent_records_two_voices_in_one_file(here: Here) -> None:
    number = here.ada.number
    script = f"# A title\\n**ANN:** Hello, [laughs] this is {number}.\\n\\n**BEN:** And I am {number} too.\\n> a note"
    record = call("speak", text=script.replace("\\n", "\n"), voices={"ANN": "nova", "BEN": "onyx"}, name="episode")
    await here.platform.say(f"{record}\n!say There you are.", here.ada)
    await shows(here.platform, here.ada, "There you are.")
    assert await here.files() == ["episode.mp3"]
    asked = [each.params for each in await here.media.asked(SPEECH)][-2:]
    said = [f"Hello, this is {number}.", f"And I am {number} too."]
    assert [(each["voice"], each["input"]) for each in asked] == [("nova", said[0]), ("onyx", said[1])]
