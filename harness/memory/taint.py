"""When the agent needs a person's consent for lasting effects (a memory, a schedule, a skill): text written by
strangers was read, and the wish could be theirs.

Text from outside may tell the agent to keep something, at once or at a later turn. So in a turn that read such text the
person is asked each time, and as long as the model still sees it, even as a summary, they are asked about anything not
in their own words. They are never asked about remembering what they have just said themselves.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage

from harness.graph.messages import HOOKED, MARK, SCHEDULED, SUMMARY, TEXT_LENGTH, VOICE_LINE, is_users, users_text
from harness.memory.injection import is_among, words
from harness.memory.model import OWN_WORDS, own_words
from harness.memory.own import is_said
from harness.text.frames import FILES, OUTSIDE, QUOTED, SAID_BY_OTHERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.tools import BaseTool

THEIRS = "theirs"
"""Metadata key of a tool that stores what a person says: their own words need no consent, whatever else was read."""
LASTS = "lasts"
"""Metadata key of a tool whose calls act beyond their turn: the argument with the lasting content, without which
nothing lasts; ALL: every argument."""
ALL = "*"
OWN = 0.6
"""Minimum share of a fact's words that the person used for it to count as theirs."""
FOREIGN_SINCE = "antler_foreign"
"""additional_kwargs key of a summary: the id of the person's message in whose turn text of a stranger was last read, ""
if none was. A summary without it may contain anything."""
UNKNOWN = "unknown"
REASON = "This would act beyond this answer, and it may come from something that was read, not from you."

_BLOCKS = tuple(f"<{name}>" for name in (QUOTED, SAID_BY_OTHERS))
_FILES = re.compile(rf"<{FILES}>\n(.*?)\n</{FILES}>", re.DOTALL)


def needs_word(
    tool: BaseTool, args: Mapping[str, Any], messages: Sequence[BaseMessage], run_id: str, name: str = ""
) -> bool:
    """Whether the person must be asked before the call, even if a rule allows it. messages: of the thread. name: the
    person's."""
    kept = _kept((tool.metadata or {}).get(LASTS), args)
    if not kept:
        return False
    start = _start(messages, run_id)
    said = "\n".join(_own(message) for message in messages[start:])
    if (tool.metadata or {}).get(THEIRS) and is_said(kept, said, name):
        return False
    turn = {message.id for message in messages[start:] if is_users(message)}
    if any(_is_foreign(message) for message in messages[start:]) or _foreign_since(messages[:start]) in turn:
        return True
    if not any(map(_is_foreign, messages[:start])):
        return False
    return not is_among(kept, frozenset(words(said)), OWN)


def _kept(argument: str | None, args: Mapping[str, Any]) -> str:
    """The lasting content of a call."""
    if argument is None:
        return ""
    return " ".join(map(str, args.values())) if argument == ALL else str(args.get(argument, ""))


def foreign_since(messages: Sequence[BaseMessage]) -> str:
    """The FOREIGN_SINCE mark for a summary of this thread."""
    since = _foreign_since(messages)
    speaking = ""
    for message in messages:
        speaking = (message.id or "") if is_users(message) else speaking
        if _is_foreign(message) and not _is_summary(message):
            since = speaking or UNKNOWN
    return since


def _foreign_since(messages: Sequence[BaseMessage]) -> str:
    marks = [message.additional_kwargs.get(FOREIGN_SINCE, UNKNOWN) for message in messages if _is_summary(message)]
    return next((mark for mark in reversed(marks) if mark), "")


def _start(messages: Sequence[BaseMessage], run_id: str) -> int:
    """Index where the run's turn begins: the person's newest message before its first answer."""
    answers = (isinstance(message, AIMessage) and (message.id or "").startswith(f"{run_id}-") for message in messages)
    first = next((place for place, is_first in enumerate(answers) if is_first), len(messages))
    return max((place for place, message in enumerate(messages[:first]) if is_users(message)), default=0)


def _is_foreign(message: BaseMessage) -> bool:
    if isinstance(message, ToolMessage):
        return message.name not in OWN_WORDS or f"<{OUTSIDE}>" in str(message.text)
    if _is_summary(message):
        return message.additional_kwargs.get(FOREIGN_SINCE) != ""
    if not is_users(message):
        return False
    written, behind = users_text(message), str(message.text)[message.additional_kwargs.get(TEXT_LENGTH, 0) :]
    foreign = (own_words(written) != written, any(block in behind for block in _BLOCKS), _has_files(behind))
    return any(foreign) or SCHEDULED in behind  # the agent wrote a schedule's text, perhaps in a stranger's words


def _has_files(behind: str) -> bool:
    """Whether it has files; a voice message counts as the person's own words."""
    lines = [line for block in _FILES.findall(behind) for line in block.splitlines()]
    return any(not line.startswith(VOICE_LINE) for line in lines)


def _is_summary(message: BaseMessage) -> bool:
    return message.additional_kwargs.get(MARK) == SUMMARY


def _own(message: BaseMessage) -> str:
    """The person's own words; none for a turn that a schedule or a webhook began."""
    behind = str(message.text)[message.additional_kwargs.get(TEXT_LENGTH, 0) :]
    if not is_users(message) or SCHEDULED in behind or HOOKED in behind:
        return ""
    return own_words(users_text(message))
