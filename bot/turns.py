"""A turn's input while it is put together from its messages, and the run that it becomes; for conversations.py."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bot.identity import person_id, thread_folder
from bot.store.encoding import to_json
from bot.store.rows import RunRow, RunState
from bot.texts import texts_for
from channels.message import INBOUND_EVENT, Message, OutboundMessage
from harness.context import RUN_CONTEXT, RUN_INPUT, InputFile, RunContext, RunInput, Speaker

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from pathlib import Path

    from bot.store.rows import ConversationRow, InboxRow
    from bot.uploads import Refused
    from channels.base import Clock

QUIET = 0.8
"""Seconds without a further event after which a bundle (an album, a long paste) is complete."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """An admitted message. language: to answer in; is_admin: of its sender."""

    id: int
    message: Message
    language: str
    is_admin: bool = False


@dataclass(slots=True, eq=False)
class Turn:
    """One turn's input while it is put together: several events of one bundle, and their files.

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
    def ids(self) -> tuple[int, ...]:
        return tuple(part.id for part in self.parts)

    @property
    def text(self) -> str:
        return joined(part.message.text for part in self.parts)

    @property
    def hollow(self) -> bool:
        """Nothing is left to answer: it was only files, and none was taken."""
        return bool(self.refused) and not self.files and not self.text.strip()

    def takes(self, message: Message) -> bool:
        """Whether a message is a further part of this turn."""
        return (
            not self.sealed
            and message.bundle_key is not None
            and message.bundle_key == self.first.bundle_key
            and message.sender.id == self.first.sender.id
        )

    async def quiet(self, clock: Clock) -> None:
        """Wait for the bundle's last part; at once for what is no bundle."""
        while self.first.bundle_key is not None:
            self.touched.clear()
            touched = asyncio.create_task(self.touched.wait())
            quiet = asyncio.create_task(clock.sleep(QUIET))
            try:
                await asyncio.wait({touched, quiet}, return_when=asyncio.FIRST_COMPLETED)
                if not touched.done():
                    break
            finally:
                touched.cancel()
                quiet.cancel()
        self.sealed = True

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


def run_of(
    turn: Turn,
    conversation: ConversationRow,
    *,
    model: str,
    background: tuple[str, ...],
    data_dir: Path,
    now: datetime,
    epoch: int,
) -> RunRow:
    """The pending run that answers a complete turn. model: where the conversation has chosen none."""
    message, run_id = turn.first, uuid.uuid4().hex
    speaker = person_id(message.account, message.sender.id)
    context = RunContext(
        thread_id=conversation.thread_id,
        run_id=run_id,
        trace_id=run_id,
        account=message.account,
        conversation=conversation.key,
        owner=conversation.owner,
        speaker=Speaker(id=speaker, display_name=message.sender.display_name, is_admin=turn.parts[0].is_admin),
        is_group=message.address.kind != "dm",
        locale=turn.language,
        workspace=str(thread_folder(data_dir, conversation.thread_id)),
        model=conversation.model or model,
    )
    run_input = RunInput(
        message_id=f"m{turn.parts[0].id}",
        text=turn.text,
        files=tuple(turn.files),
        quote=message.reply_to.text if message.reply_to and not message.reply_to.from_bot else "",
        background=background,
    )
    return RunRow(
        run_id=run_id,
        thread_id=conversation.thread_id,
        conversation=conversation.key,
        speaker=speaker,
        inbox_ids=turn.ids,
        reply_key=run_id,
        address=message.address,
        reply_to=message.platform_message_id,
        state=RunState.PENDING,
        context=to_json(RUN_CONTEXT, context),
        input=to_json(RUN_INPUT, run_input),
        base_checkpoint_id=None,
        head=None,
        attempt=0,
        epoch=epoch,
        model_calls=0,
        created_at=now,
        started_at=None,
        ended_at=None,
    )


def edited_message(known: Message, new: Message) -> Message | None:
    """`known` with its new text, None when `new` is no later state of it."""
    if (known.platform_message_id, known.sender.id) != (new.platform_message_id, new.sender.id):
        return None
    return replace(known, text=new.text)


def edited_run(run: RunRow, known: Sequence[InboxRow], new: Message) -> tuple[RunRow, int, Message] | None:
    """A waiting run after an edit of one of its messages, that message's inbox row and its new state.

    known: the run's messages as they are stored. None when none of them was edited.
    """
    found: tuple[int, Message] | None = None
    texts = []
    for row in known:
        message = INBOUND_EVENT.validate_json(row.event)
        if not isinstance(message, Message):
            continue
        edited = edited_message(message, new)
        if edited is not None:
            found, message = (row.id, edited), edited
        texts.append(message.text)
    if found is None:
        return None
    run_input = replace(RUN_INPUT.validate_json(run.input), text=joined(texts))
    return replace(run, input=to_json(RUN_INPUT, run_input)), *found
