"""/new, /stop, /status, /usage, /whoami, /help, /start, /undo and /compact: commands for a person's own conversation.

In a DM a person may use all of them; in a group everyone may use /status, /help, /start and /whoami, /stop for their
own runs, and /new according to `group_control`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bot.access.admins import admin_commands
from bot.commands.group import CommandGroup, log_act
from bot.control.actions import Action
from bot.store import conversations, inbox, runs
from bot.store.identity import chat_id
from bot.store.rows import StopReason
from bot.texts.markdown import inline
from bot.usage.budgets import Payer
from bot.usage.report import Asking, label_of, short
from channels.message import INBOUND_EVENT, OutboundMessage
from harness.errors import HarnessError, ModelFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection

    from bot.agents.profiles import AgentChoices
    from bot.commands.group import Answers
    from bot.conversations.actor import Conversation
    from bot.delivery.presented import Presented
    from bot.operations.status import StatusPage
    from bot.operations.why import WhyPage
    from bot.runs.manager import RunManager
    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from bot.texts.catalogue import Texts
    from bot.texts.command_line import Call
    from bot.usage.budgets import Budgets
    from bot.usage.report import UsageFacts, UsagePage
    from channels.message import Message


class UndoCommands(CommandGroup):
    def __init__(
        self, answers: Answers, store: RetryingStore, manager: RunManager, budgets: Budgets, agents: AgentChoices
    ) -> None:
        super().__init__(answers)
        self._store = store
        self._runs = manager
        self._budgets = budgets
        self._agents = agents
        self.commands = {"undo": self._undo, "compact": self._compact}

    async def _undo(self, conversation: Conversation, call: Call) -> None:
        """Undo in the agent first, then in the store; a crash in between repeats the event, and so the undo."""
        texts = call.texts
        if conversation.busy:
            return await self._answers.say(call, texts.undo["busy"], "/undo")
        last = await self._last_kept(conversation)
        if last is None:
            return await self._answers.say(call, texts.undo["nothing"], "/undo")
        if last.speaker != call.person and not call.is_admin:
            return await self._answers.say(call, texts.undo["not_yours"], "not allowed")
        try:
            await self._runs.rewind(last)
        except LookupError:  # pruned
            return await self._answers.say(call, texts.undo["lost"], "/undo")
        text = texts.undo["done"].format(text=_first_words(last))
        await self._answers.say(call, text, "/undo", also=lambda tx: runs.undo(tx, last))
        log_act(Action.UNDO, call, conversation, of=last.speaker, run=last.run_id)

    async def _last_kept(self, conversation: Conversation) -> RunRow | None:
        known = await conversation.stored()
        if known is None:
            return None
        return await self._store.read(lambda tx: runs.last_kept(tx, known.key, known.thread_id))

    async def _compact(self, conversation: Conversation, call: Call) -> None:
        texts = call.texts
        if not call.may_control:
            return await self._answers.say(call, texts.not_allowed, "not allowed")
        if conversation.busy:
            return await self._answers.say(call, texts.undo["busy"], "/compact")
        row = await conversation.row(call.message)
        payer = Payer(conversation.key, call.person, thread_id=row.thread_id)
        if (refused := await self._budgets.refusal(payer, texts)) is not None:
            return await self._answers.say(call, refused[1], "/compact")
        try:
            gone = await self._runs.compact(payer, self._agents.model_of(row))
        except ModelFailure as failure:
            trouble = texts.troubles.get(failure.kind)
            text = texts.compact["not_now"].format(trouble=trouble) if trouble else texts.compact["failed"]
            return await self._answers.say(call, text, "/compact")
        except HarnessError:
            return await self._answers.say(call, texts.compact["failed"], "/compact")
        text = texts.compact["done"].format(count=gone) if gone else texts.compact["nothing"]
        await self._answers.say(call, text, "/compact")
        log_act(Action.COMPACT, call, conversation)


def _first_words(run: RunRow) -> str:
    said = run.input
    return inline(said.text.strip() or ", ".join(file.name for file in said.files)) or "…"


class TalkCommands(CommandGroup):
    """The basic commands. agents: the agent of each conversation. abilities: what the bot can do, as keys of
    Texts.abilities."""

    def __init__(
        self,
        answers: Answers,
        store: RetryingStore,
        status: StatusPage,
        agents: AgentChoices,
        abilities: Callable[[], Sequence[str]],
    ) -> None:
        super().__init__(answers)
        self._store = store
        self._status = status
        self._abilities = abilities
        self._agents = agents
        self.commands = {
            "new": self._new,
            "stop": self._stop,
            "status": self._show_status,
            "whoami": self._whoami,
            "help": self._help,
            "start": self._start,
        }

    async def _new(self, conversation: Conversation, call: Call) -> None:
        if not call.may_control:
            return await self._answers.say(call, call.texts.not_allowed, "not allowed")
        stopped = conversation.stop_active(StopReason.NEW_THREAD)
        stop = conversation.stop_unit(StopReason.NEW_THREAD)
        dropped = await conversation.drop_waiting(lambda texts: texts.dropped_by_new)
        await conversation.row(call.message)
        title, texts = " ".join(call.line.arguments.split())[:100], call.texts
        text = texts.new_thread_titled.format(title=title) if title else texts.new_thread
        text += texts.new_stopped_run if stopped else ""
        text += texts.new_dropped.format(count=dropped) if dropped else ""
        text += self._who_reads(texts)
        now = self._clock.now()

        def also(tx: Connection) -> None:
            conversations.new_thread(tx, conversation.key, title, now)
            stop(tx)

        await self._answers.say(call, text, "/new", also)
        conversation.forget_row()
        log_act(Action.NEW_THREAD, call, conversation)

    async def _stop(self, conversation: Conversation, call: Call) -> None:
        run = conversation.active
        if run is None or await self._store.read(lambda tx: _asked_after(tx, run, call.message)):
            return await self._answers.say(call, call.texts.stop_nothing, "/stop")
        if run.speaker != call.person and not call.is_admin:
            return await self._answers.say(call, call.texts.stop_not_yours, "not allowed")
        if conversation.stop_active(StopReason.STOPPED):
            log_act(Action.STOP, call, conversation, of=run.speaker, run=run.run_id)
            # The answer itself shows that it was stopped.
            return await self._answers.nothing(call.event_id, "/stop", conversation.stop_unit(StopReason.STOPPED))
        await self._answers.say(call, call.texts.stop_nothing, "/stop")

    async def _show_status(self, conversation: Conversation, call: Call) -> None:
        row = await conversation.row(call.message)
        model, agent = self._agents.answering(row)
        text = await self._status.for_chat(conversation, row, model, call.texts, agent=agent, is_admin=call.is_admin)
        await self._answers.say(call, text, "/status")

    async def _whoami(self, conversation: Conversation, call: Call) -> None:
        text = call.texts.whoami.format(person=call.person, conversation=conversation.key)
        if call.message.address.kind != "dm":
            text += call.texts.whoami_group.format(chat=chat_id(call.message.address))
        await self._answers.say(call, text, "/whoami")

    async def _start(self, conversation: Conversation, call: Call) -> None:
        """Answer /start, which Telegram's clients send first, with a welcome and what the bot can do."""
        able = "\n".join(f"- {call.texts.abilities[ability]}" for ability in self._abilities())
        text = call.texts.started.format(abilities=able) + self._who_reads(call.texts)
        await self._answers.say(call, text, "/start")

    async def _help(self, conversation: Conversation, call: Call) -> None:
        texts = call.texts
        blocks = [texts.help_intro, _menu(texts.command_menu, texts)]
        if call.is_admin:
            offered = admin_commands(texts, has_page=self._status.asked.has_page())
            blocks += [texts.help_admin, _menu(offered, texts)]
        await self._answers.say(call, "\n\n".join(blocks) + self._who_reads(texts), "/help")

    def _who_reads(self, texts: Texts) -> str:
        """A last paragraph on who else can read what people write; "" if nobody can."""
        return f"\n\n{texts.read_by_admins}" if self._status.asked.read_by_admins() else ""


def _asked_after(tx: Connection, run: RunRow, said: Message) -> bool:
    """Whether a run was requested after `said`, by the platform's clock: a message delivered late does not refer to it.
    False if either of the two has no time from the platform."""
    for row in inbox.load(tx, run.inbox_ids[:1]):
        asked = INBOUND_EVENT.validate_json(row.event)
        return all(each.sent_at != each.received_at for each in (said, asked)) and asked.sent_at > said.sent_at
    return False


def _menu(menu: Mapping[str, str], texts: Texts) -> str:
    return "\n".join(texts.help_line.format(command=name, description=text) for name, text in menu.items())


class UsageCommands(CommandGroup):
    """The /usage command. pictures: keeps them until they are delivered."""

    def __init__(self, answers: Answers, page: UsagePage, pictures: Presented) -> None:
        super().__init__(answers)
        self._page = page
        self._pictures = pictures
        self.commands = {"usage": self._usage}

    async def _usage(self, conversation: Conversation, call: Call) -> None:
        facts = await self._page.facts(await self._asking(conversation, call))
        text = self._page.text(facts, call.texts)
        if not any(spent.tokens for _, spent in facts.days):
            return await self._answers.say(call, text, "/usage")
        days = self._page.days_text(facts, call.texts)
        if not self._pictures.takes_files(call.message.account):
            return await self._answers.say(call, f"{text}\n\n{days}", "/usage")
        key = f"event:{call.event_id}"
        async with self._pictures.drawn(key, "usage.png", partial(_picture, facts), instead=days) as file:
            shown = f"{text}\n\n{call.texts.usage['chart']}"
            await self._answers.show(call, OutboundMessage(text=shown, files=(file,), final=True), "/usage")

    async def _asking(self, conversation: Conversation, call: Call) -> Asking:
        row = await conversation.row(call.message)
        private = call.message.address.kind == "dm"
        run = conversation.active or await conversation.last_run()
        return Asking(
            row=row,
            speaker=call.person,
            run=None if run is None or run.thread_id != row.thread_id else run.run_id,
            running=conversation.active is not None,
            private=private,
            everything=private and call.is_admin,
        )


def _picture(facts: UsageFacts) -> bytes:
    from bot.usage.charts import Bar, bars_picture  # loads Pillow, which is needed only here

    bars = []
    for day, spent in facts.days:
        bars.append(Bar(label_of(day), spent.tokens, short(spent.tokens), part=spent.totals.cached))
    return bars_picture(bars)


class WhyCommands(CommandGroup):
    """/why: the decisions on a message, for administrators."""

    def __init__(self, answers: Answers, page: WhyPage) -> None:
        super().__init__(answers)
        self._page = page
        self.commands = {"why": self._why}

    async def _why(self, conversation: Conversation, call: Call) -> None:
        """Explain the named message, else the one replied to, else the previous answer, else the message that the
        thread begins with."""
        if not call.is_admin:
            return await self._answers.say(call, call.texts.not_allowed, "not allowed")
        message, named, quote = call.message, call.line.arguments, call.message.reply_to
        account, chat, topic = message.account, message.address.chat, message.address.topic
        if not named and quote is not None and quote.message_id:
            text = await self._page.of_message(account, chat, quote.message_id, call.texts)
        elif not named and quote is not None:
            text = await self._page.of_quote(account, chat, quote.text, call.texts)
        else:
            before = None if named else conversation.active or await conversation.last_run()
            if before is None and not named and topic is not None:  # Slack's threads have the id of their first message
                text = await self._page.of_message(account, chat, topic, call.texts)
            else:
                text = await self._page.of(named if before is None else before.run_id, call.texts)
        await self._answers.say(call, text, "/why")
