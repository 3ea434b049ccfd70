"""Files of a person's chats on the page: those they sent, and those the agent made for them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from bot.http.resources.sight import unknown
from bot.http.talk import parts_of
from bot.store import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.store.shown import Answered

MOST_FILES = 200
"""Files of each kind, and messages and chats searched for them, newest first."""

Kind = Literal["made", "sent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file. id: of its message, or of the upload. chat: its place, "" where no existing chat contains it; title: of
    that chat. size: bytes, None where it is not kept any more."""

    kind: Kind
    id: str
    chat: str
    title: str
    name: str
    mime_type: str
    size: int | None
    at: datetime


class Files:
    """A person's own files, as the page shows them."""

    def __init__(self, parts: HttpParts) -> None:
        self._store = parts.store
        self._talk = parts.web

    async def list(self, caller: Caller) -> tuple[File, ...]:
        """The newest files first, at most MOST_FILES."""
        account, person = self._talk.account, caller.person
        made, attached, chats = await self._store.read(
            lambda tx: (
                shown.presented(tx, account, person, MOST_FILES),
                shown.attached(tx, account, person, MOST_FILES),
                shown.listed(tx, account, person, MOST_FILES, None),
            )
        )
        titles = {each.chat: each.title for each in chats}
        brought = {file.ref: chat for chat, file, _ in reversed(attached) if chat in titles}
        found = await asyncio.to_thread(lambda: list(_made(made, titles)))
        for file, at in await self._talk.uploads(caller, MOST_FILES):
            chat = brought.get(file.ref, "")
            found.append(
                File(
                    kind="sent",
                    id=file.ref.rpartition("/")[2],
                    chat=chat,
                    title=titles.get(chat, ""),
                    name=file.name or "",
                    mime_type=file.mime_type or "",
                    size=file.size,
                    at=at,
                )
            )
        return tuple(sorted(found, key=lambda each: each.at, reverse=True)[:MOST_FILES])

    async def delete(self, caller: Caller, kind: str, chat: str, file_id: str) -> None:
        """Delete a file; the agent's copy in its workspace stays until its chat is deleted. Raises HttpProblem."""
        if kind == "made":
            await self._talk.remove_file(caller, chat, file_id)
        elif kind == "sent":
            await self._talk.remove_upload(caller, file_id)
        else:
            raise unknown("file")


def _made(replies: Iterable[tuple[str, Answered]], titles: dict[str, str]) -> Iterator[File]:
    """The files in replies of the bot; may block."""
    for chat, reply in replies:
        for part in parts_of(reply):
            if part.file is not None and chat in titles:
                yield File(
                    kind="made",
                    id=part.message_id,
                    chat=chat,
                    title=titles[chat],
                    name=part.file.name,
                    mime_type=part.file.mime_type,
                    size=_size(part.file.path),
                    at=part.at,
                )


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
