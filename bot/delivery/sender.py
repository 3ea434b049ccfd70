"""Makes the next planned call for a reply: commits what must be known beforehand, records the outcome."""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.delivery.buttons import as_shown
from bot.delivery.journal import NO_PAGE, NOTHING_SHOWN
from bot.delivery.plan import (
    Delete,
    Edit,
    Find,
    FinishStream,
    Live,
    Preview,
    Seal,
    Send,
    ShowStream,
    View,
    may_be_there,
    may_stream,
    next_step,
)
from bot.delivery.redaction import redact_message
from bot.delivery.reply import ADDITION_INTERVAL
from bot.delivery.scheduler import Made
from bot.store.outbox import Sent
from bot.texts.commands import written
from channels.base import Probe
from channels.errors import ChannelError, OutcomeUnknown
from channels.message import OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bot.delivery.journal import Journal
    from bot.delivery.plan import PartState, Step
    from bot.delivery.reply import Reply
    from bot.redaction import Redactor
    from bot.texts.catalogue import Texts
    from channels.base import Channel, Clock, Part
    from channels.message import Address

    Say = Callable[[str, Address, str | None, OutboundMessage], Awaitable[object]]

log = logging.getLogger(__name__)

STREAM_SHARE = 0.9
"""Share of the platform's time limit for a stream after which it is ended."""
LEASE_RETRY = 1.0
TYPING_PATIENCE = 0.5
"""Seconds that a typing action may delay the words that follow it."""
LOST_PAUSE = 3.0
"""Seconds before a lost send is repeated, since it may still be in flight; also between two searches."""
LOOKS = 5
"""Number of searches for a lost message when the platform gives no clear answer."""
LOST_FINALS = 2
"""Sends of an answer with unknown outcome before it counts as shown: one repeat, never a series of copies."""


class Sender:
    """Makes the calls of one account.

    lease_valid: whether this process may act externally at all. say: shows a separate reply.
    texts: the sentences for (account, text), in the account's language or that of the text.
    """

    def __init__(
        self,
        channel: Channel,
        journal: Journal,
        clock: Clock,
        redact: Redactor,
        lease_valid: Callable[[], bool],
        say: Say,
        texts: Callable[[str, str], Texts],
    ) -> None:
        self._channel = channel
        self._caps = channel.capabilities
        self._journal = journal
        self._clock = clock
        self._redact = redact
        self._lease_valid = lease_valid
        self._say = say
        self._texts = texts

    async def advance(self, reply: Reply, previews: bool) -> Made:
        """Make the reply's next call; returns its kind.

        Raises ChannelError with the step in `reply.doing`, and StoreError before anything was sent.
        """
        if not reply.loaded:
            self._journal.restore(reply, await self._journal.load(reply.key))
        await self._journal.catch_up(reply)  # if recording the last call was interrupted
        resume(reply, self._channel, self._answered(reply), self._clock.monotonic())
        look = self._first_look(reply) if reply.final and reply.fresh else None
        if reply.final and reply.fresh and look is None:
            await self._call_people(reply)
            reply.fresh = False
        silent = reply.too_silent(self._clock.monotonic())
        if silent:
            reply.view = None
        step = look or self._plan(reply, previews)
        if step is None:
            if silent:
                reply.takes_a_while = ""  # it cannot be shown here
            await self._up_to_date(reply)
            return await self.show_typing(reply)
        if not self._may_call(reply, step):
            return Made.NOTHING
        reply.doing, planned = step, reply.wanted
        called = await self._make(reply, step)
        reply.doing = None
        if not called:
            return Made.NOTHING
        reply.attempts = 0
        reply.shows(planned)
        reply.dirty = True
        if reply.wanted is planned:  # otherwise it has grown since, and is laid out when its turn comes
            following = self._plan(reply, previews)
            reply.more = isinstance(following, Send)
            if following is None and not (reply.final and reply.fresh):
                await self._up_to_date(reply)
        await self._journal.catch_up(reply)
        return Made.EDIT if isinstance(step, Edit) else Made.CALL

    def _plan(self, reply: Reply, previews: bool) -> Step | None:
        """The next step that is a call. On the way, messages that must stay as they are get sealed."""
        while reply.wanted is not None and reply.wanted is not reply.refused and not reply.settled:
            step = next_step(reply, self._caps, self._view(reply), self._clock.monotonic(), previews)
            if not isinstance(step, Seal):
                return step
            reply.seal(broken=step.state.shown is None)
        return None

    def _view(self, reply: Reply) -> View:
        """The view of the wanted state, redacted as a whole: a secret that arrived in pieces is complete here."""
        assert reply.wanted is not None
        if reply.view is None or reply.view[0] is not reply.wanted:
            message = redact_message(reply.wanted, self._redact)
            blank = not (message.final or message.text or message.status or message.buttons)
            if blank and (reply.visible or not reply.begins_unseen(self._caps)):
                message = replace(message, status=reply.at_work)
            message = written(message, lambda name: self._channel.command(name, reply.address))
            own = message.text
            if self._caps.append_only_stream and not (self._caps.edits and reply.live_over):
                message = self._grown(reply, message)
            parts = self._channel.layout(as_shown(message, self._caps, reply.no_buttons))
            streams = may_stream(reply, self._caps, message) and not self._caps.edits
            if streams and (text := reply.growing.fit(len(parts) < 2)) != message.text:
                message = replace(message, text=text)
                parts = self._channel.layout(as_shown(message, self._caps, reply.no_buttons))
            reply.view = (reply.wanted, View(message, parts, message.text == own))
        return reply.view[1]

    def _grown(self, reply: Reply, message: OutboundMessage) -> OutboundMessage:
        """The message with the text that may be shown now, without the part that earlier messages hold."""
        if message.final or message.buttons:
            return replace(message, text=reply.growing.grow(message.text, 0))
        if reply.adds(self._caps):
            return replace(message, text=self._added(reply, message.text), status="")
        text = message.text
        shown = text[: len(text) - self._redact.begun_in(text)].rstrip()  # the final may have no blank at its end
        return replace(message, text=reply.growing.grow(text, len(text) - len(shown)))

    def _added(self, reply: Reply, text: str) -> str:
        """The text that the next message adds; after too long a silence, the sentence that it takes a while."""
        added, now = reply.growing.add(text, self._redact.begun_in(text)), self._clock.monotonic()
        if added:
            reply.silent_since = None
        elif reply.silent_since is None:
            reply.silent_since = max(reply.opened_at, reply.shown_at, now - ADDITION_INTERVAL)
        return added or (reply.takes_a_while if reply.too_silent(now) else "")

    async def _up_to_date(self, reply: Reply) -> None:
        shown = reply.wanted
        reply.dirty = False
        reply.asked = shown.buttons if shown is not None else ()
        reply.shows(shown)
        if reply.final and not reply.settled:
            await self._tell_not_taken(reply)
            # A single commit for both.
            await asyncio.gather(self._journal.catch_up(reply), self._journal.delivered(reply, reply.rev))
            if reply.wanted is shown:
                reply.settle(reply.degraded)
            else:  # a newer final has arrived
                reply.dirty = True

    async def _tell_not_taken(self, reply: Reply) -> None:
        """Report refused files and text in a separate message, since those above may no longer be changeable. This
        precedes recording the delivery, so that a crash loses no sentence; the key ensures that it is sent once."""
        sentences = dict.fromkeys(file.instead for file in reply.not_taken if file.instead)
        if reply.left_out and reply.wanted is not None:
            stands = any(state.stands for state in reply.states)
            said = self._texts(reply.address.account, reply.wanted.text).platform_refused
            sentences[said["part" if stands else "answer"]] = None
        if sentences:
            await self._journal.catch_up(reply)
            message = OutboundMessage(text="\n\n".join(sentences), final=True)
            await self._say(f"{reply.key}:files", reply.address, reply.reply_to, message)

    def _may_call(self, reply: Reply, step: Step) -> bool:
        now = self._clock.monotonic()
        if not self._lease_valid():
            reply.retry_at = now + LEASE_RETRY
            return False
        if isinstance(step, Send) and step.state.lost_finals and not self._caps.idempotent_send:
            # A dead connection loses every send: repeat only after a sign of life that is newer than the loss.
            sign = self._channel.health.last_sign
            if sign is not None and sign <= step.state.lost_at:
                reply.retry_at = now + LOST_PAUSE
                return False
        return True

    async def _make(self, reply: Reply, step: Step) -> bool:
        channel, address = self._channel, reply.address
        if isinstance(step, Preview | Edit | Find | ShowStream | FinishStream):
            await self._keep(reply)
            if not self._may_call(reply, step):
                return False
        match step:
            case Send():
                return await self._send(reply, step)
            case Preview(part):
                await channel.preview(address, part, reply.state(0).idem_key)
                reply.previewed = part
            case Edit(state, part, rev, final):
                assert state.message_id is not None
                await channel.edit(address, state.message_id, part)
                state.shown = part
                if final and len(reply.states) > 1:
                    await self._journal.shown(reply, state, rev)
            case Find(state, part):
                await self._find(reply, state, part)
            case Delete(state):
                assert state.message_id is not None
                await channel.delete(address, state.message_id)
                if state not in reply.replaced:  # their row belongs to the replacing message
                    await self._journal.clear(reply, state)
                state.message_id = state.shown = None
            case ShowStream(live, message):
                await live.stream.show(message)
                live.shown = message
            case FinishStream():
                await self._finish_stream(reply, step)
            case Seal():
                raise AssertionError("sealing is not a call")
        reply.shown_at = self._clock.monotonic()
        return True

    async def _send(self, reply: Reply, step: Send) -> bool:
        # Captured now: these concern what the step shows, not what is wanted by the time it is recorded.
        state, page, calls = step.state, self._page(reply, step.rev), reply.calls
        unsent = state.unsent
        if not state.intended:
            state.sent_after = self._channel.newest(reply.address)
            # A single commit for both.
            await asyncio.gather(self._journal.intend(reply, state, self._question(reply)), self._keep(reply))
            state.intended = True
        elif not unsent:
            await self._keep(reply)
        if not self._may_call(reply, step):
            return False
        state.unsent = False
        answered = self._answered(reply) if self._begins(reply, state) else None
        if step.live:
            await self._open_stream(reply, state, answered)
        else:
            message_id = await self._channel.send(reply.address, step.part, state.idem_key, answered, silent=not calls)
            reply.shown_at = self._clock.monotonic()
            if calls:
                reply.called_at = reply.shown_at
            if self._caps.edits and (state.repeated or (state.crashed and self._caps.idempotent_send)):
                # The platform may have known the key: the message that it returned shows what was first sent with it.
                await self._sent(reply, state, message_id, None, NOTHING_SHOWN)
            else:
                lost = not (step.final or self._caps.idempotent_send or self._caps.findable_after_crash)
                sent = self._sent(reply, state, message_id, step.part, page, unfindable=lost)
                if not unsent:
                    await sent
                elif not (await asyncio.gather(sent, self._keep(reply)))[1]:  # a single commit
                    await self._keep(reply)
        return True

    async def _keep(self, reply: Reply) -> bool:
        """Store the words that people are about to read, so that the next process does not retract them after a crash.
        Returns whether they are stored."""
        return reply.keep is None or reply.final or await reply.keep()

    def _first_look(self, reply: Reply) -> Find | None:
        """The search for a draft before people are notified of the final, if one is due: a draft found only later would
        keep its place in the chat, above newer messages."""
        parts = self._view(reply).parts
        if not (self._caps.notifies and parts) or reply.live is not None:
            return None
        for number, state in enumerate(reply.places):
            if state.may_be_draft and may_be_there(state, self._caps, final=True):
                return Find(state, parts[min(number, len(parts) - 1)])
        return None

    async def _call_people(self, reply: Reply) -> None:
        """Show the final as a new message where the change of an old one would go unnoticed. It replaces the last
        message in the chat, and all from the first one on that stands above an earlier answer, such as the notice of a
        waiting message. That is committed beforehand, as the next process has to continue it."""
        if not self._caps.notifies or reply.live is not None or reply.searching or not reply.goes_unnoticed(self._caps):
            return
        places, parts = reply.places, self._view(reply).parts
        standing = [state.message_id is not None for state in places[: len(parts)]]
        if True not in standing:
            return
        number = len(standing) - 1 - standing[::-1].index(True)
        if number:
            above = await self._journal.overtaken(reply)
            number = next((at for at in range(number) if places[at].index in above), number)
        retired = [state for state in places[number:] if state.message_id is not None]
        left = [state for state in places if state not in retired]
        instead = left[number] if number < len(left) else reply.state(len(reply.states))
        if not instead.intended:
            instead.sent_after = self._channel.newest(reply.address)
        await self._journal.retire(reply, retired, instead)
        instead.intended = True
        for state in retired:
            state.retire()
        reply.called_at = None

    def _page(self, reply: Reply, rev: int) -> int:
        """The revision to record for a part of the current view: a later process divides the whole text into parts."""
        return rev if self._view(reply).whole else NO_PAGE

    def _question(self, reply: Reply) -> OutboundMessage | None:
        """The message to store with the intent: a question that cannot be changed once it is sent, else None."""
        message, unchangeable = self._view(reply).message, self._caps.buttons and not self._caps.edits
        return message if message.buttons and not message.final and unchangeable else None

    async def _open_stream(self, reply: Reply, state: PartState, answered: str | None) -> None:
        state.begun = self._clock.monotonic()
        stream = await self._channel.open_stream(reply.address, state.idem_key, answered)
        reply.live = Live(stream, state, stream_ends(self._channel, self._clock.monotonic()))
        await self._sent(reply, state, stream.message_id, None, NOTHING_SHOWN)

    async def _finish_stream(self, reply: Reply, step: FinishStream) -> None:
        rev, state = reply.rev, step.live.part
        whole = step.message.final and self._view(reply).whole  # a newer draft must not count as shown below
        if not step.message.final:
            if not step.message.buttons:
                reply.takes_a_while = ""  # the message says that the answer continues
            await self._journal.ends(reply, state)
        await step.live.stream.finish(as_shown(step.message, self._caps, reply.no_buttons))
        reply.end_stream(step.part, self._caps.edits)
        if whole:
            await self._journal.shown(reply, state, rev)

    async def _find(self, reply: Reply, state: PartState, part: Part) -> None:
        # A message that will still be replaced by a new one is no page of the final, whatever it shows.
        page = NO_PAGE if reply.final and reply.fresh else self._page(reply, reply.rev)
        before = reply.reply_to if self._begins(reply, state) else reply.states[state.index - 1].message_id
        alone = state.crashed and math.isfinite(state.begun) and await self._journal.only_answer(reply)
        age = self._clock.monotonic() - state.begun if alone else None
        probe = Probe(idem_key=state.idem_key, after=state.sent_after or before, age=age)
        try:
            found = await self._channel.find(reply.address, part, probe)
        except OutcomeUnknown as error:
            self._not_told(reply, state, error)
            return
        if found is not None:
            await self._sent(reply, state, found, part, page)
        elif self._clock.monotonic() < state.lost_at + LOST_PAUSE:
            reply.retry_at = state.lost_at + LOST_PAUSE
        else:
            await self._known_unsent(reply, state)

    async def _known_unsent(self, reply: Reply, state: PartState) -> None:
        """Note that an intended part is not in the chat."""
        if state.drafted and reply.final:
            await self._journal.unsent(reply, state)  # so that after a crash, whatever is found counts as the final
            state.drafted = False
        state.unsent = state.drafted
        state.settle()

    def _not_told(self, reply: Reply, state: PartState, error: OutcomeUnknown) -> None:
        """Handle an inconclusive search: search again later, when more of the chat is known; finally decide."""
        state.looks += 1
        if state.looks < LOOKS:
            if state.lost is not None:
                reply.retry_at = self._clock.monotonic() + LOST_PAUSE
        elif state.lost is not None and not reply.final:
            state.unsure = True
        else:
            state.lost, state.unsure, state.crashed = None, False, False
            state.assumed = state.lost_finals >= LOST_FINALS
            level, what = (logging.ERROR, "treated as sent") if state.assumed else (logging.WARNING, "sending again")
            log.log(level, "reply %s part %d may have been sent, %s: %s", reply.key, state.index, what, error)

    async def _sent(
        self,
        reply: Reply,
        state: PartState,
        message_id: str,
        shown: Part | None,
        rev: int,
        *,
        unfindable: bool = False,
    ) -> None:
        """Record that a part is in the chat, before any other call in this chat.

        unfindable: another process could not find the message without this record.
        """
        state.message_id, state.shown = message_id, shown
        reply.stands.set()
        if reply.view is not None and reply.view[1].message.text == reply.takes_a_while:
            reply.takes_a_while = ""  # shown once only
        if shown is not None and (reply.view is None or shown == reply.view[1].parts[-1]):
            reply.growing.mark()  # its last message: only now the whole text is in the chat
        state.settle()
        state.repeated = False
        reply.previewed = None
        sent = Sent(reply_key=reply.key, part=state.index, message_id=message_id, rev=rev)
        if reply.final:  # recorded together with the delivery, if that is next
            reply.unrecorded = sent
            return
        if unfindable and (await self._journal.draft_sent(sent) or await self._taken_back(reply, state, message_id)):
            return
        await self._journal.sent(sent)

    async def _taken_back(self, reply: Reply, state: PartState, message_id: str) -> bool:
        """Delete a draft whose record was prevented by the loss of the lead: the next leader would not know of it and
        send the whole text again below. Returns whether it was deleted."""
        try:
            await self._channel.delete(reply.address, message_id)
        except ChannelError as error:
            log.warning("reply %s: an unrecorded draft remains in the chat: %s", reply.key, error)
            return False
        log.info("reply %s: a draft was deleted, as the lead was lost before it was recorded", reply.key)
        state.message_id = state.shown = reply.called_at = None
        return True

    async def show_typing(self, reply: Reply) -> Made:
        """Show the platform's typing indicator, if that is due. Words do not wait for it."""
        due, now = reply.next_sign(self._caps), self._clock.monotonic()
        if due is None or due > now or reply.settled or not self._lease_valid():
            return Made.NOTHING
        reply.typing_at = now
        with suppress(TimeoutError):
            async with asyncio.timeout(TYPING_PATIENCE):
                await self._channel.typing(reply.address)
        return Made.CALL

    def _begins(self, reply: Reply, state: PartState) -> bool:
        """Whether this message refers to the one that is answered: the first does; where an answer can only be given to
        a certain message, also the first that can still be changed, as those above it may be mere notices."""
        begins = bool(reply.places) and state is reply.places[0]
        return begins and (not reply.sealed or self._caps.replies_to_message)

    def _answered(self, reply: Reply) -> str | None:
        """The message to refer to visibly. In a direct message it is clear what is answered, and quoting it is noise:
        there it is only given if the platform cannot answer without it."""
        wanted = None if reply.wanted is None else reply.wanted.reply_to
        quiet = reply.address.kind == "dm" and not self._caps.replies_to_message
        if reply.unanchored or (wanted is None and quiet):
            return None
        return reply.reply_to if wanted is None else wanted


def stream_ends(channel: Channel, begun: float) -> float:
    """The time by which a stream that began at `begun` must be finished, on the same clock."""
    ttl = channel.capabilities.stream_ttl
    return math.inf if ttl is None else begun + ttl * STREAM_SHARE


def resume(reply: Reply, channel: Channel, answered: str | None, now: float) -> None:
    """Continue the stream that an earlier process left, if the platform still accepts it."""
    for state in [state for state in reply.states if state.left_open]:
        state.left_open = False
        ends = stream_ends(channel, state.begun)
        if ends <= now or reply.live is not None or reply.live_over:
            continue
        stream = channel.resume_stream(reply.address, state.idem_key, answered, now - state.begun)
        if stream is not None:
            reply.resume_stream(Live(stream, state, ends))
