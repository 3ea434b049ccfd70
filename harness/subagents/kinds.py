"""The types of subagents that there are: built in, changed by the settings, and the operator's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.graph.calls import TASK
from harness.subagents.config import BASH, GENERAL_PURPOSE, INHERIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.subagents.config import SubagentSettings, SubagentsSettings

NEVER = frozenset({TASK, "ask_clarification", "write_todos", "schedule", "remember", "recall", "skill_manage"})
"""No subagent delegates, and none has a person before it whom it could ask, show a plan or a change, promise something
later, or get to know."""
SANDBOX_TOOLS = frozenset({"bash", "ls", "glob", "grep", "read_file", "write_file", "str_replace"})

ALL_BUT_PRESENTING = """\
Work on the task until it is done: look, plan, act, check. When one way fails, try another one before you give up."""
COMMANDS = """\
You are good at work in a shell: building, testing, converting, searching, computing. Run commands one step at a time,
read what they print, and check what they made. Report what matters of long output, never all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """tools: None: all that the lead agent has, but `disallowed`. model: a configured name, or INHERIT. skills: None:
    those of the lead agent."""

    name: str
    description: str
    system_prompt: str
    tools: tuple[str, ...] | None = None
    disallowed: frozenset[str] = frozenset()
    model: str = INHERIT
    max_turns: int = 100
    timeout_seconds: float = 900.0
    skills: tuple[str, ...] | None = None

    def allows(self, tool: str) -> bool:
        """Whether it may have a tool, if the lead agent has that."""
        return tool not in NEVER and tool not in self.disallowed and (self.tools is None or tool in self.tools)


_BUILT_IN = (
    Kind(
        name=GENERAL_PURPOSE,
        description="for any task of several steps: research, reading, analysing, making files",
        system_prompt=ALL_BUT_PRESENTING,
        disallowed=frozenset({"present_files"}),
    ),
    Kind(
        name=BASH,
        description="for a series of commands whose long output you need not read: builds, tests, conversions",
        system_prompt=COMMANDS,
        tools=tuple(sorted(SANDBOX_TOOLS)),
        max_turns=60,
    ),
)


def subagent_kinds(settings: SubagentsSettings, *, bash: bool) -> dict[str, Kind]:
    """All kinds by name, the built-in ones first. bash: commands can be run here."""
    kinds = {
        kind.name: _changed(kind, settings, settings.types.get(kind.name))
        for kind in _BUILT_IN
        if bash or kind.name != BASH
    }
    for name, own in settings.types.items():
        if name not in (GENERAL_PURPOSE, BASH):
            empty = Kind(name=name, description=own.description, system_prompt=own.system_prompt)
            kinds[name] = _changed(empty, settings, own)
    return kinds


def _changed(kind: Kind, settings: SubagentsSettings, own: SubagentSettings | None) -> Kind:
    """The kind with what the operator set, and nothing of what they left out."""
    said: Mapping[str, Any] = own.model_dump(include=own.model_fields_set) if own is not None else {}
    return Kind(
        name=kind.name,
        description=" ".join((said.get("description") or kind.description).split()),
        system_prompt=(said.get("system_prompt") or kind.system_prompt).strip(),
        tools=said.get("tools", kind.tools),
        disallowed=kind.disallowed | frozenset(said.get("disallowed_tools", ())),
        model=said.get("model", kind.model),
        max_turns=said.get("max_turns", kind.max_turns),
        timeout_seconds=said.get("timeout_seconds") or settings.timeout_seconds,
        skills=said.get("skills", kind.skills),
    )
