"""Voice messages, told on one platform: groups, crashes, a gateway that does not listen."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.simulators.telegram.seen import ALICE, TEAM, FileSpec
from tests.simulators.transcription import client as transcription_client
from tests.simulators.transcription import faults, speech

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World
    from tests.simulators.process import SimulatorProcess
    from tests.simulators.transcription.client import TranscriptionSimulator


def spoken(words: str) -> FileSpec:
    return FileSpec("voice", content=speech.ogg(words), mime="audio/ogg")


@pytest.fixture
async def service(transcription_process: SimulatorProcess) -> AsyncIterator[TranscriptionSimulator]:
    async with transcription_client.connect(transcription_process) as client:
        yield client


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    """A gateway that was started; it is stopped, and has left nothing behind."""
    try:
        yield
    except BaseException:
        print(f"--- gateway log ---\n{world.log}")
        raise
    finally:
        code = await world.stop()
    assert code == 0


async def start(world: World, service: TranscriptionSimulator) -> None:
    world.settings = {"transcription": service.settings}
    world.environment = {"VOICE_KEY": service.api_key}
    await world.start()


async def test_in_a_group_nobody_listens_to_what_is_not_for_the_bot(
    world: World, service: TranscriptionSimulator
) -> None:
    await start(world, service)
    async with running(world):
        await world.telegram.user_says(chat=TEAM, file=spoken("only between us"))
        await world.telegram.group_says("@antler_bot hello", user=ALICE, chat=TEAM)
        answer = await world.telegram.wait_for_text(TEAM, "You said: hello")
        assert await service.asked() == []
        await world.telegram.user_says(chat=TEAM, file=spoken("and this?"), reply_to=answer.message_id)
        await world.telegram.wait_for_text(TEAM, "You said: and this?")
        assert [asked.words for asked in await service.asked()] == ["and this?"]


async def test_what_was_heard_is_not_paid_for_again_after_a_crash(
    world: World, service: TranscriptionSimulator
) -> None:
    await start(world, service)
    await world.telegram.user_says(file=spoken("!say one half\n!pause half\n!say the other half"))
    await world.model.wait_for_pause("half")
    await world.telegram.wait_for_text(ALICE, "one half")
    await world.telegram.wait_idle(ALICE)  # that it was sent is recorded too
    await world.kill()
    await world.model.release("half")
    await world.start()
    async with running(world):
        await world.telegram.wait_for_text(ALICE, "the other half")
        await world.telegram.wait_idle(ALICE)
        assert len(await world.telegram.bot_messages(ALICE)) == 1
        assert len(await service.asked()) == 1


async def test_killed_while_it_listens_it_listens_again(world: World, service: TranscriptionSimulator) -> None:
    await service.fail(faults.hold())
    await start(world, service)
    await world.telegram.user_says(file=spoken("the word is zebra"))
    await world.telegram.wait_for_text(ALICE, "Listening…")
    await world.telegram.wait_idle(ALICE)
    await world.kill()
    await service.release()
    await world.start()
    async with running(world):
        await world.telegram.wait_for_text(ALICE, "You said: the word is zebra")
        await world.telegram.wait_idle(ALICE, quiet=2.0)
        assert len(await world.telegram.bot_messages(ALICE)) == 1


async def test_without_the_section_one_sentence_is_the_answer(world: World) -> None:
    await world.start()
    async with running(world):
        await world.telegram.user_says(file=spoken("the word is zebra"))
        await world.telegram.wait_for_text(ALICE, "I cannot listen to voice messages here")
        await world.telegram.wait_idle(ALICE)
        assert len(await world.telegram.bot_messages(ALICE)) == 1
        assert await world.model.completions() == []


async def test_check_config_tells_who_listens(world: World, service: TranscriptionSimulator) -> None:
    world.write_config()
    code, told = await world.command("check-config")
    assert "voice     voice messages are not transcribed (no transcription)" in told.splitlines()
    world.settings = {"transcription": service.settings}
    world.environment = {"VOICE_KEY": service.api_key}
    world.write_config()
    code, told = await world.command("check-config")
    assert "voice     sim-voice at 127.0.0.1 transcribes voice messages" in told.splitlines()
    assert (code, service.api_key in told) == (0, False)
