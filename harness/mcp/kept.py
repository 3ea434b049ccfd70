"""KeptTokens: tokens that other processes have obtained from providers, for redaction."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from harness.mcp.pool import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable


class KeptTokens:
    """The files of oauth.TokenCache, in the data folder. learn: called with each secret."""

    def __init__(self, folder: Path, learn: Callable[[str], None]) -> None:
        self._folder = folder / FOLDER
        self._learn = learn
        self._seen: dict[str, tuple[int, int]] = {}
        self._looking = asyncio.Lock()

    async def look(self) -> None:
        """Learn the tokens stored since the last call."""
        async with self._looking:  # in a thread, since the folder may be remote
            seen, secrets = await asyncio.to_thread(self._found)
            for secret in secrets:
                self._learn(secret)
            self._seen = seen

    def _found(self) -> tuple[dict[str, tuple[int, int]], list[str]]:
        """The current state of the files, and the secrets in those that are new or have changed."""
        try:
            with os.scandir(self._folder) as found:
                states = {each.path: each.stat() for each in found if each.name.endswith(".json")}
        except OSError:
            return self._seen, []  # no process has stored any, or they cannot be read now
        seen = {path: (state.st_ino, state.st_mtime_ns) for path, state in states.items()}
        changed = [path for path, state in seen.items() if self._seen.get(path) != state]
        return seen, [secret for path in changed for secret in _secrets(Path(path))]


def _secrets(file: Path) -> list[str]:
    try:
        token = json.loads(file.read_text("utf-8"))["token"]
        return [secret for secret in (token["access"], token["refresh"]) if isinstance(secret, str) and secret]
    except (OSError, ValueError, TypeError, KeyError):
        return []  # its user reports what is wrong with it
