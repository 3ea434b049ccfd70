"""One WeCom smart robot as a `channels.base.Channel`: wires settings, link, receiving and rendering."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from channels.adapter import Adapter, own
from channels.base import BotIdentity
from channels.capabilities import Capabilities, Rate, TextUnit
from channels.errors import ChannelError, ChatGone, Fatal, OutcomeUnknown, Rejected
from channels.wecom import frames, outbound
from channels.wecom.api import LARGEST, SMALLEST, WecomApi
from channels.wecom.connection import Network, Timing
from channels.wecom.failures import Conflict, StreamOver
from channels.wecom.link import Link
from channels.wecom.media import Downloads
from channels.wecom.outbound import Pressed
from channels.wecom.receiving import Receiver
from channels.wecom.stream import Answers, WecomStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from channels.base import About, ChannelPorts, Hello, LiveReply, Part, Probe, Sink
    from channels.message import Address, Attachment, ButtonPressed
    from channels.wecom.config import WecomConfig

STREAM_SECONDS = 330.0
"""Below both documented limits: ten minutes in the current documentation, six in the earlier one."""


class WecomChannel(Adapter):
    """The `Channel` of one WeCom robot."""

    layout = staticmethod(outbound.layout)

    def __init__(self, account: str, config: WecomConfig, ports: ChannelPorts, timing: Timing | None = None) -> None:
        super().__init__(account, ports)
        self._config = config
        self._about: About | None = None
        network = Network(ports.route, account)
        self._receiver = Receiver(account, config, ports, self._welcome)
        self._link = Link(account, config, ports, network, self._health, self._receiver.take, timing or Timing())
        self._api = WecomApi(self._link)
        most = int(config.max_download_mb * 1024 * 1024)
        self._downloads = Downloads(network, most, plain=config.url.startswith("ws:"))
        self._answers = Answers()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            edits=False,
            append_only_stream=True,
            stream_ttl=STREAM_SECONDS,
            smallest_file=SMALLEST,
            largest_file=LARGEST,
            typing=False,
            text_unit=TextUnit.UTF8_BYTES,
            max_unit=outbound.MESSAGE_BYTES,
            findable_after_crash=False,
            edit_interval_dm=1.0,
            edit_interval_group=1.0,
            replies_to_message=True,
        )

    @property
    def rate(self) -> Rate:
        rate = self._config.rate
        return Rate(
            per_second=rate.per_second,
            per_chat_per_second=rate.per_chat_per_second,
            per_group_per_minute=rate.per_chat_per_minute,
            per_chat_per_minute=rate.per_chat_per_minute,
            per_chat_per_hour=rate.per_chat_per_hour,
        )

    async def run(self, hello: Hello) -> None:
        """Receive until cancelled. Raises Fatal, and what `hello` raises."""
        await self._link.begin()
        await self._link.connected()
        name = self._config.bot_name or self._config.bot_id
        self._identity = BotIdentity(platform="wecom", bot_id=self._config.bot_id, username=name)
        try:
            await hello(self._identity)
        except Fatal as error:
            await self._link.end(error)
            raise
        await self._receiver.run(self._link.start())

    async def let_go(self) -> None:
        await self._link.let_go()

    async def close(self) -> None:
        await self._link.close()
        await self._receiver.close()

    async def describe(self, about: Mapping[str | None, About]) -> None:
        """Keep the description for the welcome, in Chinese if available: WeCom does not report a person's language."""
        self._about = about.get("zh", about[None])

    async def _welcome(self, req_id: str) -> None:
        """Send the operator's text, else a card that describes the bot; as text if the platform refuses the card."""
        about, welcome = self._about, self._config.welcome
        if welcome is None and about is not None and about.buttons:
            card = outbound.welcome(about.greeting, about.offer, about.buttons)
            try:
                return await self._api.welcome(req_id, card, f"welcome-{secrets.token_hex(8)}")
            except Rejected as error:
                self._ports.log.info("%s: welcome sent as text because the card was refused: %s", self._account, error)
            except ChannelError as error:
                return self._ports.log.info("%s: welcome: %s", self._account, error)
        text = about.description if welcome is None and about is not None else welcome
        if text:
            await self._politely("welcome", self._api.welcome(req_id, text))

    async def send(
        self, address: Address, part: Part, idem_key: str, reply_to: str | None = None, *, silent: bool = False
    ) -> str:
        """Send one part: as the answer to `reply_to` if that has no answer yet, else as a push.

        Raises OutcomeUnknown if no ack arrives.
        """
        shown, req_id = own(part, outbound.WecomPart), frames.req_id_of(reply_to)
        if shown.text and req_id is not None and self._answers.takes(req_id, idem_key):
            try:
                await self._answer(req_id, idem_key, shown.text)
                return idem_key
            except (Rejected, ChatGone) as error:
                # It was answered by an earlier process, or is too old. A fault of the text itself shows up below.
                self._answers.spent(req_id)
                self._ports.log.info("%s: answer sent as a push: %s", self._account, error)
        message_id = idem_key if shown.card is None else await self._push_card(address, shown, idem_key)
        if shown.card is None:
            await self._api.push(address, shown, message_id)
        return message_id

    async def _push_card(self, address: Address, part: outbound.WecomPart, task_id: str) -> str:
        """Push a card and return its task_id, which the platform accepts once: a retry cannot duplicate the card."""
        try:
            await self._api.push(address, part, task_id)
        except OutcomeUnknown:
            self._answers.lost(task_id, "")
            raise
        except Rejected:
            if self._answers.lost_under(task_id) is None:
                # An earlier process may have used the id.
                task_id = f"{task_id}-{secrets.token_hex(4)}"
                await self._api.push(address, part, task_id)
        self._answers.found(task_id)
        return task_id

    async def _answer(self, req_id: str, stream_id: str, text: str) -> None:
        """Send the whole answer as a stream of one frame, which can be repeated: it is the same stream."""
        self._answers.sent(req_id, stream_id)
        try:
            await self._api.stream(req_id, stream_id, text, finish=True)
        except OutcomeUnknown:
            self._answers.lost(stream_id, req_id)
            raise
        except StreamOver:
            if self._answers.lost_under(stream_id) is None:
                raise
            # The stream is over because the frame whose ack is missing was its last one.
        self._answers.found(stream_id)

    async def edit(self, address: Address, message_id: str, part: Part) -> None:
        raise Rejected("WeCom cannot edit messages")

    async def delete(self, address: Address, message_id: str) -> None:
        """Do nothing: WeCom cannot delete a robot's messages."""

    async def find(self, address: Address, part: Part, probe: Probe) -> str | None:
        """Repeat an answer under its req_id, which creates it or leaves it unchanged; a push cannot be found.

        An earlier process can only have ended its stream with it, so it exists if that stream is over before its time
        limit. This proves nothing if another message may have been the answer under that req_id.
        """
        shown = own(part, outbound.WecomPart)
        req_id = self._answers.lost_under(probe.idem_key) or frames.req_id_of(probe.after)
        if not shown.text or req_id is None or not self._answers.takes(req_id, probe.idem_key):
            raise OutcomeUnknown("WeCom does not report sent messages")
        try:
            await self._answer(req_id, probe.idem_key, shown.text)
        except Conflict as error:
            raise OutcomeUnknown(f"unknown whether it was answered: {error}") from error
        except Rejected as error:
            if not (isinstance(error, StreamOver) and probe.age is not None and probe.age < STREAM_SECONDS):
                self._answers.spent(req_id)
                raise OutcomeUnknown(f"unknown whether it was answered: {error}") from error
        return probe.idem_key

    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        """Stream the decrypted file, at most `max_download_mb`; WeCom keeps it for five minutes."""
        await self._downloads.fetch(attachment, sink)

    async def typing(self, address: Address) -> None:
        """Do nothing: WeCom shows it automatically while a stream is open."""

    async def acknowledge(self, press: ButtonPressed, text: str = "") -> None:
        """Show the person which button was pressed, with a short text, in place of the buttons."""
        req_id, key = frames.of_press(press.callback_id)
        changed = Pressed.read(key).card(text).to_json(press.platform_message_id)
        await self._politely("button", self._api.update_card(req_id, changed, frames.native_user(press.sender.id)))

    async def _politely(self, what: str, call: Awaitable[None]) -> None:
        """Make a call whose failure is only logged."""
        try:
            await call
        except ChannelError as error:
            self._ports.log.info("%s: %s: %s", self._account, what, error)

    async def open_stream(self, address: Address, idem_key: str, reply_to: str | None) -> LiveReply:
        """Show that an answer is being prepared, and begin it. Raises Rejected if only a push is still possible."""
        req_id = frames.req_id_of(reply_to)
        if req_id is None or not self._answers.takes(req_id, idem_key):
            raise Rejected("the message is already answered or unknown")
        self._answers.sent(req_id, idem_key)
        try:
            await self._api.stream(req_id, idem_key, "", finish=False)
        except OutcomeUnknown as error:
            # Harmless: the next snapshot begins the stream just as well.
            self._ports.log.info("%s: %s", self._account, error)
        except Rejected:
            self._answers.spent(req_id)
            raise
        return self._stream(address, req_id, idem_key)

    def resume_stream(self, address: Address, idem_key: str, reply_to: str | None, age: float) -> LiveReply | None:
        """The stream, continued under its req_id while the platform knows that id: after a reconnect it may not.

        Another message may be tried under that req_id right now; its ack comes before those of this stream.
        """
        req_id, clock = frames.req_id_of(reply_to), self._ports.clock
        if req_id is None or age >= STREAM_SECONDS:
            return None
        answers, until = self._answers, clock.monotonic() + STREAM_SECONDS - age
        if answers.takes(req_id, idem_key):
            answers.sent(req_id, idem_key)

        def ended_before() -> bool:
            return clock.monotonic() < until and answers.goes_on(req_id, idem_key)

        return self._stream(address, req_id, idem_key, ended_before)

    def _stream(
        self, address: Address, req_id: str, stream_id: str, ended_before: Callable[[], bool] | None = None
    ) -> WecomStream:
        return WecomStream(self._api, address, req_id, stream_id, ended_before)
