"""Services that make pictures and speech, called through OpenAI's SDK; every failure becomes a MediaFailure."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urljoin, urlsplit

from openai import OpenAIError
from openai.types import ImagesResponse

from harness.config import ModelSettings
from harness.errors import ToolSetupError, imported
from harness.events import FailureKind as Kind
from harness.failures import BUSY, classify
from harness.models.build import connected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from harness.media.config import ImageSettings, SpeechSettings
    from harness.ports import Clock

    Route = tuple[str | None, Path | None]

log = logging.getLogger(__name__)

T = TypeVar("T")
TRIES = 3
PAUSE = 2.0
"""Seconds before the second attempt; doubled before the third, unless the service gives a time."""
MOST_BYTES = 40_000_000
"""Size of a picture or a recording."""
MOST_JSON = MOST_BYTES // 3 * 4 + 1_000_000
"""Size of a response that contains a picture in base64."""
LONGEST_PART = 4000
"""Characters that one request speaks; OpenAI's limit is 4096."""

REASONS: Mapping[Kind, str] = {
    Kind.AUTH: "the service refuses its API key: an operator has to set {section}.api_key",
    Kind.QUOTA: "the account at the service has no credit left: an operator has to add some",
    Kind.NOT_FOUND: "the service does not know the configured model: an operator has to check {section}.model and "
    "{section}.base_url",
    Kind.RATE_LIMITED: "the service accepts no more requests for now; try again later",
    Kind.OVERLOADED: "the service is overloaded; try again later",
    Kind.CONTENT_FILTER: "the service's content rules reject this request; ask for something else",
    Kind.CONTEXT_LENGTH: "the request is too long for the service; make it shorter",
    Kind.TIMEOUT: "the service did not answer in time; it may have charged for this",
    Kind.CONNECTION: "the service cannot be reached: an operator has to check {section}.base_url",
    Kind.CUT: "the service's answer broke off; it may have charged for this",
    Kind.UNAVAILABLE: "the service has a problem; try again later",
    Kind.BAD_RESPONSE: "the service's answer is not valid: an operator has to check {section}.base_url",
    Kind.BAD_REQUEST: "the service rejects the request: its reason is in the operator's log, under {section}",
}
REFUSED_TEXTS = ("moderation_blocked", "safety system", "content_policy_violation")


class MediaFailure(Exception):
    """Nothing was made. The text says why, for the model; it contains no secret and nothing of the request."""

    def __init__(self, section: str, kind: Kind) -> None:
        super().__init__(REASONS.get(kind, "something went wrong; the log has the details").format(section=section))
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The picture requested. size: in the service's terms. references: (file name, content, MIME type) of pictures to
    start from."""

    prompt: str
    size: str
    references: Sequence[tuple[str, bytes, str]] = ()


@dataclass(frozen=True, slots=True)
class Painted:
    """A picture. The tokens are 0 if the service counts none."""

    content: bytes
    input_tokens: int = 0
    output_tokens: int = 0


class Painter(Protocol):
    """A service that makes pictures. An operator's own class is called with (settings, route), route being (proxy URL
    or None, CA file or None), and may raise anything: it is logged."""

    async def paint(self, order: Order) -> Painted: ...
    async def close(self) -> None: ...


class Speaker(Protocol):
    """A service that makes recordings. An operator's own class is created like a Painter, and may raise anything."""

    async def say(self, text: str, voice: str, audio_format: str) -> bytes:
        """The recording of at most LONGEST_PART characters. audio_format: "mp3" or "opus" (in Ogg)."""

    async def close(self) -> None: ...


class _Service:
    """A client of one OpenAI-compatible service. section: its key in the config."""

    def __init__(self, section: str, settings: ImageSettings | SpeechSettings, route: Route, clock: Clock) -> None:
        asked = ModelSettings(
            name=section,
            model=settings.model,
            base_url=settings.base_url,
            api_key=settings.api_key,
            timeout=settings.timeout,
        )
        self._section = section
        self._clock = clock
        self._timeout = settings.timeout
        self._client, self._http = connected(asked, route)

    async def close(self) -> None:
        await self._http.aclose()

    async def _asked(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The response. Retried only if the service reported that it did nothing, and within the configured time.
        Raises MediaFailure."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._tried(ask)
        except TimeoutError:
            raise MediaFailure(self._section, Kind.TIMEOUT) from None

    async def _tried(self, ask: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(1, TRIES + 1):
            try:
                return await ask()
            except (OpenAIError, OSError, ValueError) as error:
                kind, wait = _kind(error), _wait(error, attempt)
                if kind not in BUSY or attempt == TRIES or wait > self._timeout:
                    log.warning("%s: %s (%s)", self._section, kind, _told(error))
                    raise MediaFailure(self._section, kind) from None
                await self._clock.sleep(wait)
        raise AssertionError("unreachable")


class ImageService(_Service):
    """OpenAI's images API (POST /images/generations and /images/edits), which many servers imitate."""

    def __init__(self, settings: ImageSettings, route: Route, clock: Clock) -> None:
        super().__init__("images", settings, route, clock)
        self._settings = settings

    async def paint(self, order: Order) -> Painted:
        answer = await self._asked(lambda: self._request(order))
        made = (answer.data or [None])[0]
        usage = answer.usage
        tokens = (usage.input_tokens, usage.output_tokens) if usage is not None else (0, 0)
        try:
            if made is not None and made.b64_json:
                return Painted(base64.b64decode(made.b64_json, validate=True), *tokens)
            if made is not None and made.url:
                return Painted(await self._asked(lambda: self._fetched(str(made.url))), *tokens)
        except binascii.Error:
            pass
        raise MediaFailure("images", Kind.BAD_RESPONSE)

    async def models(self) -> frozenset[str]:
        """The models that the service lists. Raises MediaFailure, NOT_FOUND if it has no list."""
        return frozenset(model.id for model in (await self._asked(self._client.models.list)).data)

    async def _request(self, order: Order) -> Any:
        """The SDK's ImagesResponse, any part of which may be missing."""
        asked: dict[str, Any] = {"model": self._settings.model, "prompt": order.prompt, "size": order.size, "n": 1}
        images = self._client.images.with_streaming_response
        if order.references:
            request = images.edit(image=list(order.references), extra_body=self._settings.options, **asked)
        else:
            request = images.generate(extra_body=self._settings.options, **asked)
        async with request as answer:
            body = json.loads(await _whole(answer.iter_bytes(), MOST_JSON))
        if not isinstance(body, dict):
            raise ValueError("the answer is not a JSON object")
        return ImagesResponse.construct(**body)  # like the SDK: imitating servers leave fields out

    async def _fetched(self, url: str) -> bytes:
        """Download a picture that the service stored: on its own server, or on one reached over TLS."""
        whole = urljoin(f"{self._settings.base_url}/", url)
        here, there = urlsplit(self._settings.base_url), urlsplit(whole)
        if there.scheme != "https" and (there.scheme, there.netloc) != (here.scheme, here.netloc):
            raise ValueError("the picture is on another server without TLS")
        # The target of a redirect was not named by the service.
        async with self._http.stream("GET", whole, follow_redirects=False) as answer:
            if answer.status_code != 200:
                raise ValueError(f"the image URL returned {answer.status_code}")
            return await _whole(answer.aiter_bytes())


class SpeechService(_Service):
    """OpenAI's speech API (POST /audio/speech)."""

    def __init__(self, settings: SpeechSettings, route: Route, clock: Clock) -> None:
        super().__init__("speech", settings, route, clock)
        self.settings = settings

    async def say(self, text: str, voice: str, audio_format: str) -> bytes:
        """The recording of at most LONGEST_PART characters. audio_format: "mp3" or "opus" (in Ogg). Raises
        MediaFailure."""
        content = await self._asked(lambda: self._spoken(text, voice, audio_format))
        if len(content) < 16 or content.lstrip()[:1] in (b"{", b"<"):
            raise MediaFailure("speech", Kind.BAD_RESPONSE)
        return content

    async def _spoken(self, text: str, voice: str, audio_format: Any) -> bytes:
        async with self._client.audio.speech.with_streaming_response.create(
            model=self.settings.model,
            input=text,
            voice=voice,
            response_format=audio_format,
            extra_body=self.settings.options,
        ) as answer:
            return await _whole(answer.iter_bytes())


class _OwnSpeaker:
    """A class of the operator's own, whose failures are treated like a service's, within its time limit."""

    def __init__(self, speaker: Speaker, seconds: float) -> None:
        self._speaker = speaker
        self._seconds = seconds
        self.close = speaker.close

    async def say(self, text: str, voice: str, audio_format: str) -> bytes:
        """Speak a text. Raises MediaFailure."""
        try:
            async with asyncio.timeout(self._seconds):
                content: Any = await self._speaker.say(text, voice, audio_format)
        except TimeoutError:
            raise MediaFailure("speech", Kind.TIMEOUT) from None
        except Exception as error:  # whatever it raises, an answer must not be lost with its recording
            log.warning("speech: custom class failed", exc_info=error)
            raise MediaFailure("speech", Kind.UNAVAILABLE) from None
        if isinstance(content, bytes) and 0 < len(content) <= MOST_BYTES:
            return content
        raise MediaFailure("speech", Kind.BAD_RESPONSE)


def make_painter(settings: ImageSettings, route: Route, clock: Clock) -> Painter:
    """Create the picture service. Raises ToolSetupError, whose text names the key."""
    if not settings.use:
        return ImageService(settings, route, clock)
    made: Painter = _own("images", settings, route, "paint")
    return made


def make_speaker(settings: SpeechSettings, route: Route, clock: Clock) -> Speaker:
    """Raises ToolSetupError, whose text names the key. The methods of the result raise only MediaFailure."""
    if not settings.use:
        return SpeechService(settings, route, clock)
    return _OwnSpeaker(_own("speech", settings, route, "say"), settings.timeout)


def _own(section: str, settings: ImageSettings | SpeechSettings, route: Route, method: str) -> Any:
    """An instance of the operator's own class, with this method and close. Raises ToolSetupError."""
    kind = imported(settings.use, f"{section}.use")
    try:
        made = kind(settings, route)
    except (ImportError, AttributeError, TypeError) as error:
        raise ToolSetupError(f"{section}.use: {settings.use} cannot take (settings, route): {error}") from error
    if not callable(getattr(made, method, None)) or not callable(getattr(made, "close", None)):
        raise ToolSetupError(f"{section}.use: {settings.use} has no {method} and close")
    return made


async def _whole(parts: AsyncIterator[bytes], most: int = MOST_BYTES) -> bytes:
    """The whole response. Raises ValueError beyond this many bytes, without reading on."""
    content = bytearray()
    async for part in parts:
        content += part
        if len(content) > most:
            raise ValueError("the answer is too large")
    return bytes(content)


def _kind(error: Exception) -> Kind:
    if any(text in str(error).lower() for text in REFUSED_TEXTS):
        return Kind.CONTENT_FILTER
    failure = classify(error, model="", now=lambda: datetime.now(UTC))
    return failure.kind if failure is not None else Kind.BAD_RESPONSE


def _wait(error: Exception, attempt: int) -> float:
    failure = classify(error, model="", now=lambda: datetime.now(UTC))
    asked = failure.retry_after if failure is not None else None
    return PAUSE * 2 ** (attempt - 1) if asked is None else asked


def _told(error: Exception) -> str:
    """The failure for the log, without the service's message, which may repeat the request or the key."""
    failure = classify(error, model="", now=lambda: datetime.now(UTC))
    status = getattr(error, "status_code", None)
    code = getattr(error, "code", None)
    named = [str(each) for each in (status, code) if each and str(each).replace("_", "").isalnum()]
    return " ".join([type(error).__name__, *named, *([] if failure else [str(error)])])
