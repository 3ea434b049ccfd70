"""What a platform can do, and how often: the basis of delivery decisions, in place of a platform's name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

NotifyAfter = Annotated[
    float,
    BeforeValidator(lambda value: 0 if value == "off" else value),
    Field(ge=0, description="Seconds; an answer that grew for longer ends in a new message that notifies; off: never"),
]
"""The setting of an account behind `Capabilities.notify_after`; 0 is off."""


class TextUnit(StrEnum):
    """The unit in which a platform measures the length of one message."""

    UTF16 = "utf16"
    CHARACTERS = "characters"
    UTF8_BYTES = "utf8_bytes"
    JSON_BYTES = "json_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a platform can do. Shown in docs/channels.md; delivery decides by these and never by a platform's name.

    edits: a sent message can be changed. append_only_stream: `open_stream` works and can only grow.
    stream_ttl: seconds that a stream may stay open, None for no limit. stream_sign: seconds after which a stream sends
    its current state again, because only an addition reveals that a person has stopped it; None where that is reported.
    buttons, files, typing: supported natively. typing_lasts: it is shown until text of the answer arrives, and does not
    fade after seconds. typing_in_threads: it is only visible in threads.
    max_unit: the longest text of one message, in `text_unit`. idempotent_send: a repeated `send` with the same key is
    the same message. findable_after_crash: `find` also looks for drafts that an earlier process may have sent.
    edit_interval: seconds between two edits of one message (or additions to a stream) that the platform tolerates in
    the long run, by chat kind; specific to each platform.
    preview_dm: in a DM, `preview` can show the growing reply without a message, until `send` posts the real one.
    preview_ttl: seconds after which a preview fades unless it is shown again.
    operator: only people who control this machine can write here (its terminal), so access lists do not apply.
    replies_to_message: an answer can only be given to a specific message, so `send` and `open_stream` receive its id
    even in a DM, where nothing is quoted otherwise.
    group_threads: in a group every conversation is a thread; a message without one, such as a command that is delivered
    without its thread, belongs to none.
    notifies: a new message notifies people, but an edit or a deletion does not, so what they wait for is sent as a new
    message. notify_after: seconds for which they are assumed to watch an answer grow after being notified; None for as
    long as it grows.
    voice_notes: a file of kind "voice", Ogg with Opus, is shown like a voice message recorded by a person.
    smallest_file, largest_file: size limits in bytes of a file sent by a bot; None for no limit.
    """

    text_unit: TextUnit
    max_unit: int
    findable_after_crash: bool
    edit_interval_dm: float
    edit_interval_group: float
    edits: bool = True
    append_only_stream: bool = False
    stream_ttl: float | None = None
    buttons: bool = True
    files: bool = True
    typing: bool = True
    idempotent_send: bool = False
    preview_dm: bool = False
    preview_ttl: float = 20.0
    operator: bool = False
    replies_to_message: bool = False
    group_threads: bool = False
    stream_sign: float | None = None
    typing_lasts: bool = False
    typing_in_threads: bool = False
    notifies: bool = False
    notify_after: float | None = None
    voice_notes: bool = False
    smallest_file: int = 0
    largest_file: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The budget of one account.

    per_second: calls over all chats. per_chat_*: calls in any one chat; per_group_per_minute: in one group.
    edits_per_minute: edits over all chats, where a platform counts them separately.
    """

    per_second: float
    per_chat_per_second: float
    per_group_per_minute: float
    per_chat_per_minute: float = math.inf
    per_chat_per_hour: float = math.inf
    edits_per_minute: float = math.inf
