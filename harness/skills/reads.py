"""Which files a result of read_file shows, and where in a thread the workflows of skills stand; for allowed.py and
middleware/summarization.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage

from harness.messages import CHOSEN_SKILL, is_users
from harness.skills.document import SKILL_FILE
from harness.tools.results import VERSIONS
from sandbox.base import SKILLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import AnyMessage, ToolCall

READ_FILE = "read_file"


def read_paths(message: Any) -> tuple[str, ...]:
    """The files that a result of read_file shows, by their virtual paths."""
    if not isinstance(message, ToolMessage) or message.name != READ_FILE or message.status == "error":
        return ()
    artifact = message.artifact if isinstance(message.artifact, dict) else {}
    versions = artifact.get(VERSIONS)
    return tuple(versions) if isinstance(versions, dict) else ()


def is_workflow(path: str) -> bool:
    return path.startswith(f"{SKILLS}/") and path.endswith(f"/{SKILL_FILE}")


def skill_reads(messages: Sequence[AnyMessage]) -> list[dict[int, AnyMessage]]:
    """Each reading of a workflow, or of a part of one, as a round of its own, the newest first and of the same part the
    newest only: the place in `messages` -> the answer with that one call, and its result."""
    found: dict[tuple[str, str, str], dict[int, AnyMessage]] = {}
    for place in reversed(range(len(messages))):
        result = messages[place]
        path = next(filter(is_workflow, read_paths(result)), None)
        asking = _asking(messages, place) if path is not None else None
        if path is None or asking is None:
            continue
        at, call = asking
        part = (path, str(call["args"].get("first_line") or 1), str(call["args"].get("last_line") or 0))
        alone = _only(messages[at], call)
        if part not in found and alone is not None and not any(at in other for other in found.values()):
            found[part] = {at: alone, place: result}
    return list(found.values())


def _asking(messages: Sequence[AnyMessage], place: int) -> tuple[int, ToolCall] | None:
    """The call that a result answers, and where it stands: in the nearest answer, since the ids of others may be the
    same."""
    result = messages[place]
    for before in reversed(range(place)):
        message = messages[before]
        if isinstance(message, AIMessage) and isinstance(result, ToolMessage):
            return next(((before, call) for call in message.tool_calls if call["id"] == result.tool_call_id), None)
    return None


def chosen_workflow(messages: Sequence[AnyMessage], before: int) -> dict[int, AnyMessage]:
    """The request that chose a skill, if it stands before this place and nothing has answered it: place -> message."""
    for place in reversed(range(len(messages))):
        message = messages[place]
        if isinstance(message, AIMessage) and not message.tool_calls:
            break
        if is_users(message) and CHOSEN_SKILL in message.additional_kwargs:
            return {place: message} if place < before else {}
    return {}


def _only(message: AnyMessage, call: ToolCall) -> AnyMessage | None:
    """The answer with no other call than this one; None where its content names the others too."""
    if not isinstance(message, AIMessage) or len(message.tool_calls) == 1:
        return message
    return message.model_copy(update={"tool_calls": [call]}) if isinstance(message.content, str) else None
