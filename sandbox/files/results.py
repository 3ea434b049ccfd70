"""Keeps the folder for long results of tools (base.RESULTS) small: an age, and a size of all. Used by workspace.py."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.files.beneath import Folder

OLDEST_SECONDS = 7 * 24 * 3600.0
MOST_BYTES = 64 << 20
SUFFIX = ".txt"
_MOST_ENTRIES = 10_000
"""That are looked at: a command may have put any number there."""


def prune(folder: Folder, now: float) -> None:
    """Delete the files that are too old, and of the others the oldest beyond the size. now: as time.time().

    Whatever else stands there stays: folders, links, files of other names. Raises OSError.
    """
    kept = 0
    for name, found in sorted(_results(folder), key=lambda each: each[1].st_mtime, reverse=True):
        kept += found.st_size
        if kept > MOST_BYTES or found.st_mtime < now - OLDEST_SECONDS:
            with suppress(FileNotFoundError):  # a command was quicker
                os.unlink(name, dir_fd=folder.fd)


def _results(folder: Folder) -> list[tuple[str, os.stat_result]]:
    found = []
    with os.scandir(folder.fd) as entries:
        for entry in islice(entries, _MOST_ENTRIES):
            if entry.name.endswith(SUFFIX):
                with suppress(FileNotFoundError):
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
    return [(name, each) for name, each in found if stat.S_ISREG(each.st_mode)]
