"""The menu, and who sees its entries. A page added by a router needs a line here and a text `shell.nav_<name>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A page in the menu. path: below the base path. icon: from templates/icons.html. scope: sees it (`Caller.may`)."""

    name: str
    path: str
    icon: str
    scope: str = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Entries under a heading, `shell.group_<name>`; "" has none."""

    name: str
    entries: tuple[Entry, ...]


GROUPS: Sequence[Group] = (
    Group(name="", entries=(Entry(name="chat", path="/", icon="message-circle"),)),
    Group(
        name="yours",
        entries=(
            Entry(name="threads", path="/threads", icon="messages-square"),
            Entry(name="files", path="/files", icon="files"),
            Entry(name="research", path="/research", icon="compass"),
            Entry(name="knowledge", path="/knowledge", icon="layers"),
            Entry(name="memory", path="/memory", icon="brain"),
            Entry(name="schedules", path="/schedules", icon="calendar-clock"),
            Entry(name="agents", path="/agents", icon="bot"),
            Entry(name="skills", path="/skills", icon="sparkles"),
            Entry(name="usage", path="/usage", icon="chart-column"),
        ),
    ),
    Group(
        name="operate",
        entries=(
            Entry(name="now", path="/now", icon="activity", scope="operate"),
            Entry(name="people", path="/people", icon="users", scope="operate"),
            Entry(name="mcp", path="/mcp", icon="plug", scope="operate"),
            Entry(name="configuration", path="/configuration", icon="settings", scope="admin"),
        ),
    ),
)


def menu(may: frozenset[str]) -> list[Group]:
    """The groups with the entries visible with these scopes, without empty groups."""
    found = [
        Group(name=group.name, entries=tuple(entry for entry in group.entries if entry.scope in may))
        for group in GROUPS
    ]
    return [group for group in found if group.entries]
