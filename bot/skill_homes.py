"""What the agent may change of skills, where a person agrees: the owner's own and the shared ones; for agent.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.skill_folders import home_of, library_of
from harness.skills.document import SKILL_FILE
from harness.skills.managing import SkillHomes
from harness.skills.shipped import shipped_folder
from harness.skills.source import SkillEditing

if TYPE_CHECKING:
    from bot.settings import Settings
    from harness.context import RunContext
    from harness.skills.editing import SkillHome


def editing_of(settings: Settings) -> SkillEditing | None:
    """None where the settings do not let it change any."""
    if not (settings.skill_evolution.enabled and settings.skills.enabled):
        return None
    library = library_of(settings)

    def home(ctx: RunContext, shared: bool) -> SkillHome:
        return home_of(settings, "custom" if shared else "mine", ctx.owner)

    def taken(ctx: RunContext, shared: bool) -> frozenset[str]:
        """Of what ships with Antler, turned off or not; and a shared skill comes before an own one of its name."""
        shipped = frozenset(path.parent.name for path in shipped_folder().glob(f"*/{SKILL_FILE}"))
        return shipped if shared else shipped | frozenset(library.of(None).by_name)

    return SkillEditing(SkillHomes(home, taken), settings.skill_evolution.model)
