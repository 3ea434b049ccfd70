"""What stands in for paths of their own, for commands that see the host's: a folder for /tmp, and one of links to the
places of skills, so that /mnt/skills itself can be listed. Used by caged.py.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from sandbox.base import SKILLS
from sandbox.files.beneath import Folder
from sandbox.files.trees import remove_tree
from sandbox.files.workspace import LINKS
from sandbox.local.cage import Bind
from sandbox.policy import TEMPORARY

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.files.paths import Layout

_TEMPORARY = "tmp"


class Aids:
    """Of one thread, in its user-data and beside it, while it has a sandbox."""

    def __init__(self, user_data: Path) -> None:
        self._user_data = user_data
        self._links = user_data.parent / LINKS

    @property
    def binds(self) -> tuple[Bind, ...]:
        return (
            Bind(source=self._user_data / _TEMPORARY, target=TEMPORARY, read_only=False),
            Bind(source=self._links, target=SKILLS, read_only=True),
        )

    def make(self, layout: Layout) -> None:
        """Raises OSError."""
        with Folder.at(self._user_data) as folder, suppress(FileExistsError):
            os.mkdir(_TEMPORARY, 0o700, dir_fd=folder.fd)
        with Folder.at(self._links.parent) as folder:
            remove_tree(folder, LINKS)
            os.mkdir(LINKS, 0o700, dir_fd=folder.fd)
            for root in layout.roots.values():
                place = root.virtual.removeprefix(f"{SKILLS}/")
                if place != root.virtual:
                    os.symlink(root.host.absolute(), f"{LINKS}/{place}", dir_fd=folder.fd)

    def remove(self) -> None:
        """Raises OSError."""
        with Folder.at(self._user_data) as folder:
            remove_tree(folder, _TEMPORARY)
        with Folder.at(self._links.parent) as folder:
            remove_tree(folder, LINKS)
