"""Where the settings come from, so that they can be read again while the gateway runs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bot.settings.load import data_dir_of, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bot.settings.model import Settings

Signature = tuple[tuple[str, int, int, int], ...]


@dataclass(slots=True)
class SettingsSource:
    """path: the config file, None for the built-in default. options: from the command line, as load takes them. seen:
    the signature of what was read last."""

    path: Path | None
    options: Mapping[str, Any] = field(default_factory=dict)
    seen: Signature = ()

    def read(self) -> Settings:
        """The settings as they are now; raises ConfigError with every problem."""
        settings = load(self.path, os.environ, self.options)
        self.seen = self.signature(settings.agents_dir)
        return settings

    def data_dir(self) -> Path | None:
        """Where everything is kept, of a config with faults too; None where that cannot be known."""
        return data_dir_of(self.path, os.environ, self.options)

    def signature(self, agents_dir: Path) -> Signature:
        """Another one whenever the file, or one of the agents' folder, was written. Blocking, and quick."""
        try:
            return tuple(_signed(path) for path in self._files(agents_dir))
        except OSError:  # a folder went away while it was listed
            return ()

    def _files(self, agents_dir: Path) -> Iterator[Path]:
        if self.path is not None:
            yield self.path
            yield from sorted(agents_dir.glob("*/*"))


def _signed(path: Path) -> tuple[str, int, int, int]:
    try:
        stat = path.stat()
    except OSError:
        return str(path), 0, 0, 0
    return str(path), stat.st_mtime_ns, stat.st_size, stat.st_ino
