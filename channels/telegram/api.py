"""The only file that touches python-telegram-bot, and the one place where its errors become channels.errors.

Answers stay plain JSON: building the SDK's objects costs time, and an update that it cannot build would be lost.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

import aiohttp
import telegram
from telegram.error import TelegramError

from channels.errors import AttachmentFailed, ChannelError, OutcomeUnknown, Temporary
from channels.telegram.failures import Refusal, sorted_out
from channels.telegram.network import HIDDEN_TOKEN, Network
from channels.telegram.request import ANSWER_SECONDS, Refused, Request, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from channels.base import Route, Sink
    from channels.telegram.config import TelegramConfig

CONNECTIONS = 64
UPLOAD_SECONDS = 300.0
DOWNLOAD_SECONDS = 180.0
PIECE = 256 * 1024
"""Bytes of a download that are handed on at once."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to send. field: the parameter's name; the name is what people see; its ending tells the type."""

    field: str
    content: BinaryIO | bytes
    name: str


class _RawBot(telegram.Bot):
    """The SDK's bot, giving answers as plain JSON."""

    async def raw(self, method: str, params: Mapping[str, Any], read_timeout: float = ANSWER_SECONDS) -> Any:
        # do_api_request is for methods that the SDK does not know and warns at all others; both end in _post.
        return await self._post(method, dict(params), read_timeout=read_timeout)


class TelegramApi:
    """Calls to one bot's API. All methods raise only ChannelError; no text of an error holds the token.

    A call is `repeatable` when doing it twice does no harm: then an unknown outcome is just Temporary.
    """

    def __init__(self, account: str, config: TelegramConfig, route: Callable[[str], Route]) -> None:
        self._account = account
        self._token = config.token
        self._root = config.base_url
        self._network = Network(config.base_url, config.token, route(config.base_url), account)
        self._requests = Request(self._network, CONNECTIONS)
        self._poll_requests = Request(self._network, 1)
        self._bot = _RawBot(
            HIDDEN_TOKEN,
            base_url=f"{self._root}/bot",
            base_file_url=f"{self._root}/file/bot",
            request=self._requests,
            get_updates_request=self._poll_requests,
        )
        self._closed = False

    async def call(self, method: str, params: Mapping[str, Any], *, repeatable: bool = True) -> Any:
        """Call `method`, return its result."""
        self._check_open()
        return await self._guarded(method, self._bot.raw(method, params), repeatable)

    async def upload(self, method: str, params: Mapping[str, Any], file: Upload) -> Any:
        """Send a message with a file; not repeatable."""
        self._check_open()
        content = telegram.InputFile(file.content, filename=file.name, read_file_handle=False)
        call = self._bot.raw(method, {**params, file.field: content}, read_timeout=UPLOAD_SECONDS)
        return await self._guarded(method, call, repeatable=False)

    async def poll(self, offset: int | None, timeout: int, allowed: Sequence[str], grace: float) -> list[Any]:
        """The next updates as they came. Raises Temporary if nothing was answered within timeout + grace seconds."""
        self._check_open()
        params = {"offset": offset, "timeout": timeout, "limit": 100, "allowed_updates": list(allowed)}
        # Our own deadline comes first.
        call = self._bot.raw("getUpdates", params, read_timeout=timeout + 2 * grace)
        try:
            async with asyncio.timeout(timeout + grace):
                updates = await self._guarded("getUpdates", call, repeatable=True)
        except TimeoutError:
            # A new connection for the next poll: this one may be dead without knowing it.
            await self._poll_requests.shutdown()
            raise Temporary(f"no answer to the long poll within {timeout + grace:.0f} s") from None
        if not isinstance(updates, list):
            raise Temporary("getUpdates answered something else than a list")
        return updates

    async def download(self, file_path: str, sink: Sink) -> None:
        """Stream a file into `sink`. Raises AttachmentFailed("gone"), Temporary and what the sink raises."""
        if file_path.startswith("/") or ".." in file_path.split("/"):
            raise AttachmentFailed("the file's path is not one below the file server's root", "gone")
        self._check_open()
        url = f"{self._root}/file/bot{HIDDEN_TOKEN}/{quote(file_path)}"
        try:
            async with (
                asyncio.timeout(DOWNLOAD_SECONDS),
                self._network.session(1) as session,
                session.get(
                    self._network.url_of(url), headers={"Accept-Encoding": "identity"}, allow_redirects=False
                ) as response,
            ):
                _check_download(response.status)
                async for piece in response.content.iter_chunked(PIECE):
                    await sink.write(piece)
        except TimeoutError:
            raise Temporary(f"the download took longer than {DOWNLOAD_SECONDS:.0f} s") from None
        except aiohttp.ClientError as error:
            # Not `from error`: its text may hold the URL.
            raise Temporary(f"the download broke off ({type(error).__name__})") from None

    async def close(self) -> None:
        """Release all connections. Idempotent."""
        self._closed = True
        await self._requests.shutdown()
        await self._poll_requests.shutdown()

    def _check_open(self) -> None:
        if self._closed:
            raise Temporary("the account's connections are closed")

    async def _guarded(self, method: str, call: Any, repeatable: bool) -> Any:
        try:
            return await call
        except Refused as refused:
            raise sorted_out(method, self._clean(refused.refusal), repeatable, self._account) from None
        except TelegramError as error:
            raise _broken(method, error, repeatable) from None

    def _clean(self, refusal: Refusal) -> Refusal:
        """One short line for logs; a server might echo what it was asked."""
        line = " ".join(refusal.description.split()).replace(self._token.get_secret_value(), "***")
        return replace(refusal, description=line if len(line) <= 300 else line[:299] + "…")


def _broken(method: str, error: TelegramError, repeatable: bool) -> ChannelError:
    """No readable answer. Only what failed before the request was written is known to have changed nothing."""
    if repeatable or (isinstance(error, Unanswered) and not error.sent):
        return Temporary(f"{method}: {error}")
    return OutcomeUnknown(f"{method}: {error}")


def _check_download(status: int) -> None:
    if status == 200:
        return
    if status in (400, 403, 404, 410):
        raise AttachmentFailed(f"the file server answered {status}", "gone")
    raise Temporary(f"the file server answered {status}")
