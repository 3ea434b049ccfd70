"""The line of runs that wait in one conversation, and what their messages show meanwhile.

The acknowledgement of a waiting message is its run's own reply: the answer will grow in the same message.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.delivery.buttons import waiting_buttons
from bot.runs.approval_cards import first
from bot.runs.inputs import edited_run
from bot.runs.render import below
from bot.store import inbox
from bot.texts import texts_for
from channels.message import OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bot.delivery import Delivery, Reply
    from bot.store.prompts import ApprovalRow
    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from channels.base import Channel, Clock
    from channels.message import Message
    from harness.context import RunContext

MOST_HEARD = 50
"""Messages that one answer hears while it works; further ones are turns of their own."""
SECONDS_PER_EDIT = 4.0
"""How often, on average, one conversation's line edits a message to tell a new number."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A run that waits. messages: how many it will answer. steers: another one may hear it. shown: None when its
    message is to be brought up to date. quiet: it has none before it begins, since another one's notice counts it."""

    row: RunRow
    context: RunContext
    messages: int = 1
    steers: bool = False
    quiet: bool = False
    reply: Reply | None = None
    shown: OutboundMessage | None = None

    def heard_by(self, running: RunRow) -> bool:
        """Whether that run may hear it, which may be another one than when it was said."""
        if not self.steers or self.row.inbox_ids[0] <= running.inbox_ids[-1]:
            return False
        context, row = running.context, self.row
        at_work = (running.thread_id, running.speaker, running.address, context.speaker.is_admin, context.schedule)
        return at_work == (row.thread_id, row.speaker, row.address, self.context.speaker.is_admin, "")


class WaitingLine:
    """Changed by the conversation's actor only."""

    def __init__(
        self, store: RetryingStore, delivery: Delivery, clock: Clock, channel: Callable[[str], Channel | None]
    ) -> None:
        self._store = store
        self._delivery = delivery
        self._clock = clock
        self._channel = channel
        self._line: deque[Waiting] = deque()
        self._renumber_at = 0.0

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(tuple(self._line))

    @property
    def messages(self) -> int:
        return sum(waiting.messages for waiting in self._line)

    @property
    def last(self) -> Waiting | None:
        return self._line[-1] if self._line else None

    @property
    def next_ahead(self) -> int:
        """`RunRow.ahead` of a run that is to go before all of these."""
        return 1 + max((waiting.row.ahead or 0 for waiting in self._line), default=0)

    def heard_by(self, running: RunRow) -> list[Waiting]:
        """What that run is to hear, as far as it hears anything more."""
        found = [waiting for waiting in self._line if waiting.heard_by(running)]
        return found and found[: max(0, MOST_HEARD - len(running.input.steered))]

    def all_heard_by(self, running: RunRow, person: str) -> bool:
        """Nothing of that person waits for a turn of its own, which a later message must not overtake."""
        return all(waiting.heard_by(running) for waiting in self._line if waiting.row.speaker == person)

    def find(self, run_id: str) -> Waiting | None:
        return next((waiting for waiting in self._line if waiting.row.run_id == run_id), None)

    def add(self, row: RunRow, messages: int = 1) -> None:
        """Let a run wait at the end."""
        self._line.append(_waiting(row, messages))

    def add_first(self, row: RunRow) -> None:
        """Let a run wait before all others; its row says that too (`next_ahead`)."""
        self._put_first(_waiting(row, 1))

    def join(self, row: RunRow) -> None:
        """The last that waits answers one message more: `row` is its new state."""
        last = self._line[-1]
        last.row, last.messages, last.shown = row, last.messages + 1, None

    def put_first(self, waiting: Waiting, ahead: int) -> None:
        self._line.remove(waiting)
        waiting.row = replace(waiting.row, ahead=ahead)
        self._put_first(waiting)

    def _put_first(self, waiting: Waiting) -> None:
        self._line.appendleft(waiting)
        self._renumber_at = 0.0  # the others have got worse places: that is told at once

    def pop(self) -> RunRow:
        """The next one; its reply is the run's from now on."""
        return self._line.popleft().row

    def remove(self, waiting: Waiting) -> None:
        self._line.remove(waiting)

    async def edit(self, new: Message) -> tuple[int, Message, RunRow] | None:
        """Put a message's new state in its place: its inbox row, that state and its run's. None when it is not here."""
        for waiting in self._line:
            ids = waiting.row.inbox_ids
            known = await self._store.read(lambda tx: inbox.load(tx, ids))  # noqa: B023  # awaited at once
            if (changed := edited_run(waiting.row, known, new)) is not None:
                waiting.row, event_id, message = changed
                return event_id, message, waiting.row
        return None

    async def show(self, blocking: ApprovalRow | None = None, running: RunRow | None = None) -> None:
        """Bring the messages of those that wait up to date. blocking: what the running answer waits for, for its
        requester's decision. running: the run of that answer.

        Of all that waits behind a decision only the first asks for it, and what was said later stays quiet: one notice
        with buttons is enough.

        A new place is told at once to the next in line and to those who got a worse one. The others hear of it within
        the budget of their chat: until then they are told a worse place than they have, never a better one.
        """
        now = self._clock.monotonic()
        renumber, edits = now >= self._renumber_at, 0
        behind = [each for each in self if blocking is not None and each.row.speaker == blocking.requester]
        for number, waiting in enumerate(behind):
            heard_of = waiting.reply is not None or bool(waiting.context.heading)
            waiting.quiet = number > 0 and (waiting.quiet or not heard_of)
        for place, waiting in enumerate(self, 1):
            if waiting.quiet:
                continue
            if blocking is not None and waiting in behind[:1]:
                message = self._asks_for(waiting, blocking, sum(each.messages for each in behind) - 1)
            else:
                message = self._acknowledgement(waiting, place, running)
            at_once = place == 1 or renumber or blocking is not None
            if waiting.shown is None or (message != waiting.shown and self._may_edit(waiting, at_once)):
                edits += waiting.shown is not None
                await self._show(waiting, message)
        if renumber and edits:
            self._renumber_at = now + edits * SECONDS_PER_EDIT

    def _acknowledgement(self, waiting: Waiting, place: int, running: RunRow | None) -> OutboundMessage:
        shown = acknowledgement(waiting, place, heard=running is not None and waiting.heard_by(running))
        return self._without_end(waiting, shown)

    def _asks_for(self, waiting: Waiting, blocking: ApprovalRow, more: int) -> OutboundMessage:
        """The notice that the decision comes first, for this one and so many more messages."""
        texts, buttons = texts_for(waiting.context.locale), self._has_buttons(waiting)
        shown = first(blocking, texts, more, buttons=buttons)
        if buttons and self._streams(waiting):  # it shows none of them, and the request may have been refused
            shown = replace(shown, status=shown.status + texts.see_approvals)
        return self._without_end(
            waiting, shown if buttons else replace(shown, buttons=waiting_buttons(waiting.row, texts))
        )

    def _without_end(self, waiting: Waiting, shown: OutboundMessage) -> OutboundMessage:
        """Buttons would end a stream and stay above the answer."""
        return replace(shown, buttons=()) if self._has_buttons(waiting) and self._streams(waiting) else shown

    def _has_buttons(self, waiting: Waiting) -> bool:
        channel = self._channel(waiting.row.address.account)
        return channel is not None and channel.capabilities.buttons

    def _streams(self, waiting: Waiting) -> bool:
        """Only a stream can be changed there: the notice is its beginning, and the answer grows in its place."""
        channel = self._channel(waiting.row.address.account)
        return channel is not None and channel.capabilities.append_only_stream and not channel.capabilities.edits

    def _may_edit(self, waiting: Waiting, in_budget: bool) -> bool:
        channel = self._channel(waiting.row.address.account)
        changes = channel is not None and (channel.capabilities.edits or self._streams(waiting))
        return in_budget and changes

    async def _show(self, waiting: Waiting, message: OutboundMessage) -> None:
        row, delivery = waiting.row, self._delivery
        if waiting.reply is None:
            waiting.reply = await self._store.until_available(
                lambda: delivery.open(row.reply_key, row.address, row.reply_to)
            )
            waiting.reply.previews = not row.context.heading
            waiting.reply.goes_on = texts_for(waiting.context.locale).goes_on_below
        waiting.reply.show(below(row.context.heading, message))
        waiting.shown = message


def _waiting(row: RunRow, messages: int) -> Waiting:
    return Waiting(row, row.context, messages, row.input.steers)


def acknowledgement(waiting: Waiting, place: int, *, heard: bool = False) -> OutboundMessage:
    """What the message of a waiting run shows; place: 1 is the next. heard: the run that works is going to hear it."""
    texts = texts_for(waiting.context.locale)
    if heard:
        return OutboundMessage(status=texts.steering, buttons=waiting_buttons(waiting.row, texts))
    status = texts.queued_next if place == 1 else texts.queued.format(place=texts.ordinal(place))
    if waiting.messages > 1:
        status += texts.queued_together.format(count=waiting.messages)
    return OutboundMessage(status=status, buttons=waiting_buttons(waiting.row, texts))
