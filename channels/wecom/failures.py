"""What a refusal of the platform means for the caller: every errcode but 0 becomes a ChannelError. Pure.

The platform documents few of the codes; the others were seen in practice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.errors import ChannelError, ChatGone, Fatal, RateLimited, Rejected, TakenOver, Temporary

if TYPE_CHECKING:
    from channels.wecom.frames import Ack

_BUSY = frozenset({-1, 846601, 846602})
_LIMITED = {846607: 10.0, 45009: 60.0}
"""Too many messages in one conversation, or calls of one kind -> seconds to wait; the platform names none."""
_NOT_THERE = frozenset({93001, 93006, 93008})
_CREDENTIALS = frozenset({40001, 40013, 40014, 41002, 41004})


class StaleRequest(Rejected):
    """The req_id to answer under is not known (any more): after a day, or after a reconnect."""


class StreamOver(Rejected):
    """The stream was finished, or its ten minutes are over."""


class Conflict(Temporary):
    """The frame came out of its order, or what it changes is changing."""


class NotSubscribed(Temporary):
    """The platform does not count this connection as subscribed any more: connect again."""


class Kicked(ChannelError):
    """Another program has connected with this robot; the platform allows one."""


_KINDS: dict[int, type[ChannelError]] = {
    6000: Conflict,
    846605: StaleRequest,
    846608: StreamOver,
    846609: NotSubscribed,
}


def failure(ack: Ack, cmd: str) -> ChannelError:
    """The error of an ack that is none of success."""
    text = f"{cmd}: {ack.errcode} {ack.errmsg}".strip()
    if ack.errcode in _LIMITED:
        return RateLimited(text, _LIMITED[ack.errcode])
    if ack.errcode in _BUSY:
        return Temporary(text)
    if ack.errcode in _NOT_THERE:
        return ChatGone(text)
    return _KINDS.get(ack.errcode, Rejected)(text)


def refused_subscription(ack: Ack, account: str) -> ChannelError:
    """The error of a subscription: Fatal for wrong credentials, else worth another try."""
    text = f"WeCom refuses the robot of account {account}: {ack.errcode} {ack.errmsg}".strip()
    if ack.errcode in _CREDENTIALS or 853000 <= ack.errcode < 854000:
        return Fatal(
            text,
            f"copy Bot ID and Secret again from the robot's API mode, long connection, "
            f"to channels.{account}.bot_id and channels.{account}.secret",
        )
    return Temporary(text)


def taken_over(account: str) -> TakenOver:
    """The end after a kick: two programs that both came back would keep throwing each other out."""
    return TakenOver(
        f"another program has connected with the robot of account {account}",
        f"stop that program, or give it a robot of its own, then start antler again "
        f"(channels.{account}.reconnect_after_kick: true tries again after a minute)",
    )
