"""Spoken answers for conversations that want them: prepares the text, charges its cost, and stores the recording.

The recording is made before the answer's final is committed, and is kept under the run: a process that resumes the run
after a crash finds it and does not pay again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from bot.usage.budgets import payer_of
from channels.message import OutboundFile
from harness.errors import ToolSetupError
from harness.events import Usage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bot.delivery.presented import Presented
    from bot.runs.active import ActiveRun
    from bot.settings import Settings
    from bot.tasks import Tasks
    from bot.usage.report import Spending
    from channels.base import Clock
    from channels.message import AttachmentKind
    from harness.context import RunContext
    from harness.media.services import Speaker

log = logging.getLogger(__name__)


class SpokenAnswers:
    """Records answers with the configured speech service. presented: keeps the recordings until they are delivered.
    redact: removes secrets, which must not be shown or sent to a service."""

    def __init__(
        self,
        settings: Settings,
        presented: Presented,
        spending: Spending,
        clock: Clock,
        tasks: Tasks,
        redact: Callable[[str], str],
    ) -> None:
        self._settings = settings
        self._presented = presented
        self._spending = spending
        self._clock = clock
        self._tasks = tasks
        self._redact = redact
        self._service: Speaker | None = None

    @property
    def works(self) -> bool:
        """Whether answers can be spoken here."""
        return self._settings.speech is not None

    @property
    def usual(self) -> bool:
        """Whether they are spoken unless a conversation chooses otherwise."""
        return self._settings.speech is not None and self._settings.speech.answers == "on"

    def adopt(self, settings: Settings) -> None:
        """Use other settings from the next answer on."""
        before, self._settings = self._settings, settings
        former, other = self._service, (before.speech, before.network) != (settings.speech, settings.network)
        if former is not None and other:
            self._service = None
            self._tasks.spawn("former speech service", former.close())

    async def close(self) -> None:
        """Release connections. Idempotent."""
        service, self._service = self._service, None
        if service is not None:
            await service.close()

    def wanted(self, context: RunContext) -> bool:
        return self.works and (context.voice == "on" or (not context.voice and self.usual))

    async def spoken(self, active: ActiveRun, text: str, until: float) -> tuple[OutboundFile, ...]:
        """The recording of an answer, for the same message; empty if there is nothing to speak. A failure, or not being
        finished by `until` on the loop's clock, becomes a notice below the answer."""
        from harness.media.services import MediaFailure  # imports OpenAI's client
        from harness.media.spoken import beginning, for_the_ear

        settings, texts, account = self._settings.speech, active.texts, active.row.address.account
        if settings is None or not self._presented.takes_files(account):
            return ()
        words, cut = beginning(for_the_ear(self._redact(text)), settings.max_characters)
        if not words:
            return ()
        words += f"\n{texts.voice['rest']}" if cut else ""
        note = self._presented.plays_voice_notes(account)
        name, mime_type = ("answer.ogg", "audio/ogg") if note else ("answer.mp3", "audio/mpeg")
        run_id = active.row.run_id
        path = await self._presented.kept(run_id, name)
        if path is None:
            payer = payer_of(active.row)
            if (refused := await self._spending.budgets.refusal(payer, texts)) is not None:
                active.view.notices.append(refused[1])
                return ()
            active.show(texts.voice["speaking"])
            try:
                async with asyncio.timeout_at(until):
                    content = await self._made(settings.voice, words, "opus" if note else "mp3")
            except (MediaFailure, ToolSetupError, TimeoutError) as failure:
                log.warning("the answer of run %s was not spoken: %s", run_id, failure)
                active.view.notices.append(texts.voice["failed"])
                return ()
            cost = settings.cost(len(words))
            used = Usage(run_id=run_id, seq=0, model=settings.name, input_tokens=0, output_tokens=0, flat=cost)
            await self._spending.meter.charge(used, payer)
            try:
                path = await self._presented.keep(run_id, name, content)
            except OSError as error:  # such as a full disk: the answer itself is still complete
                log.warning("the spoken answer of run %s was not kept: %s", run_id, error.strerror)
                active.view.notices.append(texts.voice["failed"])
                return ()
        # A service may answer in a format other than the requested one, which is not a voice note.
        kind: AttachmentKind = "voice" if note and await asyncio.to_thread(_is_ogg, path) else "audio"
        return (OutboundFile(path=path, name=name, mime_type=mime_type, kind=kind, instead=texts.voice["not_sent"]),)

    async def _made(self, voice: str, words: str, audio_format: str) -> bytes:
        from harness.media.services import make_speaker

        settings = self._settings.speech
        assert settings is not None
        if self._service is None:
            self._service = make_speaker(settings, self._settings.network_route(settings.base_url), self._clock)
        return await self._service.say(words, voice, audio_format)


def _is_ogg(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"OggS"
