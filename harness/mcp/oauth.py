"""Tokens for a server: obtained from the provider, kept in the data folder, renewed before they expire.

No discovery and no registration: the config says where tokens come from, so no response can send a secret elsewhere.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hashlib
import json
import logging
import os
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from harness.files.durable import write_atomically
from harness.mcp.config import plain
from harness.mcp.errors import ServerFailed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from pathlib import Path

    from harness.mcp.config import OAuthSettings
    from harness.ports import Clock

log = logging.getLogger(__name__)

EARLY_SECONDS = 60.0
"""A token is renewed this long before it expires."""
DEFAULT_SECONDS = 3600.0
"""Assumed lifetime of a token if the provider does not give it."""
LARGEST_ANSWER = 64 * 1024
LOCK_SECONDS, LOOK_SECONDS = 30.0, 0.05
"""How long a process waits for another one that is requesting the same token, and how often it checks."""


@dataclass(frozen=True, slots=True)
class Token:
    """An access token. ends: seconds since the epoch. refresh: obtains the next one; "" if that is done otherwise."""

    access: str
    ends: float
    refresh: str = ""


class TokenCache:
    """One server's token in a file of the data folder, 0600. of: the settings it belongs to and is limited to."""

    def __init__(self, file: Path, of: str) -> None:
        self._file = file
        self._of = hashlib.sha256(of.encode()).hexdigest()

    def load(self) -> Token | None:
        """The stored token; None if there is none, or it belongs to other settings, or is broken."""
        try:
            kept = json.loads(self._file.read_text("utf-8"))
            return Token(**kept["token"]) if kept["of"] == self._of else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("token in %s not usable (%s); requesting a new one", self._file, type(error).__name__)
            return None

    def save(self, token: Token) -> None:
        """Store a token atomically. Raises OSError."""
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._file, json.dumps({"of": self._of, "token": asdict(token)}).encode())

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Keep other processes from requesting the token within the block, which runs anyway if another process hangs,
        or if the folder does not support locks."""
        with ExitStack() as stack:
            with suppress(OSError):
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                fd = os.open(self._file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                stack.callback(os.close, fd)
                async with asyncio.timeout(LOCK_SECONDS):  # its TimeoutError is an OSError
                    while True:
                        if _taken(fd):
                            break
                        await asyncio.sleep(LOOK_SECONDS)
            yield


def _taken(fd: int) -> bool:
    """Try to take the lock. Raises OSError where locks are not supported."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Tokens:
    """One server's tokens. client: creates its provider's HTTP client. learn: called with each secret, to redact it."""

    def __init__(
        self,
        settings: OAuthSettings,
        file: Path,
        client: Callable[[], httpx.AsyncClient],
        clock: Clock,
        learn: Callable[[str], None],
    ) -> None:
        self._settings = settings
        first = settings.refresh_token.get_secret_value() if settings.refresh_token is not None else ""
        self._first = first
        url = plain(settings.token_url)
        of = [settings.grant, url, settings.client_id, settings.scope, settings.audience, first]
        self._cache = TokenCache(file, json.dumps(of))
        self._client = client
        self._clock = clock
        self._learn = learn
        self._token: Token | None = None
        self._asking = asyncio.Lock()

    async def access(self, refused: str = "") -> str:
        """A token that is still valid for a while. refused: one that the server rejected. Raises ServerFailed."""
        async with self._asking:
            token = self._token
            if token is None or not self._is_good(token, refused):
                # Another process (a worker, check-config) may have renewed it, or be doing so; a refresh token may be
                # valid only once.
                async with self._cache.alone():
                    self._take(await asyncio.to_thread(self._cache.load))
                    token = self._token or token
                    if token is None or not self._is_good(token, refused):
                        token = await self._renewed(token)
            return token.access

    def _is_good(self, token: Token, refused: str) -> bool:
        return token.access != refused and token.ends - EARLY_SECONDS > self._now()

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _take(self, token: Token | None) -> None:
        self._token = token
        for secret in (token.access, token.refresh) if token is not None else ():
            if secret:
                self._learn(secret)

    async def _renewed(self, old: Token | None) -> Token:
        answer = await self._ask(self._form(old))
        access, refresh = answer.get("access_token"), answer.get("refresh_token") or ""
        if not isinstance(access, str) or not access or not isinstance(refresh, str):
            raise ServerFailed("its token provider returned no token")
        seconds = answer.get("expires_in", DEFAULT_SECONDS)
        lasts = float(seconds) if isinstance(seconds, int | float | str) and _is_number(seconds) else DEFAULT_SECONDS
        kept = refresh or (old.refresh if old is not None else "") or self._first
        token = Token(access, self._now() + lasts, kept if self._settings.grant == "refresh_token" else "")
        self._take(token)
        try:
            await asyncio.to_thread(self._cache.save, token)
        except OSError as error:
            # A one-time refresh token is then lost when the process ends; for now everything works.
            log.error("token not stored: %s", os.strerror(error.errno or 0))
        return token

    def _form(self, old: Token | None) -> dict[str, str]:
        settings = self._settings
        form: dict[str, str] = {"grant_type": settings.grant}
        if settings.grant == "refresh_token":
            form["refresh_token"] = (old.refresh if old is not None else "") or self._first
        if settings.client_secret is None:
            form["client_id"] = settings.client_id
        optional = {"scope": settings.scope, "audience": settings.audience}
        return form | {key: value for key, value in optional.items() if value}

    async def _ask(self, form: dict[str, str]) -> dict[str, Any]:
        """Request a token (RFC 6749, sections 4.4 and 6). Raises ServerFailed with nothing but the error code."""
        headers = {"Accept": "application/json"}
        if self._settings.client_secret is not None:
            headers["Authorization"] = _basic(self._settings.client_id, self._settings.client_secret.get_secret_value())
        try:
            async with self._client() as client:
                response = await client.post(
                    plain(self._settings.token_url), data=form, headers=headers, follow_redirects=False
                )
        except httpx.HTTPError as error:
            raise ServerFailed(f"its token provider cannot be reached ({type(error).__name__})") from None
        answer = _json(response)
        if response.status_code != httpx.codes.OK:
            code = answer.get("error")
            known = code if isinstance(code, str) and code.replace("_", "").isalpha() and len(code) < 40 else ""
            raise ServerFailed(f"its token provider refused ({response.status_code}{f', {known}' if known else ''})")
        return answer


class TokenAuth(httpx.Auth):
    """Sends the token; a rejected one is renewed once."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        access = await self._tokens.access()
        request.headers["Authorization"] = f"Bearer {access}"
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            request.headers["Authorization"] = f"Bearer {await self._tokens.access(refused=access)}"
            yield request


def _basic(client_id: str, secret: str) -> str:
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        answer = response.json() if len(response.content) <= LARGEST_ANSWER else None
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else {}


def _is_number(value: float | str) -> bool:
    try:
        return float(value) >= 0
    except (ValueError, OverflowError):
        return False
