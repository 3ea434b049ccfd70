"""The buttons of runs: on a waiting message, on an answer that failed, and below the report of a research. Their ids
are derived from the run, so that a restarted process shows the same ones.

On platforms without buttons: a numbered list, answered by typing the number (bot/inbound/button_handler.py).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.store import outbox, prompts, runs
from bot.store.rows import PromptRow, RunState
from bot.texts.markdown import plain
from channels.message import OUTBOUND_MESSAGE, Button
from harness.text.plain import cut

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.store.rows import RunRow
    from bot.texts.catalogue import Texts
    from channels.capabilities import Capabilities
    from channels.message import Address, Message, OutboundMessage
    from harness.events import Question, Report

WAITING = "waiting"
RETRY = "retry"
CLARIFY = "clarify"
OFFER = "offer"
DEEPER = "deeper"
"""The offer below a report that is not the name of a skill: a further research."""
RUN_NOW, DROP = "now", "drop"
LIFE = timedelta(days=7)
LABEL = 60
"""Characters of an option on its button."""
LOOKED_BACK = 50
"""Number of the bot's newest messages in a chat that are searched for the question that a number answers."""

_NUMBER = re.compile(r"[1-9\uff11-\uff19][0-9\uff10-\uff19]{0,2}")  # also full-width digits


def question(
    kind: str,
    prompt_id: str,
    conversation: str,
    options: object,
    now: datetime,
    *,
    life: timedelta = LIFE,
    who: str | None = None,
) -> PromptRow:
    """A question that stays open for `life`. options: JSON types. who: the only person who may answer."""
    return PromptRow(
        id=prompt_id,
        kind=kind,
        conversation=conversation,
        who=who,
        options=json.dumps(options),
        expires_at=now + life,
    )


def row_of(prompt_id: str, *labels: str) -> tuple[Button, ...]:
    """A row of buttons, one for each option of a question, in their order."""
    return tuple(Button(label=label, data=f"{prompt_id}:{index}") for index, label in enumerate(labels))


def waiting_question(run: RunRow, now: datetime) -> PromptRow:
    options = [[RUN_NOW, run.run_id], [DROP, run.run_id]]
    return question(WAITING, _waiting_id(run), run.conversation, options, now)


def waiting_buttons(run: RunRow, texts: Texts) -> tuple[tuple[Button, ...], ...]:
    """The buttons Run now and Drop, for a waiting message."""
    return (row_of(_waiting_id(run), texts.button_run_now, texts.button_drop),)


def retry_question(run: RunRow, now: datetime) -> PromptRow:
    return question(RETRY, _retry_id(run), run.conversation, [[RETRY, run.run_id]], now)


def retry_buttons(run: RunRow, texts: Texts) -> tuple[tuple[Button, ...], ...]:
    """The button Try again, for an answer that failed."""
    return (row_of(_retry_id(run), texts.button_retry),)


def clarify_question(asked: Question, run: RunRow, now: datetime) -> PromptRow:
    """The agent's question, with the answers to choose from."""
    life = asked.expires_at - now
    who = run.speaker if asked.personal else None
    prompt = question(CLARIFY, asked.prompt_id, run.conversation, list(asked.options), now, life=life, who=who)
    return replace(prompt, run_id=run.run_id)


def label(option: str) -> str:
    """An option, shortened to fit on its button."""
    return cut(option, LABEL)


def clarify_buttons(asked: Question) -> tuple[tuple[Button, ...], ...]:
    """One button per row; the text holds the full version of an option that is too long for its button."""
    return tuple((button,) for button in row_of(asked.prompt_id, *map(label, asked.options)))


def offer_question(report: Report, run: RunRow, now: datetime) -> PromptRow:
    """The offers below a report. Each of them can be taken, one after another; see `offered` and `take_offer`."""
    offers = [[what, ""] for what in _offers(report)]
    told = {"title": report.title, "path": report.path, "offers": offers}
    return replace(question(OFFER, _offer_id(run), run.conversation, told, now), run_id=run.run_id)


def offer_buttons(report: Report, run: RunRow, texts: Texts) -> tuple[tuple[Button, ...], ...]:
    """One button for each offer below a report."""
    row = row_of(_offer_id(run), *(texts.offers[what] for what in _offers(report)))
    return (tuple(replace(button, stays=True) for button in row),)


def _offers(report: Report) -> list[str]:
    return [*report.skills, DEEPER]


@dataclass(frozen=True, slots=True)
class Offered:
    """An offer below a report. what: the name of a skill, or DEEPER. run_id: the newest run that was started by it, ""
    for none. title, path: the report's."""

    what: str
    run_id: str
    title: str
    path: str


def offered(prompt: PromptRow, index: int) -> Offered | None:
    """The offer of the button with this index; None when there is no such button."""
    told = json.loads(prompt.options)
    if index >= len(told["offers"]):
        return None
    what, run_id = told["offers"][index]
    return Offered(what, run_id, told["title"], told["path"])


def take_offer(tx: Connection, pressed: str, run_id: str) -> None:
    """Record the run that was started by a button's offer. pressed: the button's data."""
    prompt_id, _, index = pressed.partition(":")
    prompt = prompts.load(tx, prompt_id)
    if prompt is not None:  # it may have been deleted with its thread
        told = json.loads(prompt.options)
        told["offers"][int(index)][1] = run_id
        prompts.set_options(tx, prompt_id, json.dumps(told))


def chosen(prompt: PromptRow, index: int) -> tuple[str, str]:
    """(action, run id) of a pressed button; empty strings when there is no such option."""
    options = json.loads(prompt.options)
    return tuple(options[index]) if index < len(options) else ("", "")


# Questions of the agent, answered by a pressed option or by the next message.


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with its answer. choice: the chosen option, or the beginning of the message sent instead."""

    reply_key: str
    address: Address
    choice: str


def take_answer(tx: Connection, run: RunRow, said: str) -> list[Answered]:
    """Record a new run's input as the answer to the question of the run before it. Nothing happens if that run asked
    none, or if another person says something that is not one of the options."""
    # Runs for every message: most answers ask nothing, so avoid reading the previous run.
    data = _data(runs.last_answer(tx, run.conversation, run.thread_id) or "", None)
    if not data:
        return []
    asked, prompt = runs.last_worked(tx, run.conversation, run.thread_id), prompts.load(tx, data[0].partition(":")[0])
    if asked is None or prompt is None or (prompt.kind, prompt.run_id) != (CLARIFY, asked.run_id):
        return []
    options, words = json.loads(prompt.options), " ".join(said.split())
    number = next((at for at, option in enumerate(options) if _same(option, words)), None)
    if number is None and run.speaker != asked.speaker:
        return []
    answer = "" if number is None else str(number)
    if prompts.answer(tx, prompt.id, run.speaker, answer, run.created_at) is None:
        return []
    words = options[number] if number is not None else label(words)
    return [Answered(asked.reply_key, asked.address, words)]


def _same(option: str, words: str) -> bool:
    return " ".join(option.split()).casefold() == words.casefold()


# Platforms without buttons.


def as_shown(message: OutboundMessage, caps: Capabilities, refused: str = "") -> OutboundMessage:
    """The message to give to a channel: on a platform without buttons the options become a list below the text.

    refused: if the platform refused the buttons, the sentence that explains how to answer without them.
    """
    if not message.buttons or (caps.buttons and not refused):
        return message
    labels = [button.label for row in message.buttons for button in row]
    options = "\n".join(f"{number}. {plain(label)}" for number, label in enumerate(labels, 1))
    text = "\n\n".join(part for part in (message.text, plain(message.status), options, refused) if part)
    return replace(message, text=text, status="", buttons=())


def typed_number(text: str) -> int | None:
    """The number that a text consists of, None for any other text."""
    return int(text) if _NUMBER.fullmatch(text.strip()) else None


def may_be_number(message: Message) -> bool:
    """Whether a message may be the number of an option shown in its chat."""
    return not message.attachments and not message.dictated and typed_number(message.text) is not None


@dataclass(frozen=True, slots=True)
class Standing:
    """A question shown in a chat. data: that of its buttons, in the order of their numbers. numbered: the platform
    refused the buttons."""

    prompt: PromptRow
    reply_key: str
    numbered: bool
    data: tuple[str, ...]


def questions(tx: Connection, conversation: str, address: Address, now: datetime) -> list[Standing]:
    """The unanswered questions of a conversation that a number may answer, newest first, back to the agent's last
    message there: a number below that message is meant for the agent."""
    found = []
    for reply in outbox.newest_replies(tx, address, LOOKED_BACK):
        run = runs.load(tx, reply.reply_key)
        data = _data(reply.body, run)
        prompt = prompts.load(tx, data[0].partition(":")[0]) if data else None
        if prompt is not None and prompt.conversation == conversation and prompt.answer is None:
            found += [Standing(prompt, reply.reply_key, reply.numbered, data)] if prompt.expires_at > now else []
        if run is not None and run.conversation == conversation and _has_spoken(run):
            break
    return found


def _has_spoken(run: RunRow) -> bool:
    """Whether the run has spoken. One that waits for a decision has only asked, however late its draft was sent."""
    return run.started_at is not None and run.state is not RunState.WAITING


def _data(body: str, run: RunRow | None) -> tuple[str, ...]:
    """Data of the buttons that a reply shows. Only finals have a known body; a queued run has its two fixed ones."""
    if body:
        shown = OUTBOUND_MESSAGE.validate_json(body).buttons
        return tuple(button.data for row in shown for button in row)
    if run is not None and run.state is RunState.PENDING:
        return tuple(f"{_waiting_id(run)}:{index}" for index in range(2))
    return ()


def _waiting_id(run: RunRow) -> str:
    return f"w{run.run_id}"


def _retry_id(run: RunRow) -> str:
    return f"r{run.run_id}"


def _offer_id(run: RunRow) -> str:
    return f"o{run.run_id}"
