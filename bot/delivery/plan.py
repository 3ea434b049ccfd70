"""The messages that a reply consists of, and which call brings it nearer to what it should show.

`next_step` decides that and changes nothing.
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
"""Tries to remove a surplus message before it is left."""
FIRST_TRIAL = 15.0
LONGEST_TRIAL = 900.0
"""Seconds between two trials of what was refused as if nothing could be sent: doubling, between these."""
ALONE = 3
"""So often may that be said of one reply, while others are sent, before it counts as refused like any other."""
ENOUGH = 30
"""Characters of a growing text that are worth a notification without a whole sentence."""
_CHINESE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CHINESE}]{{2}}|[^\W{_CHINESE}]+")
_SENTENCE = re.compile(r"(?<![^\W\d_])[^\W\d_]{2,}[.!?…]+[\"'”’)\]*_]*\s|[!?…。！？]|\n")


def idem_key(reply_key: str, part: int) -> str:
    """The idempotency key of one part: derived, so that a restarted process uses the same."""
    return hashlib.sha256(f"{reply_key}|{part}".encode()).hexdigest()[:32]


def button_data(message: OutboundMessage) -> tuple[str, ...]:
    """Data of a message's buttons, in their order: by which one question is told from another."""
    return tuple(button.data for row in message.buttons for button in row)


def tells(text: str) -> bool:
    """Whether a growing text is more than one word, or two Chinese characters."""
    words = _WORD.finditer(text)
    return next(words, None) is not None and next(words, None) is not None


def worth_a_call(text: str) -> bool:
    """Whether it holds a sentence or enough characters; never one word alone."""
    return tells(text) and (len(text.strip()) >= ENOUGH or _SENTENCE.search(text) is not None)


@dataclass(slots=True, kw_only=True)
class PartState:
    """What is known of one platform message of a reply.

    shown: what it shows, None when not known. intended: its outbox row is committed; unsent: before there was anything
    to show, or by an earlier process, and nothing of it was sent since.
    sent_after: an older message id, recorded with the intent.
    repeated: the next send with the same key may give back a message that shows something older.
    lost: what was sent at lost_at without an answer; it is looked for before anything is sent again.
    looks: how often that could not tell. unsure: a draft that was looked for enough, until there is a final.
    crashed: an earlier process may have sent it; drafted: before it was final.
    lost_finals: sends of final content that may have been applied. assumed: counts as shown, after too many of them.
    refused: the platform did not take the file, or no change of it: it stays as it is.
    final_shown: an earlier process recorded the final content. deletes: failed tries to delete it.
    left_open: an earlier process or channel began a stream here, and nothing says that it has ended. begun: not before
    that was its message sent, on the clock; -inf when not known.
    asked: the data of the buttons that an earlier process showed.
    retired: another message takes the place of its own, which goes once that one stands.
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
        """It is known to show something that was wanted of it, maybe by an earlier process."""
        return self.shown is not None or self.final_shown

    def gone(self) -> None:
        """Its message is no more. The next one needs another key, or the platform would take it for this one. An
        earlier process may have used that key already, for a message that is gone as well, or shows something older."""
        self.message_id = self.shown = None
        self.repeated = True
        self.final_shown = False
        self.idem_key = idem_key(self.idem_key, self.index)

    def retire(self) -> None:
        """Its message goes once another one stands in its place."""
        self.retired = True
        self.settle()
        self.shown = None
        self.final_shown = False

    def replace(self, rev: int | None) -> None:
        """Its message stays as it is; another one takes its place. rev: of the final that it will show, under a key
        that stands for nothing else; None for a draft."""
        self.gone()
        if rev is not None:
            self.idem_key = idem_key(f"{self.idem_key}|{rev}", self.index)
            self.repeated = False

    @property
    def may_be_draft(self) -> bool:
        """It may be in the chat, and show what was said before the final."""
        draft = (self.crashed and self.drafted) if self.lost is None else not self.lost_finals
        return self.message_id is None and draft

    @property
    def searching(self) -> bool:
        """It may be in the chat and is looked for, or has to be repeated."""
        return (self.lost is not None and not self.unsure) or (self.lost_finals > 0 and not self.assumed)

    def lose(self, part: Part, final: bool, now: float) -> None:
        """A send was not answered."""
        self.lost, self.lost_at, self.looks, self.unsure = part, now, 0, False
        self.lost_finals += final

    def settle(self) -> None:
        """Nothing of it is in the chat that is not known."""
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
    """What was given up of a final after the platform refused it, in this order.

    whole: as it was before its formatting was left out.
    """

    whole: OutboundMessage | None = None
    renewed: bool = False
    replaced: bool = False


@dataclass(slots=True)
class Refusals:
    """Calls of one reply that were refused as if nothing at all could be sent.

    tried: when it was last chosen to find out whether that is so. alone: how often others were taken meanwhile.
    """

    count: int = 0
    last: float = -math.inf
    tried: float = -math.inf
    alone: int = 0

    def note(self, now: float) -> float:
        """It was refused once more; returns the seconds until it may be tried again."""
        self.last = now
        self.count += 1
        return min(FIRST_TRIAL * 2.0 ** min(self.count - 1, 10), LONGEST_TRIAL)

    def overruled(self, worked_at: float) -> bool:
        """It is refused again, while others are taken (the last one at that time) again and again: so it is its own."""
        self.alone += worked_at > self.last > -math.inf
        return self.alone >= ALONE


@dataclass(frozen=True, slots=True)
class View:
    """What a reply should show now: redacted, laid out by its channel.

    whole: the text is the reply's own from its beginning, not what a stream makes of it.
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
    """A new message, or a new stream (live) that becomes one. rev, final: of the state that `part` comes from."""

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
    """Look for the message of a send with unknown outcome."""

    state: PartState
    part: Part


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a message that the final layout has no use for."""

    state: PartState


@dataclass(frozen=True, slots=True)
class Seal:
    """The message stays as it is and the rest goes below it, since nothing here can be changed. Not a call."""

    state: PartState


@dataclass(frozen=True, slots=True)
class ShowStream:
    live: Live
    message: OutboundMessage


@dataclass(frozen=True, slots=True)
class FinishStream:
    """End the stream, showing `message`, of which `part` is what it can hold (None: not known)."""

    live: Live
    message: OutboundMessage
    part: Part | None


Step = Preview | Send | Edit | Find | Delete | Seal | ShowStream | FinishStream


def next_step(reply: Reply, caps: Capabilities, view: View, now: float, previews: bool) -> Step | None:
    """The next call, None when the reply shows what it should (or all that may be shown of a draft).

    previews: this chat takes ephemeral drafts.
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
    # A draft that is lost for good is not sent again: the final will be.
    if any(state.unsure for state in reply.states):
        return None
    if caps.edits or view.message.buttons or may_stream(reply, caps, view.message) or reply.adds(caps):
        return _next_part(reply, caps, view)
    return None


def may_stream(reply: Reply, caps: Capabilities, message: OutboundMessage) -> bool:
    """Whether the reply's next message may be a stream: it is still growing, and no stream of it has broken."""
    return caps.append_only_stream and not reply.live_over and not message.final and not message.buttons


def _stream_step(reply: Reply, live: Live, caps: Capabilities, view: View, now: float) -> Step | None:
    if view.message.final or view.message.buttons:
        return FinishStream(live, view.message, view.parts[0] if view.parts else None)
    if now >= live.ends:
        # Where it cannot be changed afterwards, what happens just now must not stay there as if it went on.
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
    """It shows what it should, as an earlier process has recorded: of a question the buttons tell which it is."""
    if message.final:
        return state.final_shown
    return bool(state.asked) and state.asked == button_data(message)


def _surplus(reply: Reply, caps: Capabilities, view: View) -> Step | None:
    """What the drafts had more than the final has, and what stands above it because it could not be edited."""
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
    """Whether to look for it before it is sent: for drafts of an earlier process only where the channel is told to."""
    if caps.idempotent_send:
        return False
    if state.lost is not None:
        return final or not state.unsure
    return state.crashed and (final or caps.findable_after_crash)
