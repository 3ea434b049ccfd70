"""/knowledge: the collections of a person, in their own chat, or of a group, in the group, and additions to them.

Everyone in a group may list and ask; controllers of the conversation add and remove. The agent answers questions.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bot.commands.group import CommandGroup, by_place, in_group, log_act
from bot.control.actions import Action
from bot.files.uploads import Refused
from bot.knowledge.keeper import ARRIVING, FILE, MAIN, Addition, LimitReached
from bot.knowledge.reading import Unreadable
from bot.knowledge.searching import PAGE
from bot.store import inbox, runs
from bot.store.knowledge import EVERYBODYS
from bot.texts.markdown import plain
from channels.message import INBOUND_EVENT, Message
from harness.knowledge.config import LONGEST_NAME
from harness.knowledge.port import Asker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.commands.group import Answers
    from bot.conversations.actor import Conversation
    from bot.conversations.services import ConversationPorts
    from bot.store.knowledge import DocumentRow
    from bot.store.rows import ConversationRow
    from bot.texts.catalogue import Texts
    from bot.texts.command_line import Call
    from channels.message import Attachment
    from harness.context import InputFile

ASK = "ask"
CHANGING = ("add", "remove")
MOST_AT_ONCE = 10
"""Maximum number of files and addresses of one /knowledge add."""
MOST_SHOWN = 60
"""Maximum number of documents in one list."""
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_COLLECTION = re.compile(rf"#([\w-]{{1,{LONGEST_NAME}}})(?![\w-])")
_NUMBERS = re.compile(r"\d{1,5}(?:[\s,;、，]+\d{1,5})*")


class KnowledgeCommands(CommandGroup):
    def __init__(self, answers: Answers, ports: ConversationPorts) -> None:
        super().__init__(answers)
        self._knowledge = ports.knowledge
        self._ports = ports
        self.commands = {"knowledge": self._do}

    async def is_for_agent(self, conversation: Conversation, call: Call) -> bool:
        """Whether a use of the command is a question, which goes to the agent like any other message."""
        word, _, question = call.line.arguments.partition(" ")
        return self._knowledge.settings.enabled and word.lower() == ASK and bool(question.strip())

    async def _do(self, conversation: Conversation, call: Call) -> None:
        word, _, rest = call.line.arguments.partition(" ")
        verb, say = word.lower(), call.texts.knowledge
        if not self._knowledge.covers(is_group=in_group(call)):
            return await self._say(call, say["off_group" if self._knowledge.settings.enabled else "off"])
        if verb in CHANGING and not call.may_control:
            return await self._answers.say(call, call.texts.not_allowed, "not allowed")
        record = await conversation.row(call.message)
        if verb in ("", "list"):
            await self._say(call, await self._listed(record.owner, call))
        elif verb == "add":
            # Reading takes a while, and the conversation continues. After a crash the command is delivered again.
            self._ports.tasks.spawn(f"{call.event_id}:knowledge", self._add(conversation, call, record, rest.strip()))
        elif verb == "remove":
            await self._remove(conversation, call, record.owner, rest.strip())
        else:
            await self._say(call, say["usage"])

    # Listing.

    async def _listed(self, owner: str, call: Call) -> str:
        say = call.texts.knowledge
        own, everybodys = await self._knowledge.documents(owner), await self._knowledge.documents(EVERYBODYS)
        if own:
            shown = [_line(number, row, call.texts) for number, row in enumerate(own[:MOST_SHOWN], 1)]
            more = [say["more"].format(count=len(own) - MOST_SHOWN)] if len(own) > MOST_SHOWN else []
            parts = [say[by_place("head", call)], "\n".join([*shown, *more])]
        else:
            parts = [say[by_place("empty", call)]]
        counts: dict[str, int] = {service.name: 0 for service in self._knowledge.settings.services}
        for row in everybodys:
            counts[row.collection] = counts.get(row.collection, 0) + 1
        if counts:
            named = (say["everybodys_line"].format(name=plain(name), count=counts[name]) for name in sorted(counts))
            parts.append("\n".join([say["everybodys"], *named]))
        if (progress := self._knowledge.progress).total:
            parts.append(say["under_way"].format(number=progress.done, count=progress.total))
        return "\n\n".join([*parts, say["hint"]])

    # Adding.

    async def _add(self, conversation: Conversation, call: Call, record: ConversationRow, rest: str) -> None:
        say, addresses = call.texts.knowledge, list(dict.fromkeys(_ADDRESS.findall(rest)))
        rest = _ADDRESS.sub(" ", rest)
        chosen = _COLLECTION.search(rest)
        name = " ".join(_COLLECTION.sub(" ", rest).split())
        if "#" in name:
            return await self._say(call, say["bad_collection"])
        collection = chosen[1] if chosen is not None else MAIN
        count = max(len(addresses) + len(call.message.attachments), 1)
        try:
            # Before anything is fetched: waiting files take up disk space.
            with self._knowledge.admitted(record.owner, call.person, count):
                await self._add_admitted(conversation, call, record, collection, addresses, name)
        except LimitReached as full:
            await self._say(call, say[by_place("full", call)].format(count=full.limit))

    async def _add_admitted(
        self,
        conversation: Conversation,
        call: Call,
        record: ConversationRow,
        collection: str,
        addresses: Sequence[str],
        name: str,
    ) -> None:
        say = call.texts.knowledge
        # Files that arrive with the command itself are not kept, only their text.
        with tempfile.TemporaryDirectory(prefix=ARRIVING, dir=self._ports.data_dir) as folder:
            files, refused, problem = await self._files(call, record, name, Path(folder), wanted=not addresses)
            if problem:
                return await self._say(call, say[problem].format(name=plain(name)))
            if len(addresses) + len(files) > MOST_AT_ONCE:
                return await self._say(call, say["too_many"].format(count=MOST_AT_ONCE))
            told = [_refused(each, call.texts) for each in refused]
            await self._add_all(conversation, call, record, collection, [*addresses, *files], told)

    async def _add_all(
        self,
        conversation: Conversation,
        call: Call,
        record: ConversationRow,
        collection: str,
        todo: Sequence[str | InputFile],
        told: list[str],
    ) -> None:
        """Add one after the other and show the progress. told: lines to report so far."""
        say, added = call.texts.knowledge, 0
        for number, each in enumerate(todo, 1):
            label = plain(each if isinstance(each, str) else each.name)
            reading = say["reading"].format(name=label, number=number, count=len(todo))
            await self._answers.progress(call, "\n".join([*told, reading]))
            addition = Addition(
                owner=record.owner,
                collection=collection,
                kind=PAGE if isinstance(each, str) else FILE,
                place=each if isinstance(each, str) else each.name,
                added_by=call.person,
                thread_id="" if isinstance(each, str) else record.thread_id,
            )
            try:
                if isinstance(each, str):
                    row = await self._knowledge.add_page(addition)
                else:
                    row = await self._knowledge.add_file(addition, each.path.read_bytes)
            except Unreadable as error:
                told.append(say["not_added"].format(name=label, problem=_problem(str(error), call.texts)))
            else:
                told.append(say["added"].format(name=label, collection=plain(collection), count=row.passages))
                added += 1
                log_act(Action.KNOWLEDGE_ADD, call, conversation, what=collection)
        payer = Asker(owner=record.owner, speaker=call.person, conversation=record.key)
        if added and await self._knowledge.vectors_wait_for(payer):
            told.append(say["by_words"])
        await self._say(call, "\n".join(told))

    async def _files(
        self, call: Call, record: ConversationRow, name: str, folder: Path, *, wanted: bool
    ) -> tuple[Sequence[InputFile], Sequence[Refused], str]:
        """Files that the command refers to: those attached to it, those of the message that it replies to, or one of
        the thread by its name; with a key of Texts.knowledge if one is wanted and there is none. folder: where missing
        files are downloaded to."""
        message = call.message
        if message.attachments:
            return *await self._fetched(call, folder, message.attachments), ""
        if name:
            known = await self._ports.store.read(lambda tx: runs.files_of(tx, record.thread_id))
            named = next((file for file in known if file.name.casefold() == name.casefold()), None)
            return ([named], [], "") if named is not None else ([], [], "unknown_file")
        if message.reply_to is None:
            return [], [], "usage" if wanted else ""
        address, replied = message.address, message.reply_to.message_id
        found = await self._ports.store.read(lambda tx: inbox.at_message(tx, address.account, address.chat, replied))
        event = INBOUND_EVENT.validate_json(found.event) if found is not None else None
        if found is None or not isinstance(event, Message) or not event.attachments:
            return [], [], "reply_unknown" if wanted else ""
        run = await self._ports.store.read(lambda tx: runs.answering(tx, found.id))
        names = {attachment.name for attachment in event.attachments}
        kept = run.input.whole.files if run is not None else ()
        theirs = [file for file in kept if file.path.is_file() and (len(kept) == 1 or file.name in names)]
        return (theirs, [], "") if theirs else (*await self._fetched(call, folder, event.attachments), "")

    async def _fetched(
        self, call: Call, folder: Path, attachments: Sequence[Attachment]
    ) -> tuple[list[InputFile], list[Refused]]:
        """Fetch files from the platform, within the limits on uploads."""
        channel, ports = self._ports.channel(call.message.account), self._ports
        if channel is None:
            return [], []
        allowance = ports.uploads.allowance(call.person)
        made = [await ports.uploads.fetch(channel, each, folder, allowance) for each in attachments[:MOST_AT_ONCE]]
        refused = [each for each in made if isinstance(each, Refused)]
        return [each for each in made if not isinstance(each, Refused)], refused

    # Removing.

    async def _remove(self, conversation: Conversation, call: Call, owner: str, rest: str) -> None:
        say, known = call.texts.knowledge, await self._knowledge.documents(owner)
        if rest.lower() == "all":
            chosen = known
        elif (collection := _COLLECTION.fullmatch(rest)) is not None:
            chosen = [row for row in known if row.collection.casefold() == collection[1].casefold()]
        elif _NUMBERS.fullmatch(rest):
            numbers = sorted({int(number) for number in re.findall(r"\d+", rest)})
            wrong = next((number for number in numbers if not 1 <= number <= len(known)), None)
            if wrong is not None:
                return await self._say(call, say["unknown_number"].format(number=wrong))
            chosen = [known[number - 1] for number in numbers]
        else:
            return await self._say(call, say["usage"])
        if not chosen:
            return await self._say(call, say["nothing"])
        await self._knowledge.remove([row.id for row in chosen])
        log_act(Action.KNOWLEDGE_REMOVE, call, conversation, what=f"{len(chosen)} documents")
        names = ", ".join(plain(row.title or row.place) for row in chosen[:MOST_AT_ONCE])
        done = say["removed"].format(count=len(chosen), names=names)
        await self._say(call, f"{done}\n\n{await self._listed(owner, call)}")

    async def _say(self, call: Call, text: str) -> None:
        await self._answers.say(call, text, "/knowledge")


def _line(number: int, row: DocumentRow, texts: Texts) -> str:
    say = texts.knowledge
    name = plain(row.title or row.place)
    shown = {"number": number, "name": name, "collection": plain(row.collection), "count": row.passages}
    if row.problem:
        return say["line_problem"].format(**shown, problem=_problem(row.problem, texts))
    return say["line"].format(**shown)


def _problem(problem: str, texts: Texts) -> str:
    """Why a document could not be read. problem: the text of Unreadable."""
    kind, _, detail = problem.partition(": ")
    known = texts.knowledge_problem
    return known.get(kind, known["other"]).format(detail=plain(detail))


def _refused(refused: Refused, texts: Texts) -> str:
    return texts.file_problem[refused.problem].format(name=plain(refused.name), limit=f"{refused.limit:g}")
