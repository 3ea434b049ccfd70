"""Results of tools: texts for the model, and artifacts that only the harness reads."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage

from harness.graph.signals import scope_of
from harness.text.frames import neutral
from harness.text.plain import clean_text, readable, short_line
from sandbox.base import OUTPUTS, SKILLS, UPLOADS, WORKSPACE, ProblemCode

if TYPE_CHECKING:
    from harness.graph.sandbox import RunSandbox
    from sandbox.base import Problem

Runtime = ToolRuntime[Any, Any]
Answer = ToolMessage
"""Both names are looked up in the tools' modules when their schemas are built."""

VERSIONS, IMAGE = "versions", "image"
"""Keys of a result's artifact: path -> the version that the model has seen; the path of a picture to show to it."""
MOST_CHARACTERS = "most_characters"
"""Metadata key of a tool whose results may be longer than those of others."""
LONGEST_SHOWN_PATH = 300

TRY: dict[ProblemCode, str] = {
    ProblemCode.NOT_FOUND: "{path} does not exist. Look for the right name with ls or glob.",
    ProblemCode.IS_DIRECTORY: "{path} is a folder. Use ls to see what is in it.",
    ProblemCode.NOT_DIRECTORY: "{path} is not a folder, or something above it is a file. Check with ls.",
    ProblemCode.NOT_A_FILE: "{path} is not a regular file (a device, a pipe, a file with two names). Use another one.",
    ProblemCode.LINK: "{path} is, or leads through, a symbolic link, and links are not followed. Use the real path.",
    ProblemCode.OUTSIDE: f"{{path}} is outside your folders. Use {WORKSPACE}, {UPLOADS}, {OUTPUTS} or {SKILLS}.",
    ProblemCode.BAD_PATH: "{path} is not a valid path. Use a short one without special characters.",
    ProblemCode.READ_ONLY: f"{{path}} is read-only. Copy it to {WORKSPACE} and change the copy.",
    ProblemCode.DENIED: "{path} may not be used: the permissions of it or its folder forbid it. Use another file.",
    ProblemCode.BINARY: "{path} is not text. Open it with a program for its format; look at an image with "
    "view_image, if you have that.",
    ProblemCode.TOO_LARGE: "{path} is too large. Use a part of it, or make it smaller.",
    ProblemCode.BAD_PATTERN: "The pattern cannot be used. Write a simpler one, without backreferences or lookaround.",
    ProblemCode.NO_MATCH: "The text to replace is not in {path}. Read the file, and copy the text exactly, with all "
    "spaces.",
    ProblemCode.NOT_UNIQUE: "The text to replace is in {path} more than once. Add surrounding text, or set "
    "replace_all.",
    ProblemCode.STALE: "{path} exists, and you have not read it as it is now. Read it with read_file, then try again.",
    ProblemCode.FULL: "There is no space left for {path}. Delete files that are no longer needed, then try again.",
    ProblemCode.TIMED_OUT: "{path} took too long. Use a smaller folder or a simpler pattern.",
}
"""What went wrong, and what the model can try."""


def done(runtime: Runtime, tool: str, text: str, **artifact: Any) -> ToolMessage:
    """A result. artifact: JSON types only, kept with the message in the thread."""
    return ToolMessage(
        neutral(readable(clean_text(text))),
        tool_call_id=runtime.tool_call_id or "",
        name=tool,
        artifact=artifact or None,
    )


def failed(runtime: Runtime, tool: str, text: str) -> ToolMessage:
    """The result of a call that had no effect."""
    return ToolMessage(
        neutral(readable(clean_text(text))), tool_call_id=runtime.tool_call_id or "", name=tool, status="error"
    )


def refused(runtime: Runtime, tool: str, problem: Problem) -> ToolMessage:
    return failed(runtime, tool, explained(problem))


def explained(problem: Problem) -> str:
    """A problem, worded for the model."""
    text = TRY[problem.code].format(path=short(problem.path))
    return f"{text} ({problem.detail})" if problem.detail else text


def short(path: str) -> str:
    """A path, shortened for use in a sentence."""
    return short_line(path, LONGEST_SHOWN_PATH) or '""'


def canonical(path: str) -> str:
    """The canonical spelling of a virtual path, under which facts about it are stored."""
    return "/" + posixpath.normpath(posixpath.join(WORKSPACE, path)).lstrip("/")


def sandbox_of(runtime: Runtime) -> RunSandbox:
    """The run's sandbox; raises RuntimeError if the run has none although it was given these tools."""
    sandbox = scope_of(runtime).sandbox
    if sandbox is None:
        raise RuntimeError("a sandbox tool was called in a run without a sandbox")
    return sandbox
