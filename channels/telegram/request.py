"""The SDK's HTTP layer on aiohttp, which takes a tenth of the CPU of the SDK's own; made by api.py.

What a call came to is told apart by fact and not by text: refused, garbage, or not answered at all.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import aiohttp
from telegram.error import TelegramError
from telegram.request import BaseRequest

from channels.network import NOT_SENT
from channels.telegram.failures import Refusal, read_refusal

if TYPE_CHECKING:
    from telegram.request import RequestData

    from channels.telegram.network import Network

CONNECT_SECONDS = 20.0
"""Until a connection is there, waiting for a free one included."""
ANSWER_SECONDS = 30.0
"""From then on, until the answer is complete."""


class Refused(TelegramError):
    """Any answer but 2xx, as it came; raised before the SDK sorts it by its text."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"HTTP {refusal.code}")
        self.refusal = refusal


class Garbage(TelegramError):
    """A 2xx answer that is not the Bot API's."""


class Unanswered(TelegramError):
    """No answer. sent: the server may have got the request. The text is the error's name: URLs hold the token."""

    def __init__(self, error: Exception) -> None:
        super().__init__(type(error).__name__)
        self.sent = not isinstance(error, NOT_SENT)


class Request(BaseRequest):
    """Raises only the three errors above. The session is made at the first call, since it needs a running loop."""

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
        """read_timeout: seconds for the whole answer; the SDK's other time-outs are `CONNECT_SECONDS`."""
        answer_seconds = read_timeout if isinstance(read_timeout, int | float) else ANSWER_SECONDS
        timeout = aiohttp.ClientTimeout(total=CONNECT_SECONDS + answer_seconds, connect=CONNECT_SECONDS)
        if self._session is None:
            self._session = self._network.session(self._connections)
        try:
            async with self._session.request(
                method, self._network.url_of(url), timeout=timeout, allow_redirects=False, **_body(request_data)
            ) as response:
                code, payload = response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unanswered(error) from None
        if not 200 <= code <= 299:
            raise Refused(read_refusal(code, payload))
        return code, payload

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(payload.decode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            raise Garbage("the answer is not JSON") from error
        if not isinstance(answer, dict) or "result" not in answer:
            raise Garbage("the answer has no result")
        return answer


def _body(data: RequestData | None) -> dict[str, Any]:
    """The session's arguments for what is to be sent: JSON, or a form when there are files."""
    if data is None:
        return {}
    if not data.contains_files:
        return {"data": data.json_payload, "headers": {"Content-Type": "application/json"}}
    # Names of files go as they are: Telegram shows them, and does not undo percent signs.
    form = aiohttp.FormData(data.json_parameters, quote_fields=False, default_to_multipart=True)
    for field, (name, content, mime_type) in data.multipart_data.items():
        form.add_field(field, content, filename=name, content_type=mime_type)
    return {"data": form}
