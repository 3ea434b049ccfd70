"""ls, glob, grep, read_file, write_file, str_replace. Only content that the model has seen may be replaced.

What it has seen is derived from the thread: every result of reading or writing has the file's version in its artifact.
So this survives a restart, is reset by a rewind, and is forgotten with the messages that a summary replaces. Within a
round, versions that the run itself produced from a seen one count as seen.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from harness.graph.calls import IDEMPOTENT
from harness.graph.results import (
    MOST_CHARACTERS,
    VERSIONS,
    Answer,
    Runtime,
    canonical,
    done,
    failed,
    refused,
    sandbox_of,
    short,
)
from harness.text.plain import size_text
from sandbox.base import NEW, WORKSPACE, FileInfo, Problem, ProblemCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.tools import BaseTool

    from harness.graph.results import Runtime
    from sandbox.base import Entry, FileText, Sandbox


READ, WRITE, REPLACE = "read_file", "write_file", "str_replace"
MOST_READ = 50_000
"""Bytes, and so a limit for characters too."""
LONGEST_NOTE = 1000
Path = Annotated[str, "Path of the file, absolute or relative to the working directory"]

LS, GLOB, GREP = "ls", "glob", "grep"
MOST_LISTED, MOST_FOUND, MOST_HITS = 1000, 200, 100
MOST_LISTING = 20_000
ROOM = 400
"""Characters of a listing, and those of them reserved for the heading and the note at the end."""
Folder = Annotated[str, "Folder to look in"]

NEVER_READ = "never read"
"""Value of `expected` that no file's version equals."""


@cache  # langchain takes 25 ms to derive each tool's schema, and they depend on no agent
def file_tools() -> tuple[BaseTool, ...]:
    """Tools to find, read and change files."""
    looking = [_ls(), _glob(), _grep()]
    for each in looking:
        each.metadata = {IDEMPOTENT: True}
    return (*looking, _read_file(), _write_file(), _str_replace())


def _read_file() -> BaseTool:
    @tool(READ)
    async def read_file(
        path: Path,
        runtime: Runtime,
        first_line: Annotated[int, "The first line to read, from 1"] = 1,
        last_line: Annotated[int, "The last line to read; 0: to the end"] = 0,
    ) -> Answer:
        """Read a text file, or some of its lines. At most 50 000 characters at a time."""
        if first_line < 1 or (last_line and last_line < first_line):
            return failed(runtime, READ, "first_line counts from 1, and last_line is not before it (0: to the end).")
        sandbox = await sandbox_of(runtime).get()
        found = await sandbox.read_file(path, first_line=first_line, last_line=last_line or None, max_bytes=MOST_READ)
        if isinstance(found, Problem):
            return refused(runtime, READ, found)
        return done(runtime, READ, _shown(found), **{VERSIONS: {canonical(path): found.info.version}})

    read_file.metadata = {IDEMPOTENT: True, MOST_CHARACTERS: MOST_READ + LONGEST_NOTE}
    return read_file


def _shown(found: FileText) -> str:
    if not found.total_lines:
        return "[the file is empty]"
    if not found.last_line:
        return f"[nothing there: the file has {found.total_lines} lines]"
    if not found.cut and found.first_line == 1 and found.last_line == found.total_lines:
        return found.text
    place = f"lines {found.first_line} to {found.last_line} of {found.total_lines}"
    if not found.cut:
        return f"[{place}]\n{found.text}"
    return (
        f"[{place}; cut here, since a result has at most {MOST_READ} characters. Read the rest by its lines; split a "
        f"line that is longer than that with a command.]\n{found.text}"
    )


def _write_file() -> BaseTool:
    @tool(WRITE)
    async def write_file(
        path: Path,
        content: Annotated[str, "The text"],
        runtime: Runtime,
        append: Annotated[bool, "Add to the end of the file instead of replacing it"] = False,
    ) -> Answer:
        """Write a text file and its folders. An existing file is replaced only if you have read its current version."""
        run = sandbox_of(runtime)
        sandbox = await run.get()
        async with run.writing:
            seen = seen_version(runtime, path)
            if append:
                written, known = await _append(sandbox, path, content, seen)
            else:
                written, known = await sandbox.write_file(path, content, expected=seen or NEW), True
                if _is_gone(written) and seen is not None:  # deleted since: there is nothing to lose
                    written = await sandbox.write_file(path, content, expected=NEW)
            if isinstance(written, Problem):
                return refused(runtime, WRITE, written)
            if known:
                note_successor(runtime, seen, written.version)
        text = f"{'Added to' if append else 'Wrote'} {short(path)}, which has {size_text(written.size)} now."
        return done(runtime, WRITE, text, **({VERSIONS: {canonical(path): written.version}} if known else {}))

    return write_file


def _is_gone(written: FileInfo | Problem) -> bool:
    return isinstance(written, Problem) and written.code is ProblemCode.STALE


async def _append(sandbox: Sandbox, path: str, content: str, seen: str | None) -> tuple[FileInfo | Problem, bool]:
    """The result, and whether the model now knows the whole file. Always allowed, since it destroys nothing."""
    written = await sandbox.write_file(path, content, append=True, expected=seen or NEW)
    if isinstance(written, Problem) and written.code is ProblemCode.STALE:
        return await sandbox.write_file(path, content, append=True), False
    return written, True


def _str_replace() -> BaseTool:
    @tool(REPLACE)
    async def str_replace(
        path: Path,
        old: Annotated[str, "The text to replace, exactly as it is in the file"],
        new: Annotated[str, "The new text"],
        runtime: Runtime,
        replace_all: Annotated[bool, "Replace every occurrence, not just a unique one"] = False,
    ) -> Answer:
        """Replace text in a file that you have read. The text must occur exactly once, unless replace_all."""
        run = sandbox_of(runtime)
        sandbox = await run.get()
        async with run.writing:
            seen = seen_version(runtime, path)
            updated = await sandbox.update_file(path, old, new, replace_all=replace_all, expected=seen or NEVER_READ)
            if isinstance(updated, Problem):
                return refused(runtime, REPLACE, updated)
            note_successor(runtime, seen, updated.info.version)
        places = "1 place" if updated.replaced == 1 else f"{updated.replaced} places"
        text = f"Replaced the text at {places} in {short(path)}."
        return done(runtime, REPLACE, text, **{VERSIONS: {canonical(path): updated.info.version}})

    return str_replace


def seen_version(runtime: Runtime, path: str) -> str | None:
    """The version of the file that the model knows, None if it knows none."""
    own = sandbox_of(runtime).successors
    version = _told_version(runtime, canonical(path))
    while version in own:
        version = own[version]
    return version


def _told_version(runtime: Runtime, path: str) -> str | None:
    for message in reversed(runtime.state["messages"]):
        if isinstance(message, ToolMessage) and isinstance(message.artifact, dict):
            versions = message.artifact.get(VERSIONS)
            if isinstance(versions, dict) and path in versions:
                return str(versions[path])
    return None


def note_successor(runtime: Runtime, before: str | None, after: str) -> None:
    """Record that a write of this run turned one version into another."""
    if before is not None and before != after:
        sandbox_of(runtime).successors[before] = after


def _ls() -> BaseTool:
    @tool(LS)
    async def ls(
        runtime: Runtime,
        path: Folder = WORKSPACE,
        depth: Annotated[int, "How many levels of folders to show, 1 to 5"] = 2,
    ) -> Answer:
        """List a folder with the sizes of its files."""
        sandbox = await sandbox_of(runtime).get()
        found = await sandbox.list_dir(path, depth=min(max(depth, 1), 5), most=MOST_LISTED)
        if isinstance(found, Problem):
            return refused(runtime, LS, found)
        if not found.entries:
            return done(runtime, LS, f"{short(path)} is empty.")
        lines = (_described(entry) for entry in found.entries)
        return done(runtime, LS, _fitting(lines, more=found.more, advice="list one of the folders, or use glob"))

    return ls


def _described(entry: Entry) -> str:
    match entry.kind:
        case "dir":
            return f"{entry.path}/"
        case "file":
            return f"{entry.path} ({size_text(entry.size)})"
        case "link":
            return f"{entry.path} (a link, not followed)"
        case _:
            return f"{entry.path} (not a regular file)"


def _glob() -> BaseTool:
    @tool(GLOB)
    async def glob(
        pattern: Annotated[str, "As in *.py or **/*.csv; ** spans folders"], runtime: Runtime, path: Folder = WORKSPACE
    ) -> Answer:
        """Find files by their names. At most 200 are shown."""
        sandbox = await sandbox_of(runtime).get()
        found = await sandbox.glob(pattern, path, most=MOST_FOUND)
        if isinstance(found, Problem):
            return refused(runtime, GLOB, found)
        if not found.entries:
            return done(runtime, GLOB, f"No file below {short(path)} matches.")
        paths = (entry.path for entry in found.entries)
        return done(runtime, GLOB, _fitting(paths, more=found.more, advice="use a narrower pattern or folder"))

    return glob


def _grep() -> BaseTool:
    @tool(GREP)
    async def grep(
        pattern: Annotated[str, "A regular expression without backreferences"],
        runtime: Runtime,
        path: Annotated[str, "Folder or file to search"] = WORKSPACE,
        glob: Annotated[str, "Only files with matching names, as in *.py"] = "",
        ignore_case: bool = False,
    ) -> Answer:
        """Search the lines of text files. At most 100 hits are shown."""
        sandbox = await sandbox_of(runtime).get()
        found = await sandbox.grep(pattern, path, glob=glob, ignore_case=ignore_case, most=MOST_HITS)
        if isinstance(found, Problem):
            return refused(runtime, GREP, found)
        if not found.hits:
            return done(runtime, GREP, f"No line below {short(path)} matches.")
        lines = (f"{hit.path}:{hit.line}: {hit.text}" for hit in found.hits)
        return done(runtime, GREP, _fitting(lines, more=found.more, advice="use a narrower pattern, folder or glob"))

    return grep


def _fitting(lines: Iterable[str], *, more: bool, advice: str) -> str:
    """Join as many lines as fit into a result, with a note if there are more."""
    kept: list[str] = []
    room = MOST_LISTING - ROOM
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            more = True
            break
        kept.append(line)
    if more:
        kept.append(f"[cut: only the first {len(kept)} are shown; {advice}]")
    return "\n".join(kept)
