"""What services answer, and what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bot.clock import SystemClock
from harness.errors import ToolSetupError
from harness.events import FailureKind
from harness.media.config import ImageSettings
from harness.media.services import ImageService, MediaFailure, Order, Painted, make_painter
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
