"""The stream of a chat completion as chunks (dicts); used by chat_openai.py.

On its way through LangChain and LangGraph a chunk costs a tenth of a millisecond, so in a long answer nothing matters
more than their number: text that arrived together is one chunk.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx2
from openai import APIConnectionError, APIError, APITimeoutError, AsyncStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

DONE = b"[DONE]"
DRAIN_SECONDS = 0.1
"""How long the end of the body is waited for after DONE; a connection that was read to its end is used again."""
TEXTS = frozenset({"content", "reasoning_content", "reasoning"})
"""Keys of a delta that hold a piece of text."""


class ChunkStream(AsyncStream[object]):
    """What the SDK makes of a response that is an event stream, with the SDK's errors."""

    async def __aiter__(self) -> AsyncIterator[object]:
        request, events = self.response.request, Events()
        body = self.response.aiter_bytes()
        try:
            async for data in body:
                for chunk in joined(events.feed(data)):
                    if isinstance(chunk, dict) and (error := chunk.get("error")):
                        raise APIError(_message(error), request, body=error)
                    yield chunk
                if events.done:
                    break
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    async for _ in body:
                        pass
        except httpx2.TimeoutException as error:
            raise APITimeoutError(request=request) from error
        except httpx2.TransportError as error:
            raise APIConnectionError(request=request) from error


class Events:
    """Reads server-sent events as chat completions use them: `data` only (WHATWG HTML, 9.2.6). done: DONE was seen."""

    def __init__(self) -> None:
        self.done = False
        self._rest = b""
        self._lines: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[Any]:
        """The events that are complete now, up to DONE. Raises ValueError for what is not JSON."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._lines.append(line[5:])
            elif not line and self._lines:
                event = b"\n".join(self._lines).strip()
                self._lines.clear()
                if event.startswith(DONE):
                    self.done = True
                    return
                yield json.loads(event.decode())


def joined(chunks: Iterable[Any]) -> Iterator[Any]:
    """The chunks, neighbours that only bring more of the same text as one."""
    growing: Any = None
    growing_kind: str | None = None
    for chunk in chunks:
        kind = _kind(chunk)
        if kind is not None and kind == growing_kind:
            _delta(growing)[kind] += _delta(chunk)[kind]
            continue
        if growing_kind is not None:
            yield growing
        growing, growing_kind = chunk, kind
        if kind is None:
            yield chunk
    if growing_kind is not None:
        yield growing


def _kind(chunk: Any) -> str | None:
    """The key of the text that is all this chunk brings; None when it brings something else, or nothing."""
    match chunk:
        case {"choices": [{"delta": dict(delta)} as choice]}:
            if chunk.get("usage") or choice.get("finish_reason") or choice.get("logprobs"):
                return None
            brought = [str(key) for key, value in delta.items() if value and key != "role"]
            if len(brought) == 1 and brought[0] in TEXTS and isinstance(delta[brought[0]], str):
                return brought[0]
    return None


def _delta(chunk: dict[str, Any]) -> dict[str, Any]:
    delta: dict[str, Any] = chunk["choices"][0]["delta"]
    return delta


def _message(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) and message else "An error occurred during streaming"
