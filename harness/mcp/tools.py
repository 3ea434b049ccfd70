"""MCP servers' tools as the agent sees them, and their results as the model sees them.

The text of a result is made harmless, and files are separated from it. Nothing is fetched: links stay text.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import mimetypes
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langgraph.runtime import get_runtime
from mcp import types

from harness.files.images import UnreadableImage, image_data_url
from harness.graph.calls import IDEMPOTENT
from harness.graph.results import IMAGE
from harness.graph.sandbox import kept
from harness.graph.signals import RunScope, scope_of
from harness.guardrails.port import MCP
from harness.mcp.definitions import given_back
from harness.mcp.errors import CallFailed
from harness.text.frames import OUTSIDE, framed, harmless, line
from harness.text.plain import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from harness.mcp.definitions import RemoteTool
    from harness.mcp.offering import Servers


log = logging.getLogger(__name__)
HAPPENED = "It may have happened, wholly, in part or not at all: check before you do it again."
REPEATABLE = "It changes nothing by itself, so it can be tried again."
NOTHING = "Nothing happened."

LONGEST_TEXT = 2_000_000
"""Characters; ToolOutputBudget stores them in a file and shows a part."""
MOST_FILES = 8
LONGEST_URI = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file within a result. mime_type: the server's, on one line."""

    mime_type: str
    data: bytes

    @property
    def is_image(self) -> bool:
        return self.mime_type.startswith("image/")

    @property
    def suffix(self) -> str:
        return mimetypes.guess_extension(self.mime_type) or ".bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A tool's result. text: made harmless. failed: the tool reported an error."""

    text: str
    attachments: tuple[Attachment, ...]
    failed: bool


def result_of(answer: types.CallToolResult) -> Result:
    """The texts on consecutive lines; structured content only if there is nothing else."""
    texts: list[str] = []
    attachments: list[Attachment] = []
    for block in answer.content:
        told = _told(block)
        if isinstance(told, str):
            texts.append(told)
        elif len(attachments) < MOST_FILES:
            attachments.append(told)
        else:
            texts.append(f"[a file ({told.mime_type}) was left out: there are more than {MOST_FILES}]")
    if not texts and not attachments and answer.structuredContent is not None:
        texts.append(json.dumps(answer.structuredContent, ensure_ascii=False))
    return Result(text=_joined(texts), attachments=tuple(attachments), failed=bool(answer.isError))


def _joined(texts: Iterable[str]) -> str:
    text = "\n\n".join(text for text in texts if text)
    if len(text) <= LONGEST_TEXT:
        return harmless(text)
    left_out = len(text) - LONGEST_TEXT
    return f"{harmless(text[:LONGEST_TEXT])}\n[... the last {left_out} characters were not kept ...]"


def _told(block: types.ContentBlock) -> str | Attachment:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return _attachment(block.data, block.mimeType)
        case types.ResourceLink():
            about = f": {line(block.description, 300)}" if block.description else ""
            return f"[link to {line(block.name)}: {line(str(block.uri), LONGEST_URI)}{about}]"
        case types.EmbeddedResource(resource=types.TextResourceContents() as text):
            return f"[resource {line(str(text.uri), LONGEST_URI)}]\n{text.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
            return _attachment(blob.blob, blob.mimeType or "application/octet-stream")
    return "[content that cannot be shown]"


def _attachment(encoded: str, mime_type: str) -> str | Attachment:
    kind = line(mime_type, 80).lower()
    try:
        return Attachment(mime_type=kind, data=base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        return f"[a file ({kind}) arrived damaged]"


def mcp_tools(servers: Servers, shown: Mapping[str, RemoteTool], *, sees_images: bool) -> list[BaseTool]:
    """The tools for an agent. shown: name for the model -> tool."""
    return [_tool(servers, name, tool, sees_images=sees_images) for name, tool in shown.items()]


class McpTool(BaseTool):
    """A tool of a server. Called like any LangChain tool, but arguments reach the server unchanged: one may have the
    name of one of LangChain's own arguments."""

    servers: Any
    remote: Any
    sees_images: bool

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> ToolMessage:
        """Run a tool call. Raises ToolException with a text for the model."""
        call_id = str(input["id"])
        try:
            answer = await self.servers.call(self.remote, given_back(input["args"], self.remote.renamed))
        except CallFailed as failure:
            if not failure.said:
                raise ToolException(self._explained(failure)) from None
            # Not raised: the text of an exception could not contain a block.
            text = f"{self.name} failed: {self._explained(failure)} It says:\n{framed(OUTSIDE, failure.said)}"
            return ToolMessage(text, tool_call_id=call_id, name=self.name, status="error")
        result = await asyncio.to_thread(result_of, answer)  # takes up to a second for the longest
        saved = [
            await _saved(attachment, f"{_safe(call_id)}-{number}{attachment.suffix}")
            for number, attachment in enumerate(result.attachments, 1)
        ]
        shown = await self._shown(call_id, result.attachments, saved)
        text = framed(OUTSIDE, result.text) if result.text else ""
        lines = [text, *map(_line, result.attachments, saved)]
        return ToolMessage(
            "\n".join(line for line in lines if line) or "[it returned nothing]",
            tool_call_id=call_id,
            name=self.name,
            status="error" if result.failed else "success",
            artifact={IMAGE: shown} if shown else None,
        )

    def _explained(self, failure: CallFailed) -> str:
        after = NOTHING if not failure.happened else REPEATABLE if self.remote.repeatable else HAPPENED
        return f"{str(failure).rstrip('.')}. {after}"

    async def _shown(self, call_id: str, attachments: Sequence[Attachment], saved: Sequence[str]) -> str:
        """The path of the first picture if the model can be shown it; ViewImage does that."""
        scope = _scope()
        sandbox, whose = scope.sandbox, scope.ctx.speaker.id
        for attachment, path in zip(attachments, saved, strict=True):
            if sandbox is None or not (self.sees_images and attachment.is_image and path):
                continue
            try:
                url = await image_data_url(attachment.data, whose)
            except UnreadableImage:
                continue
            sandbox.images[call_id] = url
            return path
        return ""

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("the harness is asynchronous")


def _tool(servers: Servers, name: str, remote: RemoteTool, *, sees_images: bool) -> McpTool:
    about = {
        "server": remote.server,
        "name": remote.name,
        "read_only": remote.read_only,
        "destructive": remote.destructive,
        "digest": remote.digest,
    }
    return McpTool(
        name=name,
        description=remote.description or f"{remote.name} of {remote.server}",
        args_schema=json.loads(remote.schema),
        metadata={IDEMPOTENT: remote.repeatable, MCP: about},
        servers=servers,
        remote=remote,
        sees_images=sees_images,
    )


def _scope() -> RunScope:
    return scope_of(get_runtime(RunScope))


def _safe(call_id: str) -> str:
    return re.sub(r"[^\w-]", "_", call_id)[:64]


async def _saved(attachment: Attachment, name: str) -> str:
    """Save an attachment; returns its path in the sandbox, "" without a sandbox or if it cannot be written."""
    scope = _scope()
    return await kept(scope.sandbox, f"{scope.ctx.run_id[:8]}-{name}", attachment.data, "a tool's file")


def _line(attachment: Attachment, path: str) -> str:
    kind = "picture" if attachment.is_image else "file"
    about = f"{kind} ({attachment.mime_type}, {size_text(len(attachment.data))})"
    return f"[{about} is {path}]" if path else f"[a {about} came with it but could not be stored]"
