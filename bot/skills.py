"""Which skills there are for whom: the folders of this installation, what the settings and a conversation turned off.

Asked by the sandboxes, the agent, /skills and whatever begins with /skill-name; made by gateway.py.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Self

from bot.agents.profiles import AgentChoices
from bot.skill_folders import home_of, library_of
from bot.store.identity import folder_name
from bot.texts.command_line import parse, skill_name
from harness.skills.config import SkillsSettings
from harness.skills.editing import turn_on
from harness.skills.library import NO_SKILLS, SkillLibrary
from harness.skills.source import SkillSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from bot.settings import Settings
    from harness.context import RunContext
    from harness.skills.editing import SkillHome
    from harness.skills.library import SkillView
    from harness.skills.shelf import Place


def _nobody(thread_id: str) -> None:
    return None


def _always() -> bool:
    return True


class SkillDesk:
    """Without arguments: there are none. owner_of: a thread's, None where it is not known now. Its methods may be
    called in any thread; they look at the disk, mostly for a fraction of a millisecond. home_of: where skills of a
    place are changed, of an owner; None: nowhere. works: whether the agent has files at all."""

    def __init__(
        self,
        settings: SkillsSettings | None = None,
        library: SkillLibrary | None = None,
        agents: AgentChoices | None = None,
        owner_of: Callable[[str], str | None] = _nobody,
        home_of: Callable[[Place, str], SkillHome] | None = None,
        works: Callable[[], bool] = _always,
    ) -> None:
        self.library = library or SkillLibrary(None, None)
        self.settings = settings or SkillsSettings()
        self._agents = agents or AgentChoices()
        self._owner_of = owner_of
        self._home_of = home_of
        self.works = works
        self._commands: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        settings: Settings,
        agents: AgentChoices,
        owner_of: Callable[[str], str | None],
        works: Callable[[], bool] = _always,
    ) -> Self:
        return cls(settings.skills, library_of(settings), agents, owner_of, partial(home_of, settings), works)

    def adopt(self, settings: Settings) -> None:
        """Other settings hold from now on."""
        self.settings, self.library = settings.skills, library_of(settings)
        self._home_of = partial(home_of, settings)

    def source(self) -> SkillSource:
        """For the agent."""
        return SkillSource(self.of_run, lambda: self.settings.prompt_tokens)

    def keep_free(self, commands: Collection[str]) -> None:
        """These names are commands; a skill of such a name cannot be called by it."""
        self._commands = frozenset(commands)

    def folders(self, thread_id: str) -> Mapping[str, Path]:
        """For the thread's sandbox: where its skills are on this machine, by place."""
        owner = self._owner_of(thread_id)
        return self.library.folders(folder_name(owner) if owner is not None else None)

    def view(self, owner: str, agent: str) -> SkillView:
        """What there is for an owner with an agent, turned off in the conversation or not; with what is wrong."""
        definition = self._agents.definitions.get(agent)
        if definition is not None and not definition.settings.features.sandbox:
            return NO_SKILLS
        return self.library.of(folder_name(owner)).only(definition.settings.skills if definition is not None else None)

    def usable(self, owner: str, agent: str, off: Collection[str]) -> SkillView:
        """Of these, what is on. off: in the conversation."""
        return self.view(owner, agent).without({*off, *self.settings.disabled})

    def of_run(self, ctx: RunContext) -> SkillView:
        """For the agent."""
        return self.usable(ctx.owner, ctx.agent, ctx.skills_off)

    async def turn_on(self, place: Place, name: str, digest: str, *, owner: str, admin: str) -> bool:
        """An administrator agrees to a skill that waits, with exactly this content; False where it is another by now.
        Raises SkillError while another process changes skills."""
        if self._home_of is None:
            return False
        return await asyncio.to_thread(turn_on, self._home_of(place, owner), name, digest, admin)

    def is_shared(self, command: str) -> bool:
        """Whether a command is the name of a skill that everybody has."""
        name = skill_name(command)
        return self._callable(name) and self.library.of(None).get(name) is not None

    def named(self, text: str, owner: str, agent: str, off: Collection[str]) -> tuple[str, str]:
        """The skill that a text calls by `/name`, and what it asks for; ("", text) where it calls none."""
        line = parse(text)
        if line is None:
            return "", text
        name = skill_name(line.name)
        if not self._callable(name) or self.usable(owner, agent, off).get(name) is None:
            return "", text
        return name, line.arguments or text

    def _callable(self, name: str) -> bool:
        return self.works() and name not in self._commands and name not in self.settings.disabled
