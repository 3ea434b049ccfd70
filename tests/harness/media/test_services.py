"""What services answer, and what becomes of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bot.clock import SystemClock
from harness.errors import ToolSetupError
from harness.events import FailureKind
from harness.media import services
from harness.media.config import ImageSettings, SpeechSettings
from harness.media.services import ImageService, MediaFailure, Order, Painted, make_painter, make_speaker
from tests.simulators.media import client as media_client
from tests.simulators.media.client import GENERATE, MediaSimulator
from tests.simulators.media.server import picture
from tests.simulators.process import SimulatorProcess
from tests.simulators.transcription import faults

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

DEER = Order(prompt="deer", size="1024x1024")
DIRECT = (None, None)


class OwnPainter:
    """A class of an operator's own."""

    def __init__(self, settings: ImageSettings, route: Any) -> None:
        self.settings = settings

    async def paint(self, order: Order) -> Painted:
        return Painted(f"{self.settings.model} {order.prompt}".encode())

    async def close(self) -> None: ...


@pytest.fixture(scope="module")
def process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(media_client.MODULE) as running:
        yield running


@pytest.fixture
async def media(process: SimulatorProcess) -> AsyncIterator[MediaSimulator]:
    async with media_client.connect(process) as client:
        yield client


async def painted(media: MediaSimulator, model: str) -> Painted:
    settings = ImageSettings.model_validate({"model": model, "base_url": media.base_url, "api_key": media.api_key})
    service = ImageService(settings, DIRECT, SystemClock())
    try:
        return await service.paint(DEER)
    finally:
        await service.close()


async def test_a_picture_may_be_an_address_of_the_same_server(media: MediaSimulator) -> None:
    assert (await painted(media, "sim-url")).content == picture("deer")


@pytest.mark.parametrize("model", ["sim-elsewhere", "sim-moved"])
async def test_an_address_elsewhere_without_tls_is_not_fetched(media: MediaSimulator, model: str) -> None:
    with pytest.raises(MediaFailure) as failure:
        await painted(media, model)
    assert failure.value.kind is FailureKind.BAD_RESPONSE


@pytest.mark.parametrize(
    ("fault", "kind", "asked"),
    [
        (faults.error(401, "invalid_api_key"), FailureKind.AUTH, 1),
        (faults.error(429, "insufficient_quota"), FailureKind.QUOTA, 1),
        (faults.error(500), FailureKind.UNAVAILABLE, 1),
        (faults.reset(), FailureKind.CONNECTION, 1),
        (faults.garbage(), FailureKind.BAD_RESPONSE, 1),
        (faults.error(503, retry_after="0"), FailureKind.OVERLOADED, 3),
    ],
)
async def test_only_what_did_nothing_is_asked_again(
    media: MediaSimulator, fault: faults.Fault, kind: FailureKind, asked: int
) -> None:
    await media.fail(GENERATE, fault, times=3)
    with pytest.raises(MediaFailure) as failure:
        await painted(media, "sim-image")
    assert failure.value.kind is kind
    assert "images" in str(failure.value) or kind not in (FailureKind.AUTH, FailureKind.CONNECTION)
    assert media.api_key not in str(failure.value)
    assert len(await media.asked(GENERATE)) == asked


async def test_all_tries_together_end_in_time(media: MediaSimulator) -> None:
    await media.fail(GENERATE, faults.error(503, retry_after="1"), times=3)
    asked = {"model": "sim-image", "base_url": media.base_url, "api_key": media.api_key, "timeout": 1.5}
    service = ImageService(ImageSettings.model_validate(asked), DIRECT, SystemClock())
    try:
        with pytest.raises(MediaFailure) as failure:
            await service.paint(DEER)
    finally:
        await service.close()
    assert failure.value.kind is FailureKind.TIMEOUT


async def test_a_class_of_the_operators_own_paints() -> None:
    settings = ImageSettings(model="own", use=f"{__name__}:OwnPainter")
    assert (await make_painter(settings, DIRECT, SystemClock()).paint(DEER)).content == b"own deer"


@pytest.mark.parametrize("use", ["no.such.module:Class", f"{__name__}:Nothing", "harness.ports:MemoryEffectLog"])
def test_a_class_that_cannot_be_had_names_its_key(use: str) -> None:
    with pytest.raises(ToolSetupError, match=r"images\.use"):
        make_painter(ImageSettings(model="own", use=use), DIRECT, SystemClock())


class OwnSpeaker:
    def __init__(self, settings: SpeechSettings, route: Any) -> None:
        self.settings = settings

    async def say(self, text: str, voice: str, audio_format: str) -> bytes:
        if text == "break":
            raise RuntimeError("no voice")
        if text == "wait":
            await asyncio.Event().wait()
        return f"{self.settings.model} {voice} {audio_format} {text}".encode()

    async def close(self) -> None: ...


async def test_a_class_of_the_operators_own_speaks_and_its_failures_are_the_services() -> None:
    settings = SpeechSettings(model="own", use=f"{__name__}:OwnSpeaker", timeout=0.2)
    speaker = make_speaker(settings, DIRECT, SystemClock())
    assert await speaker.say("hello", "ann", "mp3") == b"own ann mp3 hello"
    for text, kind in (("break", FailureKind.UNAVAILABLE), ("wait", FailureKind.TIMEOUT)):
        with pytest.raises(MediaFailure) as caught:
            await speaker.say(text, "ann", "mp3")
        assert caught.value.kind is kind
    await speaker.close()


@pytest.mark.parametrize("use", ["no.such.module:Class", f"{__name__}:Nothing", f"{__name__}:OwnPainter"])
def test_a_speaker_that_cannot_be_had_names_its_key(use: str) -> None:
    with pytest.raises(ToolSetupError, match=r"speech\.use"):
        make_speaker(SpeechSettings(model="own", use=use), DIRECT, SystemClock())


async def test_an_answer_that_is_too_long_is_not_read_on(
    media: MediaSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await painted(media, "sim-image")).content == picture("deer")
    monkeypatch.setattr(services, "MOST_JSON", 100)  # in the place of 54 MB
    with pytest.raises(MediaFailure) as caught:
        await painted(media, "sim-image")
    assert caught.value.kind is FailureKind.BAD_RESPONSE
