"""What every platform's channel.py begins with: its account, its health, and who it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from channels.base import Health, Part
from channels.errors import Rejected

if TYPE_CHECKING:
    from channels.base import BotIdentity, ChannelPorts, LiveReply
    from channels.message import Address

P = TypeVar("P", bound=Part)


class Adapter:
    """The same for all of `channels.base.Channel`; what the platform decides is the subclass's. `run` sets identity."""

    def __init__(self, account: str, ports: ChannelPorts) -> None:
        self._account = account
        self._ports = ports
        self._health = Health()
        self._identity: BotIdentity | None = None

    @property
    def account(self) -> str:
        return self._account

    @property
    def health(self) -> Health:
        return self._health

    @property
    def identity(self) -> BotIdentity | None:
        return self._identity

    def command(self, name: str, address: Address) -> str:
        """Most platforms leave all names to their bots."""
        return f"/{name}"

    def resume_stream(self, address: Address, idem_key: str, reply_to: str | None, age: float) -> LiveReply | None:
        """Most platforms have no streams, or messages that can be edited afterwards."""
        return None


def own(part: Part, kind: type[P]) -> P:
    """`part`, which this adapter's `layout` made. Raises Rejected for one of another platform."""
    if not isinstance(part, kind):
        raise Rejected(f"a part of another platform: {type(part).__name__}")
    return part
