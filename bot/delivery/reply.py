"""One reply: its wanted content, the known content of its messages, and the time of its next call."""

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
"""Seconds that the first words of an answer wait for more words, where they replace a status."""
FIRST_MESSAGE = 0.7
"""Seconds that the first words of an answer wait for enough words to notify people."""
STATUS_AFTER = 2.5
"""Seconds without other content after which a message shows the status."""
EDITS_REFUSED = 2
"""Refused edits after which a reply shows no more drafts: each would be a separate message."""
ADDITION_INTERVAL = 6.0
"""Seconds between two additional messages of an answer where nothing can be changed: more would be noise."""
SILENT = 8.0
"""Seconds without visible output after which a notice says that the answer takes a while (`Reply.takes_a_while`)."""
TYPING_INTERVAL = 4.0
"""Seconds between two typing actions; platforms show one for about 5 s (Bot API, sendChatAction)."""
LASTING_INTERVAL = 60.0
"""The same for a lasting sign; Slack removes its status after two minutes (assistant.threads.setStatus)."""


class Outcome(StrEnum):
    """How a final was shown. PLAIN, WITHOUT_FILES, REFUSED: the platform refused its formatting, files or text; people
    were informed of missing content, and it counts as delivered."""

    PENDING = "pending"
    DELIVERED = "delivered"
    PLAIN = "plain"
    WITHOUT_FILES = "without_files"
    REFUSED = "refused"
    ABANDONED = "abandoned"


class Reply:
    """A reply, created by Delivery.open; `show` may be called any number of times. The scheduler makes its calls."""

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
        """Number of leading parts that stay as they are, because the platform has no edits."""
        self.rev = 0
        """The outbox revision of `wanted`; incremented when the final is committed."""
        self.wanted: OutboundMessage | None = None
        self.refused: OutboundMessage | None = None
        """A draft that the platform refused: not retried."""
        self.dirty = False
        self.final_since = 0.0
        self.suspended = False
        self.loaded = False
        """Whether its outbox rows have been read, before its first call at the latest."""
        self.outcome = Outcome.PENDING
        self.degraded = Outcome.DELIVERED
        """The outcome of the final once it is shown, given what the platform refused so far."""
        self.not_taken: list[OutboundFile] = []
        """Files that the platform refused."""
        self.left_out = False
        """Whether a part of its text is missing, as the platform refused it."""
        self.concessions = Concessions()
        self.no_buttons = ""
        """If the platform refused its buttons: how to answer without them."""
        self.edits_refused = 0
        self.replaced: list[PartState] = []
        """Messages that could no longer be edited, and whose content was sent again below."""
        self.refusals = Refusals()
        self.unanchored = False
        """Whether it is sent without a reference to the message that it answers, as that was deleted."""
        self.attempts = 0
        self.retry_at = 0.0
        self.trouble_at: float | None = None
        """The time since which its calls have been failing, or one of its messages has been lost."""
        self.shown_at = -math.inf
        self.typing_at = -math.inf
        self.grown_at = -math.inf
        """When new words were last shown."""
        self.called_at: float | None = None
        """When a message of it notified people; None if none sent by this process has."""
        self.fresh = True
        """Whether it is still undecided how people are notified of its final, as it has not been final before."""
        self.waits_for_person = False
        """Whether the run waits for a person's decision: no sign of life is shown."""
        self.words_at: float | None = None
        """When the first words arrived."""
        self.hurried = False
        """Whether its words have to precede a message that comes next and notifies people of both."""
        self.urgency = 0
        self.previews = True
        """Whether it may grow in a preview, if the platform has one: that notifies nobody before it is final."""
        self.previewed: Part | None = None
        self.asked: Buttons = ()
        """The buttons known to be shown: with these, a new text is a draft like any other."""
        self.told = ""
        """The text of the answer that is known to be shown."""
        self.keep: Callable[[], Awaitable[bool]] | None = None
        """Stores the words of `wanted` before a draft shows them, for the next process. The first words, whose message
        it would have to find, are stored together with that message's id. Returns the success; never raises."""
        self.live: Live | None = None
        self.live_over = False
        self.at_work = ""
        """The text of a message that has no other content."""
        self.goes_on = ""
        """The text of a message that has to end before the answer does, which then continues below it."""
        self.takes_a_while = ""
        """The notice to show once when nothing was visible for a while, where only further messages can be added."""
        self.silent_since: float | None = None
        """The time since which such a reply has had no words of the answer to show."""
        self.growing = GrowingText()
        self.view: tuple[OutboundMessage, View] | None = None
        """The latest view, with the message that it was made from."""
        self.unrecorded: Sent | None = None
        """The message sent by the current call, recorded before the next one."""
        self.doing: Step | None = None
        self.more = False
        """Whether the next call is known to send a further message."""
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
        """Whether its next call is expected to change an existing message."""
        return self.live is None and not self.more and bool(self.message_ids)

    @property
    def drafts(self) -> bool:
        """Whether it still shows drafts: edits of its messages were refused fewer than EDITS_REFUSED times."""
        return self.edits_refused < EDITS_REFUSED

    @property
    def final(self) -> bool:
        return self.wanted is not None and self.wanted.final

    @property
    def settled(self) -> bool:
        """Whether nothing will change any more: it is delivered, given up, or the delivery was closed."""
        return self._settled.is_set()

    @property
    def visible(self) -> bool:
        """Whether a message of it, or a preview, is in the chat."""
        return self.previewed is not None or any(state.message_id or state.assumed for state in self.states)

    @property
    def states_in_chat(self) -> bool:
        """Whether a message of it is, or may be, in the chat."""
        return any(state.message_id or state.lost for state in self.states)

    @property
    def searching(self) -> bool:
        """Whether a message of it may be in the chat and is being searched for, or has to be sent again."""
        return any(
            (state.lost and not state.unsure) or (state.lost_finals and not state.assumed) for state in self.states
        )

    @property
    def streaming(self) -> bool:
        """Whether its drafts compete for the account's budget. A reply that waits for a button press does not grow."""
        return self.wanted is not None and not (self.wanted.final or self.wanted.buttons) and not self.settled

    @property
    def message_ids(self) -> dict[int, str]:
        """Platform message id by part, for those known; to check where a button was pressed."""
        standing = (state for state in self.states if not state.retired)
        return {state.index: state.message_id for state in standing if state.message_id is not None}

    @property
    def places(self) -> list[PartState]:
        """The parts that show the wanted content, in its order."""
        return [state for state in self.states[self.sealed :] if not state.retired]

    def show(self, message: OutboundMessage) -> None:
        """Set the reply's content. The latest wins; never blocks or raises; ignored after a final or `suspend`."""
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
        if not self.dirty or urgency > before:  # first words are due earlier than a waiting status
            self.dirty = True
            self._changed(self)

    async def hurry(self) -> None:
        """Have its first message sent as soon as possible, and wait for it."""
        self.hurried = True
        self._changed(self)
        await self.stands.wait()

    def suspend(self) -> None:
        """Prepare a planned stop: the last draft is shown at once if the budget allows, and no other after it."""
        self.suspended = True
        self._changed(self)

    async def delivered(self) -> None:
        """Wait until the final is shown or given up (see `outcome`), or the delivery was closed (outcome PENDING)."""
        await self._settled.wait()

    def intended_early(self) -> None:
        """Note that the intent to send its first message was committed with its run's start (`Delivery.intent`)."""
        first = self.state(0)
        if not first.intended:  # otherwise it was already sent, or is about to be
            first.intended = first.unsent = True

    def finish(self, message: OutboundMessage, now: float, newest: str | None, *, awaited: bool = True) -> None:
        """Take over the final state, which was committed before together with the intent to send the first part.

        newest: the chat's newest message, recorded with that intent; messages up to it are older than that part.
        awaited: whether people wait for it; otherwise it changes the message that stands, and notifies nobody.
        """
        before = self.wanted
        if not awaited:
            self.called_at = now
        if before is not None and before.buttons and not before.text:
            self.fresh = False  # a queued message was dropped or passed on: the final is a notice that nobody waits for
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
        """End the reply: it makes no more calls."""
        self.outcome = outcome
        self.dirty = False
        self._settled.set()

    def shows(self, message: OutboundMessage | None) -> None:
        """Note that the text of this message is shown."""
        text = "" if message is None else message.text
        if text != self.told:
            self.told, self.grown_at = text, self._monotonic()

    def goes_unnoticed(self, caps: Capabilities) -> bool:
        """Whether people who wait for the final would not notice that an existing message was changed to it."""
        assert self.wanted is not None
        if self.called_at is None or self.wanted.buttons:
            return True
        return caps.notify_after is not None and self._monotonic() - self.called_at > caps.notify_after

    @property
    def calls(self) -> bool:
        """Whether its next message is the one that people wait for."""
        if self.called_at is not None or self.wanted is None:
            return False
        return self.final or (tells(self.wanted.text) and not (self.visible or self.hurried))

    def place(self, number: int) -> PartState:
        """The part that shows the wanted part with this number."""
        while len(self.places) <= number:
            self.state(len(self.states))
        return self.places[number]

    def state(self, index: int) -> PartState:
        while len(self.states) <= index:
            number = len(self.states)
            self.states.append(PartState(index=number, idem_key=idem_key(self.key, number)))
        return self.states[index]

    def move(self, chat: str) -> None:
        """Switch to the chat's new id: messages lost in the old chat cannot be found here, and ids start over."""
        self.address = replace(self.address, chat=chat)
        self.reply_to, self.unanchored = None, True
        for state in self.states:
            state.settle()
            state.sent_after = None

    def renew(self, state: PartState, *, final: bool) -> None:
        """Send again from this part on: its message cannot be edited, and later parts have to stay below it."""
        for later in self.states[state.index :]:
            if later.message_id is not None and not later.retired:
                self.replaced.append(replace(later, deletes=0))
                later.replace(self.rev if final else None)
        self.view = None

    def seal(self, *, broken: bool) -> None:
        """Leave the first open part as it is; the rest goes below. broken: the part does not count, and all text is
        sent again, except what an earlier process has sent below it."""
        self.sealed += 1
        self.view = None
        if broken:
            self.growing.restart()
        else:
            self.growing.cut()

    def end_stream(self, part: Part | None, edits: bool) -> None:
        """Note that the stream was finished, showing `part` (None: content that is no longer wanted)."""
        assert self.live is not None
        self.live.part.shown = part
        self.live = self.view = None
        self.growing.mark(fitting=part is None)
        if edits or self.final:
            self.live_over = True
        elif part is None:
            self.seal(broken=False)

    def resume_stream(self, live: Live) -> None:
        """Continue a stream of an earlier process; the parts above it stay as they are."""
        self.live = live
        self.sealed = live.part.index
        self.view = None

    def leave_stream(self) -> None:
        """Leave an open stream, as its channel is going away: the next channel continues it if it can."""
        if self.live is not None:
            self.live.part.left_open, self.live.part.shown = True, None
            self.live = self.view = None

    def refuse_stream(self) -> None:
        """Do without streams, as the platform begins none here: messages are sent and edited, or sent once final."""
        self.live_over = True
        self.view = None

    def break_stream(self) -> None:
        """Give up a stream that cannot be continued: edits take over, or the answer is sent again."""
        assert self.live is not None
        self.live.part.shown = None
        self.live = None
        self.refuse_stream()

    def next_wish(self, caps: Capabilities, interval: float) -> tuple[Priority, float, float] | None:
        """(priority, since, due) of the next call; None when there is nothing to do until something changes.

        interval: current seconds between two calls for this reply's drafts.
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
        """Whether the platform has a typing indicator in the reply's chat or thread."""
        return caps.typing and not (caps.typing_in_threads and self.address.topic is None)

    def begins_unseen(self, caps: Capabilities) -> bool:
        """Whether only the typing indicator shows that an answer is being made; elsewhere a message does, which
        notifies nobody and keeps its place in the chat."""
        return caps.notifies and self.types(caps)

    def next_sign(self, caps: Capabilities) -> float | None:
        """When the typing indicator is due again; None when it is not needed."""
        asks = self.wanted is not None and bool(self.wanted.buttons)
        if not self.types(caps) or self.final or self.suspended or self.waits_for_person or asks:
            return None
        grows = self.visible and self.wanted is not None and self.wanted.text not in ("", self.told)
        if grows or self.live is not None or self.previewed is not None or (caps.typing_lasts and self.told):
            return None
        interval = LASTING_INTERVAL if caps.typing_lasts else TYPING_INTERVAL
        return max(self.retry_at, max(self.typing_at, self.grown_at) + interval)

    def too_silent(self, now: float) -> bool:
        """Whether it is time for the notice that the answer takes a while."""
        return bool(self.takes_a_while) and self.silent_since is not None and now >= self.silent_since + SILENT

    def adds(self, caps: Capabilities) -> bool:
        """Whether it grows by further messages: it can begin no (further) stream, and nothing can be changed."""
        return caps.append_only_stream and not caps.edits and self.live is None and self.live_over

    def _may_draft(self, wanted: OutboundMessage, caps: Capabilities) -> bool:
        if wanted.buttons:
            return True
        if caps.edits:
            return self.drafts
        return caps.append_only_stream or (caps.preview_dm and not self.group)

    def usual_interval(self, caps: Capabilities) -> float:
        """Seconds between two drafts when no budget is short."""
        return caps.edit_interval_group if self.group else caps.edit_interval_dm

    def _draft_wish(
        self, wanted: OutboundMessage, interval: float, caps: Capabilities
    ) -> tuple[Priority, float, float] | None:
        if not self.visible:  # first messages keep their order, so that answers appear in the order of the questions
            due = self._first_due(wanted, caps)
            return None if math.isinf(due) else (Priority.PROGRESS, 0.0, max(self.retry_at, due))
        if wanted.buttons and wanted.buttons != self.asked:
            return (Priority.QUESTION, self.retry_at, self.retry_at)
        if wanted.text and not self.told:  # people wait for these; a status needs no time to be read
            usual = self.usual_interval(caps)
            interval = min(usual, FIRST_WORDS) + max(0.0, interval - usual)
        due = self.retry_at if self.suspended else max(self.retry_at, self.shown_at + interval)
        return (Priority.DRAFT, due, due)

    def _first_due(self, wanted: OutboundMessage, caps: Capabilities) -> float:
        """When the first message is due; inf while it would have no content worth a message."""
        if self.begins_unseen(caps) and not (wanted.text or wanted.status or wanted.buttons):
            return math.inf
        calls = caps.notifies and not (caps.preview_dm and self.previews and not self.group)
        if not calls or wanted.buttons or self.suspended or self.hurried or worth_a_call(wanted.text):
            return self.opened_at
        if tells(wanted.text):
            return (self.words_at or 0.0) + FIRST_MESSAGE
        return self.opened_at + STATUS_AFTER if wanted.status or not self.types(caps) else math.inf


def _urgency(status: str, text: str) -> int:
    """How soon content has to be shown: the higher, the sooner."""
    return bool(status) + 2 * (bool(text) + tells(text) + worth_a_call(text))
