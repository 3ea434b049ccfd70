"""The HTTP API of an all-in-one sandbox image, as far as commands need it. Used by http_session.py and http_shells.py.

Source: the OpenAPI document of github.com/agent-infra/sandbox (website/docs/public/v1/openapi.json; in a container
/v1/openapi.json) and its client on PyPI, agent-sandbox 0.0.30. `/v1/bash` is in images from 1.9.3 on; `/v1/shell`,
which older ones have, is a terminal: both outputs in one, cut at 30 000 characters.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import httpcore
from pydantic import BaseModel, ConfigDict, ValidationError

from sandbox.base import SandboxError
from sandbox.docker import hints
from sandbox.docker.http_connection import Relays

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.docker.api import DockerApi

KEY_VARIABLE = "SANDBOX_API_KEY"
"""In the container's environment; the image then answers nobody who does not send it."""
_KEY_HEADER = "X-AIO-API-Key"
_EXECUTE = "/v1/bash/exec"
_CALL_SECONDS = 30.0
_ASK_SECONDS = 10
_KEPT_SECONDS = 30.0
"""How long an idle connection is kept; less than the server does, which would close one just as it is used again."""
_MOST_BYTES = 64 * 1024 * 1024
"""Of an answer. The image keeps 10 MB of a command's output; as JSON each byte takes up to six."""
_REFUSED = (401, 403)


class Silent(SandboxError):
    """The API does not answer, or not as it should."""

    def __init__(self, text: str = "the API of the sandbox's image does not answer") -> None:
        super().__init__(text, hints.IMAGE_API)


class Gone(SandboxError):
    """The session or its command is there no more."""


class NoBash(SandboxError):
    """The image is older than what is needed of its API."""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


_Kind = TypeVar("_Kind", bound=_Answer)


class Started(_Answer):
    """Of `POST /v1/bash/exec`."""

    command_id: str
    stdout: str | None = None


class Command(_Answer):
    """exit_code: minus a signal's number for a killed one."""

    status: Literal["pending", "running", "completed", "timed_out", "killed"]
    exit_code: int | None = None


class Output(_Answer):
    """Of `POST /v1/bash/output`: what came since the offsets that were given. offset: of the next, in bytes, not in
    characters of what is here, which the API has decoded."""

    stdout: str | None = None
    stderr: str | None = None
    offset: int
    stderr_offset: int
    command: Command | None = None

    @property
    def running(self) -> bool:
        return self.command is None or self.command.status in ("pending", "running")


class ImageApi:
    """Of one container. user: who passes bytes on inside. Its methods raise SandboxError only."""

    def __init__(self, docker: DockerApi, container: str, *, user: str, port: int, key: str) -> None:
        self.container = container
        self._origin = f"http://127.0.0.1:{port}"
        self._key = key
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=None,
            max_keepalive_connections=8,
            keepalive_expiry=_KEPT_SECONDS,
            network_backend=Relays(docker, container, user),
        )

    async def close(self) -> None:
        """Idempotent."""
        await self._pool.aclose()

    async def is_there(self) -> bool:
        """Whether it answers, and takes the key."""
        try:
            status, _ = await self._request("GET", "/v1/sandbox", None, self._key, _CALL_SECONDS)
        except Silent:
            return False
        return status == 200

    async def asks_for_the_key(self) -> bool:
        """Whether it refuses who does not have it."""
        status, _ = await self._request("GET", "/v1/sandbox", None, "", _CALL_SECONDS)
        return status in _REFUSED

    async def execute(self, command: str, *, session: str, folder: str, environment: Mapping[str, str]) -> Started:
        """Start a command in a session, which is made. Raises NoBash, Silent, Gone."""
        body = {
            "session_id": session,
            "command": command,
            "exec_dir": folder,
            "env": dict(environment),
            "async_mode": True,
        }
        return _as(Started, await self._call(_EXECUTE, body))

    async def ask(self, command: str) -> str:
        """What a short command of ours prints. Raises NoBash, Silent, Gone."""
        told = _as(Started, await self._call(_EXECUTE, {"command": command, "timeout": _ASK_SECONDS}))
        return told.stdout or ""

    async def output(
        self, session: str, command: str, offset: int, stderr_offset: int, *, seconds: float = 0.0
    ) -> Output:
        """seconds: how long to wait for the first of it, or for the end of the command. Raises Silent, Gone."""
        body: dict[str, object] = {
            "session_id": session,
            "command_id": command,
            "offset": offset,
            "stderr_offset": stderr_offset,
        }
        if seconds:
            body |= {"wait": True, "wait_timeout": seconds}
        return _as(Output, await self._call("/v1/bash/output", body, seconds + _CALL_SECONDS))

    async def write(self, session: str, command: str, text: str) -> None:
        """To a command's input. Raises Silent, Gone."""
        await self._call("/v1/bash/write", {"session_id": session, "command_id": command, "input": text})

    async def end(self, session: str) -> None:
        """Close a session. What runs in it is asked to end (SIGTERM), and killed five seconds later. Raises Silent."""
        try:
            await self._call(f"/v1/bash/sessions/{session}/close", {})
        except Gone:
            return

    async def _call(self, path: str, body: Mapping[str, object], seconds: float = _CALL_SECONDS) -> Any:
        status, content = await self._request("POST", path, json.dumps(body).encode(), self._key, seconds)
        if status == 404 and path == _EXECUTE:  # It would make the session.
            raise NoBash("the image's API has no /v1/bash", hints.IMAGE_API)
        if status in (400, 404):
            raise Gone("the command is there no more")
        if status != 200:
            raise Silent
        told = _as(_Envelope, content)
        if not told.success:
            raise Gone("the command is there no more")
        return told.data

    async def _request(
        self, method: str, path: str, content: bytes | None, key: str, seconds: float
    ) -> tuple[int, bytes]:
        headers = [("Content-Type", "application/json"), *([(_KEY_HEADER, key)] if key else [])]
        limits = dict.fromkeys(("connect", "read", "write", "pool"), seconds)
        read = bytearray()
        try:
            async with self._pool.stream(
                method, self._origin + path, headers=headers, content=content, extensions={"timeout": limits}
            ) as response:
                async for piece in response.aiter_stream():
                    read += piece
                    if len(read) > _MOST_BYTES:
                        raise Silent("the API of the sandbox's image says too much")
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise Silent from error
        return response.status, bytes(read)


class _Envelope(_Answer):
    success: bool = False
    data: Any = None


def _as(kind: type[_Kind], told: Any) -> _Kind:
    """What the API said, bytes or parsed. Commands can take it over, so that it may say anything."""
    try:
        return kind.model_validate_json(told) if isinstance(told, bytes) else kind.model_validate(told)
    except ValidationError as error:
        raise Silent from error
