"""SkillService: the skills of an owner in a conversation, without those that are turned off."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Self

from bot.agents.profiles import AgentChoices
from bot.skills.folders import SwitchedOff, home_of, library_of
from bot.store.identity import folder_name
from bot.texts.command_line import skill_name
from harness.skills.config import SkillsSettings
from harness.skills.editing import turn_on
from harness.skills.library import NO_SKILLS, SkillLibrary, SkillSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from bot.settings import Settings
    from bot.texts.command_line import CommandLine
    from harness.context import RunContext
    from harness.skills.editing import SkillHome
    from harness.skills.library import Origin, SkillView


def _unknown_owner(thread_id: str) -> None:
    return None


def _always() -> bool:
    return True


class SkillService:
    """The skills of this installation; without arguments there are none.

    Its methods may be called in any thread; they access the disk, mostly for a fraction of a millisecond.
    owner_of: a thread's owner, None while it is unknown.
    home_of: the folder where an owner's skills of an origin are changed; None: nothing can be changed.
    switched_off: what administrators turned off at run time; None: not possible.
    works: whether the agent has files at all.
    """

    def __init__(
        self,
        settings: SkillsSettings | None = None,
        library: SkillLibrary | None = None,
        agents: AgentChoices | None = None,
        owner_of: Callable[[str], str | None] = _unknown_owner,
        home_of: Callable[[Origin, str], SkillHome] | None = None,
        works: Callable[[], bool] = _always,
        switched_off: SwitchedOff | None = None,
    ) -> None:
        self.library = library or SkillLibrary(None, None)
        self.settings = settings or SkillsSettings()
        self._agents = agents or AgentChoices()
        self._owner_of = owner_of
        self._home_of = home_of
        self.works = works
        self._switched_off = switched_off
        self._switching = asyncio.Lock()
        self._commands: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        settings: Settings,
        agents: AgentChoices,
        owner_of: Callable[[str], str | None],
        works: Callable[[], bool] = _always,
    ) -> Self:
        home, off = partial(home_of, settings), SwitchedOff(settings.data_dir)
        return cls(settings.skills, library_of(settings), agents, owner_of, home, works, off)

    def adopt(self, settings: Settings) -> None:
        """Apply new settings from now on."""
        self.settings, self.library = settings.skills, library_of(settings)
        self._home_of = partial(home_of, settings)

    @property
    def disabled(self) -> frozenset[str]:
        """Names of skills that are off for everyone."""
        off = frozenset[str]() if self._switched_off is None else self._switched_off.names()
        return off | frozenset(self.settings.disabled)

    async def switch(self, name: str, *, on: bool) -> None:
        """Turn a skill on or off for everyone; what the config turns off stays off. Raises OSError."""
        if self._switched_off is not None:
            async with self._switching:
                await asyncio.to_thread(self._switched_off.switch, name, on=on)

    def source(self) -> SkillSource:
        return SkillSource(self._of_run, lambda: self.settings.prompt_tokens)

    def keep_free(self, commands: Collection[str]) -> None:
        """Reserve the names of commands; a skill with such a name cannot be called by it."""
        self._commands = frozenset(commands)

    def folders(self, thread_id: str) -> Mapping[str, Path]:
        """Folders that the thread's sandbox shows, by origin."""
        owner = self._owner_of(thread_id)
        return self.library.folders(folder_name(owner) if owner is not None else None)

    def view(self, owner: str, agent: str) -> SkillView:
        """All skills of an owner with an agent, turned off or not, and the problems of others."""
        definition = self._agents.definitions.get(agent)
        if definition is not None and not definition.settings.features.sandbox:
            return NO_SKILLS
        return self.library.of(folder_name(owner)).only(definition.settings.skills if definition is not None else None)

    def usable(self, owner: str, agent: str, off: Collection[str]) -> SkillView:
        """The view without skills that are turned off. off: names that the conversation turned off."""
        return self.view(owner, agent).without({*off, *self.disabled})

    def _of_run(self, ctx: RunContext) -> SkillView:
        return self.usable(ctx.owner, ctx.agent, ctx.skills_off)

    async def turn_on(self, origin: Origin, name: str, digest: str, *, owner: str, admin: str) -> bool:
        """Approve a waiting skill for an administrator; False if its content no longer matches the digest. Raises
        SkillError while another process changes skills."""
        if self._home_of is None:
            return False
        return await asyncio.to_thread(turn_on, self._home_of(origin, owner), name, digest, admin)

    def is_shared(self, command: str) -> bool:
        """Whether a command is the name of a shared skill."""
        name = skill_name(command)
        return self._callable(name) and self.library.of(None).get(name) is not None

    def called(
        self, line: CommandLine | None, text: str, owner: str, agent: str, off: Collection[str]
    ) -> tuple[str, str]:
        """The skill that a text calls by `/name`, and the request; ("", text) when it calls none. line: parsed text."""
        name = skill_name(line.name) if line is not None else ""
        if line is None or not self._callable(name) or self.usable(owner, agent, off).get(name) is None:
            return "", text
        return name, line.arguments or text

    def _callable(self, name: str) -> bool:
        return self.works() and name not in self._commands and name not in self.disabled
