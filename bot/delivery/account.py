"""The replies of one account and its channel, if any: schedules their calls and reacts to the outcomes."""

from __future__ import annotations

import logging
import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.clock import Durations
from bot.delivery.budget import Priority
from bot.delivery.failures import Failures, outcome_of, pause
from bot.delivery.plan import FIRST_TRIAL, LONGEST_TRIAL, Edit
from bot.delivery.reply import Outcome, Reply
from bot.delivery.scheduler import Made, Places, Scheduler
from bot.delivery.sender import LOST_PAUSE, Sender
from bot.store.errors import StoreUnavailable
from channels.errors import (
    ChannelError,
    ChatGone,
    ChatMoved,
    EditRefused,
    Fatal,
    OutcomeUnknown,
    Rejected,
    Temporary,
    TopicClosed,
)
from channels.message import OutboundMessage

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from bot.delivery.journal import Journal
    from bot.delivery.scheduler import ChatLine
    from bot.delivery.sender import Say
    from bot.redaction import Redactor
    from bot.tasks import Tasks
    from bot.texts.catalogue import Texts
    from channels.base import Channel, Clock
    from channels.capabilities import Capabilities
    from channels.message import Address

log = logging.getLogger(__name__)

AFTER_A_BUG = 30.0
"""Seconds before retrying a reply whose call raised an unexpected exception."""

HOLDING = 60.0
"""Seconds for which a reply with failing calls holds back its whole chat, to preserve the order."""


SECOND_OPINION = 1.0
"""Seconds before another chat is tried, after a refusal that says that nothing can be sent at all."""
LOOK = 5.0
"""Seconds between two checks whether its connection is back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSnapshot:
    """An account's replies, for /status.

    oldest_wait: seconds that the oldest final has been waiting. overdue: the same without pauses requested by the
    platform. limited: seconds left of such a pause for a final, 0 for none. stopped: why nothing is sent ("" while it
    works). proven: a call has succeeded since the start. calls: since the start, by outcome: done, limited (429),
    unknown, refused. waits: of finals until shown.
    """

    account: str
    open_replies: int
    waiting_finals: int
    oldest_wait: float
    overdue: float
    limited: float
    stopped: str
    proven: bool
    calls: Counter[str]
    waits: Durations


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Services shared by all accounts."""

    journal: Journal
    clock: Clock
    redact: Redactor
    lease_valid: Callable[[], bool]
    moved: Callable[[str, str, str], None]
    progressed: Callable[[], None]
    shown: Callable[[str, str, float], None]
    say: Say
    texts: Callable[[str, str], Texts]
    tasks: Tasks


class Account:
    """One account's replies; created with its first reply or its channel, whichever comes first."""

    def __init__(self, name: str, shared: Shared) -> None:
        self.name = name
        self.replies: dict[str, Reply] = {}
        self.stopped = "no connection yet"
        self._shared = shared
        self._streaming: set[Reply] = set()
        self._places = Places()
        self._known: frozenset[tuple[str, str]] = frozenset()
        self._channel: Channel | None = None
        self._caps: Capabilities | None = None
        self._scheduler: Scheduler | None = None
        self._sender: Sender | None = None
        self._failures: Failures | None = None
        self._worked_at = -math.inf
        self._trial: Reply | None = None
        """The reply whose call shows whether a stopped account works again."""
        self._trial_at = 0.0
        self._trial_pause = 0.0
        self._rearmed_at = -math.inf
        self._watch: asyncio.Task[None] | None = None
        self._calls: Counter[str] = Counter()
        self._waits = Durations()

    @property
    def unfinished(self) -> bool:
        """Whether a final, or the last draft before a planned stop, is left that could be shown now."""
        caps = self._caps
        if self._scheduler is None or self.stopped or caps is None or not self._shared.lease_valid():
            return False
        return any(
            reply.final or (reply.suspended and reply.next_wish(caps, 0.0) is not None)
            for reply in self.replies.values()
        )

    def connect(self, channel: Channel) -> None:
        """Send through `channel` from now on, beginning with everything that was waiting for one."""
        shared = self._shared
        channel.recall(self._known)
        self._channel = channel
        self._caps = channel.capabilities
        self._sender = Sender(
            channel, shared.journal, shared.clock, shared.redact, shared.lease_valid, shared.say, shared.texts
        )
        self._failures = Failures(channel, shared.clock, shared.texts)
        self._scheduler = Scheduler(self.name, channel.rate, shared.clock, self._perform, self._bug, self._allowed)
        self._scheduler.start()
        for reply in self.replies.values():
            reply.view = None  # another channel may render it differently
        self._go_on()

    def recall(self, known: frozenset[tuple[str, str]]) -> None:
        """Set the ids of messages known from before, for `Channel.recall`."""
        self._known = known
        if self._channel is not None:
            self._channel.recall(known)

    @property
    def intends_early(self) -> bool:
        """Whether the intent to send a message can be committed before there is anything to show. Not where the intent
        also records a question or the start time of a stream, nor where sends are idempotent: a message that was
        intended, and perhaps sent, has to be taken for a draft there."""
        return self._caps is not None and self._caps.edits and not self._caps.idempotent_send

    def newest(self, address: Address) -> str | None:
        return None if self._channel is None else self._channel.newest(address)

    def detach(self, why: str) -> Scheduler | None:
        """Stop sending: replies wait for the next `connect`. Returns the scheduler, which the caller has to close."""
        scheduler, self._scheduler = self._scheduler, None
        self.stopped, self._trial = why, None
        if self._watch is not None:
            self._watch.cancel()
        return scheduler

    async def disconnect(self, grace: float) -> None:
        """Stop sending through a channel that is going away. Calls cut off after `grace` seconds may have been applied;
        open streams are left as by a process that ends."""
        scheduler = self.detach("disconnected")
        if scheduler is None:
            return
        await scheduler.close(grace)
        assert self._failures is not None
        for reply in self.replies.values():
            if reply.doing is not None:
                self._failures.cut_off(reply)
            reply.leave_stream()

    def add(self, reply: Reply) -> None:
        self.replies[reply.key] = reply
        self._places.add(reply)

    def changed(self, reply: Reply) -> None:
        """Reconsider the next call of a reply after a change to it."""
        if reply.streaming:
            self._streaming.add(reply)
        else:
            self._streaming.discard(reply)
        if reply.wanted is not None:
            self._begun(reply)
        if self._scheduler is None or self._caps is None or (self.stopped and reply is not self._trial):
            return
        wish = reply.next_wish(self._caps, self._edit_interval(reply))
        if wish is None:
            self._scheduler.withdraw(reply)
        else:
            priority, since, due = wish
            self._scheduler.want(reply, priority, since, max(due, self._places.not_before(reply)))

    def _begun(self, reply: Reply) -> None:
        for other in self._places.begun(reply):
            self.changed(other)

    def forget(self, reply: Reply) -> None:
        if reply.final:
            waited = self._shared.clock.monotonic() - reply.final_since
            self._waits.add(waited)
            self._shared.shown(reply.key, self.name, waited)
        self._streaming.discard(reply)
        if self.replies.get(reply.key) is reply:
            del self.replies[reply.key]
        self._begun(reply)
        if self._scheduler is not None:
            self._scheduler.withdraw(reply)
        self._shared.progressed()

    def snapshot(self) -> AccountSnapshot:
        now = self._shared.clock.monotonic()
        finals = [(reply.final_since, self._limited_until(reply)) for reply in self.replies.values() if reply.final]
        return AccountSnapshot(
            account=self.name,
            open_replies=len(self.replies),
            waiting_finals=len(finals),
            oldest_wait=now - min((since for since, _ in finals), default=now),
            overdue=max(0.0, now - min(map(max, finals), default=now)),
            limited=max(0.0, max((limited - now for _, limited in finals), default=0.0)),
            stopped=self.stopped,
            proven=math.isfinite(self._worked_at),
            calls=self._calls,
            waits=self._waits,
        )

    def _limited_until(self, reply: Reply) -> float:
        return -math.inf if self._scheduler is None else self._scheduler.limited_until(reply.chat)

    def _edit_interval(self, reply: Reply) -> float:
        """Seconds between two edits: longer the more replies grow at once, so that all of them keep moving."""
        assert self._caps is not None
        assert self._scheduler is not None
        strain = self._scheduler.strain(reply.chat)
        return max(
            reply.usual_interval(self._caps) * strain,
            self._scheduler.draft_interval(reply.chat),
            self._scheduler.budget.draft_interval(len(self._streaming), edits=reply.live is None),
        )

    async def _perform(self, reply: Reply, line: ChatLine, priority: Priority) -> Made:
        """Make the one call that the scheduler has granted."""
        assert self._sender is not None
        assert self._caps is not None
        began = self._shared.clock.monotonic()
        previews = self._caps.preview_dm and reply.previews and not reply.group and not line.preview_refused
        try:
            if priority is Priority.TYPING:
                made = await self._sender.show_typing(reply)
            else:
                made = await self._sender.advance(reply, previews)
            if made:
                self._calls["done"] += 1
                line.budget.ease()
                self._worked(reply)
        except ChannelError as error:
            made = Made.EDIT if isinstance(reply.doing, Edit) else Made.CALL
            self._calls[outcome_of(error)] += 1
            await self._failed(reply, line, error)
            if isinstance(error, Fatal) and began < self._rearmed_at:
                self.rearm()  # the call was in flight when the credential was accepted
        except StoreUnavailable as error:
            log.error("reply %s waits for the database: %s", reply.key, error)
            self._wait_again(reply)
            made = Made.NOTHING
        if reply.settled:
            self.forget(reply)
        else:
            self._hold_back(reply, line)
            self.changed(reply)
        self._shared.progressed()
        return made

    def _hold_back(self, reply: Reply, line: ChatLine) -> None:
        """Hold back later messages of the chat while a reply is in trouble, for at most HOLDING."""
        if not reply.attempts and not reply.searching:
            reply.trouble_at = None
            return
        if reply.trouble_at is None:
            reply.trouble_at = self._shared.clock.monotonic()
        line.budget.block(min(reply.retry_at, reply.trouble_at + HOLDING))

    async def _failed(self, reply: Reply, line: ChatLine, error: ChannelError) -> None:
        assert self._failures is not None
        if isinstance(error, Fatal) and not reply.refusals.overruled(self._worked_at):
            self._cannot_send(reply, error)
            return
        if isinstance(error, Fatal):
            error = EditRefused(str(error)) if isinstance(reply.doing, Edit) else Rejected(str(error))
        elif not isinstance(error, Temporary | OutcomeUnknown):
            self._worked(reply)
        if isinstance(error, ChatGone | TopicClosed):
            error = self._failures.narrowed(reply, error)
        match error:
            case ChatGone():
                await self._give_up([r for r in self.replies.values() if r.chat == reply.chat], "chat gone", error)
            case TopicClosed():
                await self._give_up_topic(reply, error)
            case ChatMoved():
                if reply.attempts:  # the chat keeps moving
                    self._wait_again(reply)
                reply.attempts += 1
                self._move(reply.chat, error.new_chat)
            case _:
                wanted, had_buttons = reply.wanted, not reply.no_buttons
                if not self._failures.note(reply, line, error):
                    await self._give_up([reply], "refused", error)
                elif had_buttons and reply.no_buttons:  # before the numbers are shown, so that each can be answered
                    await self._shared.journal.numbered(reply)
                elif reply.final and reply.wanted is not wanted and not reply.concessions.replaced:
                    await self._shared.journal.conceded(reply, self._shared.redact)
                if reply.attempts > 1:
                    self._look_for_connection()

    async def _give_up_topic(self, reply: Reply, error: ChannelError) -> None:
        """Abandon the replies of a closed topic; report lost finals in the chat outside it, at most once a day."""
        assert self._failures is not None
        address, text = reply.address, "" if reply.wanted is None else reply.wanted.text
        there = [r for r in self.replies.values() if (r.chat, r.address.topic) == (address.chat, address.topic)]
        final = any(r.final for r in there)
        await self._give_up(there, "topic closed", error)
        if not final or address.topic is None:
            return
        key = f"closed:{self.name}:{address.chat}:{address.topic}:{self._shared.clock.now():%Y-%m-%d}"
        sentence = OutboundMessage(text=self._failures.topic_closed(self.name, text), final=True)
        try:
            await self._shared.say(key, replace(address, topic=None), None, sentence)
        except StoreUnavailable as unsaid:
            log.error("account %s: notice about a closed topic not stored: %s", self.name, unsaid)

    async def _give_up(self, replies: list[Reply], reason: str, error: ChannelError) -> None:
        log.warning("account %s: %d replies given up, %s: %s", self.name, len(replies), reason, error)
        await self._shared.journal.abandon(replies, f"{reason}: {error}")
        for reply in replies:
            reply.settle(Outcome.ABANDONED)
            self.forget(reply)

    def _move(self, old: str, new: str) -> None:
        log.info("account %s: chat %s is now %s", self.name, old, new)
        self._places.move(old, new)
        for reply in self.replies.values():
            if reply.chat == old:
                if self._scheduler is not None:
                    self._scheduler.withdraw(reply)
                reply.move(new)
                self.changed(reply)
        self._shared.moved(self.name, old, new)

    # An account that cannot send: everything waits, and a single call is tried periodically.

    def rearm(self) -> None:
        """Retry at once, as the platform has accepted the credential; also replies that wait after network failures,
        except those with a message lost a moment ago, which may still be in flight."""
        now = self._trial_at = self._rearmed_at = self._shared.clock.monotonic()
        for reply in self.replies.values():
            lost_at = max((state.lost_at for state in reply.states if state.searching), default=-math.inf)
            if reply.attempts and reply.retry_at > now >= lost_at + LOST_PAUSE:
                reply.retry_at = now
                if self._scheduler is not None:
                    self._scheduler.release(reply.chat)
                self.changed(reply)
        self._try()

    def _cannot_send(self, reply: Reply, error: Fatal) -> None:
        """Stop the account, as the platform refuses all calls; rows stay. Another chat is soon tried to verify it."""
        now = self._shared.clock.monotonic()
        reply.doing = None
        reply.attempts += 1
        reply.retry_at = now + reply.refusals.note(now)
        if self.stopped and reply is not self._trial:
            return  # it was in flight when the first one was refused
        if self.stopped:
            self._trial_pause = min(max(self._trial_pause * 2, FIRST_TRIAL), LONGEST_TRIAL)
        else:
            log.error("account %s: nothing is sent for now: %s (%s)", self.name, error, error.hint)
            self._trial_pause = SECOND_OPINION
        self.stopped, self._trial = error.hint, None
        self._trial_at = now + self._trial_pause
        if self._scheduler is not None:
            for waiting in self.replies.values():
                self._scheduler.withdraw(waiting)
        self._look_for_connection()

    def _look_for_connection(self) -> None:
        if self._watch is None or self._watch.done():
            self._watch = self._shared.tasks.spawn(f"trials:{self.name}", self._keep_trying())

    async def _keep_trying(self) -> None:
        """Retry what waits once the account is connected again, and meanwhile single calls where all are refused."""
        assert self._channel is not None
        clock, reconnects = self._shared.clock, self._channel.health.reconnects
        while self.stopped or any(reply.attempts for reply in self.replies.values()):
            await clock.sleep(min(max(self._trial_at - clock.monotonic(), SECOND_OPINION), LOOK))
            if self._channel.health.reconnects != reconnects:
                reconnects = self._channel.health.reconnects
                self.rearm()
            elif clock.monotonic() >= self._trial_at:
                self._try()

    def _try(self) -> None:
        """Let one reply make its call: among those due, one that was refused least often, taking turns. In each chat
        only the foremost reply is considered."""
        last, now = self._trial, self._shared.clock.monotonic()
        if not self.stopped or self._scheduler is None or self._caps is None or (last is not None and last.doing):
            return
        foremost: dict[str, tuple[Priority, float, int, Reply]] = {}
        for reply in self.replies.values():
            wish = reply.next_wish(self._caps, 0.0)
            if wish is not None and wish[0] is not Priority.TYPING and wish[2] <= now:
                rank = (*wish[:2], reply.order, reply)
                foremost[reply.chat] = min(rank, foremost.get(reply.chat, rank))
        if last is not None:
            self._scheduler.withdraw(last)
        due = [
            (reply.refusals.count, reply.refusals.tried, priority, order, reply)
            for priority, _, order, reply in foremost.values()
        ]
        self._trial = min(due)[-1] if due else None
        if self._trial is not None:
            self._trial.refusals.tried = now
            self.changed(self._trial)

    def _worked(self, reply: Reply) -> None:
        """Note that the platform accepted a call of the reply, or refused it without affecting the account."""
        if not self.stopped:
            self._worked_at = self._shared.clock.monotonic()
        elif reply is self._trial:
            self._worked_at = self._shared.clock.monotonic()
            log.info("account %s: it can send again", self.name)
            self._go_on()

    def _go_on(self) -> None:
        self.stopped, self._trial = "", None
        for reply in tuple(self.replies.values()):
            self.changed(reply)

    def _allowed(self) -> bool:
        return (not self.stopped or self._trial is not None) and self._shared.lease_valid()

    def _wait_again(self, reply: Reply) -> None:
        """Retry after a pause that grows with each attempt."""
        reply.attempts += 1
        reply.retry_at = self._shared.clock.monotonic() + pause(reply.attempts)

    def _bug(self, reply: Reply) -> None:
        reply.doing = None
        reply.retry_at = self._shared.clock.monotonic() + AFTER_A_BUG
        if not reply.settled:
            self.changed(reply)
