"""One HTTP call to the open platform and what it came to, told apart by fact: answered, or not. Used by api.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

from channels.network import NOT_SENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from channels.feishu.network import Network

CONNECT_SECONDS = 20.0
"""Until a connection is there, waiting for a free one included."""
ANSWER_SECONDS = 30.0
"""From then on, until the answer is complete."""


class Unanswered(Exception):
    """No answer. sent: the platform may have got the request. The text is the error's name."""

    def __init__(self, error: Exception) -> None:
        super().__init__(type(error).__name__)
        self.sent = not isinstance(error, NOT_SENT)


@dataclass(frozen=True, slots=True)
class Answer:
    """headers: names in lower case."""

    status: int
    headers: Mapping[str, str]
    payload: bytes


async def ask(
    network: Network,
    method: str,
    url: str,
    *,
    token: str = "",
    params: Mapping[str, str] | None = None,
    json: Any = None,
    form: aiohttp.FormData | None = None,
    seconds: float = ANSWER_SECONDS,
) -> Answer:
    """Raises Unanswered. seconds: for the whole answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = aiohttp.ClientTimeout(total=CONNECT_SECONDS + seconds, connect=CONNECT_SECONDS)
    try:
        async with network.session().request(
            method,
            url,
            params=params,
            json=json,
            data=form,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            proxy=network.proxy_for(url),
        ) as response:
            payload = await response.read()
            return Answer(response.status, _lowered(response.headers), payload)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unanswered(error) from None


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
