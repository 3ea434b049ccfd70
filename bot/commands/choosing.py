"""Choices for a conversation: its model and agent, from a list with buttons, its time zone, how much progress is shown,
and whether answers are spoken."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, get_args
from zoneinfo import available_timezones

from bot.commands.group import ButtonKind, CommandGroup, log_act, option_of
from bot.control.actions import Action
from bot.delivery.buttons import question
from bot.store import conversations, prompts
from bot.texts.markdown import inline, plain
from bot.usage.days import zone_of
from channels.message import Button, OutboundMessage
from harness.context import Progress
from harness.scheduling.when import local, zone_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from bot.agents.profiles import AgentChoices
    from bot.commands.group import Answers
    from bot.conversations.actor import Conversation
    from bot.runs.speaking import SpokenAnswers
    from bot.store.rows import ConversationRow, PromptRow
    from bot.texts.catalogue import Texts
    from bot.texts.command_line import Call, Press
    from bot.usage.days import Days


PROMPT_LIFE = timedelta(days=1)

DEFAULT = "default"
"""The word that resets a choice."""


class TimezoneCommands(CommandGroup):
    """The /timezone command. gateway: the days of conversations without a chosen zone."""

    def __init__(self, answers: Answers, gateway: Days) -> None:
        super().__init__(answers)
        self._gateway = gateway
        self.commands = {"timezone": self._timezone}

    async def _timezone(self, conversation: Conversation, call: Call) -> None:
        row, wanted, words = await conversation.row(call.message), call.line.arguments.strip(), call.texts.timezone
        if not wanted:
            shown = self._told(words["shown"], zone_of(row, self._gateway.zone))
            return await self._answers.say(call, shown, "/timezone")
        if not call.may_control:
            return await self._answers.say(call, call.texts.not_allowed, "not allowed")
        chosen = None if wanted.casefold() == DEFAULT else zone_name(wanted)
        if chosen is None and wanted.casefold() != DEFAULT:
            text = words["unknown"].format(name=inline(wanted[:60]), near=_near(wanted))
            return await self._answers.say(call, text, "/timezone")
        text = self._told(words["changed"], chosen or self._gateway.zone)
        await self._answers.choose(call, conversation, "timezone", chosen, text, "/timezone")
        log_act(Action.TIMEZONE, call, conversation, what=chosen or DEFAULT)

    def _told(self, sentence: str, zone: str) -> str:
        return sentence.format(zone=zone, time=local(self._clock.now(), zone))


@dataclass(frozen=True, slots=True)
class _Switch:
    """A setting of a conversation that `/NAME` shows and `/NAME VALUE` changes. column: where the choice is stored;
    words: its texts, including those of the values."""

    name: str
    column: Literal["progress", "voice"]
    values: tuple[str, ...]
    action: Action
    words: Callable[[Texts], Mapping[str, str]]

    async def use(self, answers: Answers, conversation: Conversation, call: Call, usual: str) -> None:
        """Handle one use. usual: the value if none was chosen."""
        row, words = await conversation.row(call.message), self.words(call.texts)
        wanted = call.line.arguments.strip().casefold()
        if wanted not in (*self.values, DEFAULT):
            state = words[getattr(row, self.column) or usual]
            known = words["unknown"] if wanted else words["shown"]
            return await answers.say(call, known.format(state=state), self.name)
        if not call.may_control:
            return await answers.say(call, call.texts.not_allowed, "not allowed")
        chosen = None if wanted == DEFAULT else wanted
        text = words["changed"].format(state=words[chosen or usual])
        await answers.choose(call, conversation, self.column, chosen, text, self.name)
        log_act(self.action, call, conversation, what=wanted)


_PROGRESS = _Switch("/verbose", "progress", get_args(Progress), Action.PROGRESS, lambda texts: texts.verbose)
_VOICE = _Switch("/voice", "voice", ("on", "off"), Action.VOICE, lambda texts: texts.voice)


class SwitchCommands(CommandGroup):
    """The commands /verbose and /voice. speaking: speaks answers."""

    def __init__(self, answers: Answers, speaking: SpokenAnswers) -> None:
        super().__init__(answers)
        self._speaking = speaking
        self.commands = {"verbose": self._verbose, "voice": self._voice}

    async def _verbose(self, conversation: Conversation, call: Call) -> None:
        await _PROGRESS.use(self._answers, conversation, call, call.progress)

    async def _voice(self, conversation: Conversation, call: Call) -> None:
        if not self._speaking.works:
            return await self._answers.say(call, call.texts.voice["none"], "/voice")
        await _VOICE.use(self._answers, conversation, call, "on" if self._speaking.usual else "off")


def _near(wanted: str) -> str:
    """A zone whose name or city is spelled similarly."""
    places = (zone for zone in sorted(available_timezones()) if "/" in zone and not zone.startswith("Etc/"))
    cities = {zone.rpartition("/")[2].casefold(): zone for zone in places}
    spelled = "_".join(wanted.split()).casefold().rpartition("/")[2]
    found = get_close_matches(spelled, cities, n=1)
    return cities[found[0]] if found else "Europe/Berlin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A choice from a list. command: its name without the slash. kind: what is chosen, and the prompt's kind. options:
    the current ones by name, with their descriptions. current: what a conversation uses. words: head, line {name}
    {detail}, current, hint, switched {name}, unknown {name} {known}."""

    command: str
    kind: Literal["model", "agent"]
    options: Callable[[], Mapping[str, Callable[[Texts], str]]]
    current: Callable[[ConversationRow], str]
    words: Callable[[Texts], Mapping[str, str]]


class ChoiceCommands(CommandGroup):
    def __init__(self, answers: Answers, choice: Choice) -> None:
        super().__init__(answers)
        self._choice = choice
        self.commands = {choice.command: self._show}
        self.buttons = {choice.kind: ButtonKind(self._pressed, self._open_to)}

    async def _show(self, conversation: Conversation, call: Call) -> None:
        choice, row = self._choice, await conversation.row(call.message)
        name, reason, words = call.line.arguments, f"/{choice.command}", choice.words(call.texts)
        if not name:
            now, prompt_id = self._clock.now(), secrets.token_hex(8)
            prompt = question(choice.kind, prompt_id, conversation.key, list(choice.options()), now, life=PROMPT_LIFE)
            message = self._list(prompt.id, choice.current(row), call.texts)
            await self._answers.show(call, message, reason, also=lambda tx: prompts.create(tx, prompt))
        elif not call.may_control:
            await self._answers.say(call, call.texts.not_allowed, "not allowed")
        elif name not in choice.options():
            known = ", ".join(f"`{option}`" for option in choice.options())
            await self._answers.say(call, words["unknown"].format(name=inline(name), known=known), reason)
        else:
            text = words["switched"].format(name=name)
            await self._answers.choose(call, conversation, choice.kind, name, text, reason)
            log_act(Action(choice.kind), call, conversation, what=name)

    def _list(self, prompt_id: str, current: str, texts: Texts) -> OutboundMessage:
        """The list of options, each with a button."""
        words, options = self._choice.words(texts), self._choice.options()
        lines = [words["head"]]
        for name, told in options.items():
            detail = f" — {told(texts)}" if told(texts) else ""
            mark = words["current"] if name == current else ""
            lines.append(words["line"].format(name=name, detail=detail + mark))
        buttons = tuple(
            (Button(label=("● " if name == current else "") + name[:60], data=f"{prompt_id}:{index}"),)
            for index, name in enumerate(options)
        )
        text = "\n".join(lines) + "\n\n" + words["hint"]
        return OutboundMessage(text=text, buttons=buttons, final=True)

    async def _open_to(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        return press.may_control

    async def _pressed(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Switch, show that in the list, and remove its buttons."""
        if not press.may_control:
            await self._answers.nothing(press.event_id, "not allowed")
            return press.texts.not_allowed
        choice, name = self._choice, option_of(prompt, press.option)
        if name not in choice.options():
            await self._answers.nothing(press.event_id, "expired")
            return press.texts.button_expired
        message = self._list(prompt.id, name, press.texts)
        message = replace(message, text=f"{message.text}\n\n☑ {plain(name)}", buttons=())
        now = self._clock.now()

        def also(tx: Connection) -> None:
            prompts.answer(tx, prompt.id, press.person, name, now)
            conversations.choose(tx, conversation.key, choice.kind, name)

        await self._answers.change(press, message, f"{choice.kind} button", also)
        conversation.forget_row()
        log_act(Action(choice.kind), press, conversation, what=name)
        return choice.words(press.texts)["switched"].format(name=name).replace("`", "")


def model_commands(answers: Answers, agents: AgentChoices) -> ChoiceCommands:
    """/models: a choice among the configured models."""
    choice = Choice(
        command="models",
        kind="model",
        options=lambda: {model.name: model.told for model in agents.models},
        current=agents.model_of,
        words=lambda texts: texts.models,
    )
    return ChoiceCommands(answers, choice)


def agent_commands(answers: Answers, agents: AgentChoices) -> ChoiceCommands:
    """/agent: a choice among the operator's agents."""

    def told(description: str) -> Callable[[Texts], str]:
        return lambda texts: description

    choice = Choice(
        command="agent",
        kind="agent",
        options=lambda: {name: told(description) for name, description in agents.descriptions.items()},
        current=agents.agent_of,
        words=lambda texts: texts.agents,
    )
    return ChoiceCommands(answers, choice)
