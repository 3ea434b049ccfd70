"""The content arguments that chat methods share: text, blocks, markdown_text, attachments, metadata, chunks."""

import json
from typing import Any

from tests.simulators.slack.blocks import MAX_BLOCKS, MAX_MARKDOWN, TASK_STATES, check_blocks
from tests.simulators.slack.calls import Call
from tests.simulators.slack.errors import SlackError
from tests.simulators.slack.state import StreamMode

Json = dict[str, Any]

MAX_POST_TEXT = 40_000
MAX_UPDATE_TEXT = 4_000
MAX_ATTACHMENTS = 100
# The reference only states that a limit exists.
MAX_METADATA = 8_000


def message_content(call: Call, *, update: bool = False) -> Json:
    """Checked `text`, `blocks`, `attachments`, `metadata` of a message; only the given ones. Raises SlackError.

    A longer text is cut off at 40000 characters by chat.postMessage and refused above 4000 by chat.update.
    """
    if call.given("markdown_text"):
        if call.given("text") or call.given("blocks"):
            raise SlackError("markdown_text_conflict")
        return {**_markdown(call.text("markdown_text")), **metadata(call)}
    content: Json = {}
    if call.given("blocks"):
        content["blocks"] = check_blocks(call.params["blocks"])
    if call.given("attachments"):
        content["attachments"] = _attachments(call.params["attachments"])
    text = call.text("text")
    if call.given("text"):
        if update and len(text) > MAX_UPDATE_TEXT:
            raise SlackError("msg_too_long")
        content["text"] = text[:MAX_POST_TEXT]
    if not text.strip() and not content.get("blocks") and not content.get("attachments"):
        raise SlackError("no_text")
    return {**content, **metadata(call)}


def _markdown(markdown: str) -> Json:
    if not markdown.strip():
        raise SlackError("no_text")
    if len(markdown) > MAX_MARKDOWN:
        raise SlackError("msg_too_long")
    return {"text": markdown, "blocks": [{"type": "markdown", "block_id": "b0", "text": markdown}]}


def _attachments(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise SlackError("invalid_attachments")
    if len(value) > MAX_ATTACHMENTS:
        raise SlackError("too_many_attachments")
    return value


def metadata(call: Call) -> Json:
    """The message's metadata as a member, or nothing if it was not given; an empty object removes it."""
    if not call.given("metadata"):
        return {}
    value = call.params["metadata"]
    if value == {}:
        return {"metadata": None}
    if not isinstance(value, dict) or not value.get("event_type") or not isinstance(value.get("event_payload"), dict):
        raise SlackError("invalid_metadata_format")
    if len(json.dumps(value)) > MAX_METADATA:
        raise SlackError("metadata_too_large")
    return {"metadata": value}


def stream_content(call: Call, *, required: bool) -> tuple[StreamMode | None, list[Json]]:
    """The mode ("text", "chunks" or None for nothing) and the chunks of one streaming call. Raises SlackError."""
    has_text, has_chunks = bool(call.text("markdown_text")), bool(call.params.get("chunks"))
    if has_text and has_chunks:
        raise SlackError("cannot_provide_both_markdown_text_and_chunks")
    if has_chunks:
        chunks = _chunks(call.params["chunks"])
    elif has_text:
        chunks = [{"type": "markdown_text", "text": call.text("markdown_text")}]
    elif required:
        raise SlackError("markdown_text_or_chunks_required")
    else:
        return None, []
    if sum(len(chunk["text"]) for chunk in chunks if chunk["type"] == "markdown_text") > MAX_MARKDOWN:
        raise SlackError("msg_too_long")
    return ("chunks" if has_chunks else "text"), chunks


def _chunks(value: Any) -> list[Json]:
    if not isinstance(value, list):
        raise SlackError("invalid_chunks")
    for chunk in value:
        if not isinstance(chunk, dict) or not _good_chunk(chunk):
            raise SlackError("invalid_chunks")
    blocks = [block for chunk in value if chunk["type"] == "blocks" for block in chunk["blocks"]]
    if len(blocks) > MAX_BLOCKS:
        raise SlackError("msg_blocks_too_many")
    if blocks:
        check_blocks(blocks)
    return value


def _good_chunk(chunk: Json) -> bool:
    kind = chunk.get("type")
    if kind == "markdown_text":
        return isinstance(chunk.get("text"), str)
    if kind == "task_update":
        named = all(isinstance(chunk.get(name), str) and chunk[name] for name in ("id", "title"))
        return named and chunk.get("status") in TASK_STATES
    if kind == "plan_update":
        return isinstance(chunk.get("title"), str)
    return kind == "blocks" and isinstance(chunk.get("blocks"), list)
