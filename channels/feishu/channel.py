"""One Feishu or Lark app as a `channels.base.Channel`: wires settings, API, receiving and sending."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

from cachetools import LRUCache

from channels.adapter import Adapter, capped, own
from channels.base import BotIdentity, ChatLink, ConnectionState
from channels.capabilities import Capabilities, Rate, TextUnit
from channels.errors import AttachmentFailed, ChannelError, MessageGone, NotAllowed, OutcomeUnknown
from channels.feishu import outbound
from channels.feishu.api import FeishuApi
from channels.feishu.config import LINKS, FeishuConfig
from channels.feishu.failures import asked_to_wait
from channels.feishu.inbound import Me, Reader
from channels.feishu.lookup import Anchors, Lookup, MessageId
from channels.feishu.receiving import Receiver, Toasts
from channels.feishu.sdk import build, im
from channels.feishu.sending import MAX_FILE, Messenger
from channels.feishu.socket import Socket
from channels.supervision import Supervisor

if TYPE_CHECKING:
    import logging

    from channels.adapter import Missing
    from channels.base import ChannelPorts, Hello, Part, Probe, Sink
    from channels.message import Address, Attachment, ButtonPressed

_REMEMBERED = 1_000
_NO_RECEIPT = "the `receipt` reaction is not shown"


class Receipts:
    """Shows that an answer is being prepared: a reaction on the answered message, until the answer appears.

    The platform has no typing indicator. emoji: the reaction's name in the API. Nothing here raises: a missing reaction
    is not a failure.
    """

    def __init__(
        self, api: FeishuApi, anchors: Anchors, emoji: str, log: logging.Logger, account: str, missing: Missing
    ) -> None:
        self._api = api
        self._anchors = anchors
        self._emoji = emoji
        self._log = log
        self._account = account
        self._missing = missing
        self._shown: LRUCache[Address, tuple[str, str]] = LRUCache(_REMEMBERED)

    async def show(self, address: Address, message_id: str | None = None) -> None:
        """React to a message, once; None: to the newest message of the chat or thread."""
        message_id = message_id or self._anchors.newest(address)
        if message_id is None or self._shown.get(address, ("", ""))[0] == message_id or _NO_RECEIPT in self._missing:
            return
        await self.clear(address)
        self._shown[address] = message_id, ""
        body = build(im.CreateMessageReactionRequestBody, reaction_type=build(im.Emoji, emoji_type=self._emoji))
        try:
            answer = await self._api.call(
                build(im.CreateMessageReactionRequest, message_id=message_id, request_body=body)
            )
        except NotAllowed as error:
            return self._missing.note(_NO_RECEIPT, error)
        except ChannelError as error:
            self._log.debug("%s: %s", self._account, error)
            return
        reaction = answer["data"].get("reaction_id")
        if isinstance(reaction, str) and reaction:
            self._shown[address] = message_id, reaction

    async def clear(self, address: Address) -> None:
        message_id, reaction = self._shown.pop(address, ("", ""))
        if not reaction:
            return
        try:
            await self._api.call(build(im.DeleteMessageReactionRequest, message_id=message_id, reaction_id=reaction))
        except ChannelError as error:
            self._log.debug("%s: %s", self._account, error)


class FeishuChannel(Adapter):
    """One app's account, see `channels.base.Channel`."""

    layout = staticmethod(outbound.layout)

    def __init__(self, account: str, config: FeishuConfig, ports: ChannelPorts) -> None:
        super().__init__(account, ports)
        self._config = config
        self._api = FeishuApi(account, config, ports.route, ports.clock)
        self._anchors = Anchors()
        self._toasts = Toasts()
        self._lookup = Lookup(self._api, ports, account, self._missing)
        self._receipts = Receipts(self._api, self._anchors, config.receipt, ports.log, account, self._missing)
        self._messenger = Messenger(self._api, ports, self._anchors, account, self._missing)
        self._restoring = asyncio.Lock()
        self._restored = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            smallest_file=1,
            largest_file=MAX_FILE,
            typing=bool(self._config.receipt),
            text_unit=TextUnit.JSON_BYTES,
            max_unit=outbound.PAGE_UNITS,
            idempotent_send=True,
            findable_after_crash=False,
            edit_interval_dm=0.5,
            edit_interval_group=0.5,
            typing_lasts=True,
            notifies=True,
            notify_after=self._config.notify_after or None,
        )

    @property
    def rate(self) -> Rate:
        return Rate(**self._config.rate.model_dump())

    async def run(self, hello: Hello) -> None:
        """Receive until cancelled. Raises Fatal, and what `hello` raises."""
        ports = self._ports
        supervisor = Supervisor(
            self._health, ports.clock, ports.log, self._account, asked_to_wait, url=self._config.root
        )

        def alive() -> None:
            self._health.last_sign = self._ports.clock.monotonic()
            if self._health.state is not ConnectionState.CONNECTED:
                supervisor.connected()
                supervisor.steady()

        try:
            me = await supervisor.keep(self._who_am_i)
            self._identity = BotIdentity(platform="feishu", bot_id=me.app_id, username=me.name)
            await hello(self._identity)
            await self._restore()
            reader = Reader(self._account, me, self._config.thread_follow)
            receiver = Receiver(reader, self._lookup, self._anchors, self._toasts, self._ports)
            socket = Socket(self._api, receiver.handle, alive, self._ports.log, self._account)
            while True:
                await supervisor.keep(socket.serve)
        finally:
            self._health.state = ConnectionState.STOPPED

    async def _restore(self) -> None:
        """Learn once what was stored before: the answers that an earlier process left do not wait for `run`."""
        async with self._restoring:
            if not self._restored:
                for newest in await self._ports.newest():
                    self._anchors.see(newest.chat, newest.topic, newest.message_id)
                self._restored = True

    async def _who_am_i(self) -> Me:
        bot = await self._api.bot_info()
        self._health.last_sign = self._ports.clock.monotonic()
        return Me(app_id=self._config.app_id, open_id=bot["open_id"], name=str(bot.get("app_name") or ""))

    async def close(self) -> None:
        await self._api.close()

    async def send(
        self, address: Address, part: Part, idem_key: str, reply_to: str | None = None, *, silent: bool = False
    ) -> str:
        """Send one part. Repeating it with the same key within an hour gives the same message (the platform's uuid)."""
        await self._restore()
        shown, worked_on = own(part, outbound.FeishuPart), self._anchors.newest(address)
        if reply_to is not None:
            worked_on = MessageId.parse(reply_to).native
        message_id = await self._messenger.send(address, shown, idem_key, reply_to)
        self._lookup.learn_chat(address.chat, direct=address.kind == "dm")
        self._lookup.learn_topic(MessageId.parse(message_id).native, address.topic)
        if self._config.receipt and shown.growing and not shown.text:
            await self._receipts.show(address, worked_on)  # the answer has no text yet
        else:
            await self._answers(address, shown)
        return message_id

    async def _answers(self, address: Address, part: outbound.FeishuPart) -> None:
        """Handle a shown part: the first text of an answer removes the receipt."""
        if self._config.receipt and (part.text or part.file is not None):
            await self._receipts.clear(address)

    async def edit(self, address: Address, message_id: str, part: Part) -> None:
        shown = own(part, outbound.FeishuPart)
        await self._messenger.edit(address, message_id, shown)
        await self._answers(address, shown)

    async def delete(self, address: Address, message_id: str) -> None:
        with contextlib.suppress(MessageGone):
            await self._messenger.delete(message_id)

    async def find(self, address: Address, part: Part, probe: Probe) -> str | None:
        """Always raise OutcomeUnknown: never needed, because a repeated send returns the message of the first one."""
        raise OutcomeUnknown("Feishu messages are not searched for; the send is repeated")

    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        """Stream the file; at most `max_download_mb`, whatever size was declared."""
        message_id, key, kind = _reference(attachment)
        request = build(im.GetMessageResourceRequest, message_id=message_id, file_key=key, type=kind)
        await self._api.download(request, capped(sink, int(self._config.max_download_mb * 1024 * 1024)))

    def chat_link(self, text: str) -> ChatLink | None:
        """A link that opens the bot's chat in the client; it cannot enter a text there."""
        host = LINKS.get(self._config.domain)
        if host is None:
            return None
        return ChatLink(url=f"{host}/client/bot/open?appId={self._config.app_id}", says=False)

    async def typing(self, address: Address) -> None:
        if self._config.receipt:
            await self._restore()
            await self._receipts.show(address)

    async def acknowledge(self, press: ButtonPressed, text: str = "") -> None:
        """Answer a press; the platform shows the text if it arrives within three seconds."""
        self._toasts.show(press.callback_id, text)


def _reference(attachment: Attachment) -> tuple[str, str, str]:
    """(message id, key, type) as `content` wrote them. Raises AttachmentFailed("gone") for anything else."""
    try:
        found = json.loads(attachment.ref)
    except ValueError:
        found = None
    match found:
        case {"message_id": str(message_id), "key": str(key), "type": "image" | "file" as kind}:
            return message_id, key, str(kind)
    raise AttachmentFailed("the attachment's reference is not from Feishu", "gone")
