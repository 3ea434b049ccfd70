"""Transcription of a run's voice messages, before the agent sees them.

`Listener` calls a transcription service; `NoSpeechToText` replaces it where none is configured. A recording that the
service refuses is converted by ffmpeg inside the thread's sandbox: it is hostile until proven otherwise, and decoded
nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from bot.voice.audio import CLAUSES, TranscriptionError, kind_of
from channels.adapter import open_regular
from channels.base import Route
from channels.errors import Rejected
from harness.context import Voice
from harness.files.slots import FairSlots
from sandbox.base import UPLOADS, Problem, SandboxError, contents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bot.files.sandboxes import Sandboxes
    from bot.settings import Settings
    from bot.settings.sections import TranscriptionSettings
    from bot.voice.audio import Kind, Untranscribed
    from bot.voice.service import Transcript
    from channels.base import Clock
    from harness.context import InputFile

log = logging.getLogger(__name__)

AT_ONCE = 4
"""Voice messages transcribed concurrently; each is held in memory."""
MEGABYTE = 1_000_000

_RECODING_SECONDS = 60.0
_COMMAND = """
command -v ffmpeg >/dev/null || exit 127
ffmpeg -nostdin -v error -y -i {recording} -vn -ac 1 -ar 16000 -c:a pcm_s16le -fs {most} -f wav {result} >/dev/null
"""


class SpeechToText(Protocol):
    """Transcription of voice messages, or the reason why there is none."""

    @property
    def works(self) -> bool:
        """Whether anything is transcribed at all."""

    async def hear(self, thread_id: str, file: InputFile, speaker: str) -> InputFile:
        """Return the file with its transcript, or with the reason why it has none. Raises nothing but cancellation.

        speaker: the person who sent it; many messages of one person do not delay those of others.
        """

    def limit(self, reason: str) -> str:
        """The limit in minutes or megabytes that a reason refers to; "" for most."""

    async def close(self) -> None:
        """Release connections. Idempotent."""


class Words(Protocol):
    """A transcription service."""

    async def transcribe(self, content: bytes, kind: Kind) -> Transcript: ...
    async def close(self) -> None: ...


class NoSpeechToText:
    """Used where the settings have no section `transcription`."""

    works = False

    async def hear(self, thread_id: str, file: InputFile, speaker: str) -> InputFile:
        return unheard(file, "off")

    def limit(self, reason: str) -> str:
        return ""

    async def close(self) -> None:
        """No-op; it holds nothing."""


class Listener:
    """Transcribes with a service, a few recordings concurrently. recoder: converts what the service does not accept."""

    works = True

    def __init__(self, settings: TranscriptionSettings, service: Words, recoder: Recoder, clock: Clock) -> None:
        self._settings = settings
        self._service = service
        self._recoder = recoder
        self._clock = clock
        self._most = int(settings.max_mb * MEGABYTE)
        self._slots = FairSlots(AT_ONCE)

    async def hear(self, thread_id: str, file: InputFile, speaker: str) -> InputFile:
        async with self._slots.slot(speaker):
            try:
                async with asyncio.timeout(self._settings.timeout):
                    return await self._heard(thread_id, file)
            except TimeoutError:
                return unheard(file, "timeout")
            except TranscriptionError as error:
                log.warning("a voice message was not transcribed: %s", error)
                return unheard(file, error.reason)
            except Exception:
                # The cause may be a sandbox that an operator wrote: the message must still be answered.
                log.exception("a voice message was not transcribed")
                return unheard(file, "failed")

    def limit(self, reason: str) -> str:
        limits = {"too_long": self._settings.max_minutes, "too_large": self._settings.max_mb}
        return f"{limits[reason]:g}" if reason in limits else ""

    async def close(self) -> None:
        await self._service.close()

    async def _heard(self, thread_id: str, file: InputFile) -> InputFile:
        began = self._clock.monotonic()
        content = await asyncio.to_thread(_read, file.path, self._most)
        kind = await asyncio.to_thread(kind_of, content, file.mime_type)
        if kind.seconds is not None and kind.seconds > self._settings.max_minutes * 60:
            raise TranscriptionError("too_long", f"it lasts {kind.seconds:.0f} s")
        transcript = await self._words(thread_id, file, content, kind)
        seconds = kind.seconds if transcript.seconds is None else transcript.seconds
        log.info(
            "transcribed a voice message of %s (%s, %d bytes) with %s in %.1f s, thread %s",
            "unknown length" if seconds is None else f"{seconds:.1f} s",
            *(kind.suffix, len(content), self._settings.model, self._clock.monotonic() - began, thread_id),
        )
        return replace(file, voice=Voice(transcript=transcript.text)) if transcript.text else unheard(file, "silent")

    async def _words(self, thread_id: str, file: InputFile, content: bytes, kind: Kind) -> Transcript:
        """Transcribe the recording, converting it first when the service refuses its format."""
        if not kind.accepted and (recoded := await self._recoder.wav(thread_id, file, self._most)) is not None:
            return await self._service.transcribe(recoded, kind_of(recoded, "audio/wav"))
        try:
            return await self._service.transcribe(content, kind)
        except TranscriptionError as error:
            if error.reason != "format" or not kind.accepted:
                raise
            recoded = await self._recoder.wav(thread_id, file, self._most)
            if recoded is None:
                raise
        return await self._service.transcribe(recoded, kind_of(recoded, "audio/wav"))


class Recoder:
    """Converts recordings by ffmpeg in the sandbox of their thread."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def wav(self, thread_id: str, file: InputFile, most: int) -> bytes | None:
        """Return the recording as WAV, mono at 16 kHz, of at most `most` bytes; None where that is impossible here."""
        result = f"{UPLOADS}/{secrets.token_hex(8)}.wav"
        command = _COMMAND.format(
            recording=shlex.quote(f"{UPLOADS}/{file.path.name}"), result=shlex.quote(result), most=most
        )
        try:
            async with self._sandboxes.borrow(thread_id) as sandbox:
                try:
                    done = await sandbox.execute_command(command, timeout=_RECODING_SECONDS)
                    if done.exit_code == 0:
                        found = await contents(sandbox, result, most)
                        return None if isinstance(found, Problem) else found
                finally:
                    await sandbox.execute_command(f"rm -f {shlex.quote(result)}", timeout=_RECODING_SECONDS)
        except SandboxError as error:
            log.warning("a voice message was not converted: %s %s", error, error.hint)
            return None
        why = "ffmpeg is missing" if done.exit_code == 127 else f"ffmpeg ended with {done.exit_code}"
        log.info("a voice message was not converted: %s", why)
        return None


@dataclass(slots=True, eq=False)
class _Service:
    """A service in use. users: messages that it is transcribing now."""

    speech_to_text: SpeechToText
    users: int = 0


class CurrentSpeechToText:
    """Transcribes by the current settings. A replaced service is closed after its last message.

    make: builds the transcription for given settings.
    """

    def __init__(self, settings: Settings, make: Callable[[Settings], SpeechToText]) -> None:
        self._asked = _asked(settings)
        self._make = make
        self._now = _Service(make(settings))

    async def adopt(self, settings: Settings) -> None:
        """Use other settings from the next message on."""
        if (asked := _asked(settings)) != self._asked:
            former, self._now = self._now, _Service(self._make(settings))
            self._asked = asked
            await self._close_unused(former)

    @property
    def works(self) -> bool:
        return self._now.speech_to_text.works

    async def hear(self, thread_id: str, file: InputFile, speaker: str) -> InputFile:
        service = self._now
        service.users += 1
        try:
            return await service.speech_to_text.hear(thread_id, file, speaker)
        finally:
            service.users -= 1
            await self._close_unused(service)

    async def _close_unused(self, service: _Service) -> None:
        if service is not self._now and not service.users:
            await service.speech_to_text.close()

    def limit(self, reason: str) -> str:
        return self._now.speech_to_text.limit(reason)

    async def close(self) -> None:
        await self._now.speech_to_text.close()


def _asked(settings: Settings) -> tuple[object, object]:
    return settings.transcription, settings.network


def make_speech_to_text(settings: Settings, sandboxes: Sandboxes, clock: Clock) -> SpeechToText:
    """Build the transcription that the settings ask for. Needs a running loop."""
    transcription = settings.transcription
    if transcription is None:
        return NoSpeechToText()
    # Imported here: it imports aiohttp, which a gateway without transcription may not need.
    from bot.voice.service import TranscriptionService

    proxy, ca_file = settings.network_route(transcription.base_url)
    service = TranscriptionService(transcription, Route(proxy=proxy, ca_file=ca_file), clock, AT_ONCE)
    return Listener(transcription, service, Recoder(sandboxes), clock)


def unheard(file: InputFile, reason: Untranscribed) -> InputFile:
    """Return the voice message without a transcript, with the reason for people and for the model."""
    return replace(file, voice=Voice(problem=reason, note=CLAUSES[reason]))


def _read(path: Path, most: int) -> bytes:
    """Read the file, which a command may have replaced or extended. Raises TranscriptionError."""
    try:
        with open_regular(path) as file:
            content = file.read(most + 1)
    except (Rejected, OSError) as error:
        raise TranscriptionError("gone", str(error)) from None
    if len(content) > most:
        raise TranscriptionError("too_large", f"it has more than {most} bytes")
    return content
