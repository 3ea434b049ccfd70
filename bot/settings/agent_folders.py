"""The folder of agents, as the settings point to it: loaded, and what is wrong with it as problems of the config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.settings.problems import ConfigProblem
from harness.souls import DEFAULT, Known, load_agents
from harness.subagents.config import BASH, GENERAL_PURPOSE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bot.settings.model import Settings
    from harness.souls import LoadedAgents

USUAL = "agents"
"""The folder that need not be there."""


def agents_of(settings: Settings) -> LoadedAgents:
    """All agents that are without fault, and what is wrong with the others."""
    known = Known(
        models=[model.name for model in settings.models],
        groups={tool.group for tool in settings.tools if tool.group},
        subagents={GENERAL_PURPOSE, BASH, *settings.subagents.types},
    )
    return load_agents(settings.agents_dir, known)


def agent_problems(settings: Settings, file: Path | None) -> Iterator[ConfigProblem]:
    """file: the config's, to be named where one of its own keys is wrong."""
    config = str(file) if file is not None else "built-in default"
    if settings.agents_dir.name != USUAL and not settings.agents_dir.is_dir():
        yield ConfigProblem(file=config, key="agents_dir", message="is no folder")
    loaded = agents_of(settings)
    for problem in loaded.problems:
        yield ConfigProblem(file=str(problem.file), key=problem.key, message=problem.message)
    named = {"conversations.agent": settings.conversations.agent}
    for account, channel in settings.channels.items():
        named[f"channels.{account}.agent"] = channel.agent or DEFAULT
        named[f"channels.{account}.conversations.agent"] = settings.conversations_for(account).agent
    broken = {problem.file.name for problem in loaded.problems} | {p.file.parent.name for p in loaded.problems}
    for key, name in named.items():
        if name not in loaded.definitions and name not in broken:
            known = ", ".join(loaded.definitions)
            yield ConfigProblem(file=config, key=key, message="names no agent", suggestion=f"known are: {known}")
            return
