"""A turn's input while it is put together from its messages; for actor.py."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.settings.busy_policies import QUEUED, TurnRules
from bot.store.identity import person_id
from bot.texts import texts_for
from channels.message import OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.files.uploads import Refused
    from channels.base import Clock
    from channels.message import Message
    from harness.context import InputFile

QUIET = 0.8
"""Seconds without a further event after which a bundle (an album, a long paste) is complete."""
WINDOWS = 5
"""Times the debounce window that a turn waits for further messages at most."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """An admitted message. language: to answer in; is_admin: of its sender; rules: of its account. schedule: the id of
    the one that says it in its sender's name, "" for what they wrote just now."""

    id: int
    message: Message
    language: str
    is_admin: bool = False
    rules: TurnRules = QUEUED
    schedule: str = ""


@dataclass(slots=True, eq=False)
class Turn:
    """One turn's input while it is put together: the events of one bundle, or what one person says in quick succession,
    and their files.

    sealed: a further part would start a turn of its own. complete: the files are there, a run can be opened.
    """

    parts: list[Spoken]
    sealed: bool = False
    complete: bool = False
    files: list[InputFile] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    touched: asyncio.Event = field(default_factory=asyncio.Event)
    arriving: asyncio.Task[None] | None = None

    @property
    def first(self) -> Message:
        return self.parts[0].message

    @property
    def language(self) -> str:
        return self.parts[0].language

    @property
    def person(self) -> str:
        return person_id(self.first.account, self.first.sender.id)

    @property
    def is_admin(self) -> bool:
        return self.parts[0].is_admin

    @property
    def schedule(self) -> str:
        return self.parts[0].schedule

    @property
    def rules(self) -> TurnRules:
        return self.parts[0].rules

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(part.id for part in self.parts)

    @property
    def text(self) -> str:
        return joined(part.message.text for part in self.parts)

    @property
    def dictated(self) -> bool:
        return any(part.message.dictated for part in self.parts)

    @property
    def only_voice(self) -> bool:
        """Voice messages and nothing else: without their words there is nothing to answer."""
        kinds = {attachment.kind for part in self.parts for attachment in part.message.attachments}
        return kinds == {"voice"} and not self.text.strip()

    @property
    def hollow(self) -> bool:
        """Nothing is left to answer: it was only files, and none was taken."""
        return bool(self.refused) and not self.files and not self.text.strip()

    def takes(self, spoken: Spoken) -> bool:
        """Whether a message is a further part of this turn."""
        message, last = spoken.message, self.parts[-1].message
        if self.sealed or spoken.schedule or message.sender.id != last.sender.id:
            return False
        if message.bundle_key is not None and message.bundle_key == last.bundle_key:
            return True
        return self.rules.debounce > 0 and spoken.language == self.language

    async def quiet(self, clock: Clock) -> None:
        """Wait for the bundle's last part, and while the debounce window is open; at once for anything else."""
        ends = clock.monotonic() + WINDOWS * self.rules.debounce
        while (pause := self._pause(ends - clock.monotonic())) > 0:
            self.touched.clear()
            touched = asyncio.create_task(self.touched.wait())
            quiet = asyncio.create_task(clock.sleep(pause))
            try:
                await asyncio.wait({touched, quiet}, return_when=asyncio.FIRST_COMPLETED)
                if not touched.done():
                    break
            finally:
                touched.cancel()
                quiet.cancel()
        self.sealed = True

    def _pause(self, left: float) -> float:
        """Seconds of quiet after which nothing more is expected. left: of the longest that a debounced turn waits."""
        bundle = QUIET if self.parts[-1].message.bundle_key is not None else 0.0
        return max(bundle, min(self.rules.debounce, left))

    @property
    def quote(self) -> str:
        """What the turn replies to, unless we said it: the agent knows that already."""
        replies = [part.message.reply_to for part in self.parts]
        return joined(dict.fromkeys(reply.text for reply in replies if reply is not None and not reply.from_bot))

    def not_taken(self) -> OutboundMessage | None:
        """What to tell about files that were refused."""
        sentences = texts_for(self.language).file_problem
        lines = [
            sentences[refused.problem].format(name=refused.name, limit=f"{refused.limit:g}") for refused in self.refused
        ]
        return OutboundMessage(text="\n\n".join(lines), final=True) if lines else None


def joined(texts: Iterable[str]) -> str:
    """The text of a bundle."""
    return "\n".join(text for text in texts if text)
