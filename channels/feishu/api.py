"""The calls to one app's open platform, and the one place that translates network failures into channels.errors.

A call is an SDK request sent through Antler's own HTTP session: the SDK creates an HTTP client for each call and
fetches tokens synchronously, see docs/decisions/0006-feishu-connection.md.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import aiohttp

from channels.errors import ChannelError, OutcomeUnknown, Permanent, Temporary
from channels.feishu.failures import Refusal, StaleToken, bad_credential, read_refusal, refused_download, sorted_out
from channels.feishu.sdk import JSON, BaseRequest, HttpMethod, build, const
from channels.network import CONNECT_SECONDS, NOT_SENT, download, http_session, pour, tls_context, usable_proxy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from channels.base import Clock, Route, Sink
    from channels.feishu.config import FeishuConfig

CONNECTIONS = 64
ANSWER_SECONDS = 30.0
"""Longest wait for the complete answer, once connected."""
UPLOAD_SECONDS = 300.0
EARLY_SECONDS = 600.0
"""Time before expiry at which a token is renewed; the platform issues a new one in its last 30 minutes."""

_WHOLE_SECOND = 1.0
"""Resolution of the platform's time in seconds."""
_CLOCKS_DIFFER = 2.0
"""Assumed clock difference in seconds, for answers without the platform's time."""
_PATH_FIELD = re.compile(r":(\w+)")
_PREFIX = "/open-apis/"
_GRANTED = 1

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """The platform's answer to the call `what`. headers: names in lower case."""

    what: str
    status: int
    headers: Mapping[str, str]
    payload: bytes

    def body(self) -> Json:
        """The answer's JSON object, in which "data" is an object too. Raises Temporary for anything else."""
        body = json.loads(self.payload)  # valid JSON: it was already parsed when checked for a refusal
        if not isinstance(body, dict):
            raise Temporary(f"{self.what}: the response is not an object")
        data = body.get("data")
        return {**body, "data": data if isinstance(data, dict) else {}}


class Network:
    """The app's HTTP session for calls and the websocket. Raises Fatal when the configured route is unusable.

    The session is created at the first use, because it needs a running loop.
    """

    def __init__(self, account: str, root: str, route: Callable[[str], Route]) -> None:
        self._account = account
        self._route = route
        # One trust store for all hosts of the platform: the socket's host is only known once it is connected.
        self._context = tls_context(route(root), account)
        self.proxy_for(root)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    def session(self) -> aiohttp.ClientSession:
        """The HTTP session. Raises Temporary once it is closed."""
        if self._closed:
            raise Temporary("the account's connections are closed")
        if self._session is None:
            self._session = http_session(CONNECTIONS, self._context)
        return self._session

    def proxy_for(self, url: str) -> str | None:
        """The proxy for a URL of the platform; a websocket URL is treated like an HTTP one."""
        asked = url.replace("ws", "http", 1) if url.startswith("ws") else url
        return usable_proxy(self._route(asked), self._account)

    async def close(self) -> None:
        """Close the session. Idempotent."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class Tokens:
    """The app's tenant access token: fetched when needed, renewed early, dropped when the platform refuses it.

    fetch: requests (token, seconds that it is valid) from the platform. One fetch at a time serves all waiting callers.
    """

    def __init__(self, fetch: Callable[[], Awaitable[tuple[str, float]]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._token = ""
        self._renew_at = 0.0
        self._fetching = asyncio.Lock()

    async def get(self) -> str:
        """A valid token. Raises what `fetch` raises."""
        if not self._fresh():
            async with self._fetching:
                if not self._fresh():
                    token, seconds = await self._fetch()
                    self._token = token
                    self._renew_at = self._clock.monotonic() + max(seconds - EARLY_SECONDS, seconds / 2)
        return self._token

    def drop(self, token: str) -> None:
        """Drop a token that was refused; a newer one stays."""
        if token == self._token:
            self._token = ""

    def _fresh(self) -> bool:
        return bool(self._token) and self._clock.monotonic() < self._renew_at


class FeishuApi:
    """Client of one app. All methods raise only ChannelError; no error text contains the secret or a token.

    Requests are created with `sdk.build`.
    """

    def __init__(self, account: str, config: FeishuConfig, route: Callable[[str], Route], clock: Clock) -> None:
        self._account = account
        self._config = config
        self._clock = clock
        self.network = Network(account, config.root, route)
        self._tokens = Tokens(self._fetch_token, clock)
        self._answered_at: float | None = None
        """Monotonic time of the platform's first answer."""

    async def call(self, request: BaseRequest, *, repeatable: bool = True) -> Json:
        """Make a call and return the answer's body.

        A call is `repeatable` if making it twice does no harm: then an unknown outcome is only Temporary.
        """
        return (await self._call(request, repeatable=repeatable)).body()

    async def dated_call(self, request: BaseRequest) -> tuple[Json, float]:
        """Make a repeatable call; return the answer's body and its time on the platform (unix seconds, rounded down).

        The call waits until that time, although rounded down, is later than everything earlier processes sent.
        """
        await self._tokens.get()
        assert self._answered_at is not None, "the platform has issued a token"
        early = self._answered_at + _WHOLE_SECOND - self._clock.monotonic()
        if early > 0:
            await self._clock.sleep(early)
        answer = await self._call(request)
        try:
            date = parsedate_to_datetime(answer.headers.get("date", "")).timestamp()
        except ValueError:
            date = self._clock.now().timestamp() - _CLOCKS_DIFFER
        return answer.body(), date

    async def upload(self, request: BaseRequest, name: str) -> Json:
        """Upload the open file that is a field of the request's body and return the answer's body.

        Repeatable: an unused file key does no harm.
        """
        return (await self._call(request, name=name, seconds=UPLOAD_SECONDS)).body()

    async def bot_info(self) -> Json:
        """{open_id, app_name, ...} of the app's bot (GET bot/v3/info)."""
        answer = await self.call(build(BaseRequest, http_method=HttpMethod.GET, uri=f"{_PREFIX}bot/v3/info"))
        bot = answer.get("bot")
        if not isinstance(bot, dict) or not isinstance(bot.get("open_id"), str):
            raise Temporary("bot/v3/info did not identify the bot")
        return bot

    async def granted_scopes(self) -> frozenset[str]:
        """The names of the scopes that the app was granted (GET application/v6/scopes, which itself needs none)."""
        uri = f"{_PREFIX}application/v6/scopes"
        answer = await self.call(build(BaseRequest, http_method=HttpMethod.GET, uri=uri))
        match answer:
            case {"data": {"scopes": list(scopes)}}:
                granted = [
                    scope for scope in scopes if isinstance(scope, dict) and scope.get("grant_status") == _GRANTED
                ]
                return frozenset(str(scope.get("scope_name")) for scope in granted)
        raise Temporary("application/v6/scopes returned no list of scopes")

    async def socket_url(self) -> Json:
        """{URL, ClientConfig} of a new long connection. The secret is sent in the body, as in the SDK."""
        body = {"AppID": self._config.app_id, "AppSecret": self._config.app_secret.get_secret_value()}
        answer = await self._send(
            build(BaseRequest, http_method=HttpMethod.POST, uri=const.GEN_ENDPOINT_URI, body=body)
        )
        refusal = read_refusal(answer.status, answer.payload, answer.headers)
        if refusal is not None:
            raise self._endpoint_refused(answer.what, refusal)
        data: Json = answer.body()["data"]
        if not isinstance(data.get("URL"), str):
            raise Temporary(f"{answer.what}: the response contains no URL")
        return data

    async def download(self, request: BaseRequest, sink: Sink) -> None:
        """Stream a file into `sink`. Raises AttachmentFailed, NotAllowed, Temporary and what the sink raises."""
        for again in (True, False):
            token = await self._tokens.get()
            try:
                await self._stream(request, token, sink)
                return
            except StaleToken:
                if not again:
                    raise
                self._tokens.drop(token)

    async def close(self) -> None:
        """Release all connections. Idempotent."""
        await self.network.close()

    async def _call(
        self, request: BaseRequest, *, repeatable: bool = True, name: str | None = None, seconds: float = ANSWER_SECONDS
    ) -> Answer:
        for again in (True, False):
            token = await self._tokens.get()
            answer = await self._send(request, token=token, repeatable=repeatable, name=name, seconds=seconds)
            refusal = read_refusal(answer.status, answer.payload, answer.headers)
            if refusal is None:
                return answer
            error = sorted_out(answer.what, self._clean(refusal), repeatable, self._account)
            if not (isinstance(error, StaleToken) and again):
                raise error
            self._tokens.drop(token)
        raise AssertionError("the second attempt returns or raises")

    async def _send(
        self,
        request: BaseRequest,
        *,
        token: str = "",
        repeatable: bool = True,
        name: str | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> Answer:
        """Send a request; return any answer. name: of the file in its body, if any. seconds: for the whole answer."""
        method, path = request.http_method.name, _path(request)
        what, url = f"{method} {path.removeprefix(_PREFIX).lstrip('/')}", self._config.root + path
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        data: aiohttp.FormData | bytes | None = None
        if name is not None:
            data = _form(request.body, name)
        elif request.body is not None:
            headers["Content-Type"] = "application/json; charset=utf-8"
            data = JSON.marshal(request.body).encode()
        try:
            async with self.network.session().request(
                method,
                url,
                params=request.queries,
                data=data,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=CONNECT_SECONDS + seconds, connect=CONNECT_SECONDS),
                allow_redirects=False,
                proxy=self.network.proxy_for(url),
            ) as response:
                answer = Answer(what, response.status, _lowered(response.headers), await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # Only a call that failed before its request was written is known to have changed nothing.
            unknown = not isinstance(error, NOT_SENT) and not repeatable
            text = f"{what}: no response ({type(error).__name__})"
            raise (OutcomeUnknown(text) if unknown else Temporary(text)) from None
        if self._answered_at is None:
            self._answered_at = self._clock.monotonic()
        return answer

    async def _stream(self, request: BaseRequest, token: str, sink: Sink) -> None:
        url = self._config.root + _path(request)
        headers = {"Authorization": f"Bearer {token}"}
        async with download(
            self.network.session(), url, headers=headers, params=request.queries, proxy=self.network.proxy_for(url)
        ) as response:
            if response.status != 200 or response.content_type == "application/json":
                await self._refuse_download(response)
            await pour(response, sink)

    async def _refuse_download(self, response: aiohttp.ClientResponse) -> None:
        """Raise the error that the answer reports; return if it is a file that just happens to be JSON."""
        if response.status == 200 and "Content-Disposition" in response.headers:
            return
        payload = await response.content.read(64 * 1024)
        headers = _lowered(response.headers)
        refusal = read_refusal(response.status, payload, headers) or Refusal(
            response.status, response.status, "", headers
        )
        raise refused_download(self._clean(refusal), self._account)

    async def _fetch_token(self) -> tuple[str, float]:
        body = {"app_id": self._config.app_id, "app_secret": self._config.app_secret.get_secret_value()}
        uri = f"{_PREFIX}auth/v3/tenant_access_token/internal"
        answer = await self._send(build(BaseRequest, http_method=HttpMethod.POST, uri=uri, body=body))
        refusal = read_refusal(answer.status, answer.payload, answer.headers)
        if refusal is not None:
            raise sorted_out(answer.what, self._clean(refusal), True, self._account)
        match answer.body():
            case {"tenant_access_token": str(token), "expire": int(seconds)} if token:
                return token, float(seconds)
        raise Temporary(f"{answer.what}: the response contains no token")

    def _endpoint_refused(self, what: str, refusal: Refusal) -> ChannelError:
        clean = self._clean(refusal)
        text = f"{what}: {clean.message or 'no message'} ({clean.code})"
        if refusal.code in (const.FORBIDDEN, const.AUTH_FAILED):
            return bad_credential(text, self._account)
        error = sorted_out(what, clean, True, self._account)
        return Temporary(text) if isinstance(error, Permanent) else error

    def _clean(self, refusal: Refusal) -> Refusal:
        """The refusal with one short line for logs, without the secret, because a server might echo the request."""
        line = " ".join(refusal.message.split()).replace(self._config.app_secret.get_secret_value(), "***")
        short = line if len(line) <= 400 else line[:399] + "…"
        return Refusal(refusal.status, refusal.code, short, refusal.headers)


def _path(request: BaseRequest) -> str:
    """The request's path with its placeholders filled in."""
    path: str = _PATH_FIELD.sub(lambda found: quote(request.paths[found[1]], safe=""), request.uri)
    return path


def _form(body: Any, name: str) -> aiohttp.FormData:
    """The form for a body that contains an open file; the file is shown as `name`."""
    form = aiohttp.FormData(quote_fields=False, default_to_multipart=True)
    for field, value in vars(body).items():
        if isinstance(value, io.IOBase):
            again = os.fdopen(os.dup(value.fileno()), "rb")  # the session closes the file it is given
            again.seek(0)
            form.add_field(field, again, filename=name, content_type="application/octet-stream")
        elif value is not None:
            form.add_field(field, str(value))
    return form


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
