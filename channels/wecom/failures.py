"""Translates refusals of the platform: every errcode except 0 becomes a ChannelError. Pure.

The platform documents few of the codes; the others were observed in practice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.errors import ChannelError, ChatGone, Fatal, RateLimited, Rejected, TakenOver, Temporary

if TYPE_CHECKING:
    from channels.wecom.frames import Ack

_BUSY = frozenset({-1, 846601, 846602})
_LIMITED = {846607: 10.0, 45009: 60.0}
"""Too many messages in one conversation, or calls of one kind -> seconds to wait; the platform specifies none."""
_NOT_THERE = frozenset({93001, 93006, 93008})
_CREDENTIALS = frozenset({40001, 40013, 40014, 41002, 41004})


class StaleRequest(Rejected):
    """The req_id to answer under is not, or no longer, known: after a day, or after a reconnect."""


class StreamOver(Rejected):
    """The stream was finished, or its ten minutes have passed."""


class Conflict(Temporary):
    """The frame arrived out of order, or its target is being changed."""


class NotSubscribed(Temporary):
    """The platform no longer considers this connection subscribed: connect again."""


class Kicked(ChannelError):
    """Another program has connected with this robot; the platform allows only one."""


_KINDS: dict[int, type[ChannelError]] = {
    6000: Conflict,
    846605: StaleRequest,
    846608: StreamOver,
    846609: NotSubscribed,
}


def failure(ack: Ack, cmd: str) -> ChannelError:
    """The error for an ack that does not report success."""
    text = f"{cmd}: {ack.errcode} {ack.errmsg}".strip()
    if ack.errcode in _LIMITED:
        return RateLimited(text, _LIMITED[ack.errcode])
    if ack.errcode in _BUSY:
        return Temporary(text)
    if ack.errcode in _NOT_THERE:
        return ChatGone(text)
    return _KINDS.get(ack.errcode, Rejected)(text)


def refused_subscription(ack: Ack, account: str) -> ChannelError:
    """The error for a refused subscription: Fatal for wrong credentials, else worth retrying."""
    text = f"WeCom refused the robot of account {account}: {ack.errcode} {ack.errmsg}".strip()
    if ack.errcode in _CREDENTIALS or 853000 <= ack.errcode < 854000:
        return Fatal(
            text,
            f"copy Bot ID and Secret again from the robot's API mode (long connection) "
            f"to channels.{account}.bot_id and channels.{account}.secret",
        )
    return Temporary(text)


def taken_over(account: str) -> TakenOver:
    """The final error after a kick: two programs that both reconnected would keep disconnecting each other."""
    return TakenOver(
        f"another program has connected as the robot of account {account}",
        f"stop that program, or give it a separate robot, then restart antler "
        f"(channels.{account}.reconnect_after_kick: true reconnects after a minute)",
    )
