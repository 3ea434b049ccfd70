"""KeptTokens: what other processes have got from the providers of tokens, for redaction."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from harness.mcp.pool import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable


class KeptTokens:
    """The files of oauth.TokenCache, in the data folder. learn: is told of each secret."""

    def __init__(self, folder: Path, learn: Callable[[str], None]) -> None:
        self._folder = folder / FOLDER
        self._learn = learn
        self._seen: dict[str, tuple[int, int]] = {}

    def look(self) -> None:
        """Learn what has come since the last look. Blocking, for microseconds where nothing has."""
        try:
            with os.scandir(self._folder) as found:
                states = {each.path: each.stat() for each in found if each.name.endswith(".json")}
        except OSError:
            return  # nobody has got any, or they cannot be read now
        seen = {path: (state.st_ino, state.st_mtime_ns) for path, state in states.items()}
        for path in seen.keys() - {path for path, state in self._seen.items() if seen.get(path) == state}:
            self._read(Path(path))
        self._seen = seen

    def _read(self, file: Path) -> None:
        try:
            token = json.loads(file.read_text("utf-8"))["token"]
            for secret in (token["access"], token["refresh"]):
                if isinstance(secret, str) and secret:
                    self._learn(secret)
        except (OSError, ValueError, TypeError, KeyError):
            pass  # who uses it says what is wrong with it
