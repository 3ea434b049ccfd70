"""Images inside messages: found, and left out for models that cannot see; for the middlewares that change requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage, BaseMessage

IMAGE_TYPES = frozenset({"image_url", "image", "input_image"})
"""Content blocks: OpenAI's, LangChain's and Anthropic's, the Responses API's."""
LEFT_OUT = "[an image that this model cannot see]"


def is_image(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in IMAGE_TYPES


def has_images(message: BaseMessage) -> bool:
    return not isinstance(message.content, str) and any(map(is_image, message.content))


def without_images(message: AnyMessage) -> AnyMessage:
    """The message with a word in the place of each image; itself when there is none. Only text left: plain text."""
    if not has_images(message):
        return message
    content: list[Any] = [{"type": "text", "text": LEFT_OUT} if is_image(b) else b for b in message.content]
    if all(isinstance(block, dict) and block.get("type") == "text" for block in content):
        return message.model_copy(update={"content": "\n\n".join(str(block["text"]) for block in content)})
    return message.model_copy(update={"content": content})
