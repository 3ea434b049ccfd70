"""Listens to the voice messages of a run before the agent sees them; for bot/runs/hearing.py.

`Listener` asks a transcription service, `Deaf` stands in where none is configured.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from bot.voice.audio import kind_of
from bot.voice.errors import NotHeardError
from channels.errors import Rejected
from channels.files import open_regular
from harness.context import Voice
from harness.slots import FairSlots

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bot.settings.transcription import TranscriptionSettings
    from bot.voice.audio import Kind
    from bot.voice.errors import Unheard
    from bot.voice.recoding import Recoder
    from bot.voice.service import Transcript
    from channels.base import Clock
    from harness.context import InputFile

log = logging.getLogger(__name__)

AT_ONCE = 4
"""Voice messages that are listened to at a time; each is held in memory meanwhile."""
MEGABYTE = 1_000_000

CLAUSES: Mapping[Unheard, str] = {
    "off": "nobody could listen to it: no transcription service is configured",
    "too_long": "nobody listened to it: it is longer than is allowed",
    "too_large": "nobody listened to it: it is larger than is allowed",
    "gone": "nobody could listen to it: the file is no longer there",
    "format": "nobody could listen to it: the transcription service did not accept the recording",
    "key": "nobody could listen to it: the transcription service refused the API key",
    "model": "nobody could listen to it: the transcription service does not know the configured model",
    "quota": "nobody could listen to it: the account at the transcription service has no credit left",
    "busy": "nobody could listen to it: the transcription service takes no more requests at the moment",
    "timeout": "nobody could listen to it: the transcription service did not answer in time",
    "unavailable": "nobody could listen to it: the transcription service cannot be reached",
    "garbage": "nobody could listen to it: the transcription service answered something unreadable",
    "silent": "no words were heard in it",
    "failed": "nobody could listen to it: something went wrong, which the log tells",
}
"""What the model is told of a voice message without a transcript."""


class Hearing(Protocol):
    """What turns voice messages into words, or says why it does not."""

    @property
    def works(self) -> bool:
        """Whether there is any use in handing it something."""

    async def hear(self, thread_id: str, file: InputFile, speaker: str) -> InputFile:
        """The file with its transcript, or with the reason why it has none. speaker: the person who sent it, whose many
        do not hold up those of others. Raises nothing but cancellation."""

    def limit(self, reason: str) -> str:
        """The number of minutes or megabytes that a reason is about; "" for most."""

    async def close(self) -> None:
        """Idempotent."""


class Words(Protocol):
    """bot/voice/service.py."""

    async def transcribe(self, content: bytes, kind: Kind) -> Transcript: ...
    async def close(self) -> None: ...


class Deaf:
    """There is no section `transcription`."""

    works = False

    async def hear(self, thread_id: str, file: InputFile, speaker: str) -> InputFile:
        return unheard(file, "off")

    def limit(self, reason: str) -> str:
        return ""

    async def close(self) -> None:
        """It holds nothing."""


class Listener:
    """service: asked for the words. recoder: for what it does not take."""

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
            except NotHeardError as error:
                log.warning("a voice message was not understood: %s", error)
                return unheard(file, error.reason)
            except Exception:
                # Whatever it is, in a sandbox of somebody's own too: the message has to be answered.
                log.exception("a voice message was not understood")
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
            raise NotHeardError("too_long", f"it lasts {kind.seconds:.0f} s")
        transcript = await self._words(thread_id, file, content, kind)
        seconds = kind.seconds if transcript.seconds is None else transcript.seconds
        log.info(
            "transcribed a voice message of %s (%s, %d bytes) with %s in %.1f s, thread %s",
            "unknown length" if seconds is None else f"{seconds:.1f} s",
            *(kind.suffix, len(content), self._settings.model, self._clock.monotonic() - began, thread_id),
        )
        return replace(file, voice=Voice(transcript=transcript.text)) if transcript.text else unheard(file, "silent")

    async def _words(self, thread_id: str, file: InputFile, content: bytes, kind: Kind) -> Transcript:
        """By the service, from the recording as it is where that is taken, else from it recoded."""
        if not kind.accepted and (recoded := await self._recoder.wav(thread_id, file, self._most)) is not None:
            return await self._service.transcribe(recoded, kind_of(recoded, "audio/wav"))
        try:
            return await self._service.transcribe(content, kind)
        except NotHeardError as error:
            if error.reason != "format" or not kind.accepted:
                raise
            recoded = await self._recoder.wav(thread_id, file, self._most)
            if recoded is None:
                raise
        return await self._service.transcribe(recoded, kind_of(recoded, "audio/wav"))


def unheard(file: InputFile, reason: Unheard) -> InputFile:
    """The voice message without a transcript, with the reason for people and for the model."""
    return replace(file, voice=Voice(problem=reason, note=CLAUSES[reason]))


def _read(path: Path, most: int) -> bytes:
    """Raises NotHeardError. Somebody's command may have replaced the file, or made it longer."""
    try:
        with open_regular(path) as file:
            content = file.read(most + 1)
    except (Rejected, OSError) as error:
        raise NotHeardError("gone", str(error)) from None
    if len(content) > most:
        raise NotHeardError("too_large", f"it has more than {most} bytes")
    return content
