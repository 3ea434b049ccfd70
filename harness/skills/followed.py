"""Skills that a turn follows: where their workflows were read, and which tools their allowed-tools leave.

A skill is followed from the moment its SKILL.md was read, or from the start if the person chose it, to the end of the
turn; if that ends with a question, to the end of the turn that answers it. This is recorded in the thread, so a turn
resumed after a restart knows it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage

from harness.graph.calls import ASK
from harness.graph.messages import CHOSEN_SKILL, is_users
from harness.graph.results import VERSIONS
from harness.graph.state import STEERED
from harness.skills.document import LISTED, SKILL_FILE
from sandbox.base import SKILLS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from langchain_core.messages import AnyMessage, BaseMessage, ToolCall

    from harness.skills.document import SkillDocument
    from harness.skills.library import Skill, SkillView

READ_FILE = "read_file"
ALWAYS = frozenset(
    {
        *(READ_FILE, "ls", "glob", "grep", "view_image", "recall"),
        *(ASK, "present_files", "tool_search", "write_todos", "skill_manage"),
    }
)
"""Tools that no list forbids: reading, asking, planning and delivering files. Skills written for other agents cannot
name them."""
ELSEWHERE = {
    "Bash": "bash",
    "Edit": "str_replace",
    "Glob": "glob",
    "Grep": "grep",
    "LS": "ls",
    "MultiEdit": "str_replace",
    "Read": READ_FILE,
    "Task": "task",
    "TodoWrite": "write_todos",
    "WebFetch": "web_fetch",
    "WebSearch": "web_search",
    "Write": "write_file",
}
"""Other agents' names for the same tools, so that their skills work here."""


def read_paths(message: Any) -> tuple[str, ...]:
    """Virtual paths of the files that a result of read_file shows."""
    if not isinstance(message, ToolMessage) or message.name != READ_FILE or message.status == "error":
        return ()
    artifact = message.artifact if isinstance(message.artifact, dict) else {}
    versions = artifact.get(VERSIONS)
    return tuple(versions) if isinstance(versions, dict) else ()


def is_workflow(path: str) -> bool:
    return path.startswith(f"{SKILLS}/") and path.endswith(f"/{SKILL_FILE}")


def skill_reads(messages: Sequence[AnyMessage]) -> list[dict[int, AnyMessage]]:
    """Reads of workflows or parts of them, newest first; only the newest of each part.

    Each is the answer with that one call and its result, by index in `messages`.
    """
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
    """The call that a result answers, and its index: in the nearest answer, since earlier ids may be equal."""
    result = messages[place]
    for before in reversed(range(place)):
        message = messages[before]
        if isinstance(message, AIMessage) and isinstance(result, ToolMessage):
            return next(((before, call) for call in message.tool_calls if call["id"] == result.tool_call_id), None)
    return None


def chosen_workflow(messages: Sequence[AnyMessage], before: int) -> dict[int, AnyMessage]:
    """The unanswered request that chose a skill, by its index, if it is before this one."""
    for place in reversed(range(len(messages))):
        message = messages[place]
        if isinstance(message, AIMessage) and not message.tool_calls:
            break
        if is_users(message) and CHOSEN_SKILL in message.additional_kwargs:
            return {place: message} if place < before else {}
    return {}


def _only(message: AnyMessage, call: ToolCall) -> AnyMessage | None:
    """The answer with only this call; None if its content names the other calls too."""
    if not isinstance(message, AIMessage) or len(message.tool_calls) == 1:
        return message
    return message.model_copy(update={"tool_calls": [call]}) if isinstance(message.content, str) else None


def known_as(tool: str) -> str:
    """Our name for a tool in an allowed-tools list; `Bash(git:*)` means bash as a whole."""
    plain = (tool.partition("(")[0] if tool.endswith(")") else tool).strip()
    return ELSEWHERE.get(plain, plain)


def needed(document: SkillDocument) -> frozenset[str]:
    """Tools that a skill cannot do without, from `needs-tools` in its metadata."""
    named = document.metadata.get("needs-tools") or ()
    listed = LISTED.findall(named) if isinstance(named, str) else [each for each in named if isinstance(each, str)]
    return frozenset(map(known_as, listed))


def can_follow(document: SkillDocument, tools: Collection[str]) -> bool:
    """Whether an agent with these tools can follow a skill."""
    return needed(document) <= set(tools)


def limits_of(state: Mapping[str, Any], view: SkillView) -> dict[str, frozenset[str]]:
    """Listed tools of each currently followed skill that lists any, by name. state: of the thread."""
    followed = (view.get(name) for name in _followed(state["messages"], state.get(STEERED) or (), view))
    return {skill.name: _listed(skill) for skill in followed if skill and skill.document.allowed_tools is not None}


def forbidden(tool: str, limits: Mapping[str, frozenset[str]]) -> bool:
    """Whether a call is outside the skills' lists. Several followed skills each add their tools."""
    return bool(limits) and tool not in ALWAYS and not any(tool in listed for listed in limits.values())


def _listed(skill: Skill) -> frozenset[str]:
    return frozenset(map(known_as, skill.document.allowed_tools or ()))


def _followed(messages: Sequence[BaseMessage], steered: Collection[str], view: SkillView) -> Iterator[str]:
    """Names in no particular order, with duplicates. steered: messages that joined the running turn."""
    for place in reversed(range(len(messages))):
        message = messages[place]
        if isinstance(message, ToolMessage):
            yield from (view.by_path[path].name for path in read_paths(message) if path in view.by_path)
        elif is_users(message):
            chosen = message.additional_kwargs.get(CHOSEN_SKILL)
            if isinstance(chosen, str):
                yield chosen
            if message.id not in steered and not _is_answer(messages, place):
                return


def _is_answer(messages: Sequence[BaseMessage], place: int) -> bool:
    """Whether a person's message directly follows a question of the agent."""
    before = messages[place - 1] if place else None
    return isinstance(before, ToolMessage) and before.name == ASK and before.status != "error"
