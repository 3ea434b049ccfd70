"""What an agent can be given besides its own tools, as the settings say it; bot/ hands it over. Light to import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.web.config import WebSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.config import ToolSettings


NO_WEB = WebSettings()


def _direct(url: str) -> tuple[str | None, Path | None]:
    return None, None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraSettings:
    """groups: which of the tools; all where empty. route: how to reach a URL, (proxy or None for direct, CA file)."""

    web: WebSettings = NO_WEB
    tools: tuple[ToolSettings, ...] = ()
    groups: tuple[str, ...] = ()
    route: Callable[[str], tuple[str | None, Path | None]] = _direct
