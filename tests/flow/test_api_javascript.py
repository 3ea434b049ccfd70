"""LangGraph's client for JavaScript against a running gateway.

`make .venv/.installed-node` installs it; the lock file beside its test is made by `npm install --package-lock-only
--omit-lockfile-registry-resolved`.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.flow.api_world import AGENT, serving
from tests.simulators.process import REPO_ROOT, child_environment

if TYPE_CHECKING:
    from tests.flow.gateway import World

PACKAGES = Path(sys.prefix) / "javascript" / "node_modules"
PROGRAM = REPO_ROOT / "tests" / "flow" / "javascript" / "client.mjs"


def missing() -> str:
    """What this machine has not, "" for nothing."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not (PACKAGES / "@langchain" / "langgraph-sdk").is_dir():
        return "LangGraph's client for JavaScript is not installed: make .venv/.installed-node"
    return ""


pytestmark = [pytest.mark.node, pytest.mark.skipif(bool(missing()), reason=missing() or "nothing is missing")]


async def test_the_client_for_javascript_works_as_that_for_python(world: World, tmp_path: Path) -> None:
    # A module is looked for in node_modules beside and above the program.
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    program = shutil.copy(PROGRAM, tmp_path)
    async with serving(world) as api:
        process = await asyncio.create_subprocess_exec(
            *(str(shutil.which("node")), str(program)),
            env=child_environment() | {"ANTLER_URL": api.url, "ANTLER_TOKEN": await api.token()},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        assert json.loads(output.splitlines()[-1]) == {
            "text": "From JavaScript.",
            "ends": "end",
            "status": "success",
            "messages": ["!say From JavaScript.", "From JavaScript."],
            "waited": "Again.",
            "joined": "end",
            "found": True,
            "assistants": [AGENT],
            "written": "Written from JavaScript.",
            "removed": ["!say From JavaScript.", "From JavaScript.", "!say Again.", "Again."],
            "forked": ["!say From JavaScript.", "From JavaScript.", "!say Instead.", "Instead."],
            "refused": 422,
        }
