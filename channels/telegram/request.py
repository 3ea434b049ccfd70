"""The SDK's HTTP layer on aiohttp, which takes a tenth of the CPU of the SDK's own.

The Bot API has the token in the URL's path, and URLs end up in logs, exceptions and tracebacks. So the adapter and the
SDK only see `HIDDEN_TOKEN`; `url_of` inserts the real one right before the request is written.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import aiohttp
from telegram.error import NetworkError, TelegramError, TimedOut
from telegram.request import BaseRequest
from yarl import URL

from channels.network import CONNECT_SECONDS, NOT_SENT, http_session, tls_context, usable_proxy

if TYPE_CHECKING:
    import ssl

    from pydantic import SecretStr
    from telegram.request import RequestData

    from channels.base import Route

HIDDEN_TOKEN = "TOKEN"
ANSWER_SECONDS = 30.0
"""Timeout for the complete answer, counted from the connection."""
_CODES_WITH_A_CLASS = frozenset({400, 401, 403, 409})
"""Codes for which the SDK has an unambiguous class (it has one class for both 401 and 404)."""
_READ_OF_A_MESSAGE = ("message_id", "date", "chat")
"""The fields that the SDK requires; only the id of these is read here."""
_EMPTY_ANSWER = b'{"ok":true,"result":[]}'


class Answered(NetworkError):
    """A refusal whose HTTP code has no SDK class: a server error, a redirect, a 429 without a time."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{description or 'no description'} ({code})")
        self.code = code


class NotSent(NetworkError):
    """The request failed before any of it was written."""


class Network:
    """Creates sessions to one Bot API server over one route. Raises Fatal when the route itself is unusable."""

    def __init__(self, base_url: str, token: SecretStr, route: Route, account: str) -> None:
        self._token = token
        self._proxy = usable_proxy(route, account)
        self._context: ssl.SSLContext | None = None
        if base_url.startswith("https:") or (route.proxy or "").startswith("https:"):
            self._context = tls_context(route, account)
        self.url_of = lru_cache(maxsize=64)(self._with_token)
        """Returns the real URL for one with the placeholder."""

    def session(self, connections: int) -> aiohttp.ClientSession:
        """A separate session with at most `connections` connections; needs a running loop."""
        return http_session(connections, self._context, proxy=self._proxy)

    def _with_token(self, url: str) -> URL:
        return URL(url.replace(f"/bot{HIDDEN_TOKEN}/", f"/bot{self._token.get_secret_value()}/", 1), encoded=True)


class Request(BaseRequest):
    """Sends the requests of the SDK's methods. The session is created at the first call, since it needs a running loop.

    Raises TimedOut and NetworkError, whose texts are the errors' names (URLs contain the token), and the two above.
    """

    def __init__(self, network: Network, connections: int) -> None:
        self._network = network
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    @property
    def read_timeout(self) -> float:
        return ANSWER_SECONDS

    async def initialize(self) -> None:
        pass

    async def shutdown(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = BaseRequest.DEFAULT_NONE,
        *_: Any,
        **__: Any,
    ) -> tuple[int, bytes]:
        """Send a request. read_timeout: seconds for the whole answer; CONNECT_SECONDS replaces the other timeouts."""
        answer_seconds = read_timeout if isinstance(read_timeout, int | float) else ANSWER_SECONDS
        timeout = aiohttp.ClientTimeout(total=CONNECT_SECONDS + answer_seconds, connect=CONNECT_SECONDS)
        if self._session is None:
            self._session = self._network.session(self._connections)
        try:
            async with self._session.request(
                method, self._network.url_of(url), timeout=timeout, allow_redirects=False, **_body(request_data)
            ) as response:
                code, payload = response.status, await response.read()
        except NOT_SENT as error:
            raise NotSent(type(error).__name__) from None
        except TimeoutError as error:
            raise TimedOut(type(error).__name__) from None
        except (aiohttp.ClientError, OSError) as error:
            raise NetworkError(type(error).__name__) from None
        if not 200 <= code <= 299 and code not in _CODES_WITH_A_CLASS:
            _raise_unless_timed_flood(code, payload)
        return code, payload

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """The answer's object with the fields that the SDK reads, in the types that it assumes without checking.

        A message is reduced to the fields that are read, and an edited one to True (the Bot API's own answer for inline
        messages): the SDK's objects for the rest take 0.1 ms, and one that it cannot build would make a send seem lost.
        """
        try:
            answer = json.loads(payload.decode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            raise TelegramError("the response is not JSON") from error
        if not isinstance(answer, dict):
            raise TelegramError("the response is not from the Bot API")
        result = answer.get("result")
        if isinstance(result, dict) and "message_id" in result:
            read = {name: result[name] for name in _READ_OF_A_MESSAGE if name in result}
            answer["result"] = "edit_date" in result or read
        if "result" not in answer:
            _tidy_refusal(answer)
        return answer


class PollRequest(Request):
    """Keeps an answer to getUpdates unparsed, and gives the SDK an empty one.

    An update that the SDK cannot build would make the whole batch fail.
    """

    answer = _EMPTY_ANSWER

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        code, payload = await super().do_request(*args, **kwargs)
        if not 200 <= code <= 299:
            return code, payload
        self.answer = payload
        return code, _EMPTY_ANSWER

    def updates(self) -> Any:
        """The result of the last answer, as plain JSON."""
        return self.parse_json_payload(self.answer)["result"]


def _tidy_refusal(answer: dict[str, Any]) -> None:
    """Normalize a refusal: a proxy in front of the server may answer in any form."""
    description, parameters = answer.get("description"), answer.get("parameters")
    answer["description"] = description if isinstance(description, str) else ""
    found = parameters.items() if isinstance(parameters, dict) else ()
    answer["parameters"] = {name: value for name, value in found if isinstance(value, int | float)}


def _raise_unless_timed_flood(code: int, payload: bytes) -> None:
    try:
        answer = Request.parse_json_payload(payload)
    except TelegramError:
        answer = {}
    if code != 429 or not answer.get("parameters", {}).get("retry_after"):
        raise Answered(code, answer.get("description", ""))


def _body(data: RequestData | None) -> dict[str, Any]:
    """The session's arguments for the request body: JSON, or a form if it contains files."""
    if data is None:
        return {}
    if not data.contains_files:
        return {"data": data.json_payload, "headers": {"Content-Type": "application/json"}}
    # File names are sent unquoted: Telegram shows them and does not decode percent-encoding.
    form = aiohttp.FormData(data.json_parameters, quote_fields=False, default_to_multipart=True)
    for field, (name, content, mime_type) in data.multipart_data.items():
        form.add_field(field, content, filename=name, content_type=mime_type)
    return {"data": form}
