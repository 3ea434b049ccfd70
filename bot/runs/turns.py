"""Turns: a person's input, assembled from messages and files until it is complete."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bot.files.uploads import Refused, display_name
from bot.settings.busy_policies import QUEUED, Busy, TurnRules
from bot.store import inbox, runs
from bot.store.identity import person_id, thread_folder
from bot.texts import texts_for
from bot.texts.command_line import parse
from channels.message import OutboundMessage
from channels.supervision import until_first
from harness.context import InputFile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from sqlalchemy import Connection

    from bot.conversations.services import ConversationPorts
    from bot.store.rows import ConversationRow
    from channels.base import Clock
    from channels.message import Attachment, Message, Quote

QUIET = 0.8
"""Seconds without a further event after which a bundle (an album, a long paste) is complete."""
WINDOWS = 5
"""Most debounce windows that a turn waits for further messages."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """An admitted message. language: to answer in; is_admin: of its sender; rules: its account's. schedule: the id of
    the schedule that sends it in the sender's name, "" if they wrote it. heading: shown above the answer. rule: the one
    that admitted it. offer: data of the pressed button below a report, "" for any other message."""

    id: int
    message: Message
    language: str
    is_admin: bool = False
    rules: TurnRules = QUEUED
    schedule: str = ""
    heading: str = ""
    rule: str = ""
    offer: str = ""


def turn_rules(message: Message, rules: TurnRules) -> TurnRules:
    """The rules by which a message becomes a turn: its account's, unless its sender asked for something else."""
    if message.turn is None:
        return rules
    busy = rules.busy if message.turn.busy is None else Busy(message.turn.busy)
    return replace(rules, busy=busy, debounce=0.0, join=0.0)


@dataclass(slots=True, eq=False)
class Turn:
    """The input of one turn while it is assembled: the messages of one bundle, or those that one person sends in quick
    succession, and their files.

    sealed: a further part would start a new turn. complete: the files have arrived and a run can be opened.
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
    def heading(self) -> str:
        return self.parts[0].heading

    @property
    def offer(self) -> str:
        return self.parts[0].offer

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
    def stands_alone(self) -> bool:
        """Whether a program sent it, which waits for the answer to this turn alone."""
        return self.first.turn is not None

    @property
    def only_voice(self) -> bool:
        """Whether it consists only of voice messages: without their text there is nothing to answer."""
        kinds = {attachment.kind for part in self.parts for attachment in part.message.attachments}
        return kinds == {"voice"} and not self.text.strip()

    @property
    def hollow(self) -> bool:
        """Whether nothing is left to answer: it had only files, and none was accepted."""
        return bool(self.refused) and not self.files and not self.text.strip()

    def takes(self, spoken: Spoken) -> bool:
        """Whether a message is a further part of this turn."""
        message, last = spoken.message, self.parts[-1].message
        if self.sealed or spoken.schedule or spoken.offer or message.sender.id != last.sender.id:
            return False
        if message.bundle_key is not None and message.bundle_key == last.bundle_key:
            return True
        return self.rules.debounce > 0 and spoken.language == self.language

    async def quiet(self, clock: Clock) -> None:
        """Wait for the bundle's last part and the end of the debounce window; returns at once for any other turn."""
        ends = clock.monotonic() + WINDOWS * self.rules.debounce
        while (pause := self._pause(ends - clock.monotonic())) > 0:
            self.touched.clear()
            await until_first(self.touched.wait(), clock.sleep(pause))
            if not self.touched.is_set():
                break
        self.sealed = True

    def _pause(self, left: float) -> float:
        """Seconds of quiet after which the turn is complete. left: seconds until the longest debounce wait is over."""
        bundle = QUIET if self.parts[-1].message.bundle_key is not None else 0.0
        return max(bundle, min(self.rules.debounce, left))

    def quote(self, *, whoever: bool = False) -> str:
        """The texts that the turn replies to, except the bot's (`recalled`). whoever: include the bot's too, if the
        turn is about that very text."""
        return self._replied_to(lambda message, reply: whoever or not _is_known(message, reply))

    @property
    def recalled(self) -> str:
        """The texts of the bot that the turn replies to: the agent cannot tell which of its own are meant."""
        return self._replied_to(_is_known)

    def _replied_to(self, wanted: Callable[[Message, Quote], bool]) -> str:
        replies = [(part.message, part.message.reply_to) for part in self.parts]
        return joined(dict.fromkeys(reply.text for message, reply in replies if reply and wanted(message, reply)))

    @property
    def quoted_files(self) -> tuple[Message, ...]:
        """Its messages that reply to files: those of people, and the bot's own if it calls a skill or a research by a
        slash."""
        called = parse(self.text) is not None
        replies = ((part.message, part.message.reply_to) for part in self.parts)
        return tuple(m for m, reply in replies if reply and reply.attachments and (called or not reply.from_bot))

    def not_taken(self) -> OutboundMessage | None:
        """The notice about refused files, None without any."""
        sentences = texts_for(self.language).file_problem
        lines = [
            sentences[refused.problem].format(name=refused.name, limit=f"{refused.limit:g}") for refused in self.refused
        ]
        return OutboundMessage(text="\n\n".join(lines), final=True) if lines else None


def _is_known(message: Message, reply: Quote) -> bool:
    """Whether the agent knows what a message replies to: its own words, unless a thread begins below them, which is a
    conversation of its own."""
    return reply.from_bot and reply.message_id != message.address.topic


def joined(texts: Iterable[str]) -> str:
    """The combined text of a bundle."""
    return "\n".join(text for text in texts if text)


def edited_message(known: Message, new: Message) -> Message | None:
    """`known` with its new text; None when `new` is not an edit of it."""
    if (known.platform_message_id, known.sender.id) != (new.platform_message_id, new.sender.id):
        return None
    return replace(known, text=new.text)


class Arrivals:
    """Turns that are being assembled; they leave complete and in order.

    record: returns the stored conversation. arrived: called when a turn became complete later.
    """

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

    def holds(self, offer: str) -> bool:
        """Whether the turn of this button is among them, behind a turn whose files have not arrived yet."""
        return any(turn.offer == offer for turn in self._turns)

    def begin(self, spoken: Spoken) -> None:
        """Begin a new turn; it is complete at once if nothing is left to arrive."""
        message = spoken.message
        turn = Turn([spoken])
        fetches = bool(message.attachments or turn.quoted_files)
        at_once = message.bundle_key is None and not fetches and not spoken.rules.debounce
        turn.sealed = turn.complete = at_once
        self._turns.append(turn)
        if not at_once:
            turn.arriving = self._ports.tasks.spawn(f"{spoken.id}:arrive", self._assemble(turn))
            # If cancelled (dropped, or the process stops), it must not be answered without its files.
            turn.arriving.add_done_callback(lambda done: None if done.cancelled() else self._arrived(turn))

    async def _assemble(self, turn: Turn) -> None:
        """Wait for the last part and fetch the files."""
        await turn.quiet(self._ports.clock)
        if turn.only_voice and not self._ports.runs.transcriber.works:
            return  # its sender is informed, and files that no run gets are not kept
        channel = self._ports.channel(turn.first.account)
        record = await self._record(turn.first)
        thread_id = record.thread_id
        self._ports.owners.learn(thread_id, record.owner)
        folder = thread_folder(self._ports.data_dir, thread_id) / "uploads"
        allowance = self._ports.uploads.allowance(turn.person)
        taken: list[asyncio.Task[InputFile]] = []
        quoted, kept = await self._quoted(turn, thread_id)
        async with asyncio.TaskGroup() as converting:  # while further files are fetched
            for attachment in (*(found for part in turn.parts for found in part.message.attachments), *quoted):
                if channel is None:
                    turn.refused.append(Refused(display_name(attachment), "failed"))
                    continue
                result = await self._ports.uploads.fetch(channel, attachment, folder, allowance)
                if isinstance(result, InputFile):
                    taken.append(converting.create_task(_of(self._ports.with_text(thread_id, result, turn.person))))
                else:
                    turn.refused.append(result)
        turn.files = [*(task.result() for task in taken), *kept]

    async def _quoted(self, turn: Turn, thread_id: str) -> tuple[list[Attachment], list[InputFile]]:
        """The quoted files that a turn is about: those to fetch, and those that the thread already has."""
        wanted: list[Attachment] = []
        kept: list[InputFile] = []
        for message in turn.quoted_files:
            known = await self._ports.store.read(lambda tx, message=message: _kept(tx, message, thread_id))  # type: ignore[misc]
            kept += known
            if not known and message.reply_to is not None:
                # The recording may be anyone's: its words are not those of the person who quotes it.
                files = message.reply_to.attachments
                wanted += [replace(each, kind="audio") if each.kind == "voice" else each for each in files]
        return wanted, kept

    def completed(self) -> Iterator[Turn]:
        """Take out the complete turns at the head; a turn that is still arriving holds back the later ones."""
        while self._turns and self._turns[0].complete:
            yield self._turns.popleft()

    def take(self, which: Callable[[Turn], bool]) -> list[Turn]:
        """Take out the matching turns that are still arriving, and stop fetching their files."""
        taken = [turn for turn in self._turns if which(turn)]
        for turn in taken:
            self._turns.remove(turn)
            if turn.arriving is not None:
                turn.arriving.cancel()
        return taken

    def edit(self, new: Message) -> tuple[int, Message] | None:
        """Replace a message by its edit; returns its inbox row and new state, None if it is not among these turns."""
        for turn in self._turns:
            for index, part in enumerate(turn.parts):
                if (message := edited_message(part.message, new)) is not None:
                    turn.parts[index] = replace(part, message=message)
                    return part.id, message
        return None


def _kept(tx: Connection, message: Message, thread_id: str) -> list[InputFile]:
    """Files of the message that this one replies to, as far as this thread received them and they still exist."""
    reply, address = message.reply_to, message.address
    found = inbox.at_message(tx, address.account, address.chat, reply.message_id) if reply is not None else None
    run = runs.answering(tx, found.id) if found is not None else None
    if reply is None or run is None or run.thread_id != thread_id:
        return []
    names, known = {display_name(each) for each in reply.attachments}, run.input.whole.files
    theirs = [file for file in known if len(known) == 1 or file.name in names]
    return [replace(file, voice=None) for file in theirs if file.path.is_file()]


async def _of(file: Awaitable[InputFile]) -> InputFile:
    return await file
