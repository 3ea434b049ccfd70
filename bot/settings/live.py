"""What of a changed config can be taken over by a running process. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel

if TYPE_CHECKING:
    from bot.settings.model import ChannelSettings, Settings

LIVE = frozenset(
    {
        "access",
        "agents_dir",
        "budgets",
        "conversations",
        "guardrails",
        "limits",
        "llm",
        "loop",
        "mcp_servers",
        "models",
        "skill_evolution",
        "skills",
        "subagents",
        "summarization",
        "title",
        "tool_groups",
        "tool_search",
        "tools",
        "web",
    }
)
"""Sections that a running process takes over as they are."""
LIVE_OF_CHANNEL = frozenset({"access", "conversations", "agent", "locale"})


@dataclass(frozen=True, slots=True)
class Change:
    """settings: what holds from now on. applied, restart: the keys that differ, and whether they hold already."""

    settings: Settings
    applied: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


def change(old: Settings, new: Settings) -> Change:
    """The step from what a process runs with to what its config says now."""
    differing = [name for name in type(new).model_fields if getattr(old, name) != getattr(new, name)]
    live = [name for name in differing if name in LIVE]
    applied, restart = list(live), [name for name in differing if name not in LIVE and name != "channels"]
    update = {name: getattr(new, name) for name in live}
    if "channels" in differing:
        update["channels"] = {
            account: _channel(account, old, new.channels.get(account), applied, restart) for account in old.channels
        }
        restart += [f"channels.{account}" for account in new.channels if account not in old.channels]
    return Change(old.model_copy(update=update), tuple(applied), tuple(restart))


def _channel(
    account: str, settings: Settings, new: ChannelSettings | None, applied: list[str], restart: list[str]
) -> ChannelSettings:
    """What holds of one account; its differing keys are added to the lists."""
    old = settings.channels[account]
    if new is None or new.type != old.type:
        restart.append(f"channels.{account}")
        # Until then it goes on as it was: a general section that was written without a thought of it opens nothing.
        kept = {"access": settings.access_for(account), "conversations": settings.conversations_for(account)}
        return old.model_copy(update={name: _whole(section) for name, section in kept.items()})
    differing = [name for name in type(new).model_fields if getattr(old, name) != getattr(new, name)]
    live = [name for name in differing if name in LIVE_OF_CHANNEL]
    applied += [f"channels.{account}.{name}" for name in live]
    if len(live) < len(differing):
        restart.append(f"channels.{account}")
    return old.model_copy(update={name: getattr(new, name) for name in live})


def _whole(section: BaseModel) -> BaseModel:
    """The section with every key as its own, so that it inherits none."""
    values = {name: getattr(section, name) for name in type(section).model_fields}
    return section.model_copy(
        update={name: _whole(value) if isinstance(value, BaseModel) else value for name, value in values.items()}
    )
