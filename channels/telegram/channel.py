"""One Telegram bot as a `channels.base.Channel`: wires settings, API, receiving and rendering."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cachetools import LRUCache

from channels.adapter import Adapter, capped, own
from channels.base import BotIdentity, ChatLink, ConnectionState
from channels.capabilities import Capabilities, Rate, TextUnit
from channels.errors import ChannelError, MessageGone, OutcomeUnknown, Rejected
from channels.message import ButtonPressed, Message
from channels.telegram import outbound
from channels.telegram.api import MAX_UPLOAD, TelegramApi
from channels.telegram.failures import NotModified
from channels.telegram.inbound import Me, Pastes, Reader
from channels.telegram.poll import GRACE_SECONDS, Poller, PollSupervisor
from channels.telegram.schema import file_id
from channels.telegram.sightings import Sightings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from channels.base import About, ChannelPorts, Command, Hello, Part, Probe, Sink
    from channels.message import Address, Attachment, InboundEvent
    from channels.telegram.config import TelegramConfig

_REMEMBERED_REFUSALS = 1000


class TelegramChannel(Adapter):
    """The `Channel` of one Telegram bot."""

    layout = staticmethod(outbound.layout)

    def __init__(self, account: str, config: TelegramConfig, ports: ChannelPorts) -> None:
        super().__init__(account, ports)
        self._config = config
        self._api = TelegramApi(account, config, ports.route)
        self._no_previews: LRUCache[str, None] = LRUCache(_REMEMBERED_REFUSALS)
        self._sightings = Sightings()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            voice_notes=True,
            smallest_file=1,
            largest_file=MAX_UPLOAD,
            text_unit=TextUnit.UTF16,
            max_unit=4096,
            findable_after_crash=self._config.adopt_placeholders,
            edit_interval_dm=1.0,
            edit_interval_group=3.0,
            preview_dm=self._config.streaming == "draft",
            notifies=True,
            notify_after=self._config.notify_after or None,
        )

    @property
    def rate(self) -> Rate:
        return Rate(**self._config.rate.model_dump())

    async def run(self, hello: Hello) -> None:
        """Receive until cancelled. Raises Fatal, and what `hello` raises."""
        supervisor = PollSupervisor(
            *(self._health, self._ports.clock, self._ports.log, self._account),
            url=self._config.base_url,
            held_for=self._config.poll_timeout + GRACE_SECONDS,
        )
        try:
            me = await supervisor.keep(self._who_am_i)
            self._identity = BotIdentity(platform="telegram", bot_id=str(me.id), username=me.username)
            await hello(self._identity)
            await supervisor.keep(self._api.delete_webhook)
            reader = Reader(self._account, me, Pastes())
            ports = replace(self._ports, publish=self._publish)
            poller = Poller(self._api, ports, self._health, reader, self._config.poll_timeout)
            while True:
                await supervisor.keep(poller.step)
        finally:
            self._health.state = ConnectionState.STOPPED

    async def _publish(self, events: Sequence[InboundEvent]) -> None:
        for event in events:
            if isinstance(event, Message | ButtonPressed):
                self._see(event.address.chat, event.platform_message_id)
        await self._ports.publish(events)

    def _see(self, chat: str, message_id: str) -> None:
        if message_id.isdecimal():
            self._sightings.see(chat, int(message_id))

    def newest(self, address: Address) -> str | None:
        newest = self._sightings.newest(address.chat)
        return None if newest is None else str(newest)

    def recall(self, known: Iterable[tuple[str, str]]) -> None:
        for chat, message_id in known:
            self._see(chat, message_id)

    async def _who_am_i(self) -> Me:
        me = await self._api.who_am_i()
        self._health.last_sign = self._ports.clock.monotonic()
        return me

    async def close(self) -> None:
        await self._api.close()

    async def send(
        self, address: Address, part: Part, idem_key: str, reply_to: str | None = None, *, silent: bool = False
    ) -> str:
        """Send one part. Telegram has no idempotency keys, so an unanswered send is OutcomeUnknown: see `find`."""
        shown, newest = own(part, outbound.TelegramPart), self._sightings.newest(address.chat)
        try:
            answer = await self._api.send(address, shown, reply_to, silent=silent)
        except OutcomeUnknown:
            self._sightings.lost(idem_key, address.chat, newest)
            raise
        self._sightings.sent(idem_key, address.chat, answer, newest)
        return str(answer)

    async def edit(self, address: Address, message_id: str, part: Part) -> None:
        shown = own(part, outbound.TelegramPart)
        try:
            await self._api.edit(address, message_id, shown)
        except NotModified:
            return

    async def preview(self, address: Address, part: Part, idem_key: str) -> None:
        """Show a draft (Bot API sendMessageDraft). It is not tried again in a chat that refused one."""
        shown = own(part, outbound.TelegramPart)
        if shown.file is not None or address.chat in self._no_previews:
            raise Rejected("this chat does not accept previews")
        try:
            await self._api.draft(address, shown, idem_key)
        except NotModified:
            return
        except Rejected:
            self._no_previews[address.chat] = None
            raise

    async def delete(self, address: Address, message_id: str) -> None:
        with contextlib.suppress(MessageGone):
            await self._api.delete(address, message_id)

    async def find(self, address: Address, part: Part, probe: Probe) -> str | None:
        """Try to edit the candidate ids that no other message is known to have: only the bot's own messages accept it.

        An id in another private chat, or of someone else's message, is refused without any effect.
        """
        after = int(probe.after) if probe.after is not None and probe.after.isdecimal() else None
        accepts = partial(self._accepts, address, part)
        found = await self._sightings.find(probe.idem_key, address.chat, after, accepts)
        return None if found is None else str(found)

    async def _accepts(self, address: Address, part: Part, candidate: int) -> bool:
        try:
            await self.edit(address, str(candidate), part)
        except MessageGone:
            return False
        except Rejected as error:
            raise OutcomeUnknown(f"message {candidate} may be the lost one: {error}") from error
        return True

    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        """Stream the file; at most `max_download_mb`, even if a smaller size was declared."""
        most = int(self._config.max_download_mb * 1024 * 1024)
        await self._api.download(file_id(attachment), capped(sink, most, attachment.size))

    async def typing(self, address: Address) -> None:
        await self._politely(self._api.typing(address))

    async def acknowledge(self, press: ButtonPressed, text: str = "") -> None:
        await self._politely(self._api.acknowledge(press.callback_id, text))

    async def _politely(self, call: Awaitable[None]) -> None:
        """Make a call whose failure is only logged."""
        try:
            await call
        except ChannelError as error:
            self._ports.log.debug("%s: %s", self._account, error)

    async def publish_commands(
        self, commands: Sequence[Command], locale: str | None, address: Address | None = None
    ) -> None:
        await self._api.publish_commands(commands, locale, address)

    async def describe(self, about: Mapping[str | None, About]) -> None:
        await self._api.describe(about)

    def chat_link(self, text: str) -> ChatLink | None:
        """Telegram's deep link: the client sends "/start TEXT" when the person presses Start."""
        if self._identity is None:
            return None
        return ChatLink(url=f"https://t.me/{self._identity.username}?start={text}", says=True)
