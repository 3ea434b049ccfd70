"""The content of a request: its last user message, the progress of the turn, its images."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from dataclasses import dataclass
from typing import Any

from PIL import Image, UnidentifiedImageError

_DATE = re.compile(r"^date: .*$", re.MULTILINE)
"""The line that the gateway adds to a message, to the minute: a retry may fall into the next one."""


@dataclass(frozen=True, slots=True)
class ImageSeen:
    """An image as received: decoded bytes, width and height in pixels (0 x 0 if it is not an image)."""

    mime_type: str
    size: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Asked:
    """The part of a request that determines the answer.

    conversation: a digest of all user texts without their times, equal for the retries and the tool rounds of one turn.
    round: number of earlier rounds of tool calls in this turn. results: the tool results of those rounds.
    """

    last_user_text: str
    conversation: str
    round: int
    results: tuple[str, ...]
    tools: tuple[str, ...]
    system: str
    messages: int


def asked(body: dict[str, Any]) -> Asked:
    """Read a well-formed request."""
    messages: list[dict[str, Any]] = body["messages"]
    users = [index for index, message in enumerate(messages) if message["role"] == "user"]
    turn = messages[users[-1] + 1 :] if users else messages
    said = "\0".join(_DATE.sub("", text_of(messages[i])) for i in users)
    digest = hashlib.sha1(said.encode("utf-8", "surrogatepass"))
    return Asked(
        last_user_text=text_of(messages[users[-1]]) if users else "",
        conversation=digest.hexdigest(),
        round=sum(1 for message in turn if message.get("tool_calls")),
        results=tuple(text_of(message) for message in turn if message["role"] == "tool"),
        tools=tuple(str(tool.get("function", {}).get("name")) for tool in body.get("tools") or ()),
        system=text_of(messages[0]) if messages[0]["role"] in ("system", "developer") else "",
        messages=len(messages),
    )


def text_of(message: dict[str, Any]) -> str:
    """The text of a message's content, its text parts joined by newlines."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else ""


def take_images(body: dict[str, Any]) -> list[ImageSeen]:
    """Decode the images of all messages, and replace the data with its size so that records stay small."""
    seen: list[ImageSeen] = []
    for message in body.get("messages") or ():
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            url = str((part.get("image_url") or {}).get("url", "")) if part.get("type") == "image_url" else ""
            if url.startswith("data:"):
                image = _image(url)
                seen.append(image)
                part["image_url"]["url"] = f"data:{image.mime_type};{image.size} bytes"
    return seen


def _image(url: str) -> ImageSeen:
    head, _, payload = url.partition(",")
    data = base64.b64decode(payload)
    try:
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size
    except UnidentifiedImageError:
        width = height = 0
    return ImageSeen(head.removeprefix("data:").removesuffix(";base64"), len(data), width, height)
