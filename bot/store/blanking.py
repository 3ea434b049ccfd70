"""What is left of stored values when their words are taken out: ids, times and sizes, which others still need. Pure.

For forgetting.py: events of the inbox, and what runs were given.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from channels.message import ButtonPressed, MembershipChanged, Message, MessageEdited, ScheduleDue, Unparsed

if TYPE_CHECKING:
    from channels.message import Sender
    from harness.context import InputFile, RunContext, RunInput


@dataclass(frozen=True, slots=True)
class Whose:
    """A person of one account. native: their id there. names: what they were called, as it stands in the events of
    others, who may have the same name."""

    account: str
    native: str
    names: frozenset[str] = frozenset()

    @property
    def person(self) -> str:
        return f"{self.account}:{self.native}"


def without_words(event: Any) -> Any:
    """An event without what was said in it, and by whom it was said in words."""
    match event:
        case Message():
            return replace(
                event, text="", attachments=(), reply_to=None, sender=_nameless(event.sender), chat_title=_title(event)
            )
        case MessageEdited():
            return replace(event, message=without_words(event.message))
        case ButtonPressed():
            return replace(event, sender=_nameless(event.sender))
        case MembershipChanged():
            return replace(event, sender=_nameless(event.sender), chat_title=_title(event))
        case ScheduleDue():
            return replace(event, sender=_nameless(event.sender), text="")
        case Unparsed():
            return replace(event, raw="", error="")
    return event


def is_of(event: Any, whose: Whose) -> bool:
    """Whether a person sent an event; of one that could not be read, whether it names their id."""
    if isinstance(event, Unparsed):
        return whose.native in event.raw
    if isinstance(event, MessageEdited):
        return is_of(event.message, whose)
    sender = getattr(event, "sender", None)
    return sender is not None and sender.id == whose.native


def without_quote_of(event: Any, whose: Whose) -> Any:
    """Another's event without what it quotes of the person."""
    if isinstance(event, MessageEdited):
        return replace(event, message=without_quote_of(event.message, whose))
    if isinstance(event, Message) and event.reply_to is not None and _called(event.reply_to.author, whose):
        return replace(event, reply_to=replace(event.reply_to, text="", author=""))
    return event


def blank_input(run_input: RunInput) -> RunInput:
    """What is left: the message's id, and how large its files were, for the quota of who sent them."""
    files = tuple(_blank_file(file) for file in run_input.files)
    # What was said during the run has a row of its own.
    return replace(run_input, text="", quote="", background=(), files=files, steered=())


def without_others(run_input: RunInput, whose: Whose, *, met: bool) -> RunInput:
    """Another's input without what the person said there. met: in a chat where they are known to have spoken: there
    all that others said goes, for it does not tell well who they were."""
    steered = tuple(without_others(each, whose, met=met) for each in run_input.steered)
    if met:
        return replace(run_input, quote="", background=(), steered=steered)
    kept = tuple(line for line in run_input.background if not _called(line.partition(":")[0], whose))
    return replace(run_input, background=kept, steered=steered)


def blank_context(context: RunContext) -> RunContext:
    return replace(context, speaker=replace(context.speaker, display_name=""))


def _blank_file(file: InputFile) -> InputFile:
    # Of a path that nobody can read back: two runs with the same file still show that.
    path = Path(hashlib.sha256(str(file.path).encode("utf-8", "surrogatepass")).hexdigest()[:32])
    return replace(file, path=path, name="", text_path=None, note="", voice=None)


def _nameless(sender: Sender) -> Sender:
    return replace(sender, display_name="")


def _title(event: Message | MembershipChanged) -> str:
    """A group's is not one person's."""
    return "" if event.address.kind == "dm" else event.chat_title


def _called(name: str, whose: Whose) -> bool:
    return " ".join(name.split()) in whose.names
