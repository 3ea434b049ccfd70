"""Shows that an answer is being made: a reaction on the answered message, taken away when the answer is there.

The platform has no typing sign. Used by channel.py where the operator wants it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING
from urllib.parse import quote

from channels.errors import ChannelError
from channels.feishu.failures import MissingScope
from channels.feishu.places import message_path

if TYPE_CHECKING:
    import logging

    from channels.feishu.api import FeishuApi
    from channels.feishu.places import Anchors
    from channels.message import Address

_REMEMBERED = 1_000


class Receipts:
    """emoji: the reaction's name in the API. Nothing here raises: nobody needs to hear of a missing reaction."""

    def __init__(self, api: FeishuApi, anchors: Anchors, emoji: str, log: logging.Logger, account: str) -> None:
        self._api = api
        self._anchors = anchors
        self._emoji = emoji
        self._log = log
        self._account = account
        self._refused = False
        """The right to react is missing: that is said once, and not tried again by this process."""
        self._shown: OrderedDict[Address, tuple[str, str]] = OrderedDict()

    async def show(self, address: Address, message_id: str | None = None) -> None:
        """On a message, once; None: on the newest one there."""
        message_id = message_id or self._anchors.newest(address)
        if self._refused or message_id is None or self._shown.get(address, ("", ""))[0] == message_id:
            return
        await self.clear(address)
        self._shown[address] = message_id, ""
        if len(self._shown) > _REMEMBERED:
            self._shown.popitem(last=False)
        try:
            body = {"reaction_type": {"emoji_type": self._emoji}}
            answer = await self._api.call("POST", message_path(message_id, "/reactions"), json=body)
        except MissingScope as error:
            self._refused = True
            self._log.warning("%s: no `receipt` is shown: %s; %s", self._account, error, error.hint)
            return
        except ChannelError as error:
            self._log.debug("%s: %s", self._account, error)
            return
        reaction = (answer.get("data") or {}).get("reaction_id")
        if isinstance(reaction, str) and reaction:
            self._shown[address] = message_id, reaction

    async def clear(self, address: Address) -> None:
        message_id, reaction = self._shown.pop(address, ("", ""))
        if not reaction:
            return
        try:
            await self._api.call("DELETE", message_path(message_id, f"/reactions/{quote(reaction, safe='')}"))
        except ChannelError as error:
            self._log.debug("%s: %s", self._account, error)
