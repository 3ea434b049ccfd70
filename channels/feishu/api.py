"""The calls to one app's open platform, and the one place where failures of the wire become channels.errors.

Plain JSON over one HTTP session: the official SDK makes a client per call and fetches tokens synchronously, see
docs/decisions/0006-feishu-connection.md.
"""

from __future__ import annotations

import json
import os
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import aiohttp

from channels.errors import AttachmentFailed, ChannelError, OutcomeUnknown, Permanent, Temporary
from channels.feishu.failures import Refusal, StaleToken, bad_credential, read_refusal, sorted_out
from channels.feishu.network import Network
from channels.feishu.request import ANSWER_SECONDS, CONNECT_SECONDS, Answer, Unanswered, ask
from channels.feishu.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import BinaryIO

    from channels.base import Clock, Route, Sink
    from channels.feishu.config import FeishuConfig

UPLOAD_SECONDS = 300.0
DOWNLOAD_SECONDS = 180.0
PIECE = 256 * 1024
"""Bytes of a download that are handed on at once."""

_CLOCKS_DIFFER = 2.0
"""Seconds, where the platform does not tell its time."""

Json = dict[str, Any]


class FeishuApi:
    """All methods raise only ChannelError; no text of an error holds the secret or a token."""

    def __init__(self, account: str, config: FeishuConfig, route: Callable[[str], Route], clock: Clock) -> None:
        self._account = account
        self._config = config
        self._clock = clock
        self.network = Network(account, config.root, route)
        self._tokens = Tokens(self._fetch_token, clock)

    async def call(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, str] | None = None,
        form: Callable[[], aiohttp.FormData] | None = None,
        seconds: float = ANSWER_SECONDS,
        repeatable: bool = True,
    ) -> Json:
        """Call `path` below /open-apis, return the answer's body.

        A call is `repeatable` when doing it twice does no harm: then an unknown outcome is just Temporary.
        """
        answer = await self._called(
            method, path, json=json, params=params, form=form, seconds=seconds, repeatable=repeatable
        )
        return _body(f"{method} {path}", answer)

    async def dated_call(self, method: str, path: str, *, json: Any) -> tuple[Json, float]:
        """A repeatable call; the answer's body and the platform's time of it (unix seconds, rounded down)."""
        answer = await self._called(method, path, json=json)
        try:
            date = parsedate_to_datetime(answer.headers.get("date", "")).timestamp()
        except ValueError:
            date = self._clock.now().timestamp() - _CLOCKS_DIFFER
        return _body(f"{method} {path}", answer), date

    async def _called(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, str] | None = None,
        form: Callable[[], aiohttp.FormData] | None = None,
        seconds: float = ANSWER_SECONDS,
        repeatable: bool = True,
    ) -> Answer:
        what = f"{method} {path}"
        for again in (True, False):
            token = await self._tokens.get()
            answer = await self._asked(
                what,
                repeatable,
                method,
                f"{self._config.root}/open-apis/{path}",
                token=token,
                json=json,
                params=params,
                form=None if form is None else form(),
                seconds=seconds,
            )
            refusal = read_refusal(answer.status, answer.payload, answer.headers)
            if refusal is None:
                return answer
            error = sorted_out(what, self._clean(refusal), repeatable, self._account)
            if not (isinstance(error, StaleToken) and again):
                raise error
            self._tokens.drop(token)
        raise AssertionError("the second answer returns or raises")

    async def bot_info(self) -> Json:
        """{open_id, app_name, ...} of the app's bot (GET bot/v3/info)."""
        answer = await self.call("GET", "bot/v3/info")
        bot = answer.get("bot")
        if not isinstance(bot, dict) or not isinstance(bot.get("open_id"), str):
            raise Temporary("bot/v3/info did not say who the bot is")
        return bot

    async def socket_url(self) -> Json:
        """{URL, ClientConfig} of a new long connection. The secret goes in the body, as the SDK sends it."""
        what = "POST callback/ws/endpoint"
        body = {"AppID": self._config.app_id, "AppSecret": self._config.app_secret.get_secret_value()}
        answer = await self._asked(what, True, "POST", f"{self._config.root}/callback/ws/endpoint", json=body)
        refusal = read_refusal(answer.status, answer.payload, answer.headers)
        if refusal is not None:
            raise self._endpoint_refused(what, refusal)
        data = _body(what, answer).get("data")
        if not isinstance(data, dict) or not isinstance(data.get("URL"), str):
            raise Temporary(f"{what}: the answer names no URL")
        return data

    async def upload(self, path: str, fields: Mapping[str, str], field: str, content: BinaryIO, name: str) -> Json:
        """Upload an open file, return the answer's body. Repeatable: a key that is not used disturbs nobody."""

        def form() -> aiohttp.FormData:
            made = aiohttp.FormData(quote_fields=False, default_to_multipart=True)
            for key, value in fields.items():
                made.add_field(key, value)
            again = os.fdopen(os.dup(content.fileno()), "rb")  # the session closes what it was handed
            again.seek(0)
            made.add_field(field, again, filename=name, content_type="application/octet-stream")
            return made

        return await self.call("POST", path, form=form, seconds=UPLOAD_SECONDS)

    async def download(self, message_id: str, key: str, kind: str, sink: Sink) -> None:
        """Stream a file of a message into `sink`. Raises AttachmentFailed, Temporary and what the sink raises."""
        path = f"im/v1/messages/{quote(message_id, safe='')}/resources/{quote(key, safe='')}"
        url = f"{self._config.root}/open-apis/{path}"
        for again in (True, False):
            token = await self._tokens.get()
            try:
                await self._stream(url, kind, token, sink)
                return
            except StaleToken:
                if not again:
                    raise
                self._tokens.drop(token)

    async def close(self) -> None:
        """Release all connections. Idempotent."""
        await self.network.close()

    async def _stream(self, url: str, kind: str, token: str, sink: Sink) -> None:
        self._check_open()
        timeout = aiohttp.ClientTimeout(total=DOWNLOAD_SECONDS, connect=CONNECT_SECONDS)
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
        try:
            async with self.network.session().get(
                url,
                params={"type": kind},
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                proxy=self.network.proxy_for(url),
            ) as response:
                if response.status != 200 or response.content_type == "application/json":
                    await self._refuse_download(response)
                async for piece in response.content.iter_chunked(PIECE):
                    await sink.write(piece)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Temporary(f"the download broke off ({type(error).__name__})") from None

    async def _refuse_download(self, response: aiohttp.ClientResponse) -> None:
        """Raises what the answer means; returns when it is a file that just happens to be JSON."""
        if response.status == 200 and "Content-Disposition" in response.headers:
            return
        payload = await response.content.read(64 * 1024)
        headers = {name.lower(): value for name, value in response.headers.items()}
        refusal = read_refusal(response.status, payload, headers) or Refusal(
            response.status, response.status, "", headers
        )
        error = sorted_out("download", self._clean(refusal), True, self._account)
        if isinstance(error, Permanent):
            raise AttachmentFailed(str(error), "gone")
        raise error

    async def _fetch_token(self) -> tuple[str, float]:
        what = "POST auth/v3/tenant_access_token/internal"
        body = {"app_id": self._config.app_id, "app_secret": self._config.app_secret.get_secret_value()}
        url = f"{self._config.root}/open-apis/auth/v3/tenant_access_token/internal"
        answer = await self._asked(what, True, "POST", url, json=body)
        refusal = read_refusal(answer.status, answer.payload, answer.headers)
        if refusal is not None:
            raise sorted_out(what, self._clean(refusal), True, self._account)
        match _body(what, answer):
            case {"tenant_access_token": str(token), "expire": int(seconds)} if token:
                return token, float(seconds)
        raise Temporary(f"{what}: the answer holds no token")

    def _endpoint_refused(self, what: str, refusal: Refusal) -> ChannelError:
        clean = self._clean(refusal)
        text = f"{what}: {clean.message or 'no message'} ({clean.code})"
        if refusal.code in (403, 514):
            return bad_credential(text, self._account)
        error = sorted_out(what, clean, True, self._account)
        return Temporary(text) if isinstance(error, Permanent) else error

    async def _asked(self, what: str, repeatable: bool, method: str, url: str, **more: Any) -> Answer:
        self._check_open()
        try:
            return await ask(self.network, method, url, **more)
        except Unanswered as error:
            # Only what failed before the request was written is known to have changed nothing.
            unknown = error.sent and not repeatable
            text = f"{what}: no answer ({error})"
            raise (OutcomeUnknown(text) if unknown else Temporary(text)) from None

    def _check_open(self) -> None:
        if self.network.closed:
            raise Temporary("the account's connections are closed")

    def _clean(self, refusal: Refusal) -> Refusal:
        """One short line for logs; a server might echo what it was asked."""
        line = " ".join(refusal.message.split()).replace(self._config.app_secret.get_secret_value(), "***")
        short = line if len(line) <= 400 else line[:399] + "…"
        return Refusal(refusal.status, refusal.code, short, refusal.headers)


def _body(what: str, answer: Answer) -> Json:
    body = json.loads(answer.payload)  # read before, when it was checked for a refusal
    if not isinstance(body, dict):
        raise Temporary(f"{what}: the answer is not an object")
    return body
