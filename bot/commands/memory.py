"""/memory: what is remembered of a person, in their own chat, or of a group, in the group; never one in the other. If
the conversation's agent keeps its own memory, the command uses that one, and the answer says so.

Changes made here take effect at once and override what is being learned concurrently (MemoryKeeper). In a group
everyone may look, and those who may control the conversation may change it.
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from bot.commands.group import ButtonKind, CommandGroup, by_place, in_group, log_act
from bot.control.actions import Action
from bot.store import memories, prompts
from bot.texts import memory_page
from bot.texts.markdown import plain
from channels.message import OutboundMessage
from harness.memory.redaction import has_secret
from harness.memory.store import MemoryUnavailable, NotKept

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from bot.agents.profiles import AgentChoices
    from bot.commands.group import Answers
    from bot.conversations.actor import Conversation
    from bot.delivery.presented import Presented
    from bot.memory.keeper import MemoryKeeper
    from bot.store.retrying import RetryingStore
    from bot.store.rows import PromptRow
    from bot.texts.command_line import Call, Press
    from bot.texts.memory_page import Item
    from harness.memory.model import Memory

    Verb = Callable[["Conversation", "Call", "Which", str], Awaitable[None]]

FORGET = "memory"
LIFE = timedelta(hours=1)
YES = 0
CHANGING = ("forget", "edit", "add", "on", "off")
TYPES = {"memory.md": "text/markdown", "memory.json": "application/json"}
NUMBERS = re.compile(r"\d{1,4}(?:[\s,;、，]+\d{1,4})*")


class Which(NamedTuple):
    """A memory: its owner, and the agent that keeps it for itself, "" for the one that agents share."""

    owner: str
    agent: str = ""


class MemoryCommands(CommandGroup):
    """The /memory command. agents: determines the conversation's agent, which may have its own memory. files: keeps
    those of an export until they are delivered."""

    def __init__(
        self,
        answers: Answers,
        book: MemoryKeeper,
        store: RetryingStore,
        files: Presented,
        agents: AgentChoices,
    ) -> None:
        super().__init__(answers)
        self._agents = agents
        self._book = book
        self._store = store
        self._files = files
        self._verbs: Mapping[str, Verb] = {
            "": self._show,
            "show": self._show,
            "search": self._search,
            "forget": self._forget,
            "edit": self._edit,
            "add": self._add,
            "export": self._export,
            "on": self._switch,
            "off": self._switch,
        }
        self.commands = {"memory": self._memory}
        self.buttons = {FORGET: ButtonKind(self._pressed, self._open_to)}

    async def _memory(self, conversation: Conversation, call: Call) -> None:
        word, _, rest = call.line.arguments.partition(" ")
        verb, say = word.lower(), call.texts.memory
        if not self._book.covers(is_group=in_group(call)):
            kept_off = "disabled_group" if self._book.covers(is_group=False) else "disabled"
            return await self._say(call, say[kept_off])
        if verb not in self._verbs:
            return await self._say(call, say["usage"])
        if verb in CHANGING and not call.may_control:
            return await self._answers.say(call, call.texts.not_allowed, "not allowed")
        row = await conversation.row(call.message)
        which = Which(row.owner, self._agents.memory_of(self._agents.agent_of(row)) or "")
        try:
            await self._verbs[verb](conversation, call, which, rest.strip() if verb not in ("on", "off") else verb)
        except MemoryUnavailable:
            await self._say(call, say["unavailable"])

    # Reading.

    async def _show(self, conversation: Conversation, call: Call, which: Which, rest: str) -> None:
        say, memory = call.texts.memory, await self._book.show(*which)
        items = memory_page.items_of(memory, call.texts)
        off = [say["is_off"]] if (await self._book.state(which.owner)).off else []
        if not items:
            return await self._say(call, "\n\n".join([say[by_place("empty", call)], *_note(call, which), *off]))
        listed = memory_page.listed(items, _numbered(items), call.texts)
        text = "\n\n".join([say[by_place("head", call)], *_note(call, which), listed, *off])
        keys = [item.key for item in items]
        await self._with_numbers(conversation, call, which, keys, f"{text}\n\n{say['hint']}")

    async def _search(self, conversation: Conversation, call: Call, which: Which, words: str) -> None:
        say, memory = call.texts.memory, await self._book.show(*which)
        items = memory_page.items_of(memory, call.texts)
        found = memory_page.found(items, words)
        if not words:
            return await self._say(call, say["usage"])
        if not found:
            return await self._say(call, say["found_none"].format(words=memory_page.asked(words)))
        head = say["found"].format(words=memory_page.asked(words))
        text = "\n\n".join([head, *_note(call, which), memory_page.listed(found, _numbered(items), call.texts)])
        await self._with_numbers(conversation, call, which, [item.key for item in items], text)

    async def _export(self, conversation: Conversation, call: Call, which: Which, rest: str) -> None:
        say, memory = call.texts.memory, await self._book.show(*which)
        if memory.is_empty:
            return await self._say(call, "\n\n".join([say[by_place("empty", call)], *_note(call, which)]))
        readable = memory_page.as_markdown(memory, say[by_place("head", call)], call.texts)
        contents = {"memory.md": readable, "memory.json": memory.to_json()}
        async with self._files.written(f"event:{call.event_id}", contents, TYPES, instead=readable) as files:
            message = OutboundMessage(text="\n\n".join([say["exported"], *_note(call, which)]), files=files, final=True)
            await self._answers.show(call, message, "/memory export")

    # Changing.

    async def _forget(self, conversation: Conversation, call: Call, which: Which, rest: str) -> None:
        if rest.lower() == "all":
            return await self._ask(conversation, call, which)
        if NUMBERS.fullmatch(rest) is None:
            return await self._say(call, call.texts.memory["usage"])
        memory = await self._book.show(*which)
        numbers = sorted({int(number) for number in re.findall(r"\d+", rest)})
        keys = await self._keys(conversation, call, which, memory)
        wrong = next((number for number in numbers if not 1 <= number <= len(keys)), None)
        if wrong is not None:
            return await self._say(call, call.texts.memory["unknown_number"].format(number=wrong))
        there = {item.key for item in memory_page.items_of(memory, call.texts)}
        chosen = {number: keys[number - 1] for number in numbers if keys[number - 1] in there}
        if not chosen:
            return await self._say(call, call.texts.memory["gone"])
        await self._book.forget(which.owner, list(chosen.values()), which.agent)
        log_act(Action.MEMORY_FORGET, call, conversation)
        text = call.texts.memory["forgotten"].format(numbers=", ".join(map(str, chosen)))
        await self._with_numbers(conversation, call, which, keys, text)

    async def _edit(self, conversation: Conversation, call: Call, which: Which, rest: str) -> None:
        number, _, text = rest.partition(" ")
        if not (number.isdecimal() and len(number) < 5 and text.strip()):
            return await self._say(call, call.texts.memory["usage"])
        keys = await self._keys(conversation, call, which, await self._book.show(*which))
        if not 1 <= int(number) <= len(keys):
            return await self._say(call, call.texts.memory["unknown_number"].format(number=int(number)))
        if has_secret(text):
            return await self._say(call, call.texts.memory["secret"])
        try:
            fact = await self._book.edit(which.owner, keys[int(number) - 1], text, call.person, which.agent)
        except NotKept:
            return await self._say(call, call.texts.memory["not_kept"])
        if fact is None:
            return await self._say(call, call.texts.memory["gone"])
        log_act(Action.MEMORY_EDIT, call, conversation)
        done = call.texts.memory["edited"].format(number=int(number), text=plain(fact.content))
        await self._with_numbers(conversation, call, which, keys, done)

    async def _add(self, conversation: Conversation, call: Call, which: Which, text: str) -> None:
        say = call.texts.memory
        if not text:
            return await self._say(call, say["usage"])
        if has_secret(text):
            return await self._say(call, say["secret"])
        if (await self._book.state(which.owner)).off:
            return await self._say(call, say["add_while_off"])
        try:
            fact = await self._book.add(which.owner, f"event:{call.event_id}", text, call.person, which.agent)
        except NotKept:
            return await self._say(call, say["not_kept"])
        log_act(Action.MEMORY_ADD, call, conversation)
        await self._say(call, "\n\n".join([say["added"].format(text=plain(fact.content)), *_note(call, which)]))

    async def _switch(self, conversation: Conversation, call: Call, which: Which, verb: str) -> None:
        await self._book.set_enabled(which.owner, verb == "on")
        log_act(Action.MEMORY_ON if verb == "on" else Action.MEMORY_OFF, call, conversation)
        await self._say(call, call.texts.memory[verb])

    # Forgetting everything, after a confirmation.

    async def _ask(self, conversation: Conversation, call: Call, which: Which) -> None:
        say, memory = call.texts.memory, await self._book.show(*which)
        text = "\n\n".join([say[by_place("ask_all", call)].format(count=len(memory.facts)), *_note(call, which)])
        labels, reason = (say["button_forget"], say["button_keep"]), "/memory forget all"
        await self._answers.ask(call, conversation, FORGET, which._asdict(), text, labels, reason, life=LIFE)

    async def _open_to(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        return prompt.who == press.person and press.may_control

    async def _pressed(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Handle the answer of the person who asked. After a crash in between the press is delivered again."""
        say, row = press.texts.memory, await conversation.stored()
        if not await self._open_to(conversation, prompt, press):
            await self._answers.nothing(press.event_id, "not allowed")
            return press.texts.not_yours
        which = Which(**json.loads(prompt.options))
        if row is None or row.owner != which.owner:
            await self._answers.nothing(press.event_id, "expired")
            return press.texts.button_expired
        text = say["stays"]
        if press.option == YES:
            try:
                text = say["all_gone"].format(count=(await self._book.forget_all(*which)).facts)
                log_act(Action.MEMORY_FORGET, press, conversation, what="all")
            except MemoryUnavailable:
                await self._answers.nothing(press.event_id, "memory unavailable")
                return say["unavailable"]
        now, answer = self._clock.now(), str(press.option)
        await self._answers.change(
            press,
            OutboundMessage(text=text, final=True),
            "memory button",
            also=lambda tx: prompts.answer(tx, prompt.id, press.person, answer, now),
        )
        return ""

    # Numbers.

    async def _keys(self, conversation: Conversation, call: Call, which: Which, memory: Memory) -> list[str]:
        """The facts by number: those of the list shown last, else those of the list that would be shown now."""
        shown = await self._store.read(lambda tx: memories.listed_facts(tx, conversation.key, *which))
        return [item.key for item in memory_page.items_of(memory, call.texts)] if shown is None else shown

    async def _with_numbers(
        self, conversation: Conversation, call: Call, which: Which, keys: Sequence[str], text: str
    ) -> None:
        """Answer, and let the numbers refer to these facts from now on: those of the list that people see, even when
        some of it is forgotten, until the next list."""
        now, (owner, agent) = self._clock.now(), which
        await self._answers.say(
            call, text, "/memory", also=lambda tx: memories.record_list(tx, conversation.key, owner, keys, now, agent)
        )

    async def _say(self, call: Call, text: str) -> None:
        await self._answers.say(call, text, "/memory")


def _note(call: Call, which: Which) -> list[str]:
    """The note on a memory that the agent keeps for itself."""
    return [call.texts.memory["own"].format(agent=which.agent)] if which.agent else []


def _numbered(items: Sequence[Item]) -> dict[str, int]:
    return {item.key: number for number, item in enumerate(items, 1)}
