"""What the harness is given of skills: which ones a run has. bot/ knows the owners' folders and what was turned off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.context import RunContext
    from harness.skills.library import SkillView
    from harness.skills.managing import SkillHomes


@dataclass(frozen=True, slots=True)
class SkillEditing:
    """That the agent may propose changes: where, and which model judges them, "" for the default one."""

    homes: SkillHomes
    model: str


@dataclass(frozen=True, slots=True)
class SkillSource:
    """of: what a run has, as the folders stand now; called in a thread. prompt_tokens: for their list, as it holds
    now. editing: None: the agent changes none."""

    of: Callable[[RunContext], SkillView]
    prompt_tokens: Callable[[], int]
    editing: SkillEditing | None = None
