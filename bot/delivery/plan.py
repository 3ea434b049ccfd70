"""Which call brings a reply nearer to what it should show. Reads the reply, changes nothing; sender.py acts on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.delivery.parts import button_data

if TYPE_CHECKING:
    from bot.delivery.parts import Live, PartState
    from bot.delivery.reply import Reply
    from channels.base import Part
    from channels.capabilities import Capabilities
    from channels.message import OutboundMessage

DELETES = 5
"""Tries to remove a surplus message before it is left."""


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
        state = reply.state(reply.sealed + number)
        if state.assumed or state.refused or state.shown == part or _by_earlier_process(state, view.message):
            continue
        if state.message_id is not None:
            return Edit(state, part, reply.rev, view.message.final) if caps.edits else Seal(state)
        if _may_be_there(state, caps, view.message.final):
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
    for state in reply.states[reply.sealed + len(view.parts) :]:
        if state.message_id is not None:
            if state.deletes < DELETES:
                return Delete(state)
        elif view.parts and _may_be_there(state, caps, final=True):
            return Find(state, state.lost or view.parts[-1])
    for state in reply.replaced:
        if state.message_id is not None and not state.deletes:
            return Delete(state)
    return None


def _may_be_there(state: PartState, caps: Capabilities, final: bool) -> bool:
    """Whether to look for it before it is sent: for drafts of an earlier process only where the channel is told to."""
    if caps.idempotent_send:
        return False
    if state.lost is not None:
        return final or not state.unsure
    return state.crashed and (final or caps.findable_after_crash)
