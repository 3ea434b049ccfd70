"""Files that people sent: whether what was read is still what they sent. Agents can write to the uploads folder, so a
path proves nothing; the SHA-256 that the gateway computed on receipt does."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from typing import TYPE_CHECKING

from sandbox.base import Problem, SandboxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain_core.messages import ToolCall

    from harness.graph.signals import RunScope
    from sandbox.base import Sandbox

log = logging.getLogger(__name__)
READ_FILE = "read_file"
MOST_TEXT = 50_000_000
"""Bytes of the largest file that is searched for what was read."""
_LARGEST = 1 << 40
_PLACE = re.compile(r"\[lines \d{1,12}+ to \d{1,12}+ of \d{1,12}+[^\]\n]{0,400}+\]\n")
"""The header of read_file's result for a part of a file."""


async def sent_path(call: ToolCall, shown: str, scope: RunScope) -> str:
    """The path of a file that a person sent, if a call has read it and the result occurs in the file as sent. "" for
    any other call, and for a file changed since."""
    from harness.graph.results import canonical  # imports LangChain, which is not loaded at the gateway's start

    path = canonical(str(call["args"].get("path", "")))
    sha256 = scope.sent.get(path, "")
    if call["name"] != READ_FILE or not sha256 or scope.sandbox is None:
        return ""
    content = bytearray()
    try:
        sandbox = await scope.sandbox.get()
    except SandboxError as error:
        _warn(error)
        return ""
    if not await _fetched(sandbox, path, _into(content.extend), MOST_TEXT):
        return ""
    # Searched for in content with the right hash instead of trusted as read: a command may have changed the file since.
    return path if await asyncio.to_thread(_stands_in, shown, bytes(content), sha256) else ""


async def sha256_of(sandbox: Sandbox, path: str) -> str:
    """The hash of a file's current content in the sandbox; "" if it cannot be read."""
    digest = hashlib.sha256()
    return digest.hexdigest() if await _fetched(sandbox, path, _into(digest.update), _LARGEST) else ""


def _into(take: Callable[[bytes], None]) -> Callable[[bytes], Awaitable[None]]:
    async def write(chunk: bytes) -> None:
        take(chunk)

    return write


async def _fetched(sandbox: Sandbox, path: str, write: Callable[[bytes], Awaitable[None]], most: int) -> bool:
    try:
        return not isinstance(await sandbox.fetch(path, write, max_bytes=most), Problem)
    except SandboxError as error:
        _warn(error)
        return False


def _warn(error: SandboxError) -> None:
    log.warning("a sent file could not be compared with the one received: %s", error)


def _stands_in(shown: str, content: bytes, sha256: str) -> bool:
    if hashlib.sha256(content).hexdigest() != sha256:
        return False
    place = _PLACE.match(shown)
    texts = [shown, shown[place.end() :]] if place is not None else [shown]
    return any(each.encode("utf-8", "surrogatepass") in content for each in texts if each)
