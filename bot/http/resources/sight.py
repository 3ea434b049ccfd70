"""Who may see what: the only place that decides which words a caller may read, and what they may act on.

People see what is theirs. Administrators operate: they see states, names, times and figures of everything, but words of
others only where `http.admins_read_threads` allows it, which is announced in the chats too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.control.actions import log_action
from bot.http.errors import not_found

if TYPE_CHECKING:
    from bot.control.actions import Action
    from bot.http.auth import Caller
    from bot.http.errors import HttpProblem
    from bot.http.parts import HttpParts


class Sight:
    """The rules, evaluated for each request."""

    def __init__(self, parts: HttpParts) -> None:
        self._settings = parts.settings

    def reads_all(self, caller: Caller) -> bool:
        """Whether the caller may read everybody's threads."""
        return self._settings().http.admins_read_threads and caller.may("operate")

    def reads(self, caller: Caller, owner: str) -> bool:
        """Whether the caller may read the words of a thread, a memory or a schedule. owner: whose it is."""
        return owner == caller.person or self.reads_all(caller)

    def acts(self, caller: Caller, person: str) -> bool:
        """Whether the caller may stop, drop or decide on a person's runs."""
        return person == caller.person or caller.may("operate")


def log_act(caller: Caller, action: Action, *, of: str = "", **about: str) -> None:
    """Log an action on another person's things, or on what everyone shares; actions on one's own are private. of: the
    owner, "" for everyone. about: as for `log_action`."""
    if of != caller.person:
        log_action(action, caller.by, person=of, **about)


def unknown(what: str) -> HttpProblem:
    """The problem of a thing that does not exist, as far as the caller may know."""
    return not_found(f"there is no such {what}")
