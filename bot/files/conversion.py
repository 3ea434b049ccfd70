"""Hands files that people sent to the thread's sandbox; the text of a document is stored next to the original, as is a
copy in UTF-8 of a text in another encoding: the agent's tools read nothing else.

A document is hostile until proven otherwise, so it is converted inside the sandbox, within its limits.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from channels.adapter import open_regular
from channels.errors import Rejected
from harness.files.documents import (
    AT_ONCE,
    KINDS,
    LONGEST_REASON,
    MOST_BYTES,
    NOT_READ,
    SECONDS,
    TEXTS,
    convert,
    too_slow,
    without_folders,
)
from harness.files.slots import FairSlots
from harness.graph.sent import sha256_of
from harness.text.plain import encoding_of
from sandbox.base import UPLOADS, Problem, SandboxError, contents

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bot.files.sandboxes import Sandboxes
    from harness.context import InputFile
    from sandbox.base import Sandbox

log = logging.getLogger(__name__)


class Converter:
    """Hands files over and converts documents; one per process. wanted: by the settings. seconds: see SECONDS."""

    def __init__(self, sandboxes: Sandboxes, *, wanted: bool, seconds: float = SECONDS) -> None:
        self._sandboxes = sandboxes
        self.wanted = wanted
        self._seconds = seconds
        self._slots = FairSlots(AT_ONCE)

    async def __call__(self, thread_id: str, file: InputFile, person: str) -> InputFile:
        """Return the file with the path of its text, or with a note that explains to the model why there is none;
        unchanged where nothing had to be done. person: the sender, whose slow documents delay only their own."""
        suffix = file.path.suffix.lower()
        converts = self.wanted and self._sandboxes.has_runtime
        is_text = (
            converts
            and suffix in TEXTS
            and file.size <= MOST_BYTES
            and await asyncio.to_thread(_is_in_another_encoding, file)
        )
        is_document = is_text or (converts and suffix in KINDS)
        try:
            if is_document or self._sandboxes.elsewhere:
                async with self._slots.slot(person), asyncio.timeout(self._seconds):
                    if self._sandboxes.elsewhere:
                        await self._hand_over(thread_id, file)
                    if is_document:
                        write = _write_in_utf_8 if is_text else partial(convert, seconds=self._seconds)
                        return await self._with_text(thread_id, file, write)
        except TimeoutError:
            reason = too_slow(self._seconds)
        except SandboxError as error:
            log.warning("a file was not handed to the sandbox, or not converted: %s %s", error, error.hint)
            reason = str(error)
        except Exception:
            # Any error, also of a custom provider: the message must still be answered.
            log.exception("a file was not handed to the sandbox, or not converted")
            reason = "an unexpected error; see the log"
        else:
            return _without_text(file, f"{suffix} is not supported") if converts and suffix in NOT_READ else file
        return _without_text(file, reason) if is_document else replace(file, note=f"it was not copied there: {reason}")

    async def _hand_over(self, thread_id: str, file: InputFile) -> None:
        content = await asyncio.to_thread(file.path.read_bytes)
        async with self._sandboxes.borrow(thread_id) as sandbox:
            problem = await sandbox.write_file(f"{UPLOADS}/{file.path.name}", content)
        if isinstance(problem, Problem):
            raise SandboxError(f"the file was not accepted: {problem.code} {problem.detail}")

    async def _with_text(
        self, thread_id: str, file: InputFile, write: Callable[[Sandbox, str, str], Awaitable[str]]
    ) -> InputFile:
        """The file with its text beside it. write: writes that, from one path of the sandbox to the other, and returns
        why there is none."""
        text = file.path.with_name(f"{file.path.name}.md")
        async with self._sandboxes.borrow(thread_id) as sandbox:
            if reason := await write(sandbox, f"{UPLOADS}/{file.path.name}", f"{UPLOADS}/{text.name}"):
                return _without_text(file, reason)
            return replace(file, text_path=text, text_sha256=await _text_sha256(sandbox, file, text.name))


async def _write_in_utf_8(sandbox: Sandbox, document: str, result: str) -> str:
    body = await contents(sandbox, document, MOST_BYTES)
    if isinstance(body, Problem):
        return body.code
    text = await asyncio.to_thread(lambda: body.decode(encoding_of(body) or "utf-8", "replace"))
    written = await sandbox.write_file(result, text)
    return written.code if isinstance(written, Problem) else ""


def _is_in_another_encoding(file: InputFile) -> bool:
    """Whether it is text that is not in UTF-8; only that is learned here, even if a command has put a link there."""
    try:
        with open_regular(file.path) as opened:
            return encoding_of(opened.read(MOST_BYTES)) not in {"", "utf-8", "utf-8-sig"}
    except (OSError, Rejected):
        return False


async def _text_sha256(sandbox: Sandbox, file: InputFile, text: str) -> str:
    """The hash of the text extracted from a document; "" where the document is no longer what was received, since a
    command of the same thread may have changed it before the conversion."""
    if not file.sha256 or await sha256_of(sandbox, f"{UPLOADS}/{file.path.name}") != file.sha256:
        return ""
    return await sha256_of(sandbox, f"{UPLOADS}/{text}")


def _without_text(file: InputFile, reason: str) -> InputFile:
    reason = without_folders(reason)[:LONGEST_REASON]
    log.warning("a document was not converted: %s", reason)
    return replace(file, note=f"its text could not be extracted: {reason}")
