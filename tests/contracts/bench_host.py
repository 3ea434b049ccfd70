"""The bench of the provider `host`; without commands where the tests are root's, since it refuses those."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

from sandbox.files.workspace import Workspaces
from sandbox.local.host import host_provider
from tests.contracts.sandbox_bench import LOCAL_FILES_ARE_ELSEWHERE, SETTINGS, Ability, SandboxBench

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.base import SandboxProvider
    from sandbox.files.skills import SkillsOf

AS_ROOT = os.geteuid() == 0
REASON = "it runs no commands for root"


def _make(folder_of: Callable[[str], Path], skills: SkillsOf) -> SandboxProvider:
    host = SETTINGS.host.model_copy(update={"allow_host_bash": not AS_ROOT})
    settings = SETTINGS.model_copy(update={"use": "host", "host": host})
    workspaces = Workspaces(folder_of, settings, skills=skills)
    return host_provider(settings, workspaces, instance=f"contract-{uuid.uuid4().hex[:8]}")


NOT_HELD = {Ability.HELD: "its commands are held by nothing"}
NO_COMMANDS = {Ability.COMMANDS: REASON, Ability.SHELL: REASON} if AS_ROOT else {}
HOST = SandboxBench(_make, lacks=NOT_HELD | LOCAL_FILES_ARE_ELSEWHERE | NO_COMMANDS)
