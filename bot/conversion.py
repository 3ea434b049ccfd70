"""Files that people sent, handed to the thread's sandbox: documents get their text beside the original.

For arrivals.py. A document is hostile until proven otherwise, so it is converted inside the sandbox, within its limits.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox.base import UPLOADS, Problem, SandboxError

if TYPE_CHECKING:
    from bot.sandboxes import Sandboxes
    from harness.context import InputFile

log = logging.getLogger(__name__)

KINDS = frozenset({".pdf", ".docx", ".pptx", ".xlsx", ".xls", ".html", ".htm", ".epub", ".msg"})
SECONDS = 20.0
"""For which a message waits for one document at most, the wait for a slot and for the sandbox's start included."""
AT_ONCE = 2
MOST_BYTES = 20_000_000
"""Of the text; what is longer is cut."""
_COMMAND = """
ulimit -t {seconds}
text=$(mktemp) || exit
trap 'rm -f "$text"' EXIT
python3 -m markitdown {document} -o "$text" >/dev/null && test -s "$text" && head -c {most} "$text" >{result}
"""


class Converter:
    """One for the process. wanted: the settings ask for it."""

    def __init__(self, sandboxes: Sandboxes, *, wanted: bool) -> None:
        self._sandboxes = sandboxes
        self._wanted = wanted
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, thread_id: str, file: InputFile) -> InputFile:
        """The file with the path of its text, or as it is: no document, no sandbox, or not readable in time."""
        is_document = self._wanted and file.path.suffix.lower() in KINDS and self._sandboxes.has_runtime
        if not (is_document or self._sandboxes.elsewhere):
            return file
        try:
            async with asyncio.timeout(SECONDS):
                if self._sandboxes.elsewhere:
                    await self._hand_over(thread_id, file)
                if is_document:
                    async with self._slots:
                        return await self._converted(thread_id, file)
        except TimeoutError:
            log.warning("a file was not handed to the sandbox, or not converted, within %g seconds", SECONDS)
        except SandboxError as error:
            log.warning("a file was not handed to the sandbox, or not converted: %s %s", error, error.hint)
        except Exception:
            # Whatever it is, in a provider of somebody's own too: the message has to be answered.
            log.exception("a file was not handed to the sandbox, or not converted")
        return file

    async def _hand_over(self, thread_id: str, file: InputFile) -> None:
        content = await asyncio.to_thread(file.path.read_bytes)
        async with self._sandboxes.borrow(thread_id) as sandbox:
            problem = await sandbox.write_file(f"{UPLOADS}/{file.path.name}", content)
        if isinstance(problem, Problem):
            raise SandboxError(f"the file was not taken: {problem.code} {problem.detail}")

    async def _converted(self, thread_id: str, file: InputFile) -> InputFile:
        text = file.path.with_name(f"{file.path.name}.md")
        command = _COMMAND.format(
            document=shlex.quote(f"{UPLOADS}/{file.path.name}"),
            result=shlex.quote(f"{UPLOADS}/{text.name}"),
            seconds=round(SECONDS),
            most=MOST_BYTES,
        )
        async with self._sandboxes.borrow(thread_id) as sandbox:
            result = await sandbox.execute_command(command, timeout=SECONDS)
        if result.exit_code != 0:
            last = result.output.strip().rpartition("\n")[2][-300:]
            log.warning("a document was not converted (%s, %s): %s", result.ending, result.exit_code, last)
            return file
        return replace(file, text_path=text)
