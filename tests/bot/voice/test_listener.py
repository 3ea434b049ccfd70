"""A voice message becomes words, or an honest reason: limits, recordings that a service does not take, time."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, get_args

import pytest

from bot.clock import SystemClock
from bot.files.sandboxes import Sandboxes
from bot.settings.sections import TranscriptionSettings
from bot.store.identity import thread_folder
from bot.texts import LANGUAGES
from bot.voice.audio import CLAUSES, TranscriptionError, Untranscribed
from bot.voice.service import Transcript
from bot.voice.speech_to_text import AT_ONCE, Listener, NoSpeechToText, Recoder
from harness.context import InputFile, Voice
from sandbox.config import SandboxSettings
from sandbox.policy import STAMP
from tests.simulators.transcription import speech

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.voice.audio import Kind

THREAD = "0" * 32
ANN, BOB, EVE = "telegram:1", "telegram:2", "slack:U3"
bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap", path="/usr/bin:/bin") is None and not os.environ.get("CI"), reason="bubblewrap is missing"
)
RECODES = """#!/bin/sh
for last; do :; done
while [ "$1" != -i ]; do shift; done
{ printf 'RIFF----WAVE'; cat "$2"; } > "$last"
"""


@dataclass
class Service:
    """A twin of the service: hears what speech.py hid, as long as the suffix is in `takes`. gate: waited for, with
    these words only where some are given; full: as many ask as may at a time."""

    takes: tuple[str, ...] = ("ogg", "wav", "m4a")
    gate: asyncio.Event | None = None
    words: str = ""
    asked: list[str] = field(default_factory=list)
    full: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: int = 0
    most_at_once: int = 0
    closed: bool = False

    async def transcribe(self, content: bytes, kind: Kind) -> Transcript:
        self.asked.append(kind.suffix)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        if self.at_once == AT_ONCE:
            self.full.set()
        try:
            if self.gate is not None and self.words in speech.heard(content):
                await self.gate.wait()
            if kind.suffix not in self.takes:
                raise TranscriptionError("format", "status 400")
            return Transcript(speech.heard(content), None)
        finally:
            self.at_once -= 1

    async def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def sandboxes(folder: Path, ffmpeg: str | None) -> AsyncIterator[Sandboxes]:
    """Commands find that program; None: there are no commands."""
    runtime = folder / "runtime"
    (runtime / "bin").mkdir(parents=True)
    (runtime / STAMP).write_text("built")
    (runtime / "bin" / "ffmpeg").write_text(ffmpeg or "")
    (runtime / "bin" / "ffmpeg").chmod(0o755)
    use = "off" if ffmpeg is None else "bubblewrap"
    made = Sandboxes(SandboxSettings.model_validate({"use": use, "runtime": str(runtime)}), folder / "data")
    await made.start()
    try:
        yield made
    finally:
        await made.shutdown(10)


def listener(service: Service, of: Sandboxes, **settings: float) -> Listener:
    section = TranscriptionSettings.model_validate({"model": "sim-voice", **settings})
    return Listener(section, service, Recoder(of), SystemClock())


def voice(folder: Path, recording: bytes, mime_type: str = "audio/ogg") -> InputFile:
    """As it lies among the uploads of the thread."""
    uploads = thread_folder(folder / "data", THREAD) / "uploads"
    uploads.mkdir(parents=True, exist_ok=True)
    path = uploads / "0123abcd-it's a voice"
    path.write_bytes(recording)
    return InputFile(path=path, name="voice", mime_type=mime_type, size=len(recording), voice=Voice())


async def heard(
    folder: Path, service: Service, recording: bytes, ffmpeg: str | None = None, **settings: float
) -> Voice:
    async with sandboxes(folder, ffmpeg) as of:
        if ffmpeg is not None:
            async with of.borrow(THREAD):
                """The folders are there, and belong to who commands run as."""
        file = await listener(service, of, **settings).hear(THREAD, voice(folder, recording), ANN)
        assert file.voice is not None
        assert len(list(file.path.parent.iterdir())) == 1, "nothing is left beside the recording"
        return file.voice


async def test_what_is_said_is_written_down(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert await heard(tmp_path, Service(), speech.ogg("good morning", 2.5)) == Voice(transcript="good morning")
    assert "transcribed a voice message of 2.5 s (ogg," in caplog.text
    assert "good morning" not in caplog.text


async def test_silence_has_no_words(tmp_path: Path) -> None:
    assert (await heard(tmp_path, Service(), speech.ogg(""))).problem == "silent"


async def test_one_that_is_too_long_is_not_sent(tmp_path: Path) -> None:
    service = Service()
    assert (await heard(tmp_path, service, speech.ogg("hello", 61), max_minutes=1)).problem == "too_long"
    assert service.asked == []


async def test_one_that_is_too_large_is_not_sent(tmp_path: Path) -> None:
    service = Service()
    assert (await heard(tmp_path, service, speech.wav("hello", 1), max_mb=0.01)).problem == "too_large"
    assert service.asked == []


@bubblewrap
async def test_what_services_do_not_know_is_recoded(open_folder: Path) -> None:
    service = Service()
    assert await heard(open_folder, service, speech.amr("guten Tag"), RECODES) == Voice(transcript="guten Tag")
    assert service.asked == ["wav"]


@bubblewrap
async def test_what_a_service_refuses_is_recoded_and_sent_once_more(open_folder: Path) -> None:
    service = Service(takes=("wav",))
    assert await heard(open_folder, service, speech.ogg("once more"), RECODES) == Voice(transcript="once more")
    assert service.asked == ["ogg", "wav"]


async def test_without_commands_it_is_sent_as_it_is(tmp_path: Path) -> None:
    assert await heard(tmp_path, Service(takes=("amr",)), speech.amr("hello")) == Voice(transcript="hello")


@bubblewrap
@pytest.mark.parametrize("ffmpeg", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\n"])
async def test_where_recoding_fails_it_is_sent_as_it_is(open_folder: Path, ffmpeg: str) -> None:
    assert await heard(open_folder, Service(takes=("amr",)), speech.amr("hello"), ffmpeg) == Voice(transcript="hello")


async def test_where_that_is_refused_it_is_told(tmp_path: Path) -> None:
    service = Service()
    assert (await heard(tmp_path, service, speech.amr("hello"))).problem == "format"
    assert service.asked == ["amr"]


async def test_a_service_that_does_not_answer_is_left_in_time(tmp_path: Path) -> None:
    assert (
        await heard(tmp_path, Service(gate=asyncio.Event()), speech.ogg("hello"), timeout=0.05)
    ).problem == "timeout"


async def test_a_link_in_the_place_of_the_recording_leads_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(speech.ogg("the secret"))
    async with sandboxes(tmp_path, None) as of:
        file = voice(tmp_path, b"")
        file.path.unlink()
        os.symlink(secret, file.path)
        found = (await listener(Service(), of).hear(THREAD, file, ANN)).voice
    assert found is not None
    assert found.problem == "gone"


async def test_only_so_many_are_listened_to_at_a_time(tmp_path: Path) -> None:
    service = Service(gate=asyncio.Event())
    async with sandboxes(tmp_path, None) as of:
        made, file = listener(service, of), voice(tmp_path, speech.ogg("hello"))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(made.hear(THREAD, file, who)) for who in 3 * AT_ONCE // 2 * (ANN, BOB)]
            async with asyncio.timeout(20):
                await service.full.wait()
            assert service.gate is not None
            service.gate.set()
        assert service.most_at_once == AT_ONCE
        assert {task.result().voice for task in tasks} == {Voice(transcript="hello")}
        await made.close()
    assert service.closed


async def test_recordings_that_hang_hold_up_neither_another_person_nor_another_account(tmp_path: Path) -> None:
    service = Service(gate=asyncio.Event(), words="long story")
    async with sandboxes(tmp_path, None) as of, asyncio.timeout(20), asyncio.TaskGroup() as group:
        made, story = listener(service, of), voice(tmp_path, speech.ogg("a long story"))
        hanging = [group.create_task(made.hear(THREAD, story, ANN)) for _ in range(3 * AT_ONCE)]
        await asyncio.sleep(0)  # all of them have asked for a turn
        other = replace(story, path=story.path.with_name("other"))
        other.path.write_bytes(speech.ogg("hello"))
        for who in (BOB, EVE):
            assert (await made.hear(THREAD, other, who)).voice == Voice(transcript="hello")
        assert not any(task.done() for task in hanging)
        assert service.gate is not None
        service.gate.set()


async def test_nobody_listens_without_the_section(tmp_path: Path) -> None:
    file = await NoSpeechToText().hear(THREAD, voice(tmp_path, speech.ogg("hello")), ANN)
    assert file.voice == Voice(problem="off", note=CLAUSES["off"])


def test_every_reason_is_told_to_people_and_to_the_model() -> None:
    assert set(CLAUSES) == set(get_args(Untranscribed))
    for texts in LANGUAGES.values():
        assert set(texts.voice_problem) == set(get_args(Untranscribed))
