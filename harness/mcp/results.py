"""What a tool answered, as the model gets it: text made harmless, files told apart from it. Pure; used by tools.py.

Nothing is fetched: links stay text.
"""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp import types

from harness.text.frames import harmless, line

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_TEXT = 2_000_000
"""Characters; ToolOutputBudget keeps them in a file and shows a part."""
MOST_FILES = 8
LONGEST_URI = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file within a result. mime_type: as the server calls it, in one line."""

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
    """text: harmless. failed: the tool says that it did not work."""

    text: str
    attachments: tuple[Attachment, ...]
    failed: bool


def result_of(answer: types.CallToolResult) -> Result:
    """Texts one below the other; structured content only where there is no other."""
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
    return "[something that cannot be shown]"


def _attachment(encoded: str, mime_type: str) -> str | Attachment:
    kind = line(mime_type, 80).lower()
    try:
        return Attachment(mime_type=kind, data=base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        return f"[a file ({kind}) came broken]"
