"""Client of a transcription service that follows OpenAI's API reference (POST /audio/transcriptions).

Every failure becomes a TranscriptionError.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import aiohttp

from bot.voice.audio import TranscriptionError
from channels.errors import Fatal
from channels.network import http_session, tls_context, usable_proxy

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from datetime import datetime

    from bot.settings.sections import TranscriptionSettings
    from bot.voice.audio import Kind, Untranscribed
    from channels.base import Clock, Route

log = logging.getLogger(__name__)

TRIES = 3
PAUSE = 1.0
"""Seconds before the second try, and twice as many before the third, unless the service states a time."""
MOST_BYTES = 1_000_000
"""Largest size of an answer."""
MOST_CHARACTERS = 50_000
"""Longest transcript; no one says that much in one message."""
_NAME = "transcription"
_REFUSALS: Mapping[int, Untranscribed] = {
    **dict.fromkeys((400, 415, 422), "format"),
    **dict.fromkeys((401, 403), "key"),
    404: "model",
    413: "too_large",
}


@dataclass(frozen=True, slots=True)
class Transcript:
    """The words of a recording. seconds: its length as counted by the service, None where it does not state it."""

    text: str
    seconds: float | None


class _Busy(Exception):
    """A failure after which a retry may help. wait: seconds requested by the service."""

    def __init__(self, reason: Untranscribed, detail: str, wait: float | None = None) -> None:
        super().__init__(detail)
        self.reason: Untranscribed = reason
        self.wait = wait


class TranscriptionService:
    """The configured service, one per process. connections: how many it may use concurrently."""

    def __init__(self, settings: TranscriptionSettings, route: Route, clock: Clock, connections: int) -> None:
        self._settings = settings
        self._route = route
        self._clock = clock
        self._connections = connections
        self._url = f"{settings.base_url.rstrip('/')}/audio/transcriptions"
        self._session: aiohttp.ClientSession | None = None
        self._opening = asyncio.Lock()

    async def transcribe(self, content: bytes, kind: Kind) -> Transcript:
        """Return the words of a recording; the caller limits the time. Raises TranscriptionError."""
        for attempt in range(1, TRIES + 1):
            try:
                return await self._asked(content, kind)
            except _Busy as busy:
                wait = PAUSE * 2 ** (attempt - 1) if busy.wait is None else busy.wait
                if attempt == TRIES or wait > self._settings.timeout:
                    raise TranscriptionError(busy.reason, str(busy)) from None
                log.info("the transcription service: %s; retrying in %.1f s", busy, wait)
                await self._clock.sleep(wait)
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """Release the connections. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _asked(self, content: bytes, kind: Kind) -> Transcript:
        session = await self._opened()
        try:
            async with session.post(
                self._url, data=self._form(content, kind), headers=self._headers(), allow_redirects=False
            ) as response:
                body = await _whole(response)
        except (aiohttp.ClientError, OSError) as error:  # only the type: the text may hold a proxy's password
            raise _Busy("unavailable", type(error).__name__) from None
        if response.status != 200:
            wait = _seconds(response.headers.get("Retry-After"), self._clock.now())
            raise _refused(response.status, wait, body)
        return _transcript(body)

    def _form(self, content: bytes, kind: Kind) -> aiohttp.FormData:
        form = aiohttp.FormData()
        form.add_field("model", self._settings.model)
        form.add_field("response_format", "json")
        if self._settings.language:
            form.add_field("language", self._settings.language)
        form.add_field("file", content, filename=f"voice.{kind.suffix}", content_type=kind.mime_type)
        return form

    def _headers(self) -> dict[str, str]:
        key = self._settings.api_key
        return {} if key is None else {"Authorization": f"Bearer {key.get_secret_value()}"}

    async def _opened(self) -> aiohttp.ClientSession:
        async with self._opening:
            if self._session is None:
                try:
                    context = await self._trust()
                    proxy = usable_proxy(self._route, _NAME)
                except Fatal as error:
                    raise TranscriptionError("failed", f"{error} {error.hint}") from None
                timeout = aiohttp.ClientTimeout(total=None)  # the caller sets the limit
                self._session = http_session(self._connections, context, proxy=proxy, timeout=timeout)
            return self._session

    async def _trust(self) -> ssl.SSLContext | None:
        if not self._url.startswith("https://"):
            return None
        return await asyncio.to_thread(tls_context, self._route, _NAME)


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    """Read the answer, at most MOST_BYTES of it."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MOST_BYTES:
            response.close()
            raise _Busy("garbage", "the answer is too long")
    return bytes(body)


def _refused(status: int, wait: float | None, body: bytes) -> Exception:
    """Return the error for an answer other than 200: _Busy where a retry may help."""
    code = _error_code(body)
    detail = f"status {status}{f' ({code})' if code else ''}"
    if code == "insufficient_quota":
        return TranscriptionError("quota", detail)
    if status == 429:
        return _Busy("busy", detail, wait)
    if status >= 500 or status == 408:
        return _Busy("unavailable", detail, wait)
    if code == "model_not_found":
        return TranscriptionError("model", detail)
    return TranscriptionError(_REFUSALS.get(status, "failed"), detail)


def _transcript(body: bytes) -> Transcript:
    answer = _object(body)
    text = answer.get("text")
    if not isinstance(text, str):
        raise _Busy("garbage", "the answer contains no text")
    usage = answer.get("usage")
    counted = usage.get("seconds") if isinstance(usage, dict) else None
    seconds = counted if counted is not None else answer.get("duration")
    whole = text.replace("\0", "").strip()[:MOST_CHARACTERS]
    return Transcript(whole, float(seconds) if isinstance(seconds, int | float) else None)


def _error_code(body: bytes) -> str:
    """The service's error code; never its message, which may repeat the key."""
    error = _object(body).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code[:80] if isinstance(code, str) and code.replace("_", "").isalnum() else ""


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _seconds(retry_after: str | None, now: datetime) -> float | None:
    """The seconds of a Retry-After header: a number, or a date (RFC 9110, 10.2.3); None without a readable one."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        then = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (then.replace(tzinfo=then.tzinfo or UTC) - now).total_seconds())
