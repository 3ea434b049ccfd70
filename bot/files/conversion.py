"""Files that people sent, handed to the thread's sandbox: documents get their text next to the original.

A document is hostile until proven otherwise, so it is converted inside the sandbox, within its limits.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.files.slots import FairSlots
from sandbox.base import UPLOADS, Ending, Problem, SandboxError

if TYPE_CHECKING:
    from bot.files.sandboxes import Sandboxes
    from harness.context import InputFile
    from sandbox.base import CommandResult

log = logging.getLogger(__name__)

KINDS = frozenset({".pdf", ".docx", ".pptx", ".xlsx", ".xls", ".html", ".htm", ".epub", ".msg"})
NOT_READ = frozenset({".doc", ".ppt", ".odt", ".ods", ".odp", ".rtf", ".pages", ".numbers", ".key", ".mobi"})
"""Documents that markitdown does not read."""
SECONDS = 20.0
"""For which one file is worked on at most, the sandbox's start included, once its turn has come."""
AT_ONCE = 2
MOST_BYTES = 20_000_000
"""Of the text; what is longer is cut."""
LONGEST_REASON = 200
_COMMAND = """
ulimit -t {seconds}
text=$(mktemp) || exit
trap 'rm -f "$text"' EXIT
python3 -m markitdown {document} -o "$text" >/dev/null && test -s "$text" && head -c {most} "$text" >{result}
"""

_ENDINGS = {
    Ending.OUT_OF_MEMORY: "it takes more memory than a sandbox has",
    Ending.OUT_OF_SPACE: "it takes more room than the thread has left",
}
_KILLED = "it took too long, or more memory than a sandbox has"


class Converter:
    """One for the process. wanted: the settings ask for it. seconds: see SECONDS."""

    def __init__(self, sandboxes: Sandboxes, *, wanted: bool, seconds: float = SECONDS) -> None:
        self._sandboxes = sandboxes
        self.wanted = wanted
        self._seconds = seconds
        self._slots = FairSlots(AT_ONCE)

    async def __call__(self, thread_id: str, file: InputFile, person: str) -> InputFile:
        """The file with the path of its text, or with a note for the model that says why there is none; as it is where
        nothing was to be done. person: who sent it, whose slow documents hold up nobody else's."""
        suffix = file.path.suffix.lower()
        converts = self.wanted and self._sandboxes.has_runtime
        is_document = converts and suffix in KINDS
        try:
            if is_document or self._sandboxes.elsewhere:
                async with self._slots.slot(person), asyncio.timeout(self._seconds):
                    if self._sandboxes.elsewhere:
                        await self._hand_over(thread_id, file)
                    if is_document:
                        return await self._converted(thread_id, file)
        except TimeoutError:
            reason = self._too_slow
        except SandboxError as error:
            log.warning("a file was not handed to the sandbox, or not converted: %s %s", error, error.hint)
            reason = str(error)
        except Exception:
            # Any error, in a provider of somebody's own too: the message has to be answered.
            log.exception("a file was not handed to the sandbox, or not converted")
            reason = "an unexpected error, which the log tells"
        else:
            return _without_text(file, f"{suffix} is not supported") if converts and suffix in NOT_READ else file
        return _without_text(file, reason) if is_document else replace(file, note=f"it did not arrive there: {reason}")

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
            seconds=round(self._seconds),
            most=MOST_BYTES,
        )
        async with self._sandboxes.borrow(thread_id) as sandbox:
            result = await sandbox.execute_command(command, timeout=self._seconds)
        return replace(file, text_path=text) if result.exit_code == 0 else _without_text(file, self._reason(result))

    @property
    def _too_slow(self) -> str:
        return f"it took longer than {self._seconds:g} seconds"

    def _reason(self, result: CommandResult) -> str:
        """Why a conversion failed, as far as the converter says. Its words may be the document's."""
        if result.ending is Ending.TIMED_OUT:
            return self._too_slow
        if result.ending is not Ending.EXITED:
            return _ENDINGS[result.ending]
        if result.exit_code is not None and result.exit_code > 128:
            return _KILLED
        return result.output.strip().rpartition("\n")[2] or "it has none"


def _without_text(file: InputFile, reason: str) -> InputFile:
    reason = without_folders(reason)[:LONGEST_REASON]
    log.warning("a document was not converted: %s", reason)
    return replace(file, note=f"its text could not be extracted: {reason}")


def without_folders(text: str) -> str:
    """The text with every path outside the sandbox cut to its last name."""
    return re.sub(r"(?<![\w/])/(?!mnt/)(?:[^\s/'\"]+/)+", "", text)
