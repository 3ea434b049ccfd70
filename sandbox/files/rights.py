"""Whose rights the gateway has while it works on a sandbox's files: a gateway that runs as root takes the sandbox's."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.files import syscalls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.config import SandboxSettings


@dataclass(frozen=True, slots=True)
class Owner:
    """The unprivileged user that commands run as and that owns the thread's files."""

    uid: int
    gid: int


def owner_of(settings: SandboxSettings) -> Owner | None:
    """Who commands run as and the files belong to, where that is not the gateway's own user."""
    return Owner(settings.uid, settings.gid or settings.uid) if os.geteuid() == 0 else None


@contextmanager
def acting_as(owner: Owner | None) -> Iterator[None]:
    """This thread opens and creates files as `owner`, without root's privileges; None: as the gateway's own user.

    Only in a worker thread: nothing else of the thread may run meanwhile. What it creates belongs to the owner from the
    first moment, and what the owner may not read stays unread.
    """
    if owner is None:
        yield
        return
    uid, gid, groups = os.geteuid(), os.getegid(), os.getgroups()
    syscalls.set_groups([])
    try:
        syscalls.set_file_user(owner.uid, owner.gid)
        yield
    finally:
        syscalls.set_file_user(uid, gid)
        syscalls.set_groups(groups)
