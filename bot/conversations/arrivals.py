"""Turns that are being put together: further parts, files; complete ones leave in their order. For actor.py."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.files.uploads import Refused, display_name
from bot.runs.inputs import edited_message
from bot.runs.turns import Turn
from bot.store.identity import thread_folder
from harness.context import InputFile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from bot.conversations.ports import ConversationPorts
    from bot.runs.turns import Spoken
    from bot.store.rows import ConversationRow
    from channels.message import Message


class Arrivals:
    """record: the conversation as stored. arrived: told when a turn became complete later."""

    def __init__(
        self,
        ports: ConversationPorts,
        record: Callable[[Message], Awaitable[ConversationRow]],
        arrived: Callable[[Turn], None],
    ) -> None:
        self._ports = ports
        self._record = record
        self._arrived = arrived
        self._turns: deque[Turn] = deque()

    def __len__(self) -> int:
        return len(self._turns)

    def joins(self, spoken: Spoken) -> bool:
        """Take a message as a further part of the newest turn, if it is one."""
        if not self._turns or not self._turns[-1].takes(spoken):
            return False
        self._turns[-1].parts.append(spoken)
        self._turns[-1].touched.set()
        return True

    def begin(self, spoken: Spoken) -> None:
        """A new turn; complete at once when nothing of it is still to come."""
        message = spoken.message
        at_once = message.bundle_key is None and not message.attachments and not spoken.rules.debounce
        turn = Turn([spoken], sealed=at_once, complete=at_once)
        self._turns.append(turn)
        if not at_once:
            turn.arriving = self._ports.tasks.spawn(f"{spoken.id}:arrive", self._assemble(turn))
            # Cancelled (dropped, or the process stops) it is not answered without its files.
            turn.arriving.add_done_callback(lambda done: None if done.cancelled() else self._arrived(turn))

    async def _assemble(self, turn: Turn) -> None:
        """Wait for the last part, fetch the files."""
        await turn.quiet(self._ports.clock)
        if turn.only_voice and not self._ports.runs.transcriber.works:
            return  # it will be told so, and what no run is given is not kept
        channel = self._ports.channel(turn.first.account)
        record = await self._record(turn.first)
        thread_id = record.thread_id
        self._ports.owners.learn(thread_id, record.owner)
        folder = thread_folder(self._ports.data_dir, thread_id) / "uploads"
        allowance = self._ports.uploads.allowance(turn.person)
        taken: list[asyncio.Task[InputFile]] = []
        async with asyncio.TaskGroup() as converting:  # beside the files that are still to be fetched
            for attachment in (found for part in turn.parts for found in part.message.attachments):
                if channel is None:
                    turn.refused.append(Refused(display_name(attachment), "failed"))
                    continue
                result = await self._ports.uploads.fetch(channel, attachment, folder, allowance)
                if isinstance(result, InputFile):
                    taken.append(converting.create_task(_of(self._ports.with_text(thread_id, result, turn.person))))
                else:
                    turn.refused.append(result)
        turn.files = [task.result() for task in taken]

    def completed(self) -> Iterator[Turn]:
        """Take out the complete turns at the head; an earlier one that still arrives holds back the later."""
        while self._turns and self._turns[0].complete:
            yield self._turns.popleft()

    def take(self, which: Callable[[Turn], bool]) -> list[Turn]:
        """Take out these of what still arrives, and stop fetching them."""
        taken = [turn for turn in self._turns if which(turn)]
        for turn in taken:
            self._turns.remove(turn)
            if turn.arriving is not None:
                turn.arriving.cancel()
        return taken

    def edit(self, new: Message) -> tuple[int, Message] | None:
        """Put a message's new state in its place: its inbox row and that state; None when it is not among these."""
        for turn in self._turns:
            for index, part in enumerate(turn.parts):
                if (message := edited_message(part.message, new)) is not None:
                    turn.parts[index] = replace(part, message=message)
                    return part.id, message
        return None


async def _of(file: Awaitable[InputFile]) -> InputFile:
    return await file
