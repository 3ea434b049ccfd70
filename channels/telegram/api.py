"""Calls to one bot's API through python-telegram-bot's typed methods; its errors become channels.errors here.

Received updates stay plain JSON: building the SDK's objects takes time, and an update that it cannot build would be
lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import quote, urlsplit

import telegram
from telegram.error import TelegramError

from channels.adapter import open_regular
from channels.errors import AttachmentFailed, OutcomeUnknown, Rejected, Temporary
from channels.network import download, pour
from channels.telegram.failures import translated
from channels.telegram.inbound import Me
from channels.telegram.request import HIDDEN_TOKEN, Network, PollRequest, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from channels.base import About, Command, Route, Sink
    from channels.message import Address
    from channels.telegram.config import TelegramConfig
    from channels.telegram.outbound import Entity, TelegramFile, TelegramPart

CONNECTIONS = 64
UPLOAD_SECONDS = 300.0
MAX_UPLOAD = 50 * 1024 * 1024
"""Bytes that a bot may send (cloud API)."""
MAX_PHOTO = 10 * 1024 * 1024
_PHOTO_TYPES = frozenset({"image/jpeg", "image/png"})
_SPECIAL_VIEWS = {
    "voice": frozenset({"audio/ogg"}),
    "audio": frozenset({"audio/mpeg", "audio/mp4"}),
    "video": frozenset({"video/mp4"}),
}
_NO_PREVIEW = telegram.LinkPreviewOptions(is_disabled=True)
"""Set on every text: fetching a link for its preview leaks it to its owner without a click."""
_NOT_BUILT = (AttributeError, KeyError, TypeError, ValueError, OverflowError)
"""Raised where an answer is not what the SDK expects; it does not validate answers."""

T = TypeVar("T")


class TelegramApi:
    """Client of one bot's API. All methods raise only ChannelError; no error text contains the token."""

    def __init__(self, account: str, config: TelegramConfig, route: Callable[[str], Route]) -> None:
        self._account = account
        self._token = config.token
        self._files = f"{config.base_url}/file/bot"
        self._network = Network(config.base_url, config.token, route(config.base_url), account)
        self._requests = Request(self._network, CONNECTIONS)
        self._poll_requests = PollRequest(self._network, 1)
        self._bot = telegram.Bot(
            HIDDEN_TOKEN,
            base_url=f"{config.base_url}/bot",
            base_file_url=self._files,
            request=self._requests,
            get_updates_request=self._poll_requests,
        )
        self._closed = False

    async def call(self, method: str, request: Coroutine[Any, Any, T], *, repeatable: bool = True) -> T:
        """The result of an SDK call. repeatable: making the call twice does no harm."""
        if self._closed:
            request.close()
            raise Temporary("the account's connections are closed")
        try:
            return await request
        except TelegramError as error:
            text = self._clean(str(error))
            raise translated(method, error, text, repeatable=repeatable, account=self._account) from None
        except _NOT_BUILT as error:
            text = f"{method}: unreadable response ({type(error).__name__})"
            raise (Temporary if repeatable else OutcomeUnknown)(text) from None

    async def who_am_i(self) -> Me:
        user = await self.call("getMe", self._bot.get_me())
        if not isinstance(user.username, str):
            raise Temporary("getMe did not identify the bot")
        joins, hears = (said is not False for said in (user.can_join_groups, user.can_read_all_group_messages))
        return Me(id=user.id, username=user.username, joins_groups=joins, hears_all=hears)

    async def webhook(self) -> str:
        """The host that Telegram sends this bot's updates to, "" if no webhook is set."""
        return urlsplit((await self.call("getWebhookInfo", self._bot.get_webhook_info())).url).hostname or ""

    async def delete_webhook(self) -> None:
        """Delete the webhook, with which every poll would fail with 409. Updates pending at the server are kept."""
        await self.call("deleteWebhook", self._bot.delete_webhook(drop_pending_updates=False))

    async def poll(self, offset: int | None, timeout: int, allowed: Sequence[str], grace: float) -> list[Any]:
        """The next updates, unparsed. Raises Temporary if no answer arrives within timeout + grace seconds."""
        call = self._poll(offset, timeout, allowed, 2 * grace)  # the deadline below expires first
        try:
            async with asyncio.timeout(timeout + grace):
                updates = await self.call("getUpdates", call)
        except TimeoutError:
            # Use a new connection for the next poll: this one may be dead without any sign of it.
            await self._poll_requests.shutdown()
            raise Temporary(f"no answer to the long poll within {timeout + grace:.0f} s") from None
        if not isinstance(updates, list):
            raise Temporary("getUpdates did not return a list")
        return updates

    async def _poll(self, offset: int | None, timeout: int, allowed: Sequence[str], late: float) -> Any:
        await self._bot.get_updates(
            offset=offset, timeout=timeout, limit=100, allowed_updates=list(allowed), read_timeout=late
        )
        return self._poll_requests.updates()

    async def send(self, address: Address, part: TelegramPart, reply_to: str | None, *, silent: bool = False) -> int:
        """Send a message and return its id. Raises OutcomeUnknown when it may have been sent."""
        if part.file is None:
            call = self._bot.send_message(
                _chat(address),
                part.text,
                link_preview_options=_NO_PREVIEW,
                message_thread_id=_topic(address),
                reply_parameters=_reply(reply_to),
                disable_notification=silent,
                reply_markup=_field(reply_to) if part.asks_reply else _keyboard(part),
                api_kwargs=_entities("entities", part),
            )
            return (await self.call("sendMessage", call, repeatable=False)).message_id
        with _opened(part.file) as upload:
            try:
                return await self._upload(address, part, upload, reply_to, silent)
            except Rejected:
                if upload.view != "photo":
                    raise
        # Telegram does not accept very large or very long pictures as photos.
        with _opened(part.file, as_document=True) as upload:
            return await self._upload(address, part, upload, reply_to, silent)

    async def _upload(
        self, address: Address, part: TelegramPart, upload: _Upload, reply_to: str | None, silent: bool
    ) -> int:
        bot = self._bot
        sends: dict[str, Callable[..., Coroutine[Any, Any, telegram.Message]]] = {
            "photo": bot.send_photo,
            "voice": bot.send_voice,
            "audio": bot.send_audio,
            "video": bot.send_video,
            "document": bot.send_document,
        }
        call = sends[upload.view](
            _chat(address),
            telegram.InputFile(upload.content, filename=upload.name, read_file_handle=False),
            caption=part.text or None,
            message_thread_id=_topic(address),
            reply_parameters=_reply(reply_to),
            disable_notification=silent,
            reply_markup=_keyboard(part),
            read_timeout=UPLOAD_SECONDS,
            api_kwargs=_entities("caption_entities", part),
        )
        return (await self.call(f"send{upload.view.capitalize()}", call, repeatable=False)).message_id

    async def edit(self, address: Address, message_id: str, part: TelegramPart) -> None:
        """Edit a message. Also raises NotModified. An edit without reply_markup removes the keyboard."""
        if part.file is None:
            text = self._bot.edit_message_text(
                part.text,
                _chat(address),
                int(message_id),
                link_preview_options=_NO_PREVIEW,
                reply_markup=_keyboard(part),
                api_kwargs=_entities("entities", part),
            )
            await self.call("editMessageText", text)
        else:
            caption = self._bot.edit_message_caption(
                _chat(address),
                int(message_id),
                caption=part.text or None,
                reply_markup=_keyboard(part),
                api_kwargs=_entities("caption_entities", part),
            )
            await self.call("editMessageCaption", caption)

    async def draft(self, address: Address, part: TelegramPart, idem_key: str) -> None:
        """Show a draft; the same idem_key changes it in place. Also raises NotModified."""
        digest = hashlib.sha256(idem_key.encode()).digest()
        call = self._bot.send_message_draft(
            int(address.chat),
            int.from_bytes(digest[:4], "big") % (2**31 - 1) + 1,  # never 0
            part.text,
            message_thread_id=_topic(address),
            api_kwargs=_entities("entities", part),
        )
        await self.call("sendMessageDraft", call)

    async def delete(self, address: Address, message_id: str) -> None:
        await self.call("deleteMessage", self._bot.delete_message(_chat(address), int(message_id)))

    async def typing(self, address: Address) -> None:
        call = self._bot.send_chat_action(_chat(address), "typing", message_thread_id=_topic(address))
        await self.call("sendChatAction", call)

    async def acknowledge(self, callback_id: str, text: str) -> None:
        """Answer a button press. The text is cut to the API's limit of 200 characters."""
        await self.call("answerCallbackQuery", self._bot.answer_callback_query(callback_id, text[:200] or None))

    async def publish_commands(self, commands: Sequence[Command], locale: str | None, address: Address | None) -> None:
        """Set the command menu. address: the chat it is for; None: all chats."""
        menu = [(command.name, command.description[:256]) for command in commands]
        scope = None if address is None else telegram.BotCommandScopeChat(_chat(address))
        call = self._bot.set_my_commands(menu, scope=scope, language_code=_language(locale))
        await self.call("setMyCommands", call)

    async def describe(self, about: Mapping[str | None, About]) -> None:
        """Set the bot's descriptions. The default text is set last: if it exists, so do all others."""
        told = await self.call("getMyDescription", self._bot.get_my_description())
        short = await self.call("getMyShortDescription", self._bot.get_my_short_description())
        for locale, text in sorted(about.items(), key=lambda item: item[0] is None):
            language = _language(locale)
            if not told.description:
                set_it = self._bot.set_my_description(text.description[:512], language)
                await self.call("setMyDescription", set_it)
            if not short.short_description:
                set_short = self._bot.set_my_short_description(text.summary[:120], language)
                await self.call("setMyShortDescription", set_short)

    async def download(self, file_id: str, sink: Sink) -> None:
        """Stream a file into `sink`. Raises AttachmentFailed, Temporary and what the sink raises."""
        path = (await self.call("getFile", self._bot.get_file(file_id))).file_path
        if path is None:
            raise AttachmentFailed("Telegram returned no path for the file", "gone")
        root = f"{self._files}{HIDDEN_TOKEN}/"
        below = path.removeprefix(root)
        if not path.startswith(root) or below.startswith("/") or ".." in below.split("/"):
            raise AttachmentFailed("the file's path is not below the file server's root", "gone")
        url = self._network.url_of(f"{root}{quote(below)}")
        async with self._network.session(1) as session, download(session, url) as response:
            _check_download(response.status)
            await pour(response, sink)

    async def close(self) -> None:
        """Release all connections. Idempotent."""
        self._closed = True
        await self._requests.shutdown()
        await self._poll_requests.shutdown()

    def _clean(self, text: str) -> str:
        """One short line for logs, without the token, because a server might echo the request."""
        line = " ".join(text.split()).replace(self._token.get_secret_value(), "***")
        return line if len(line) <= 300 else line[:299] + "…"


def _check_download(status: int) -> None:
    if status == 200:
        return
    if status in (400, 403, 404, 410):
        raise AttachmentFailed(f"the file server returned {status}", "gone")
    raise Temporary(f"the file server returned {status}")


def _chat(address: Address) -> int | str:
    """The chat id as a number, or the name of a public chat ("@channel")."""
    number = address.chat.lstrip("-")
    return int(address.chat) if number.isascii() and number.isdigit() else address.chat


def _language(locale: str | None) -> str | None:
    """The two-letter language of a locale; the API supports no others."""
    return None if locale is None else locale.replace("_", "-").partition("-")[0].lower()


def _topic(address: Address) -> int | None:
    return None if address.topic is None else int(address.topic)


def _reply(message_id: str | None) -> telegram.ReplyParameters | None:
    """The message to reply to; it may have been deleted since."""
    if message_id is None:
        return None
    return telegram.ReplyParameters(int(message_id), allow_sending_without_reply=True)


def _field(reply_to: str | None) -> telegram.ForceReply:
    """Markup that opens the reply field; in a reply only the recipient's, so that no one else is disturbed."""
    return telegram.ForceReply(selective=reply_to is not None)


def _keyboard(part: TelegramPart) -> telegram.InlineKeyboardMarkup | None:
    if not part.keyboard:
        return None
    return telegram.InlineKeyboardMarkup(
        [[telegram.InlineKeyboardButton(label, callback_data=data) for label, data in row] for row in part.keyboard]
    )


def _entities(field: str, part: TelegramPart) -> dict[str, Any] | None:
    """The field for `api_kwargs`, as plain JSON: a MessageEntity takes 8 us, and each edit sends up to 94 of them."""
    return {field: [_entity(entity) for entity in part.entities]} if part.text and part.entities else None


def _entity(entity: Entity) -> dict[str, Any]:
    shown: dict[str, Any] = {"type": entity.type, "offset": entity.offset, "length": entity.length}
    if entity.url is not None:
        shown["url"] = entity.url
    if entity.language is not None:
        shown["language"] = entity.language
    return shown


@dataclass(frozen=True, slots=True)
class _Upload:
    """A file to send.

    view: the Bot API's term for how it is shown. name: shown to people; its extension determines the type.
    """

    view: str
    content: BinaryIO | bytes
    name: str


@contextlib.contextmanager
def _opened(file: TelegramFile, *, as_document: bool = False) -> Iterator[_Upload]:
    """The file ready to be sent. Raises Rejected if it is missing, not a regular file, empty or too large."""
    with contextlib.ExitStack() as stack:
        handle: BinaryIO | bytes
        if file.path is not None:
            handle = stack.enter_context(open_regular(file.path))
            size = os.fstat(handle.fileno()).st_size
        else:
            handle, size = file.content, len(file.content)
        if size > MAX_UPLOAD:
            raise Rejected(f"the file has {size} bytes; Telegram accepts at most {MAX_UPLOAD} from a bot")
        if size == 0:
            raise Rejected("the file is empty; Telegram does not accept empty files")
        yield _Upload("document" if as_document else _view(file, size), handle, file.name)


def _view(file: TelegramFile, size: int) -> str:
    """How a file is sent: as a document if no special view supports it."""
    if file.kind == "image" and file.mime_type in _PHOTO_TYPES and size <= MAX_PHOTO:
        return "photo"
    return file.kind if file.mime_type in _SPECIAL_VIEWS.get(file.kind, ()) else "document"
