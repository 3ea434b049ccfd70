"""What the model has seen of a file: only that may be replaced. Used by files.py.

It is read off the thread: every result of reading or writing keeps the file's version in its artifact. So it survives a
restart, goes back with a rewind, and is forgotten with the messages that a summary replaces: then the model has to read
again what it does not know any more. Within a round, what the run itself made of a version counts as seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.messages import ToolMessage

from harness.graph.results import VERSIONS, canonical, sandbox_of

if TYPE_CHECKING:
    from harness.graph.results import Runtime

NEVER_READ = "never read"
"""As `expected`: no file has this version."""


def seen_version(runtime: Runtime, path: str) -> str | None:
    """The version of the file that the model knows, None when it knows none."""
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
    """A write of this run turned one version into another."""
    if before is not None and before != after:
        sandbox_of(runtime).successors[before] = after
