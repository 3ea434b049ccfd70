"""Asking a transcription service: what is sent, what is tried again, what each refusal means."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from bot.clock import SystemClock
from bot.settings.sections import TranscriptionSettings
from bot.voice.audio import TranscriptionError, kind_of
from bot.voice.service import Transcript, TranscriptionService
from channels.base import Route
from tests.simulators.process import SimulatorProcess
from tests.simulators.proxy.authority import PrivateAuthority
from tests.simulators.proxy.client import ProxySimulator
from tests.simulators.transcription import faults, speech
from tests.simulators.transcription.client import MODULE, connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.simulators.transcription.client import TranscriptionSimulator
    from tests.simulators.transcription.faults import Fault

MORNING = speech.ogg("good morning", 3.0)


class Pauses(SystemClock):
    """A clock that notes how long somebody wanted to sleep, and lets them go on at once."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


@asynccontextmanager
async def service(
    simulator: TranscriptionSimulator, clock: SystemClock, route: Route | None = None, **settings: Any
) -> AsyncIterator[TranscriptionService]:
    key = SecretStr(settings.pop("api_key", simulator.api_key))
    section = TranscriptionSettings(
        **{"model": "sim-voice", "base_url": simulator.base_url, "api_key": key, **settings}
    )
    made = TranscriptionService(section, route or Route(), clock, connections=2)
    try:
        yield made
    finally:
        await made.close()


async def transcribed(made: TranscriptionService, recording: bytes = MORNING) -> Transcript:
    return await made.transcribe(recording, kind_of(recording, ""))


async def test_the_words_come_back_with_what_is_paid_for(simulator: TranscriptionSimulator) -> None:
    async with service(simulator, Pauses()) as made:
        assert await transcribed(made) == Transcript("good morning", 2.0)
    (asked,) = await simulator.asked()
    assert asked.params == {
        "model": "sim-voice",
        "response_format": "json",
        "file.name": "voice.ogg",
        "file.type": "audio/ogg",
        "file.size": len(MORNING),
        "words": "good morning",
    }


async def test_a_language_is_told(simulator: TranscriptionSimulator) -> None:
    async with service(simulator, Pauses(), language="de") as made:
        await transcribed(made)
    (asked,) = await simulator.asked()
    assert asked.params["language"] == "de"


@pytest.mark.parametrize(
    ("fault", "pause"),
    [
        (faults.error(429, retry_after="7"), 7.0),
        (faults.error(429, retry_after="Thu, 01 Jan 2026 12:00:09 GMT"), 9.0),
        (faults.error(429, retry_after="soon"), 1.0),
        (faults.error(429), 1.0),
        (faults.error(500), 1.0),
        (faults.error(503, retry_after="3"), 3.0),
        (faults.page(502), 1.0),
        (faults.reset(), 1.0),
        (faults.garbage(), 1.0),
    ],
)
async def test_what_may_pass_is_tried_again(simulator: TranscriptionSimulator, fault: Fault, pause: float) -> None:
    await simulator.fail(fault)
    clock = Pauses()
    async with service(simulator, clock) as made:
        assert (await transcribed(made)).text == "good morning"
    assert clock.slept == [pause]
    assert len(await simulator.asked()) == 2


@pytest.mark.parametrize(
    ("fault", "reason", "tries"),
    [
        (faults.error(429), "busy", 3),
        (faults.error(429, code="insufficient_quota"), "quota", 1),
        (faults.error(429, retry_after="4000"), "busy", 1),
        (faults.error(500), "unavailable", 3),
        (faults.reset(), "unavailable", 3),
        (faults.garbage(), "garbage", 3),
        (faults.error(400), "format", 1),
        (faults.error(400, code="model_not_found"), "model", 1),
        (faults.error(401), "key", 1),
        (faults.error(404), "model", 1),
        (faults.error(413), "too_large", 1),
        (faults.error(307), "failed", 1),
    ],
)
async def test_each_refusal_has_its_reason(
    simulator: TranscriptionSimulator, fault: Fault, reason: str, tries: int
) -> None:
    await simulator.fail(fault, times=3)
    async with service(simulator, Pauses()) as made:
        with pytest.raises(TranscriptionError) as caught:
            await transcribed(made)
    assert caught.value.reason == reason
    assert simulator.api_key not in str(caught.value)
    assert len(await simulator.asked()) == tries


async def test_a_server_that_is_not_there_cannot_be_reached(simulator: TranscriptionSimulator) -> None:
    async with service(simulator, Pauses(), base_url="http://127.0.0.1:9/v1") as made:
        with pytest.raises(TranscriptionError) as caught:
            await transcribed(made)
    assert caught.value.reason == "unavailable"


async def test_a_file_of_authorities_that_is_not_there_is_told(
    simulator: TranscriptionSimulator, tmp_path: Path
) -> None:
    route = Route(ca_file=tmp_path / "none.pem")
    async with service(simulator, Pauses(), route, base_url="https://127.0.0.1:9/v1") as made:
        with pytest.raises(TranscriptionError, match=r"none\.pem") as caught:
            await transcribed(made)
    assert caught.value.reason == "failed"


async def test_it_goes_through_the_proxy_and_trusts_a_private_authority(tmp_path: Path) -> None:
    authority = PrivateAuthority.create(tmp_path)
    tls = authority.issue("voice.test")
    async with (
        SimulatorProcess(MODULE, str(tls.cert), str(tls.key)) as process,
        SimulatorProcess("tests.simulators.proxy") as proxy_process,
        connect(process, authority.cert) as simulator,
        ProxySimulator(proxy_process.port) as proxy,
    ):
        await proxy.route("voice.test:443", process.port)
        route = Route(proxy=proxy.url, ca_file=authority.cert)
        async with service(simulator, Pauses(), route, base_url="https://voice.test/v1") as made:
            assert (await transcribed(made)).text == "good morning"
        assert {asked.target for asked in await proxy.connects()} == {"voice.test:443"}
