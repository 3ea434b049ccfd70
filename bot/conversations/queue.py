"""The line of runs waiting in one conversation, and what their messages show in the meantime.

The acknowledgement of a waiting message is the reply of its run: the answer will grow in the same message.
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
"""Messages that are added to one running answer; further ones become separate turns."""
SECONDS_PER_EDIT = 4.0
"""Average interval between two edits of one conversation's line that only change a number."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A queued run. messages: how many it will answer. steers: it may be added to a running answer. shown: None when
    its message has to be updated. quiet: it has no message before it begins, as another one's notice counts it."""

    row: RunRow
    context: RunContext
    messages: int = 1
    steers: bool = False
    quiet: bool = False
    reply: Reply | None = None
    shown: OutboundMessage | None = None

    def heard_by(self, running: RunRow) -> bool:
        """Whether it may be added to that run, which may differ from the one at the time of the message."""
        if not self.steers or self.row.inbox_ids[0] <= running.inbox_ids[-1]:
            return False
        context, row = running.context, self.row
        at_work = (running.thread_id, running.speaker, running.address, context.speaker.is_admin, context.schedule)
        return at_work == (row.thread_id, row.speaker, row.address, self.context.speaker.is_admin, "")


class WaitingLine:
    """The waiting runs of one conversation. Only its actor may change it."""

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
        """`RunRow.ahead` of a run that is to precede all of these."""
        return 1 + max((waiting.row.ahead or 0 for waiting in self._line), default=0)

    def heard_by(self, running: RunRow) -> list[Waiting]:
        """What is to be added to that run, up to its limit."""
        found = [waiting for waiting in self._line if waiting.heard_by(running)]
        return found and found[: max(0, MOST_HEARD - len(running.input.steered))]

    def all_heard_by(self, running: RunRow, person: str) -> bool:
        """Whether that person has no message waiting for a separate turn, which a later one must not overtake."""
        return all(waiting.heard_by(running) for waiting in self._line if waiting.row.speaker == person)

    def find(self, run_id: str) -> Waiting | None:
        return next((waiting for waiting in self._line if waiting.row.run_id == run_id), None)

    def add(self, row: RunRow, messages: int = 1) -> None:
        self._line.append(_waiting(row, messages))

    def add_first(self, row: RunRow) -> None:
        """Prepend a run; its row has to reflect that (`next_ahead`)."""
        self._put_first(_waiting(row, 1))

    def join(self, row: RunRow) -> None:
        """Add a message to the last run: `row` is its new state."""
        last = self._line[-1]
        last.row, last.messages, last.shown = row, last.messages + 1, None

    def put_first(self, waiting: Waiting, ahead: int) -> None:
        self._line.remove(waiting)
        waiting.row = replace(waiting.row, ahead=ahead)
        self._put_first(waiting)

    def _put_first(self, waiting: Waiting) -> None:
        self._line.appendleft(waiting)
        self._renumber_at = 0.0  # the others got worse places, which is shown at once

    def pop(self) -> RunRow:
        """Remove and return the first run; its reply belongs to the run from now on."""
        return self._line.popleft().row

    def remove(self, waiting: Waiting) -> None:
        self._line.remove(waiting)

    async def edit(self, new: Message) -> tuple[int, Message, RunRow] | None:
        """Replace a message with its edit. Returns its inbox row, the message and its run; None if it is not here."""
        for waiting in self._line:
            ids = waiting.row.inbox_ids
            known = await self._store.read(lambda tx: inbox.load(tx, ids))  # noqa: B023  # awaited at once
            if (changed := edited_run(waiting.row, known, new)) is not None:
                waiting.row, event_id, message = changed
                return event_id, message, waiting.row
        return None

    async def show(self, blocking: ApprovalRow | None = None, running: RunRow | None = None) -> None:
        """Update the messages of the waiting runs. blocking: the approval that the running answer is waiting for.
        running: the run of that answer.

        Of the runs waiting behind a decision only the first one asks for it, and later ones stay quiet: one notice with
        buttons is enough.

        A new place is shown at once for the next in line and for those that got a worse one. The others are updated
        within the budget of their chat; until then they show a worse place than they have, never a better one.
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
        """The notice that the decision comes first, for this run and that many more messages."""
        texts, buttons = texts_for(waiting.context.locale), self._has_buttons(waiting)
        shown = first(blocking, texts, more, buttons=buttons)
        if buttons and self._streams(waiting):  # a stream shows none, and the platform may have refused the request
            shown = replace(shown, status=shown.status + texts.see_approvals)
        return self._without_end(
            waiting, shown if buttons else replace(shown, buttons=waiting_buttons(waiting.row, texts))
        )

    def _without_end(self, waiting: Waiting, shown: OutboundMessage) -> OutboundMessage:
        """Remove buttons that would end a stream and stay above the answer."""
        return replace(shown, buttons=()) if self._has_buttons(waiting) and self._streams(waiting) else shown

    def _has_buttons(self, waiting: Waiting) -> bool:
        channel = self._channel(waiting.row.address.account)
        return channel is not None and channel.capabilities.buttons

    def _streams(self, waiting: Waiting) -> bool:
        """Whether only a stream can be changed there: it begins with the notice, and the answer grows in its place."""
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
    """Content of a waiting run's message. place: 1 is next. heard: it will be added to the current run."""
    texts = texts_for(waiting.context.locale)
    if heard:
        return OutboundMessage(status=texts.steering, buttons=waiting_buttons(waiting.row, texts))
    status = texts.queued_next if place == 1 else texts.queued.format(place=texts.ordinal(place))
    if waiting.messages > 1:
        status += texts.queued_together.format(count=waiting.messages)
    return OutboundMessage(status=status, buttons=waiting_buttons(waiting.row, texts))
