"""The consequences of a failed call for its reply, chat and account (channels/errors.py), decided in one place."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.delivery.plan import Delete, Edit, Find, FinishStream, Preview, Send, ShowStream
from bot.delivery.reply import EDITS_REFUSED, Outcome
from bot.texts.markdown import plain
from channels.errors import (
    ButtonsRefused,
    EditRefused,
    MessageGone,
    NotAllowed,
    OutcomeUnknown,
    Permanent,
    RateLimited,
    Rejected,
    Temporary,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bot.delivery.reply import Reply
    from bot.delivery.scheduler import ChatLine
    from bot.texts.catalogue import Texts
    from channels.base import Channel, Clock
    from channels.errors import ChannelError, ChatGone, TopicClosed
    from channels.message import OutboundFile

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0


def pause(attempts: int) -> float:
    """Seconds before the next attempt: doubling, at most a minute, with jitter so that retries spread out."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempts - 1, 10)) * random.uniform(0.5, 1.0)


class Failures:
    """Handles the failures of one account's calls.

    texts: the sentences for (account, text), in the account's language or that of the text.
    """

    def __init__(self, channel: Channel, clock: Clock, texts: Callable[[str, str], Texts]) -> None:
        self._channel = channel
        self._clock = clock
        self._texts = texts
        self._hinted: set[str] = set()

    def note(self, reply: Reply, line: ChatLine, error: ChannelError) -> bool:
        """Decide what the reply does next. Returns False when nothing is left to try: the caller gives it up."""
        step, reply.doing = reply.doing, None
        self._hint(error)
        match error:
            case RateLimited():
                line.budget.refuse(self._clock.monotonic(), error.retry_after)
                log.info("%s: chat %s is limited for %.1f s", self._channel.account, line.name, error.retry_after)
            case Temporary():
                self._wait(reply, error)
            case OutcomeUnknown():
                self._unknown(reply, step)
                self._wait(reply, error)
            case EditRefused() | NotAllowed() if isinstance(step, Edit):
                self._cannot_edit(reply, step, error)
            case MessageGone() if isinstance(step, Edit):
                reply.edits_refused += 1
                if step.final and reply.edits_refused > EDITS_REFUSED:
                    step.state.replace(reply.rev)  # the next message is not edited any more
                else:
                    step.state.gone()
            case MessageGone() if isinstance(step, Send) and not reply.unanchored:
                reply.unanchored = True
            case Permanent() if isinstance(step, Send) and step.live:
                log.info("reply %s cannot be streamed: %s", reply.key, error)
                reply.refuse_stream()
            case ButtonsRefused() if isinstance(step, FinishStream):
                log.warning("reply %s: its buttons were refused: %s", reply.key, error)
                reply.end_stream(step.part, edits=True)
                self._without_buttons(reply)
            case Permanent() if isinstance(step, ShowStream | FinishStream):
                log.warning("reply %s: its stream ended early: %s", reply.key, error)
                reply.break_stream()
            case Permanent():
                return self._refused(reply, line, error, step)
            case _:
                self._wait(reply, error)
        return True

    def cut_off(self, reply: Reply) -> None:
        """Note that the reply's call was cancelled in flight, so that its outcome is unknown."""
        step, reply.doing = reply.doing, None
        self._unknown(reply, step)

    def narrowed(self, reply: Reply, error: ChatGone | TopicClosed) -> ChannelError:
        """The error that a refusal concerning the whole chat or topic proves: for a plain send of text the same error,
        for any other call only a refusal of that call. If the chat really is lost, the next send will show it too."""
        match reply.doing:
            case Send(state, live=False) if self._file(reply, reply.places.index(state)) is None:
                return error
            case Edit(state) if self._file(reply, reply.places.index(state)) is None:
                return EditRefused(str(error))
            case _:
                return Rejected(str(error))

    def topic_closed(self, account: str, text: str) -> str:
        """The sentence to show outside a topic that `text` could not be sent to."""
        return self._texts(account, text).platform_refused["topic"]

    def _hint(self, error: ChannelError) -> None:
        """Log what the operator can do, once per hint."""
        if isinstance(error, NotAllowed) and error.hint not in self._hinted:
            self._hinted.add(error.hint)
            log.error("account %s: %s; %s", self._channel.account, error, error.hint)

    def _wait(self, reply: Reply, error: ChannelError) -> None:
        reply.attempts += 1
        seconds = pause(reply.attempts)
        reply.retry_at = self._clock.monotonic() + seconds
        log.info("reply %s: attempt %d failed, next in %.1f s: %s", reply.key, reply.attempts, seconds, error)

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

    def _cannot_edit(self, reply: Reply, step: Edit, error: ChannelError) -> None:
        """Send it again below: an answer or a question as often as necessary, a draft once."""
        reply.edits_refused += 1
        log.warning("reply %s: one of its messages can no longer be edited: %s", reply.key, error)
        asks = reply.wanted is not None and bool(reply.wanted.buttons)
        if step.final or asks or reply.edits_refused < EDITS_REFUSED:
            reply.renew(step.state, final=step.final)

    def _refused(self, reply: Reply, line: ChatLine, error: ChannelError, step: object) -> bool:
        match step:
            case Preview():
                line.preview_refused = True
                reply.previewed = None
            case Find(state):
                state.settle()
            case Delete(state):
                state.deletes += 1
            case Send(state) | Edit(state) if (file := self._file(reply, reply.places.index(state))) is not None:
                log.warning("reply %s: a file was refused: %s", reply.key, error)
                state.settle()
                state.refused = True
                if isinstance(step, Send):  # a refused edit leaves the file itself in the chat
                    self._leave_out(reply, file)
            case Send() | Edit() if reply.wanted is not None and reply.wanted.buttons and not reply.no_buttons:
                log.warning("reply %s: refused with its buttons, retrying without: %s", reply.key, error)
                self._without_buttons(reply)
            case Send() | Edit() if reply.final:
                conceded = self._concede(reply, step)
                log.warning("reply %s was refused (%s): %s", reply.key, error, conceded or "given up")
                return bool(conceded)
            case _:
                level = logging.WARNING if reply.refused is None else logging.DEBUG  # the next ones are alike
                log.log(level, "reply %s: a draft was refused: %s", reply.key, error)
                reply.refused = reply.view[0] if reply.view else None
        return True

    def _file(self, reply: Reply, part: int) -> OutboundFile | None:
        """The file that a part of a final holds, None for text. Files are the last parts of every layout."""
        message = reply.wanted
        if message is None or not message.final or reply.view is None or reply.view[0] is not message:
            return None
        number = part - (len(reply.view[1].parts) - len(message.files))
        return message.files[number] if 0 <= number < len(message.files) else None

    def _leave_out(self, reply: Reply, file: OutboundFile) -> None:
        reply.degraded = Outcome.WITHOUT_FILES
        reply.not_taken.append(file)

    def _without_buttons(self, reply: Reply) -> None:
        """Show the reply's options as a numbered list instead of buttons."""
        reply.no_buttons = self._words(reply)["buttons"]
        reply.view = None
        self._degrade(reply, Outcome.PLAIN)

    def _concede(self, reply: Reply, step: Send | Edit) -> str:
        """Retry a final's text with less that a platform could refuse. Returns what is tried, "" for nothing left."""
        message, made = reply.wanted, reply.concessions
        assert message is not None
        stands = any(state.stands for state in reply.states)
        reply.growing.restart()  # the next attempt does not continue the refused text
        if (
            made.whole is None
            and message.text
            and not message.plain
            and (self._channel.capabilities.edits or not stands)
        ):
            made.whole = message
            for state in reply.states:
                state.final_shown = False  # the text is divided differently now
            # Use the redacted text from the layout: a secret in the escaped text would not be recognized.
            shown = reply.view[1] if reply.view is not None and reply.view[0] is message else None
            text = shown.message.text if shown is not None and shown.whole else message.text
            reply.wanted = replace(message, text=plain(text), plain=True, asks_reply=False)
            self._degrade(reply, Outcome.PLAIN)
            return "retrying without formatting"
        if isinstance(step, Edit) and not made.renewed:
            reply.wanted = made.whole or message
            made.whole, made.renewed = None, True
            reply.renew(step.state, final=True)
            return "retrying as a new message"
        if made.replaced or not message.text:
            return ""
        self._degrade(reply, Outcome.REFUSED)
        if self._texts_of(reply) > 1:
            step.state.settle()
            step.state.refused = True
            reply.left_out = True
            return "part left out"
        made.replaced = True
        reply.wanted = replace(message, text=self._words(reply)["answer"], status="", buttons=())
        return "sending a notice instead"

    def _texts_of(self, reply: Reply) -> int:
        """Number of a final's parts that hold text."""
        if reply.view is None or reply.wanted is None:
            return 1
        return len(reply.view[1].parts) - len(reply.wanted.files)

    def _degrade(self, reply: Reply, outcome: Outcome) -> None:
        if reply.degraded in (Outcome.DELIVERED, Outcome.PLAIN):
            reply.degraded = outcome

    def _words(self, reply: Reply) -> Mapping[str, str]:
        message = reply.wanted
        return self._texts(reply.address.account, "" if message is None else message.text).platform_refused


def outcome_of(error: ChannelError) -> str:
    """The outcome of a failed call: limited (the platform's 429), unknown or refused."""
    if isinstance(error, RateLimited):
        return "limited"
    return "unknown" if isinstance(error, OutcomeUnknown) else "refused"
