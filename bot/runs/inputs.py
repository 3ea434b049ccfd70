"""The input of a run: made from a turn, extended by another one, edited, repeated. Pure."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from bot.runs.research import BadOption, asked, choice, named_collections
from bot.runs.turns import edited_message, joined
from bot.store.rows import RunRow
from bot.texts.command_line import parse, skill_name
from bot.usage.days import zone_of
from channels.message import INBOUND_EVENT, Message
from channels.registry import name_of
from harness.context import COMMANDS, Place, RunContext, RunInput, Speaker, Voice

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from bot.runs.turns import Turn
    from bot.store.rows import ConversationRow, InboxRow
    from channels.base import Channel
    from harness.context import Progress, ResearchRequest


@dataclass(frozen=True, slots=True)
class Called:
    """What a turn asks for. skill: the skill that it calls, "" for none. research: set if its question is to be
    researched. choice: as in RunInput."""

    text: str
    skill: str = ""
    research: ResearchRequest | None = None
    choice: str = ""


def run_of(
    turn: Turn,
    conversation: ConversationRow,
    *,
    model: str,
    agent: str,
    background: tuple[str, ...],
    people: tuple[str, ...],
    place: Place,
    now: datetime,
    epoch: int,
    timezone: str = "UTC",
    called: Called | None = None,
) -> RunRow:
    """The pending run that answers a complete turn. called: if None, the turn's text is the request. timezone: used if
    the conversation has chosen none."""
    message, run_id = turn.first, uuid.uuid4().hex
    called = called or Called(turn.text)
    zone = zone_of(conversation, timezone)
    context = replace(_context_of(turn, conversation, run_id, model=model, agent=agent, timezone=zone), place=place)
    run_input = RunInput(
        message_id=message_id(turn.ids[0]),
        text=called.text,
        files=tuple(turn.files),
        quote=turn.quote(whoever=bool(called.skill)),
        recalled="" if called.skill else turn.recalled,
        background=background,
        people=people,
        dictated=turn.dictated,
        skill=called.skill,
        research=called.research,
        choice=called.choice,
    )
    return RunRow(
        run_id=run_id,
        thread_id=conversation.thread_id,
        conversation=conversation.key,
        speaker=turn.person,
        inbox_ids=turn.ids,
        reply_key=run_id,
        address=message.address,
        reply_to=_answered(message),
        context=context,
        input=run_input,
        epoch=epoch,
        created_at=now,
    )


def _answered(message: Message) -> str | None:
    """The message that the answer replies to: the person's, or if a schedule speaks for them, one of its topic."""
    if message.platform_message_id or message.reply_to is None:
        return message.platform_message_id or None
    return message.reply_to.message_id or None


def _context_of(
    turn: Turn, conversation: ConversationRow, run_id: str, *, model: str, agent: str, timezone: str
) -> RunContext:
    message = turn.first
    return RunContext(
        thread_id=conversation.thread_id,
        run_id=run_id,
        account=message.account,
        conversation=conversation.key,
        owner=conversation.owner,
        speaker=Speaker(
            id=turn.person,
            display_name=message.sender.display_name,
            is_admin=turn.is_admin,
            is_person=message.sender.kind == "user",
        ),
        is_group=message.address.kind != "dm",
        locale=turn.language,
        model=model,
        agent=agent,
        schedule=turn.schedule,
        skills_off=conversation.skills_off,
        timezone=timezone,
        intermediate=turn.rules.intermediate,
        progress=conversation.progress or turn.rules.progress,
        voice=conversation.voice or "",
        heading=turn.heading,
    )


def place_of(channel: Channel | None, message: Message) -> Place:
    """Where a message was sent, as far as its channel knows. channel: None if it could not be built."""
    if channel is None:
        return Place(title=message.chat_title)
    identity = channel.identity
    return Place(
        platform=name_of(identity.platform) if identity is not None else "",
        title=message.chat_title,
        commands=tuple((name, channel.command(name, message.address)) for name in COMMANDS),
    )


def message_id(event_id: int) -> str:
    """The id of the user's message in the thread, derived from that of its inbox row."""
    return f"m{event_id}"


def event_of(run_input: RunInput) -> int:
    """The inbox row of an input's first message, see `message_id`."""
    return int(run_input.message_id[1:])


def can_join(row: RunRow, turn: Turn) -> bool:
    """Whether a waiting run can also answer this turn: as `belongs`, and in the language of the message it shows."""
    return belongs(row, turn) and row.context.locale == turn.language and row.attempt == 0


def belongs(row: RunRow, turn: Turn) -> bool:
    """Whether one answer can serve a run's messages and this turn: from the same person, with the same rights, in the
    same place. What a schedule or a program sent, or what calls a skill or seems to, is answered separately."""
    context = row.context
    if context.schedule or turn.schedule or parse(turn.text) is not None or row.input.skill:
        return False
    if turn.stands_alone:
        return False
    told = (row.speaker, row.address, context.speaker.is_admin)
    return told == (turn.person, turn.first.address, turn.is_admin)


def can_steer(running: RunRow, turn: Turn) -> bool:
    """Whether a working run can take in this turn: same person, rights and place. Not if either is from a schedule, or
    the turn is from a program, calls a skill or seems to, or has a voice message that is not transcribed yet."""
    if turn.schedule or turn.stands_alone or parse(turn.text) is not None:
        return False
    if any(file.voice is not None and not file.voice.listened for file in turn.files):
        return False
    context = running.context
    told = (running.speaker, running.address, context.speaker.is_admin, context.schedule)
    return told == (turn.person, turn.first.address, turn.is_admin, "")


def as_steering(run: RunRow) -> RunRow:
    """Mark the run of a turn that the running answer may take in."""
    return replace(run, input=replace(run.input, steers=True))


def steered_run(running: RunRow, heard: RunRow) -> RunRow:
    """A working run after it has taken in the input of another one."""
    known = running.input
    known = replace(known, steered=(*known.steered, heard.input))
    return replace(running, input=known)


def joined_run(row: RunRow, turn: Turn, background: tuple[str, ...]) -> RunRow:
    """A run that waits or begins again, extended by this turn. background: what others said in between."""
    run_input = row.input
    run_input = replace(
        run_input,
        text=joined((run_input.text, turn.text)),
        files=(*run_input.files, *turn.files),
        quote=joined((run_input.quote, turn.quote())),
        recalled=joined((run_input.recalled, turn.recalled)),
        background=(*run_input.background, *background),
        dictated=run_input.dictated or turn.dictated,
        choice="",
    )
    return replace(row, inbox_ids=(*row.inbox_ids, *turn.ids), input=run_input)


def run_again(
    run: RunRow,
    event_id: int,
    *,
    model: str,
    agent: str,
    timezone: str,
    skills_off: tuple[str, ...] = (),
    progress: Progress | None = None,
    voice: Literal["on", "off"] | None = None,
    now: datetime,
    epoch: int,
) -> RunRow:
    """The pending run that repeats an ended one. event_id: the event that asks for it. timezone: the conversation's.
    progress, voice: the conversation's choices, if any.

    Failed transcriptions of voice messages are retried; the others are not paid for twice.
    """
    run_id = uuid.uuid4().hex
    context = replace(
        run.context,
        run_id=run_id,
        model=model,
        agent=agent,
        skills_off=skills_off,
        timezone=timezone,
        progress=progress or run.context.progress,
        voice=voice or "",
        heading="",  # only the first answer needs the heading that notified the person
    )
    return RunRow(
        run_id=run_id,
        thread_id=run.thread_id,
        conversation=run.conversation,
        speaker=run.speaker,
        inbox_ids=(event_id,),
        reply_key=run_id,
        address=run.address,
        reply_to=run.reply_to,
        context=context,
        input=asked_again(run.input.whole),
        epoch=epoch,
        created_at=now,
    )


def asked_again(run_input: RunInput) -> RunInput:
    """The input without the problems of its voice messages, so that they are transcribed again."""
    files = [
        replace(file, voice=Voice()) if file.voice is not None and file.voice.problem else file
        for file in run_input.files
    ]
    return replace(run_input, files=tuple(files))


def messages_of(rows: Sequence[InboxRow]) -> int:
    """Number of messages that people sent, from the events of a run: the parts of a bundle count once."""
    bundles = [json.loads(row.event).get("bundle_key") for row in rows]
    return bundles.count(None) + len(set(bundles) - {None})


def _with_text(run_input: RunInput, text: str) -> RunInput:
    """The input with another text. It still calls its skill, or is still a research, only if the new text begins with
    the same command."""
    line = parse(text)
    named = {name.casefold() for name in named_collections(text)}
    kept = tuple(name for name in run_input.collections if name.casefold() in named)
    run_input = replace(run_input, collections=kept)
    if run_input.research is not None:
        try:
            research, text = asked(line) or (None, text)
        except BadOption:
            research = None
        if research is not None:  # the conversation's style, which was added when the question was asked
            style = research.style or run_input.research.style
            research = replace(research, style=style, files=run_input.research.files)
        return replace(run_input, text=text, research=research)
    run_input = replace(run_input, choice=choice(text))
    if not run_input.skill or line is None or skill_name(line.name) != run_input.skill:
        return replace(run_input, text=text, skill="")
    return replace(run_input, text=line.arguments or text)


def edited_run(run: RunRow, known: Sequence[InboxRow], new: Message) -> tuple[RunRow, int, Message] | None:
    """A waiting run after an edit of one of its messages, with that message's inbox row and its new state.

    known: the run's messages as stored. None when none of them was edited.
    """
    if run.input.message_id != message_id(run.inbox_ids[0]):
        return None  # it repeats an earlier run; its own event is only the request for that
    run_input, changed = edited_input(run.input, known, [new])
    return next(((replace(run, input=run_input), *found) for found in changed.items()), None)


def edited_input(
    run_input: RunInput, known: Sequence[InboxRow], edits: Sequence[Message]
) -> tuple[RunInput, dict[int, Message]]:
    """An input after edits of its messages, and the edited messages by inbox row. known: its messages as stored; what
    the answer took in besides them stays."""
    texts, newer, changed = [], [], {}
    for row in known:
        message = INBOUND_EVENT.validate_json(row.event)
        if not isinstance(message, Message):
            continue
        texts.append(message.text)
        for edit in edits:
            if (edited := edited_message(message, edit)) is not None:
                changed[row.id] = message = edited
        newer.append(message.text)
    if not changed:
        return run_input, changed
    before, after = _with_text(run_input, joined(texts)).text, _with_text(run_input, joined(newer))
    added = run_input.text[len(before) :] if run_input.text.startswith(before) else ""
    return replace(after, text=after.text + added), changed
