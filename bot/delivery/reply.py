"""One reply: what it should show, what its messages are known to show, and when it wants its next call."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from bot.delivery.budget import Priority
from bot.delivery.plan import Concessions, PartState, Refusals, idem_key, tells, worth_a_call
from bot.delivery.redaction import GrowingText

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bot.delivery.plan import Live, Step, View
    from bot.store.outbox import Sent
    from channels.base import Part
    from channels.capabilities import Capabilities
    from channels.message import Address, Button, OutboundFile, OutboundMessage

    Buttons = tuple[tuple[Button, ...], ...]

FIRST_WORDS = 0.3
"""Seconds that the first words of an answer wait for more of them, where they take a status's place."""
FIRST_MESSAGE = 0.7
"""Seconds that the first words of an answer wait for enough of them to call people to it."""
STATUS_AFTER = 2.5
"""Seconds without anything else to show after which a message tells what is done."""
EDITS_REFUSED = 2
"""Refused edits after which a reply has no more drafts: each would be a message of its own."""
ADDITION_INTERVAL = 6.0
"""Seconds between two messages that an answer grows by where nothing can be changed: faster ones would be noise."""
SILENT = 8.0
"""Seconds without anything to see after which it is said that the answer takes a while (`Reply.takes_a_while`)."""
TYPING_INTERVAL = 4.0
"""Platforms show it for about 5 s (Bot API, sendChatAction)."""
LASTING_INTERVAL = 60.0
"""Slack takes its status away after two minutes (assistant.threads.setStatus)."""


class Outcome(StrEnum):
    """How a final was shown. PLAIN, WITHOUT_FILES, REFUSED: the platform refused its formatting, its files, its words;
    what is missing was said, and it counts as delivered."""

    PENDING = "pending"
    DELIVERED = "delivered"
    PLAIN = "plain"
    WITHOUT_FILES = "without_files"
    REFUSED = "refused"
    ABANDONED = "abandoned"


class Reply:
    """Made by Delivery.open; the run calls `show` as often as it likes. Jobs of the scheduler."""

    def __init__(
        self,
        key: str,
        address: Address,
        reply_to: str | None,
        order: int,
        monotonic: Callable[[], float],
        changed: Callable[[Reply], None],
    ) -> None:
        self.key = key
        self.address = address
        self.reply_to = reply_to
        self.order = order
        self.opened_at = monotonic()
        self.states: list[PartState] = []
        self.sealed = 0
        """Leading parts that stay as they are, because the platform can change nothing (no edits)."""
        self.rev = 0
        """The outbox revision of `wanted`; grows by one when the final is committed."""
        self.wanted: OutboundMessage | None = None
        self.refused: OutboundMessage | None = None
        """A draft that the platform did not take: not tried again."""
        self.dirty = False
        self.final_since = 0.0
        self.suspended = False
        self.loaded = False
        """What the outbox knows of it is known here too; read before its first call at the latest."""
        self.outcome = Outcome.PENDING
        self.degraded = Outcome.DELIVERED
        """How the final will have been shown, after what the platform refused of it."""
        self.not_taken: list[OutboundFile] = []
        """Files that the platform refused."""
        self.left_out = False
        """The platform refused a part of its text, which is missing."""
        self.concessions = Concessions()
        self.no_buttons = ""
        """The platform refused its buttons: how to answer without them."""
        self.edits_refused = 0
        self.replaced: list[PartState] = []
        """Messages that could not be edited any more, and whose content was sent again below."""
        self.refusals = Refusals()
        self.unanchored = False
        """The message that it answers is gone: it is sent without pointing there."""
        self.attempts = 0
        self.retry_at = 0.0
        self.trouble_at: float | None = None
        """The time since which its calls have failed, or one of its messages has been lost."""
        self.shown_at = -math.inf
        self.typing_at = -math.inf
        self.grown_at = -math.inf
        """When words were shown last."""
        self.called_at: float | None = None
        """When a message of it called people; None while none of this process has."""
        self.fresh = True
        """It has never been final: how people are called to its final is open."""
        self.waits_for_person = False
        """Nothing is done until somebody has decided: no sign of life."""
        self.words_at: float | None = None
        """When the first words came that are not shown yet."""
        self.hurried = False
        """Its words are to stand above a message that comes next, which calls people to both."""
        self.urgency = 0
        self.previews = True
        """It may grow in a preview, where the platform has one: that calls nobody before it is final."""
        self.previewed: Part | None = None
        self.asked: Buttons = ()
        """The buttons that are known to be shown: another text above them is a draft like any other."""
        self.told = ""
        """The words of the answer that are known to be shown."""
        self.keep: Callable[[], Awaitable[bool]] | None = None
        """Stores the words of `wanted` before a draft shows them: the next process is to know them. The first words,
        whose message it would have to find, are stored with that message's id. Whether it worked; raises nothing."""
        self.live: Live | None = None
        self.live_over = False
        self.at_work = ""
        """What a message says that stands without anything else to say."""
        self.goes_on = ""
        """What a message says that has to end before the answer does, which then goes on below it."""
        self.takes_a_while = ""
        """What to say once, where only further messages can be added, when nothing else is to be seen for a while."""
        self.silent_since: float | None = None
        """The time since which it is at work there without a word of the answer to show."""
        self.growing = GrowingText()
        self.view: tuple[OutboundMessage, View] | None = None
        """What `wanted` looks like, kept until either changes."""
        self.unrecorded: Sent | None = None
        """What the call that is being made has sent: recorded before the next one."""
        self.doing: Step | None = None
        self.more = False
        """What is to come next is known to be a further message."""
        self._monotonic = monotonic
        self._changed = changed
        self._settled = asyncio.Event()
        self.stands = asyncio.Event()

    @property
    def chat(self) -> str:
        return self.address.chat

    @property
    def group(self) -> bool:
        return self.address.kind != "dm"

    @property
    def edits(self) -> bool:
        """Its next call changes a message that stands, by all that is known."""
        return self.live is None and not self.more and bool(self.message_ids)

    @property
    def drafts(self) -> bool:
        """It still has drafts: its messages can be edited, or have seldom been refused that."""
        return self.edits_refused < EDITS_REFUSED

    @property
    def final(self) -> bool:
        return self.wanted is not None and self.wanted.final

    @property
    def settled(self) -> bool:
        """Nothing will change any more: delivered, given up, or the delivery was closed."""
        return self._settled.is_set()

    @property
    def visible(self) -> bool:
        """A message (or a preview of one) stands in the chat."""
        return self.previewed is not None or any(state.message_id or state.assumed for state in self.states)

    @property
    def states_in_chat(self) -> bool:
        """A message of it is, or may be, in the chat."""
        return any(state.message_id or state.lost for state in self.states)

    @property
    def searching(self) -> bool:
        """A message of it may be in the chat and is looked for, or has to be repeated."""
        return any(
            (state.lost and not state.unsure) or (state.lost_finals and not state.assumed) for state in self.states
        )

    @property
    def streaming(self) -> bool:
        """Its drafts are competing for the account's budget. What waits for a button's press does not grow."""
        return self.wanted is not None and not (self.wanted.final or self.wanted.buttons) and not self.settled

    @property
    def message_ids(self) -> dict[int, str]:
        """Part -> platform message id, of those that are recorded; for checking where a button was pressed."""
        standing = (state for state in self.states if not state.retired)
        return {state.index: state.message_id for state in standing if state.message_id is not None}

    @property
    def places(self) -> list[PartState]:
        """The parts that show what is wanted, in its order."""
        return [state for state in self.states[self.sealed :] if not state.retired]

    def show(self, message: OutboundMessage) -> None:
        """Make this the reply's state. Latest wins, never blocks, never raises; ignored after a final or `suspend`."""
        if self.final or self.settled or self.suspended or message == self.wanted:
            return
        self.wanted = message
        self.more = False
        if not message.text:
            self.words_at = None
        elif self.words_at is None:
            self.words_at = self._monotonic()
        urgency, before = _urgency(message.status, message.text), self.urgency
        self.urgency = urgency
        if not self.dirty or urgency > before:  # first words are due earlier than the status that may be waiting
            self.dirty = True
            self._changed(self)

    async def hurry(self) -> None:
        """Let its first message be sent at once, if it can be, and wait for it."""
        self.hurried = True
        self._changed(self)
        await self.stands.wait()

    def suspend(self) -> None:
        """A planned stop: the last draft is shown at once if the budget allows, and no other after it."""
        self.suspended = True
        self._changed(self)

    async def delivered(self) -> None:
        """Wait until the final is shown or given up (see `outcome`), or the delivery was closed (outcome PENDING)."""
        await self._settled.wait()

    def intended_early(self) -> None:
        """It was committed with the start of its run that its first message is going to be sent (`Delivery.intent`)."""
        first = self.state(0)
        if not first.intended:  # else it was sent meanwhile, or is about to be
            first.intended = first.unsent = True

    def finish(self, message: OutboundMessage, now: float, newest: str | None) -> None:
        """Take the final state; it was committed before, and with it that the first part is going to be sent.

        newest: the chat's newest message, of which only an older one is known to stand above that part.
        """
        before = self.wanted
        if before is not None and before.buttons and not before.text:
            self.fresh = False  # what only waited was dropped or passed on: a notice, which nobody waits for
        if self.wanted != message:
            self.rev += 1
        self.wanted = message
        self.concessions = Concessions()
        self.more = False
        self.final_since = now
        first = self.state(0)
        if first.unsent or not first.intended:
            first.intended, first.sent_after = True, newest
        self.dirty = True
        self.retry_at = min(self.retry_at, now) if self.attempts == 0 else self.retry_at
        self._changed(self)

    def settle(self, outcome: Outcome) -> None:
        """No more calls."""
        self.outcome = outcome
        self.dirty = False
        self._settled.set()

    def shows(self, message: OutboundMessage | None) -> None:
        """This much of it is shown."""
        text = "" if message is None else message.text
        if text != self.told:
            self.told, self.grown_at = text, self._monotonic()

    def goes_unnoticed(self, caps: Capabilities) -> bool:
        """People who wait for the final would not see that a message which stands has become it."""
        assert self.wanted is not None
        if self.called_at is None or self.wanted.buttons:
            return True
        return caps.notify_after is not None and self._monotonic() - self.called_at > caps.notify_after

    @property
    def calls(self) -> bool:
        """Its next message is the one that people wait for."""
        if self.called_at is not None or self.wanted is None:
            return False
        return self.final or (tells(self.wanted.text) and not (self.visible or self.hurried))

    def place(self, number: int) -> PartState:
        """The part that shows this one of the wanted parts."""
        while len(self.places) <= number:
            self.state(len(self.states))
        return self.places[number]

    def state(self, index: int) -> PartState:
        while len(self.states) <= index:
            number = len(self.states)
            self.states.append(PartState(index=number, idem_key=idem_key(self.key, number)))
        return self.states[index]

    def move(self, chat: str) -> None:
        """The chat has a new id: what got lost in the old one cannot be found here, and ids begin again."""
        self.address = replace(self.address, chat=chat)
        self.reply_to, self.unanchored = None, True
        for state in self.states:
            state.settle()
            state.sent_after = None

    def renew(self, state: PartState, *, final: bool) -> None:
        """Send again from this part on: its message cannot be edited, and what stands below it belongs below it."""
        for later in self.states[state.index :]:
            if later.message_id is not None and not later.retired:
                self.replaced.append(replace(later, deletes=0))
                later.replace(self.rev if final else None)
        self.view = None

    def seal(self, *, broken: bool) -> None:
        """Leave the first open part as it is; what follows goes below. broken: it does not count, all is said again,
        but for what an earlier process has said below it."""
        self.sealed += 1
        self.view = None
        if broken:
            self.growing.restart()
        else:
            self.growing.cut()

    def end_stream(self, part: Part | None, edits: bool) -> None:
        """The stream was finished, showing `part` (None: a state that is not wanted any more)."""
        assert self.live is not None
        self.live.part.shown = part
        self.live = self.view = None
        self.growing.mark()
        if edits or self.final:
            self.live_over = True
        elif part is None:
            self.seal(broken=False)

    def resume_stream(self, live: Live) -> None:
        """A stream of an earlier process goes on; what stands above it was left there."""
        self.live = live
        self.sealed = live.part.index
        self.view = None

    def leave_stream(self) -> None:
        """The channel goes while a stream is open: the next one goes on with it where it can."""
        if self.live is not None:
            self.live.part.left_open, self.live.part.shown = True, None
            self.live = self.view = None

    def refuse_stream(self) -> None:
        """The platform begins none here: its messages are sent and edited, or sent once it is final."""
        self.live_over = True
        self.view = None

    def break_stream(self) -> None:
        """The stream cannot be continued: edits go on from here, or the answer is sent again."""
        assert self.live is not None
        self.live.part.shown = None
        self.live = None
        self.refuse_stream()

    def next_wish(self, caps: Capabilities, interval: float) -> tuple[Priority, float, float] | None:
        """(priority, since, due) of the next call, None when there is nothing to do until something changes.

        interval: seconds that this reply's drafts keep between two calls now.
        """
        if self.settled:
            return None
        if self.wanted is not None and self.wanted.final:
            return (Priority.FINAL, self.final_since, self.retry_at)
        draft, sign = self._next_draft(caps, interval), self.next_sign(caps)
        if sign is not None and (draft is None or draft[2] > max(sign, self._monotonic())):
            return (Priority.TYPING, sign, sign)
        return draft

    def _next_draft(self, caps: Capabilities, interval: float) -> tuple[Priority, float, float] | None:
        if self.dirty and self.wanted is not None and self._may_draft(self.wanted, caps):
            if self.adds(caps) and not self.wanted.buttons:
                if self.suspended:
                    return None
                due = max(self.retry_at, max(self.shown_at, self.opened_at) + max(interval, ADDITION_INTERVAL))
                return (Priority.DRAFT, due, due)
            return self._draft_wish(self.wanted, interval, caps)
        if self.suspended:
            return None
        if self.silent_since is not None and self.takes_a_while and self.adds(caps):
            due = max(self.retry_at, self.silent_since + SILENT)
            return (Priority.DRAFT, due, due)
        if self.live is not None and caps.stream_sign is not None:
            due = max(self.retry_at, self.shown_at + max(interval, caps.stream_sign))
            if due < self.live.ends:
                return (Priority.DRAFT, due, due)
        if self.live is not None and math.isfinite(self.live.ends):
            return (Priority.QUESTION, self.live.ends, self.live.ends)
        if self.previewed is not None and not self.message_ids:
            due = max(self.retry_at, self.shown_at + caps.preview_ttl)
            return (Priority.DRAFT, due, due)
        return None

    def types(self, caps: Capabilities) -> bool:
        """The platform can show where it is that an answer is being made."""
        return caps.typing and not (caps.typing_in_threads and self.address.topic is None)

    def begins_unseen(self, caps: Capabilities) -> bool:
        """Nothing but the platform's own sign tells that it is at work; elsewhere a message says so, which calls nobody
        and keeps its place in the chat."""
        return caps.notifies and self.types(caps)

    def next_sign(self, caps: Capabilities) -> float | None:
        """When the platform is to tell again that an answer is being made; None when it need not."""
        asks = self.wanted is not None and bool(self.wanted.buttons)
        if not self.types(caps) or self.final or self.suspended or self.waits_for_person or asks:
            return None
        grows = self.visible and self.wanted is not None and self.wanted.text not in ("", self.told)
        if grows or self.live is not None or self.previewed is not None or (caps.typing_lasts and self.told):
            return None
        interval = LASTING_INTERVAL if caps.typing_lasts else TYPING_INTERVAL
        return max(self.retry_at, max(self.typing_at, self.grown_at) + interval)

    def too_silent(self, now: float) -> bool:
        """It is time to say that the answer takes a while."""
        return bool(self.takes_a_while) and self.silent_since is not None and now >= self.silent_since + SILENT

    def adds(self, caps: Capabilities) -> bool:
        """It grows by further messages: no stream begins (any more), and nothing can be changed."""
        return caps.append_only_stream and not caps.edits and self.live is None and self.live_over

    def _may_draft(self, wanted: OutboundMessage, caps: Capabilities) -> bool:
        if wanted.buttons:
            return True
        if caps.edits:
            return self.drafts
        return caps.append_only_stream or (caps.preview_dm and not self.group)

    def usual_interval(self, caps: Capabilities) -> float:
        """Seconds between two drafts when nothing is short."""
        return caps.edit_interval_group if self.group else caps.edit_interval_dm

    def _draft_wish(
        self, wanted: OutboundMessage, interval: float, caps: Capabilities
    ) -> tuple[Priority, float, float] | None:
        if not self.visible:  # first messages keep their order, so that answers stand in the order of the questions
            due = self._first_due(wanted, caps)
            return None if math.isinf(due) else (Priority.PROGRESS, 0.0, max(self.retry_at, due))
        if wanted.buttons and wanted.buttons != self.asked:
            return (Priority.QUESTION, self.retry_at, self.retry_at)
        if wanted.text and not self.told:  # a person waits for these; a status needs no time to be read
            usual = self.usual_interval(caps)
            interval = min(usual, FIRST_WORDS) + max(0.0, interval - usual)
        due = self.retry_at if self.suspended else max(self.retry_at, self.shown_at + interval)
        return (Priority.DRAFT, due, due)

    def _first_due(self, wanted: OutboundMessage, caps: Capabilities) -> float:
        """When the first message is to come; inf while it would hold nothing worth one."""
        if self.begins_unseen(caps) and not (wanted.text or wanted.status or wanted.buttons):
            return math.inf
        calls = caps.notifies and not (caps.preview_dm and self.previews and not self.group)
        if not calls or wanted.buttons or self.suspended or self.hurried or worth_a_call(wanted.text):
            return self.opened_at
        if tells(wanted.text):
            return (self.words_at or 0.0) + FIRST_MESSAGE
        return self.opened_at + STATUS_AFTER if wanted.status or not self.types(caps) else math.inf


def _urgency(status: str, text: str) -> int:
    """The higher, the sooner it is to be shown."""
    return bool(status) + 2 * (bool(text) + tells(text) + worth_a_call(text))
