"""The messages that a reply consists of, and the next call that brings them closer to what the reply should show.

`next_step` decides that without changing anything.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.delivery.reply import Reply
    from channels.base import LiveReply, Part
    from channels.capabilities import Capabilities
    from channels.message import OutboundMessage

DELETES = 5
"""Attempts to delete a surplus message before it is left in the chat."""
FIRST_TRIAL = 15.0
LONGEST_TRIAL = 900.0
"""Seconds between two trials after a refusal that says that nothing can be sent: doubling, within these bounds."""
ALONE = 3
"""Number of such refusals of one reply, while others are sent, after which it counts as refused itself."""
ENOUGH = 30
"""Characters of a growing text that justify a notification without a whole sentence."""
_CHINESE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CHINESE}]{{2}}|[^\W{_CHINESE}]+")
_SENTENCE = re.compile(r"(?<![^\W\d_])[^\W\d_]{2,}[.!?…]+[\"'”’)\]*_]*\s|[!?…。！？]|\n")


def idem_key(reply_key: str, part: int) -> str:
    """The idempotency key of one part: derived, so that a restarted process uses the same one."""
    return hashlib.sha256(f"{reply_key}|{part}".encode()).hexdigest()[:32]


def button_data(message: OutboundMessage) -> tuple[str, ...]:
    """Data of a message's buttons, in their order; it distinguishes one question from another."""
    return tuple(button.data for row in message.buttons for button in row)


def tells(text: str) -> bool:
    """Whether a growing text is more than one word, or two Chinese characters."""
    words = _WORD.finditer(text)
    return next(words, None) is not None and next(words, None) is not None


def worth_a_call(text: str) -> bool:
    """Whether a growing text has a sentence or enough characters to notify people; never a single word."""
    return tells(text) and (len(text.strip()) >= ENOUGH or _SENTENCE.search(text) is not None)


@dataclass(slots=True, kw_only=True)
class PartState:
    """What is known about one platform message of a reply.

    shown: the content that it shows, None when not known. intended: its outbox row is committed; unsent: that happened
    before there was anything to show, or in an earlier process, and nothing was sent since.
    sent_after: an older message id, recorded with the intent.
    repeated: the next send with the same key may return a message with older content.
    lost: the part sent at lost_at without an answer; it is searched for before anything is sent again.
    looks: number of inconclusive searches. unsure: a draft that was searched for often enough, until there is a final.
    crashed: an earlier process may have sent it; drafted: as a draft, before the final.
    lost_finals: sends of final content that may have been applied. assumed: counts as shown, after too many of them.
    refused: the platform refused this part, or a change of it: it stays as it is.
    final_shown: an earlier process recorded that it shows the final. deletes: failed attempts to delete it.
    left_open: an earlier process or channel began a stream here, and it is not known to have ended. begun: the earliest
    time at which its message was sent, on the clock; -inf when not known.
    asked: the data of the buttons that an earlier process showed.
    retired: another message replaces its message, which is deleted once the new one is in the chat.
    """

    index: int
    idem_key: str
    sent_after: str | None = None
    message_id: str | None = None
    shown: Part | None = None
    intended: bool = False
    unsent: bool = False
    repeated: bool = False
    lost: Part | None = None
    lost_at: float = -math.inf
    looks: int = 0
    unsure: bool = False
    crashed: bool = False
    drafted: bool = False
    lost_finals: int = 0
    assumed: bool = False
    refused: bool = False
    final_shown: bool = False
    deletes: int = 0
    left_open: bool = False
    begun: float = -math.inf
    asked: tuple[str, ...] = ()
    retired: bool = False

    @property
    def stands(self) -> bool:
        """Whether it is known to show content that was wanted, perhaps by an earlier process."""
        return self.shown is not None or self.final_shown

    def gone(self) -> None:
        """Note that its message was deleted. The next one needs another key, or the platform would take it for this
        one. An earlier process may have used that key for a message that is also deleted, or shows older content."""
        self.message_id = self.shown = None
        self.repeated = True
        self.final_shown = False
        self.idem_key = idem_key(self.idem_key, self.index)

    def retire(self) -> None:
        """Have its message deleted once another one has taken its place."""
        self.retired = True
        self.settle()
        self.shown = None
        self.final_shown = False

    def replace(self, rev: int | None) -> None:
        """Leave its message as it is and use a new one. rev: revision of the final that the new one will show, under a
        key that was never used for anything else; None for a draft."""
        self.gone()
        if rev is not None:
            self.idem_key = idem_key(f"{self.idem_key}|{rev}", self.index)
            self.repeated = False

    @property
    def may_be_draft(self) -> bool:
        """Whether an unrecorded message of it may be in the chat, showing a draft."""
        draft = (self.crashed and self.drafted) if self.lost is None else not self.lost_finals
        return self.message_id is None and draft

    @property
    def searching(self) -> bool:
        """Whether it may be in the chat and is being searched for, or has to be sent again."""
        return (self.lost is not None and not self.unsure) or (self.lost_finals > 0 and not self.assumed)

    def lose(self, part: Part, final: bool, now: float) -> None:
        """Note that a send was not answered."""
        self.lost, self.lost_at, self.looks, self.unsure = part, now, 0, False
        self.lost_finals += final

    def settle(self) -> None:
        """Note that no unrecorded message of it is in the chat."""
        self.lost, self.unsure, self.crashed = None, False, False
        self.lost_finals = 0


@dataclass(slots=True)
class Live:
    """An open append-only stream, the live form of one part. ends: when it must be finished, on the clock."""

    stream: LiveReply
    part: PartState
    ends: float
    shown: OutboundMessage | None = None


@dataclass(slots=True)
class Concessions:
    """Concessions made for a final that the platform refused, tried in this order.

    whole: the final before its formatting was removed.
    """

    whole: OutboundMessage | None = None
    renewed: bool = False
    replaced: bool = False


@dataclass(slots=True)
class Refusals:
    """Calls of one reply that were refused with the claim that nothing at all can be sent.

    tried: when it was last chosen to verify that claim. alone: how often the calls of others succeeded between two.
    """

    count: int = 0
    last: float = -math.inf
    tried: float = -math.inf
    alone: int = 0

    def note(self, now: float) -> float:
        """Count another refusal; returns the seconds until the next attempt."""
        self.last = now
        self.count += 1
        return min(FIRST_TRIAL * 2.0 ** min(self.count - 1, 10), LONGEST_TRIAL)

    def overruled(self, worked_at: float) -> bool:
        """Whether the claim is false: calls of others (the last one at `worked_at`) keep succeeding in between."""
        self.alone += worked_at > self.last > -math.inf
        return self.alone >= ALONE


@dataclass(frozen=True, slots=True)
class View:
    """What a reply should show now: redacted, and laid out by its channel.

    whole: the text is the reply's complete text, not the portion that a stream shows.
    """

    message: OutboundMessage
    parts: tuple[Part, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Preview:
    """Show the ephemeral draft."""

    part: Part


@dataclass(frozen=True, slots=True)
class Send:
    """Send a new message, or open a stream (live) that becomes one. rev, final: of the state that `part` is from."""

    state: PartState
    part: Part
    rev: int
    final: bool
    live: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    state: PartState
    part: Part
    rev: int
    final: bool


@dataclass(frozen=True, slots=True)
class Find:
    """Search for the message of a send with unknown outcome."""

    state: PartState
    part: Part


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a message that the final layout does not need."""

    state: PartState


@dataclass(frozen=True, slots=True)
class Seal:
    """Leave the message as it is and put the rest below it, since nothing can be changed here. Not a call."""

    state: PartState


@dataclass(frozen=True, slots=True)
class ShowStream:
    live: Live
    message: OutboundMessage


@dataclass(frozen=True, slots=True)
class FinishStream:
    """End the stream, showing `message`; `part` is the portion of it that fits (None: not known)."""

    live: Live
    message: OutboundMessage
    part: Part | None


Step = Preview | Send | Edit | Find | Delete | Seal | ShowStream | FinishStream


def next_step(reply: Reply, caps: Capabilities, view: View, now: float, previews: bool) -> Step | None:
    """The next call, None when the reply shows what it should (or all that may be shown of a draft).

    previews: this chat supports ephemeral drafts.
    """
    if reply.live is not None:
        return _stream_step(reply, reply.live, caps, view, now)
    if view.message.final:
        return _next_part(reply, caps, view) or _surplus(reply, caps, view)
    if not reply.drafts and not view.message.buttons:
        return None
    if previews and len(view.parts) == 1 and not view.message.buttons and not reply.states_in_chat:
        fresh = view.parts[0] == reply.previewed and now < reply.shown_at + caps.preview_ttl
        return None if fresh else Preview(view.parts[0])
    # A draft that is lost for good is not sent again, only the final.
    if any(state.unsure for state in reply.states):
        return None
    if caps.edits or view.message.buttons or may_stream(reply, caps, view.message) or reply.adds(caps):
        return _next_part(reply, caps, view)
    return None


def may_stream(reply: Reply, caps: Capabilities, message: OutboundMessage) -> bool:
    """Whether the reply's next message may be a stream: it is still growing, and none of its streams has broken."""
    return caps.append_only_stream and not reply.live_over and not message.final and not message.buttons


def _stream_step(reply: Reply, live: Live, caps: Capabilities, view: View, now: float) -> Step | None:
    if view.message.final or view.message.buttons:
        return FinishStream(live, view.message, view.parts[0] if view.parts else None)
    if now >= live.ends:
        # A message that cannot be changed later must not keep the current status, which will be outdated.
        ended = view.message if caps.edits else replace(view.message, status=reply.goes_on)
        return FinishStream(live, ended, None)
    again = caps.stream_sign is not None and now >= reply.shown_at + caps.stream_sign
    return ShowStream(live, view.message) if again or live.shown != view.message else None


def _next_part(reply: Reply, caps: Capabilities, view: View) -> Step | None:
    for number, part in enumerate(view.parts):
        state = reply.place(number)
        if state.assumed or state.refused or state.shown == part or _by_earlier_process(state, view.message):
            continue
        if state.message_id is not None:
            return Edit(state, part, reply.rev, view.message.final) if caps.edits else Seal(state)
        if may_be_there(state, caps, view.message.final):
            return Find(state, part)
        live = number == 0 and may_stream(reply, caps, view.message)
        if not live and not (caps.edits or view.message.final or view.message.buttons or reply.adds(caps)):
            return None
        return Send(state, part, reply.rev, view.message.final, live)
    return None


def _by_earlier_process(state: PartState, message: OutboundMessage) -> bool:
    """Whether an earlier process recorded that it shows `message`. Questions are identified by their buttons."""
    if message.final:
        return state.final_shown
    return bool(state.asked) and state.asked == button_data(message)


def _surplus(reply: Reply, caps: Capabilities, view: View) -> Step | None:
    """The step that removes a message which the final does not need, or which was replaced or retired."""
    for state in reply.places[len(view.parts) :]:
        if state.message_id is not None:
            if state.deletes < DELETES:
                return Delete(state)
        elif view.parts and may_be_there(state, caps, final=True):
            return Find(state, state.lost or view.parts[-1])
    for state in reply.replaced:
        if state.message_id is not None and not state.deletes:
            return Delete(state)
    for state in reply.states:
        if state.retired and state.message_id is not None and state.deletes < DELETES:
            return Delete(state)
    return None


def may_be_there(state: PartState, caps: Capabilities, final: bool) -> bool:
    """Whether to search for it before sending. Drafts of an earlier process only where the channel can find them."""
    if caps.idempotent_send:
        return False
    if state.lost is not None:
        return final or not state.unsure
    return state.crashed and (final or caps.findable_after_crash)
