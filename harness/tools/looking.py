"""ls, glob, grep: finding one's way among the files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from langchain_core.tools import tool

from harness.graph.calls import IDEMPOTENT
from harness.graph.results import Answer, Runtime, done, refused, sandbox_of, short, size_text
from sandbox.base import WORKSPACE, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.tools import BaseTool

    from sandbox.base import Entry

LS, GLOB, GREP = "ls", "glob", "grep"
MOST_LISTED, MOST_FOUND, MOST_HITS = 1000, 200, 100
MOST_CHARACTERS = 20_000
ROOM = 400
"""Of them for the heading and the note at the end."""

Folder = Annotated[str, "Folder to look in"]


def looking_tools() -> list[BaseTool]:
    """For make.py."""
    tools = [_ls(), _glob(), _grep()]
    for each in tools:
        each.metadata = {IDEMPOTENT: True}
    return tools


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
            return f"{entry.path} (no ordinary file)"


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
        glob: Annotated[str, "Only files with such names, as in *.py"] = "",
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
    """As many lines as a result may have, and a note if there are more."""
    kept: list[str] = []
    room = MOST_CHARACTERS - ROOM
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            more = True
            break
        kept.append(line)
    if more:
        kept.append(f"[cut: only the first {len(kept)} are shown; {advice}]")
    return "\n".join(kept)
