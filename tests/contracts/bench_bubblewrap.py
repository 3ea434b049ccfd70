"""The bench of the provider `bubblewrap`."""

from __future__ import annotations

import os
import shutil
import uuid
from typing import TYPE_CHECKING

from sandbox.files.workspace import Workspaces
from sandbox.local.bubblewrap import BubblewrapProvider
from tests.contracts.sandbox_bench import LOCAL_FILES_ARE_ELSEWHERE, SETTINGS, SandboxBench

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.files.skills import SkillsOf


def _make(folder_of: Callable[[str], Path], skills: SkillsOf) -> BubblewrapProvider:
    workspaces = Workspaces(folder_of, SETTINGS, skills=skills)
    return BubblewrapProvider(SETTINGS, workspaces, instance=f"contract-{uuid.uuid4().hex[:8]}")


def _missing() -> str:
    """In CI it is never missing: then the tests fail."""
    found = shutil.which("bwrap", path="/usr/bin:/bin") or os.environ.get("CI") == "true"
    return "" if found else "bubblewrap is not installed"


BUBBLEWRAP = SandboxBench(_make, lacks=LOCAL_FILES_ARE_ELSEWHERE, missing=_missing)
