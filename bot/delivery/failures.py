"""What a failed call means for its reply, its chat and its account (channels/errors.py), decided in one place."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.delivery.plan import Delete, Edit, Find, FinishStream, Preview, Send, ShowStream
from bot.delivery.reply import Outcome
from bot.markdown import plain
from channels.errors import MessageGone, OutcomeUnknown, Permanent, RateLimited, Temporary

if TYPE_CHECKING:
    from bot.delivery.reply import Reply
    from bot.delivery.scheduler import ChatLine
    from channels.base import Channel, Clock
    from channels.errors import ChannelError
    from channels.message import OutboundFile, OutboundMessage

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0


def pause(attempts: int) -> float:
    """Seconds before the next try: doubling, at most a minute, with jitter so that many do not come at once."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempts - 1, 10)) * random.uniform(0.5, 1.0)


class Failures:
    """For one account."""

    def __init__(self, channel: Channel, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock

    def note(self, reply: Reply, line: ChatLine, error: ChannelError) -> bool:
        """Decide what the reply does next. Returns False when nothing is left to try: give it up."""
        step, reply.doing = reply.doing, None
        match error:
            case RateLimited():
                line.budget.refuse(self._clock.monotonic(), error.retry_after)
                log.info("%s: chat %s is limited for %.1f s", self._channel.account, line.name, error.retry_after)
            case Temporary():
                self._wait(reply, error)
            case OutcomeUnknown():
                self._unknown(reply, step)
                self._wait(reply, error)
            case MessageGone() if isinstance(step, Edit):
                step.state.gone()
            case MessageGone() if isinstance(step, Send) and not reply.unanchored:
                reply.unanchored = True
            case Permanent() if isinstance(step, Send) and step.live:
                log.info("reply %s cannot be streamed: %s", reply.key, error)
                reply.refuse_stream()
            case Permanent() if isinstance(step, ShowStream | FinishStream):
                log.warning("reply %s: its stream ended early: %s", reply.key, error)
                reply.break_stream()
            case Permanent():
                return self._refused(reply, line, error, step)
            case _:
                self._wait(reply, error)
        return True

    def _wait(self, reply: Reply, error: ChannelError) -> None:
        reply.attempts += 1
        seconds = pause(reply.attempts)
        reply.retry_at = self._clock.monotonic() + seconds
        log.info("reply %s: try %d failed, next in %.1f s: %s", reply.key, reply.attempts, seconds, error)

    def _unknown(self, reply: Reply, step: object) -> None:
        match step:
            case Send(state) if self._channel.capabilities.idempotent_send:
                state.repeated = True
            case Send(state, part, final=final):
                state.lose(part, final, self._clock.monotonic())
            case Edit(state):
                state.shown = None
            case ShowStream(live):
                live.shown = None
            case _:
                pass

    def _refused(self, reply: Reply, line: ChatLine, error: ChannelError, step: object) -> bool:
        match step:
            case Preview():
                line.preview_refused = True
                reply.previewed = None
            case Find(state):
                state.settle()
            case Delete(state):
                state.deletes += 1
            case Send(state) | Edit(state) if (file := self._file(reply, state.index - reply.sealed)) is not None:
                log.warning("reply %s: a file was refused: %s", reply.key, error)
                state.settle()
                state.refused = True
                if isinstance(step, Send):  # else it is there, only not to be changed
                    self._leave_out(reply, file)
            case Send(state) | Edit(state) if reply.final:
                simpler = self._simpler(reply)
                log.warning(
                    "reply %s was refused (%s): %s", reply.key, error, "trying it simpler" if simpler else "given up"
                )
                if simpler is None:
                    return False
                reply.wanted = simpler
            case _:
                log.warning("reply %s: a draft was refused: %s", reply.key, error)
                reply.refused = reply.view[0] if reply.view else None
        return True

    def _file(self, reply: Reply, part: int) -> OutboundFile | None:
        """The file of a final's part, None for its text. Files are the last parts of every layout."""
        message = reply.wanted
        if message is None or not message.final or reply.view is None or reply.view[0] is not message:
            return None
        number = part - (len(reply.view[1].parts) - len(message.files))
        return message.files[number] if 0 <= number < len(message.files) else None

    def _leave_out(self, reply: Reply, file: OutboundFile) -> None:
        reply.degraded = Outcome.WITHOUT_FILES
        reply.not_taken.append(file)

    def _simpler(self, reply: Reply) -> OutboundMessage | None:
        """The final with less that a platform could refuse; None when nothing is left to leave out."""
        message = reply.wanted
        assert message is not None
        if not reply.plain and message.text:
            reply.plain = True
            if reply.degraded is Outcome.DELIVERED:
                reply.degraded = Outcome.PLAIN
            return replace(message, text=plain(message.text))
        if message.files or message.buttons:
            for file in message.files:
                self._leave_out(reply, file)
            return replace(message, files=(), buttons=())
        return None
