"""Converts documents to Markdown inside a thread's sandbox and its limits, with markitdown, or converters.py for PDFs
with tables, workbooks and mails: a document is hostile until proven otherwise."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.base import Ending

if TYPE_CHECKING:
    from sandbox.base import CommandResult, Sandbox

CONVERTERS = Path(__file__).with_name("converters.py")
KINDS = frozenset({".pdf", ".docx", ".pptx", ".xlsx", ".xls", ".html", ".htm", ".epub", ".msg", ".eml", ".ipynb"})
NOT_READ = frozenset({".doc", ".ppt", ".odt", ".ods", ".odp", ".rtf", ".pages", ".numbers", ".key", ".mobi"})
"""Documents that markitdown cannot read."""
TEXTS = frozenset(
    {
        *(".md", ".markdown", ".txt", ".text", ".rst", ".adoc", ".org", ".csv", ".tsv", ".json", ".jsonl"),
        *(".yaml", ".yml", ".toml", ".ini", ".xml", ".log", ".srt", ".vtt", ".tex"),
    }
)
"""Extensions of plain text files."""
SECONDS = 20.0
"""Time limit for one file, including the sandbox's start, once its turn has come."""
AT_ONCE = 2
MOST_BYTES = 20_000_000
"""Limit of the text; longer texts are truncated."""
LONGEST_REASON = 200
CONVERTERS_SHARE = 0.2
"""Share of the time for converters.py."""
_COMMAND = """
ulimit -t {seconds}
text=$(mktemp) || exit
trap 'rm -f "$text" {discarded}' EXIT
test -s {document} || exit {no_text}
{first}python3 -m markitdown {document} -o "$text" >/dev/null && {{ test -s "$text" || exit {no_text}; }} &&
head -c {most} "$text" >{result} && exit
ended=$?
tr -d '\\0' <{document} | grep -aom1 EncryptedPackage
exit $ended
"""
_CONVERTERS = """python3 -c {program} {document} "$text" {seconds} >/dev/null 2>&1 && test -s "$text" &&
head -c {most} "$text" >{result} && exit
"""
_ENDINGS = {
    Ending.OUT_OF_MEMORY: "it needs more memory than a sandbox has",
    Ending.OUT_OF_SPACE: "it needs more space than the thread has left",
}
PROTECTED = "it is protected by a password, so a copy without one is needed"
_PROTECTED = re.compile("PDFPasswordIncorrect|EncryptedPackage|Workbook is encrypted")
"""What pdfminer says of a PDF, the stream that holds an encrypted Office document, what xlrd says of an older one."""
EMPTY = "it has no text"
_NO_TEXT = 9
"""The exit code for it."""
_KILLED = "it took too long, or more memory than a sandbox has"


async def convert(
    sandbox: Sandbox, document: str, result: str, *, seconds: float = SECONDS, discard: bool = False
) -> str:
    """Write a document's text to `result` (both are paths in the sandbox); returns why there is none, "" on success.

    discard: delete the document afterwards. Raises SandboxError.
    """
    places = {"document": shlex.quote(document), "result": shlex.quote(result), "most": MOST_BYTES}
    first = ""
    if document.lower().endswith((".pdf", ".xlsx", ".eml")):
        program = shlex.quote(CONVERTERS.read_text("utf-8"))
        first = _CONVERTERS.format(**places, program=program, seconds=f"{seconds * CONVERTERS_SHARE:g}")
    discarded = _quoted_twice(document) if discard else ""
    command = _COMMAND.format(**places, first=first, seconds=round(seconds), discarded=discarded, no_text=_NO_TEXT)
    ended = await sandbox.execute_command(command, timeout=seconds)
    return "" if ended.exit_code == 0 else without_folders(_reason(ended, seconds))[:LONGEST_REASON]


def _quoted_twice(path: str) -> str:
    """A path quoted for use inside the single quotes of a trap."""
    return shlex.quote(path).replace("'", "'\\''")


def too_slow(seconds: float) -> str:
    return f"it took longer than {seconds:g} seconds"


def _reason(ended: CommandResult, seconds: float) -> str:
    """Why a conversion failed, as far as the converter reports it. The message may contain text of the document."""
    if ended.ending is Ending.TIMED_OUT:
        return too_slow(seconds)
    if ended.ending is not Ending.EXITED:
        return _ENDINGS[ended.ending]
    if ended.exit_code is not None and ended.exit_code > 128:
        return _KILLED
    if ended.exit_code == _NO_TEXT:
        return EMPTY
    if _PROTECTED.search(ended.output):
        return PROTECTED
    return ended.output.strip().rpartition("\n")[2] or EMPTY


def without_folders(text: str) -> str:
    """The text with every path outside the sandbox cut to its last component."""
    return re.sub(r"(?<![\w/])/(?!mnt/)(?:[^\s/'\"]+/)+", "", text)
