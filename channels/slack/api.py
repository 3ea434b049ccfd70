"""Calls to Slack's Web API and its file servers: every error becomes one of channels.errors, no call is repeated.

Proxy and CAs are the configured ones, the environment is ignored. Slack's API, files and sockets are on different
hosts, each with its own route.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from channels.errors import AttachmentFailed, ChannelError, OutcomeUnknown, Rejected, Temporary
from channels.network import CONNECT_SECONDS, NOT_SENT, download, http_session, pour, tls_context, usable_proxy
from channels.slack.failures import DEFAULT_RETRY, Refusal, missing_scope, sorted_out

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Mapping

    from channels.base import Route, Sink
    from channels.slack.config import SlackConfig

CONNECTIONS = 64
ANSWER_SECONDS = 30.0
UPLOAD_SECONDS = 300.0
PAGE = 200
"""Messages requested per call."""
MOST_PAGES = 5
_JSON_METHODS = ("chat.", "assistant.")
"""Prefixes of methods that accept JSON; the others are documented to accept only forms."""
_APP_TOKEN = re.compile(r"xapp-\d+-(A[A-Z0-9]+)-")
_SLACK_DOMAINS = (".slack.com", ".slack-gov.com", ".slack-files.com", ".slack-edge.com")
# ValueError: an answer that cannot be decoded. AttributeError: the SDK treats plain text as an object.
_UNREADABLE = (aiohttp.ClientError, TimeoutError, OSError, ValueError, AttributeError)


class TooMuch(Exception):
    """More messages exist than were read."""


class Network:
    """Proxies and trusted CAs of one account. Raises Fatal when a route is unusable."""

    def __init__(self, base_url: str, route: Callable[[str], Route], account: str) -> None:
        self._base = urlsplit(base_url)
        self._route = route
        self._account = account
        self._proxy_to = lru_cache(maxsize=64)(self._checked_proxy)
        own = route(base_url)
        self.context: ssl.SSLContext | None = None
        """None if the Web API is plain HTTP and no CA is configured, which happens only in tests."""
        if self._base.scheme == "https" or own.ca_file is not None:
            self.context = tls_context(own, account)
        self.proxy(base_url)

    def session(self) -> aiohttp.ClientSession:
        """Create a session for everything except the socket; needs a running loop."""
        timeout = aiohttp.ClientTimeout(total=CONNECT_SECONDS + ANSWER_SECONDS, connect=CONNECT_SECONDS)
        return http_session(CONNECTIONS, self.context, timeout=timeout)

    def proxy(self, url: str) -> str | None:
        """The proxy for a URL, None for a direct connection."""
        parts = urlsplit(url)
        # A websocket is routed like an HTTP URL of the same host.
        scheme = parts.scheme.replace("ws", "http", 1) if parts.scheme.startswith("ws") else parts.scheme
        return self._proxy_to(f"{scheme}://{parts.netloc}/")

    def is_trusted(self, url: str) -> bool:
        """Whether the bot's token may be sent to a URL: Slack's own hosts and the configured one."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        if (parts.scheme, host, parts.port) == (self._base.scheme, self._base.hostname, self._base.port):
            return True
        return parts.scheme == "https" and f".{host}".endswith(_SLACK_DOMAINS)

    def _checked_proxy(self, url: str) -> str | None:
        return usable_proxy(self._route(url), self._account)


class SlackApi:
    """One app in one workspace. All methods raise only ChannelError; no error text contains a token.

    A call is `repeatable` if making it twice does no harm: then an unknown outcome is only Temporary.
    """

    def __init__(self, account: str, config: SlackConfig, route: Callable[[str], Route], log: logging.Logger) -> None:
        self._account = account
        self._config = config
        self.network = Network(config.base_url, route, account)
        # The SDK logs whole requests and tracebacks with secret URLs; the adapter logs what matters.
        self.sdk_log = log.getChild(f"{account}.slack_sdk")
        self.sdk_log.setLevel(logging.CRITICAL)
        self._client: AsyncWebClient | None = None
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        found = _APP_TOKEN.match(config.app_token.get_secret_value())
        self.app_id = found[1] if found else ""
        """The id of the app token's app if the token contains it, else ""."""
        self.scopes: frozenset[str] | None = None
        """The bot token's scopes as reported by the last auth.test; None before."""

    @property
    def client(self) -> AsyncWebClient:
        """The SDK's client, for the socket; needs a running loop."""
        self._check_open()
        if self._client is None:
            self._session = self.network.session()
            self._client = AsyncWebClient(
                token=self._config.bot_token.get_secret_value(),
                base_url=self._config.base_url,
                ssl=self.network.context,
                session=self._session,
                logger=self.sdk_log,
                retry_handlers=[],
            )
            # Without one the SDK uses the environment's proxy.
            self._client.proxy = self.network.proxy(self._config.base_url)
        return self._client

    async def call(self, method: str, params: Mapping[str, Any], *, repeatable: bool = True) -> dict[str, Any]:
        """Call a method with the bot token and return its answer."""
        body = {"json": dict(params)} if method.startswith(_JSON_METHODS) else {"data": dict(params)}
        answer = await self._guarded(method, body, repeatable, "bot_token")
        if method == "auth.test":
            scopes = str(answer.headers.get("x-oauth-scopes", ""))
            self.scopes = frozenset(scope.strip() for scope in scopes.split(",") if scope.strip())
        return _object(method, answer.data)

    async def open_connection(self) -> str:
        """Request a socket's URL (apps.connections.open with the app token); it works once, and is secret."""
        headers = {"Authorization": f"Bearer {self._config.app_token.get_secret_value()}"}
        answer = await self._guarded("apps.connections.open", {"data": {}, "headers": headers}, True, "app_token")
        url = _object("apps.connections.open", answer.data).get("url")
        if not isinstance(url, str):
            raise Temporary("apps.connections.open returned no URL")
        return url

    async def count_sockets(self) -> int:
        """Open a socket and close it at its greeting: the number of open sockets of the app, including this one.

        Anything Slack sends on it is not acknowledged, so it is sent again. Raises ChannelError.
        """
        url = await self.open_connection()
        session, proxy = self._open_session(), self.network.proxy(url)
        timeout = aiohttp.ClientWSTimeout(ws_receive=ANSWER_SECONDS, ws_close=CONNECT_SECONDS)
        try:
            async with session.ws_connect(url, proxy=proxy, timeout=timeout) as socket:
                greeting = await socket.receive_json()
        except (*_UNREADABLE, TypeError) as error:  # without its text: the URL is secret
            raise Temporary(f"the socket was not opened ({type(error).__name__})") from None
        match greeting:
            case {"type": "hello", "num_connections": int(sockets)}:
                return sockets
        raise Temporary("the socket sent no greeting")

    async def page(self, channel: str, *, latest: str) -> list[dict[str, Any]]:
        """Return the newest messages of a channel up to `latest`, at most PAGE. Raises ChannelError."""
        params = {"channel": channel, "limit": str(PAGE), "latest": latest, "inclusive": "true"}
        return _messages(await self.call("conversations.history", params))

    async def messages(
        self, channel: str, thread: str | None, oldest: str | None, *, metadata: bool = False
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the messages after `oldest`: of a thread from its beginning on, of a channel from its end backward.

        Raises ChannelError, and TooMuch at the end if there are more than MOST_PAGES pages.
        """
        method = "conversations.history" if thread is None else "conversations.replies"
        params = {"channel": channel, "limit": str(PAGE)}
        if thread is not None:
            params["ts"] = thread
        if oldest is not None:
            params["oldest"] = oldest
        if metadata:
            params["include_all_metadata"] = "true"
        for _ in range(MOST_PAGES):
            answer = await self.call(method, params)
            for message in _messages(answer):
                yield message
            match answer:
                case {"has_more": True, "response_metadata": {"next_cursor": str(cursor)}} if cursor:
                    params["cursor"] = cursor
                case _:
                    return
        raise TooMuch

    async def upload(self, url: str, content: BinaryIO) -> None:
        """Upload a file's bytes to the URL from files.getUploadURLExternal. Repeatable: they are not visible yet."""
        self._check_trusted(url)
        session, proxy = self._open_session(), self.network.proxy(url)
        try:
            async with session.post(
                url, data=content, proxy=proxy, allow_redirects=False, timeout=aiohttp.ClientTimeout(UPLOAD_SECONDS)
            ) as response:
                status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # Not `from error`: its text may contain the URL.
            raise Temporary(f"the upload was interrupted ({type(error).__name__})") from None
        if status >= 500:
            raise Temporary(f"the file server returned {status}")
        if status != 200:
            raise Rejected(f"the file server returned {status}")

    async def download(self, url: str, sink: Sink, *, html: bool) -> None:
        """Stream a file into `sink`. html: the file itself is an HTML page, so a page does not mean a refusal.

        Raises AttachmentFailed("gone"), NotAllowed, Temporary and what the sink raises.
        """
        self._check_trusted(url)
        headers = {"Authorization": f"Bearer {self._config.bot_token.get_secret_value()}"}
        session, proxy = self._open_session(), self.network.proxy(url)
        async with download(session, url, headers=headers, proxy=proxy) as response:
            self._check_download(response.status, response.content_type, html)
            await pour(response, sink)

    async def close(self) -> None:
        """Release all connections. Idempotent."""
        self._closed = True
        session, self._session, self._client = self._session, None, None
        if session is not None:
            await session.close()

    def _check_download(self, status: int, content_type: str, html: bool) -> None:
        """Raise if the answer is not a file: a bot without access gets the login page, as 200 or by a redirect."""
        if status == 200 and (html or content_type != "text/html"):
            return
        if status == 200 or 300 <= status < 400 or status in (401, 403):
            text = "Slack returned its login page instead of the file"
            if "files:read" in (self.scopes or ()):
                raise AttachmentFailed(text, "gone")
            raise missing_scope(text, "files:read", f"channels.{self._account}.bot_token")
        if status in (404, 410):
            raise AttachmentFailed(f"the file server returned {status}", "gone")
        raise Temporary(f"the file server returned {status}")

    async def _guarded(self, method: str, body: dict[str, Any], repeatable: bool, token: str) -> Any:
        client = self.client
        try:
            return await client.api_call(method, **body)
        except SlackApiError as error:
            raise sorted_out(method, _refusal(error), repeatable, f"channels.{self._account}.{token}") from None
        except _UNREADABLE as error:
            raise _broken(method, error, repeatable) from None

    def _open_session(self) -> aiohttp.ClientSession:
        assert self.client is not None
        assert self._session is not None
        return self._session

    def _check_open(self) -> None:
        if self._closed:
            raise Temporary("the account's connections are closed")

    def _check_trusted(self, url: str) -> None:
        if not self.network.is_trusted(url):
            raise AttachmentFailed("the file is not on a Slack server", "gone")


def _refusal(error: SlackApiError) -> Refusal:
    response = error.response
    # If the body is not JSON, the SDK passes aiohttp's response, which has a different name for its status.
    status = getattr(response, "status_code", None) or getattr(response, "status", 0)
    data = getattr(response, "data", None)
    fields = data if isinstance(data, dict) else {}
    said = str(response.headers.get("Retry-After", ""))
    return Refusal(
        status if isinstance(status, int) else 0,
        str(fields.get("error", "")),
        fields,
        float(said) if said.isdecimal() else (DEFAULT_RETRY if status == 429 else None),
    )


def _broken(method: str, error: Exception, repeatable: bool) -> ChannelError:
    """Return the error for a call without a readable answer: it may have been applied if its request was written."""
    if repeatable or isinstance(error, NOT_SENT):
        return Temporary(f"{method}: {type(error).__name__}")
    return OutcomeUnknown(f"{method}: {type(error).__name__}")


def _object(method: str, data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise Temporary(f"{method} did not return an object")
    return data


def _messages(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = answer.get("messages")
    return [message for message in found if isinstance(message, dict)] if isinstance(found, list) else []
