"""One Slack app as a `channels.base.Channel`: connects settings, API, receiving and rendering."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from channels.adapter import Adapter, commit, own
from channels.base import BotIdentity, ChatLink, ConnectionState
from channels.capabilities import Capabilities, Rate, TextUnit
from channels.errors import (
    AttachmentFailed,
    ChannelError,
    MessageGone,
    NotAllowed,
    NotCommitted,
    OutcomeUnknown,
    RateLimited,
    Rejected,
)
from channels.message import Message, Sender
from channels.slack import outbound, streams
from channels.slack.api import SlackApi, TooMuch
from channels.slack.config import COMMANDS, slash
from channels.slack.connection import Connection, who_am_i
from channels.slack.directory import Directory, Sightings
from channels.slack.failures import BlocksRefused, StillStreaming
from channels.slack.files import MAX_UPLOAD, Uploads, fetch, is_file
from channels.slack.inbound import Reader, person_id
from channels.slack.receiving import CatchUp, Intake
from channels.slack.schema import is_timestamp
from channels.supervision import Supervisor, until_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from channels.base import About, ChannelPorts, Hello, LiveReply, Part, Probe, Sink
    from channels.message import Address, Attachment, ButtonPressed
    from channels.slack.config import SlackConfig
    from channels.slack.inbound import Found

MOST_AT_WORK = 1000
"""Threads whose working status is remembered."""
_WORKING = "⏳"
"""A symbol instead of a word: texts come from the gateway, in people's language."""
_RECEIPT = "eyes"
_COURTESIES = {
    "assistant.threads.setStatus": "no working status is shown",
    "reactions.add": "the `receipt` reaction is not shown",
    "chat.postEphemeral": "button presses are not confirmed with a message",
}
"""Optional calls, and what is missing without them."""
_NO_STREAMS = "answers are edited as they grow, not streamed"
_EDIT_SECONDS = 1.2
"""chat.update: 50 a minute in a workspace, over all channels (Web API rate limits, tier 3)."""
_APPEND_SECONDS = 0.6
"""chat.appendStream: 100 a minute (tier 4). In channels every answer is in a thread, where streams are possible."""
_COMMANDS = frozenset(name for name, _ in COMMANDS)


class SlackChannel(Adapter):
    """One account on Slack, see `channels.base.Channel`."""

    layout = staticmethod(outbound.layout)

    def __init__(self, account: str, config: SlackConfig, ports: ChannelPorts) -> None:
        super().__init__(account, ports)
        self._config = config
        self._api = SlackApi(account, config, ports.route, ports.log)
        self._sightings = Sightings()
        self._uploads = Uploads(self._api)
        self._about: Mapping[str | None, About] = {}
        self._no_stream_before = 0.0
        self._at_work: set[tuple[str, str]] = set()
        """Threads that show the working status."""

    @property
    def capabilities(self) -> Capabilities:
        streaming = self._config.streaming == "stream"
        return Capabilities(
            append_only_stream=streaming,
            stream_ttl=streams.STREAM_SECONDS if streaming else None,
            stream_sign=streams.SIGN_SECONDS if streaming else None,
            smallest_file=1,
            largest_file=MAX_UPLOAD,
            text_unit=TextUnit.CHARACTERS,
            max_unit=outbound.PAGE_CHARACTERS,
            findable_after_crash=True,
            edit_interval_dm=_EDIT_SECONDS,
            edit_interval_group=_APPEND_SECONDS if streaming else _EDIT_SECONDS,
            group_threads=True,
            typing_lasts=True,
            typing_in_threads=self._config.receipt == "none",
            notifies=not streaming,
            notify_after=self._config.notify_after or None,
        )

    @property
    def rate(self) -> Rate:
        rate = self._config.rate
        return Rate(
            per_second=rate.per_second,
            per_chat_per_second=rate.per_chat_per_second,
            per_group_per_minute=60.0 * rate.per_chat_per_second,
            edits_per_minute=rate.edits_per_minute,
        )

    async def run(self, hello: Hello) -> None:
        """Receive until cancelled. Raises Fatal, and what `hello` raises."""
        supervisor = Supervisor(
            self._health, self._ports.clock, self._ports.log, self._account, url=self._config.base_url
        )
        try:
            me = await supervisor.keep(lambda: who_am_i(self._api, self._account, self._ports.log))
            self._health.last_sign = self._ports.clock.monotonic()
            identity = BotIdentity(platform="slack", bot_id=person_id(me.team, me.user), username=me.username)
            self._identity = identity
            reader = Reader(self._account, me, self._config.thread_follow)
            directory = Directory(self._api, me.user, self._ports.log, self._missing)
            intake = Intake(reader, directory, self._ports, self._committed, self._refusal)
            catch_up = CatchUp(self._api, reader, directory, intake, self._ports, self._missing)
            connection = Connection(
                self._api,
                me,
                supervisor,
                self._health,
                self._ports.clock,
                intake.take,
                self._config.ping_interval,
                catch_up.after_gap,
            )

            async def receive() -> None:
                try:
                    # Envelopes before the greeting wait unacknowledged: both tokens are known to be valid by then.
                    await connection.opened.wait()
                    await hello(identity)
                    await until_first(intake.run(), catch_up.run())
                finally:
                    intake.close()  # the connection, which ends at the same time, waits for its content

            await until_first(connection.run(), receive())
        finally:
            self._health.state = ConnectionState.STOPPED

    def _committed(self, event: Found) -> None:
        if isinstance(event, Message):
            self._sightings.note(event)

    async def describe(self, about: Mapping[str | None, About]) -> None:
        self._about = about

    def _refusal(self, locale: str | None) -> str:
        """The answer to a slash command given in a channel that the bot is not a member of."""
        about = self._about.get((locale or "")[:2], self._about.get(None))
        return about.outside.format(bot=self._identity.username) if about is not None and self._identity else ""

    async def close(self) -> None:
        await self._api.close()

    def newest(self, address: Address) -> str | None:
        return self._sightings.newest(address.chat)

    def recall(self, known: Iterable[tuple[str, str]]) -> None:
        for chat, message_id in known:
            if is_file(message_id):
                self._uploads.see(message_id)
            self._sightings.see(chat, message_id)

    async def send(
        self, address: Address, part: Part, idem_key: str, reply_to: str | None = None, *, silent: bool = False
    ) -> str:
        """Send one part to the conversation's thread, or else to the chat; Slack has no quotes.

        An unanswered send is OutcomeUnknown: the message carries its key as metadata, see `find`.
        """
        shown = own(part, outbound.SlackPart)
        person = outbound.only_for(reply_to)
        if person and shown.file is None and not shown.keyboard:  # what is shown to one person cannot be edited
            return await self._show("chat.postEphemeral", outbound.place(address) | person, shown)
        if shown.file is not None:
            message_id = await self._uploads.send(address, shown.file, idem_key)
        else:
            params = outbound.place(address) | outbound.quiet() | outbound.marked(idem_key)
            message_id = await self._show("chat.postMessage", params, shown)
        self._sightings.see(address.chat, message_id)
        await self._give_receipt(address)
        self._at_work.discard((address.chat, address.topic or ""))  # a new message clears it
        await self._tell_work(address, shown)
        return message_id

    async def edit(self, address: Address, message_id: str, part: Part) -> None:
        shown = own(part, outbound.SlackPart)
        if is_file(message_id) != (shown.file is not None):
            raise MessageGone("a file cannot become a text, or a text a file")
        if shown.file is not None:
            return  # it is the same file: its name was part of the first send
        target = {"channel": address.chat, "ts": message_id}
        try:
            await self._show("chat.update", target, shown)
        except StillStreaming:
            # An earlier process was killed while streaming, or lost track of the stream.
            await streams.stop(self._api, target)
            await self._show("chat.update", target, shown)
        self._sightings.see(address.chat, message_id)
        await self._tell_work(address, shown)

    async def _show(self, method: str, params: outbound.Params, part: outbound.SlackPart) -> str:
        """Post or update, in plain text if the blocks are refused; returns the message's id.

        Raises BlocksRefused if one message of plain text would not show all of it.
        """
        repeatable = method == "chat.update"
        try:
            answer = await self._api.call(method, params | outbound.content(part), repeatable=repeatable)
        except BlocksRefused as error:
            if not outbound.fits_plain(part):
                raise
            self._ports.log.warning("%s: shown as plain text: %s", self._account, error)
            answer = await self._api.call(method, params | outbound.plain_content(part), repeatable=repeatable)
        return _timestamp(answer)

    async def delete(self, address: Address, message_id: str) -> None:
        if is_file(message_id):
            with contextlib.suppress(AttachmentFailed):
                await self._api.call("files.delete", {"file": message_id})
            return
        with contextlib.suppress(MessageGone):
            await self._api.call("chat.delete", {"channel": address.chat, "ts": message_id})

    async def find(self, address: Address, part: Part, probe: Probe) -> str | None:
        """Look for the key in the messages since then; files have no key and are found by name."""
        shown = own(part, outbound.SlackPart)
        if shown.file is not None and self._uploads.lost(probe.idem_key):
            return await self._uploads.find_lost(address, probe.idem_key)
        found = await self._search(address, shown, probe)
        if found is not None and shown.file is None:
            await self.edit(address, found, part)
        return found

    async def _search(self, address: Address, part: outbound.SlackPart, probe: Probe) -> str | None:
        oldest = probe.after if is_timestamp(probe.after) else None
        try:
            async for message in self._api.messages(address.chat, address.topic, oldest, metadata=True):
                if part.file is not None:
                    found = self._uploads.adopt(message, part.file) if message.get("bot_id") else None
                else:
                    keys = (outbound.mark_of(message), streams.opened_with(message))
                    found = message.get("ts") if probe.idem_key in keys else None
                if isinstance(found, str):
                    return found
        except TooMuch:
            raise OutcomeUnknown("too many messages were written since to search all of them") from None
        except Rejected as error:
            if isinstance(error, NotAllowed):
                self._missing.note("unconfirmed sends are not searched for", error)
            raise OutcomeUnknown(f"the chat cannot be searched: {error}") from error
        return None

    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        """Stream the file; at most `max_download_mb`, whatever size was declared."""
        await fetch(self._api, attachment, sink, int(self._config.max_download_mb * 1024 * 1024))

    async def typing(self, address: Address) -> None:
        """Show the working status, which exists only in threads, and the reaction if the operator configured it."""
        await self._set_status(address, _WORKING)
        await self._give_receipt(address)

    async def _tell_work(self, address: Address, part: outbound.SlackPart) -> None:
        """Keep the thread's working status from the first notice to the first text of the answer."""
        thread = address.chat, address.topic or ""
        if part.status and not part.markdown and not part.keyboard and thread not in self._at_work:
            await self._set_status(address, _WORKING)
        elif part.markdown and thread in self._at_work:
            await self._set_status(address, "")

    async def _set_status(self, address: Address, status: str) -> None:
        if address.topic is None:
            return
        thread = address.chat, address.topic
        if len(self._at_work) >= MOST_AT_WORK:
            self._at_work.clear()  # Slack ends a status itself after two minutes
        (self._at_work.add if status else self._at_work.discard)(thread)
        where = {"channel_id": address.chat, "thread_ts": address.topic}
        await self._politely("assistant.threads.setStatus", {**where, "status": status})

    async def _give_receipt(self, address: Address) -> None:
        """Add the reaction once per message, along with what is shown first, whether a status or the answer."""
        if self._config.receipt == "eyes" and (message_id := self._sightings.take_fresh(address)) is not None:
            await self._politely("reactions.add", {"channel": address.chat, "timestamp": message_id, "name": _RECEIPT})

    async def acknowledge(self, press: ButtonPressed, text: str = "") -> None:
        """Show the text to the person who pressed the button; the button itself has no waiting state."""
        if text:
            whom = {"user": press.callback_id, "text": outbound.escaped(text)}
            await self._politely("chat.postEphemeral", outbound.place(press.address) | whom)

    async def _politely(self, method: str, params: dict[str, Any]) -> None:
        """Make an optional call, whose failure is only logged."""
        what = _COURTESIES[method]
        if what in self._missing:
            return
        try:
            await self._api.call(method, params)
        except NotAllowed as error:
            self._missing.note(what, error)
        except ChannelError as error:
            self._ports.log.debug("%s: %s", self._account, error)

    def command(self, name: str, address: Address) -> str:
        """The slash command in a DM, if the manifest has it, else a mention.

        Threads have no slash commands, and Slack does not send other texts that begin with a slash.
        """
        if address.kind == "dm" and address.topic is None and name in _COMMANDS:
            return slash(name)
        return f"@{self._identity.username if self._identity is not None else 'antler'} /{name}"

    def chat_link(self, text: str) -> ChatLink | None:
        """A link that opens the app's messages in the Slack client; it cannot enter a text there."""
        if self._identity is None or not self._api.app_id:
            return None
        team = self._identity.bot_id.partition("/")[0]
        return ChatLink(url=f"https://slack.com/app_redirect?app={self._api.app_id}&team={team}", says=False)

    async def open_stream(self, address: Address, idem_key: str, reply_to: str | None) -> LiveReply:
        """Begin a stream in a thread. Raises Rejected if Slack refuses it: delivery then sends and edits."""
        params = outbound.place(address) | {"chunks": streams.opening(idem_key)}
        writer = self._sightings.writer(address.chat, reply_to)
        if address.kind != "dm" and writer is not None:
            params["recipient_team_id"], _, params["recipient_user_id"] = writer.partition("/")
        if address.topic is None or (address.kind != "dm" and writer is None):
            raise Rejected("Slack streams only in threads and to a known person")
        if self._ports.clock.monotonic() < self._no_stream_before or _NO_STREAMS in self._missing:
            raise Rejected("Slack accepts no new streams for now")
        try:
            message_id = _timestamp(await self._api.call("chat.startStream", params, repeatable=False))
        except RateLimited as error:
            # The limit applies only to this method: an ordinary message is not delayed by it.
            self._no_stream_before = self._ports.clock.monotonic() + error.retry_after
            raise Rejected(f"Slack accepts no new streams for now: {error}") from error
        except NotAllowed as error:
            self._missing.note(_NO_STREAMS, error)
            raise Rejected(str(error)) from error
        self._sightings.see(address.chat, message_id)
        await self._give_receipt(address)
        person = writer if writer is not None else self._sightings.last_writer(address)

        async def stopped() -> None:
            await self._stop_asked(address, message_id, person)

        return streams.StreamedReply(self._api, self.edit, address, message_id, idem_key, stopped)

    async def _stop_asked(self, address: Address, message_id: str, person: str | None) -> None:
        """Publish a /stop by the person the stream answers: Slack does not report who pressed its stop button."""
        if person is None:
            self._ports.log.warning(
                "%s: a stream's stop button is ignored: the person whose message it answers is unknown", self._account
            )
            return
        now = self._ports.clock.now()
        said = Message(
            account=self._account,
            dedupe_keys=(f"s:{address.chat}:{message_id}",),
            sent_at=now,
            received_at=now,
            address=address,
            platform_message_id=message_id,
            sender=Sender(id=person, display_name=person),
            text="/stop",
            mention=True,
        )
        try:
            await commit([said], self._ports)
        except NotCommitted as error:
            self._ports.log.warning("%s: a stream's stop button was not stored: %s", self._account, error)


def _timestamp(answer: dict[str, Any]) -> str:
    match answer:
        case {"ts": str(ts)} | {"message_ts": str(ts)}:
            return ts
    raise OutcomeUnknown("the response to a send contains no ts")
