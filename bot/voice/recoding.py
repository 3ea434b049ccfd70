"""Turns a recording that a service does not take into one that it does: by ffmpeg inside the thread's sandbox.

For listener.py. A recording is hostile until proven otherwise, so it is decoded nowhere else.
"""

from __future__ import annotations

import logging
import secrets
import shlex
from typing import TYPE_CHECKING

from sandbox.base import UPLOADS, Problem, SandboxError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from typing import Protocol

    from harness.context import InputFile
    from sandbox.base import Sandbox

    class Lender(Protocol):
        def borrow(self, thread_id: str) -> AbstractAsyncContextManager[Sandbox]:
            """A thread's sandbox. Raises SandboxError."""


log = logging.getLogger(__name__)

SECONDS = 60.0
_COMMAND = """
command -v ffmpeg >/dev/null || exit 127
ffmpeg -nostdin -v error -y -i {recording} -vn -ac 1 -ar 16000 -c:a pcm_s16le -fs {most} -f wav {result} >/dev/null
"""


class Recoder:
    """sandboxes: whose `borrow` gives a thread's sandbox."""

    def __init__(self, sandboxes: Lender) -> None:
        self._sandboxes = sandboxes

    async def wav(self, thread_id: str, file: InputFile, most: int) -> bytes | None:
        """The recording as WAV, mono at 16 kHz, at most so many bytes of it; None where that cannot be done here."""
        result = f"{UPLOADS}/{secrets.token_hex(8)}.wav"
        command = _COMMAND.format(
            recording=shlex.quote(f"{UPLOADS}/{file.path.name}"), result=shlex.quote(result), most=most
        )
        try:
            async with self._sandboxes.borrow(thread_id) as sandbox:
                try:
                    done = await sandbox.execute_command(command, timeout=SECONDS)
                    if done.exit_code == 0:
                        return await _fetched(sandbox, result, most)
                finally:
                    await sandbox.execute_command(f"rm -f {shlex.quote(result)}", timeout=SECONDS)
        except SandboxError as error:
            log.warning("a voice message was not recoded: %s %s", error, error.hint)
            return None
        why = "there is no ffmpeg" if done.exit_code == 127 else f"ffmpeg ended with {done.exit_code}"
        log.info("a voice message was not recoded: %s", why)
        return None


async def _fetched(sandbox: Sandbox, path: str, most: int) -> bytes | None:
    content = bytearray()

    async def write(chunk: bytes) -> None:
        content.extend(chunk)

    problem = await sandbox.fetch(path, write, max_bytes=most)
    return None if isinstance(problem, Problem) else bytes(content)
