"""The provider's connection to its server: authentication, timeouts, retries, and the meaning of failures."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
from pydantic import TypeAdapter

from sandbox.base import SandboxError, SandboxUnavailable
from sandbox.remote import wire

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sandbox.config import RemoteSettings

_CONNECTIONS = 1000
_KEPT_SECONDS = 15.0
"""Seconds for which an idle connection is kept; less than on servers, which might close it just as it is reused."""
_PAUSES = (0.2, 1.0)
"""Seconds before each further attempt."""
_NOT_NOW = frozenset({502, 503, 504})
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
"""Failures before the request was written: it has certainly changed nothing."""

CALLED = "the sandbox server"
"""The name of an only server in errors. With several, errors contain the address, since each has certain threads."""

_FAILED = TypeAdapter(wire.Failed)
_EVENT = TypeAdapter(wire.Event)


class Answered(SandboxError):
    """The server refused. code: of wire.Error, "" if it gave none."""

    def __init__(self, code: str, text: str, hint: str = "") -> None:
        super().__init__(text, hint)
        self.code = code


class Lost(SandboxError):
    """The server cannot be reached, or stopped in the middle of an answer."""


class Http:
    """The provider's HTTP client for one server. Close it. url: the server's. proxy: None for a direct connection.
    ca_file: CAs trusted in addition to the system's. The environment is ignored. Methods raise only SandboxError.

    called: the server's name in errors.
    """

    def __init__(
        self, settings: RemoteSettings, url: str, *, proxy: str | None = None, ca_file: Path | None = None
    ) -> None:
        token = settings.token.get_secret_value() if settings.token else ""
        context = httpx.create_ssl_context(trust_env=False)
        context.load_default_certs()
        try:
            if ca_file is not None:
                context.load_verify_locations(cafile=ca_file)
            way = _proxy(proxy, context) if proxy else None
        except OSError as error:
            raise SandboxUnavailable("the CA file cannot be read", "correct network.ca_file") from error
        except (ValueError, httpx.InvalidURL) as error:  # its text may quote the proxy's password
            raise SandboxUnavailable("the proxy cannot be used", "correct network.proxy") from error
        self.called = f"the sandbox server {url}" if len(settings.urls) > 1 else CALLED
        self._base = url + wire.PREFIX
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"},
            timeout=httpx.Timeout(settings.answer_seconds, connect=settings.connect_seconds),
            limits=httpx.Limits(max_connections=_CONNECTIONS, keepalive_expiry=_KEPT_SECONDS),
            trust_env=False,
            verify=context,
            proxy=way,
        )

    async def call(self, method: str, path: str, body: wire.Body | None = None, *, again: bool) -> Any:
        """Return the JSON of the answer; None if it is empty. again: the call may be repeated after one with an unknown
        outcome."""
        for pause in (*_PAUSES, None):
            try:
                async with self._client.stream(method, self._base + path, **_content(body)) as response:
                    content = await self._whole(response)
            except httpx.HTTPError as error:
                if pause is None or not (again or isinstance(error, _NOT_SENT)):
                    raise self._lost(error) from error
            else:
                if pause is None or not again or response.status_code not in _NOT_NOW:
                    return self._json(response.status_code, content)
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def stream(self, path: str, body: wire.Body) -> AsyncIterator[AsyncIterator[wire.Event]]:
        """The events of an answer, without retries. Leaving the block early closes the connection."""
        try:
            async with self._client.stream("POST", self._base + path, **_content(body)) as response:
                if response.status_code >= 400:
                    self._json(response.status_code, await self._whole(response))
                yield self._events(response)
        except httpx.HTTPError as error:
            raise self._lost(error) from error

    async def close(self) -> None:
        """Close the client. Idempotent."""
        await self._client.aclose()

    def _json(self, status: int, content: bytes) -> Any:
        """Parse an answer. Raises Answered for a refusal."""
        if status < 300:
            try:
                return wire.parsed(content) if content else None
            except wire.Malformed as error:
                raise not_understood(self.called) from error
        if status in (401, 403):
            raise Answered(wire.UNAUTHORIZED, f"{self.called} rejects Antler's token", "correct sandbox.remote.token")
        try:
            said = wire.understood(_FAILED, wire.parsed(content)).error
        except wire.Malformed:
            raise Answered("", f"{self.called} answered with status {status}", "see the server's own log") from None
        raise Answered(said.code, said.text, said.hint)

    async def _whole(self, response: httpx.Response) -> bytes:
        """The body of an answer, limited here, since a server may have been taken over by others."""
        content = bytearray()
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > wire.LONGEST_ANSWER:
                raise not_understood(self.called)
        return bytes(content)

    async def _events(self, response: httpx.Response) -> AsyncIterator[wire.Event]:
        rest = bytearray()
        async for chunk in response.aiter_bytes():
            rest += chunk
            if b"\n" not in chunk:
                if len(rest) > wire.LONGEST_ANSWER:
                    raise not_understood(self.called)
                continue
            *lines, last = rest.split(b"\n")
            rest = bytearray(last)
            for line in lines:
                try:
                    yield wire.understood(_EVENT, wire.parsed(line.decode(errors="replace")))
                except wire.Malformed as error:
                    raise not_understood(self.called) from error

    def _lost(self, error: httpx.HTTPError) -> Lost:
        """The error for a lost connection, without the original text, which may quote a proxy's password."""
        if isinstance(error, httpx.ProxyError):
            return Lost(f"the proxy for {self.called} refuses", "see network.proxy and sandbox.remote.url")
        if isinstance(error, _NOT_SENT):
            return Lost(f"{self.called} cannot be reached", "check sandbox.remote.url and that the server runs")
        if isinstance(error, httpx.TimeoutException):
            return Lost(f"{self.called} does not answer", "see the server's own log")
        return Lost(f"the connection to {self.called} was lost", "see the server's own log")


def not_understood(called: str = CALLED) -> SandboxError:
    return SandboxError(f"{called}'s answer is invalid", "it should conform to the contract in openapi.yaml")


def _proxy(url: str, context: ssl.SSLContext) -> httpx.Proxy:
    """The proxy. context: for TLS to the proxy itself."""
    return httpx.Proxy(url, ssl_context=context if url.startswith("https:") else None)


def _content(body: wire.Body | None) -> dict[str, Any]:
    if body is None:
        return {}
    return {"content": wire.dumped(body.model_dump()), "headers": {"Content-Type": "application/json"}}
