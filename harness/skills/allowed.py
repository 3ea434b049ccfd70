"""allowed-tools: which skills are followed in a turn, and what they leave of the tools; for middleware/skill_tools.py.

A skill is followed from the moment its SKILL.md was read, or from the start where the person chose it, to the turn's
end; where that was a question, to the end of the turn that answers it. That stands in the thread, so a turn that goes
on after a restart knows it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage

from harness.messages import CHOSEN_SKILL, is_users
from harness.skills.reads import READ_FILE, read_paths
from harness.state import STEERED
from harness.tools.asking import ASK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from harness.skills.library import SkillView
    from harness.skills.shelf import Skill

ALWAYS = frozenset(
    {
        *(READ_FILE, "ls", "glob", "grep", "view_image", "recall"),
        *(ASK, "present_files", "tool_search", "write_todos", "skill_manage"),
    }
)
"""Looking, asking, planning and handing over do nothing that a list could mean to forbid: other agents' skills, whose
files are simply there, cannot name the tool that brings them into a chat."""

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
"""What other agents call the same tools, so that their skills work here."""


def known_as(tool: str) -> str:
    """A name of an allowed-tools list as it is called here; `Bash(git:*)` is bash as a whole."""
    plain = (tool.partition("(")[0] if tool.endswith(")") else tool).strip()
    return ELSEWHERE.get(plain, plain)


def limits_of(state: Mapping[str, Any], view: SkillView) -> dict[str, frozenset[str]]:
    """The skills that are followed now and list their tools: name -> what they list. state: of the thread."""
    followed = (view.get(name) for name in _followed(state["messages"], state.get(STEERED) or (), view))
    return {skill.name: _listed(skill) for skill in followed if skill and skill.document.allowed_tools is not None}


def forbidden(tool: str, limits: Mapping[str, frozenset[str]]) -> bool:
    """Whether a call is outside of what the skills list. Of several that are followed, each may bring its tools."""
    return bool(limits) and tool not in ALWAYS and not any(tool in listed for listed in limits.values())


def _listed(skill: Skill) -> frozenset[str]:
    return frozenset(map(known_as, skill.document.allowed_tools or ()))


def _followed(messages: Sequence[BaseMessage], steered: Collection[str], view: SkillView) -> Iterator[str]:
    """Names, in no order, some of them twice. steered: messages that joined the turn while it went on."""
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
    """Whether a person's message comes right behind a question of ours."""
    before = messages[place - 1] if place else None
    return isinstance(before, ToolMessage) and before.name == ASK and before.status != "error"
