"""Whose the threads are that work now: told where a message's files come in and where a run begins, asked by the
sandboxes, which show a thread its owner's own skills.
"""

from __future__ import annotations

from collections import OrderedDict

KEPT = 10_000
"""Threads that are known; the one that was told of longest ago is forgotten, until its next message."""


class ThreadOwners:
    """A thread always belongs to one owner; the owner gets another name only where a chat gets another id."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, str] = OrderedDict()

    def learn(self, thread_id: str, owner: str) -> None:
        self._owners[thread_id] = owner
        self._owners.move_to_end(thread_id)
        if len(self._owners) > KEPT:
            self._owners.popitem(last=False)

    def of(self, thread_id: str) -> str | None:
        """None of a thread that nobody told of: a probe's, or one that is at rest."""
        return self._owners.get(thread_id)
