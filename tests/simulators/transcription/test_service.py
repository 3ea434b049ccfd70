"""The simulated service is as strict as the real one, and works with the real SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

import openai
import pytest
from openai import AsyncOpenAI

from tests.simulators.process import SimulatorProcess
from tests.simulators.transcription import faults, speech
from tests.simulators.transcription.client import MODULE, TranscriptionSimulator, connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(scope="module")
def process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(MODULE) as running:
        yield running


@pytest.fixture
async def service(process: SimulatorProcess) -> AsyncIterator[TranscriptionSimulator]:
    async with connect(process) as client:
        yield client


@pytest.fixture
async def sdk(service: TranscriptionSimulator) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=service.base_url, api_key=service.api_key, max_retries=0) as client:
        yield client


async def test_it_hears_what_the_sdk_sends(service: TranscriptionSimulator, sdk: AsyncOpenAI) -> None:
    made = await sdk.audio.transcriptions.create(
        file=("voice.ogg", speech.ogg("good morning")), model="sim-voice", language="en"
    )
    assert made.text == "good morning"
    (asked,) = await service.asked()
    assert asked.words == "good morning"
    assert (asked.params["model"], asked.params["language"]) == ("sim-voice", "en")
    assert service.api_key not in str(asked.headers)


async def test_a_suffix_that_the_service_does_not_know_is_refused(sdk: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        await sdk.audio.transcriptions.create(file=("voice.amr", speech.amr("hello")), model="sim-voice")


async def test_an_unknown_model_is_refused(sdk: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        await sdk.audio.transcriptions.create(file=("voice.ogg", speech.ogg("hello")), model="missing-1")


async def test_faults_meet_the_next_requests(service: TranscriptionSimulator, sdk: AsyncOpenAI) -> None:
    await service.fail(faults.error(429, retry_after="7"))
    await service.fail(faults.page(502))
    with pytest.raises(openai.RateLimitError) as limited:
        await sdk.audio.transcriptions.create(file=("voice.ogg", speech.ogg("a")), model="sim-voice")
    assert limited.value.response.headers["Retry-After"] == "7"
    with pytest.raises(openai.InternalServerError):
        await sdk.audio.transcriptions.create(file=("voice.ogg", speech.ogg("b")), model="sim-voice")
    assert [asked.outcome for asked in await service.asked()] == ["error 429", "page 502"]
