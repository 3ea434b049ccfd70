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
from typing import TYPE_CHECKING, Any

import pytest

from tests.flow.api_world import AGENT, Api, serving
from tests.flow.letters import Letters
from tests.simulators.process import REPO_ROOT, child_environment

if TYPE_CHECKING:
    from tests.flow.gateway import World

PACKAGES = Path(sys.prefix) / "javascript" / "node_modules"
PROGRAMS = REPO_ROOT / "tests" / "flow" / "javascript"


def missing() -> str:
    """What this machine has not, "" for nothing."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not (PACKAGES / "@langchain" / "langgraph-sdk").is_dir():
        return "LangGraph's client for JavaScript is not installed: make .venv/.installed-node"
    return ""


pytestmark = [pytest.mark.node, pytest.mark.skipif(bool(missing()), reason=missing() or "nothing is missing")]


async def told(api: Api, program: str, folder: Path) -> Any:
    """The last line that a program beside this test prints, as JSON."""
    # A module is looked for in node_modules beside and above the program.
    (folder / "node_modules").symlink_to(PACKAGES)
    process = await asyncio.create_subprocess_exec(
        *(str(shutil.which("node")), str(shutil.copy(PROGRAMS / program, folder))),
        env=child_environment() | {"ANTLER_URL": api.url, "ANTLER_TOKEN": await api.token()},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return json.loads(output.splitlines()[-1])


async def test_the_client_for_javascript_works_as_that_for_python(world: World, tmp_path: Path) -> None:
    async with serving(world) as api:
        assert await told(api, "client.mjs", tmp_path) == {
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


async def test_its_runs_wait_for_decisions_are_cancelled_and_taken_up_again(world: World, tmp_path: Path) -> None:
    letters = Letters(world.folder)
    world.environment |= letters.environment
    rules = {"rules": [{"tool": "send_letter", "decision": "ask"}]}
    async with serving(world, tools=[{"use": "tests.flow.letters:send_letter"}], guardrails=rules) as api:
        assert await told(api, "running.mjs", tmp_path) == {
            "decided": {
                "tool": "send_letter",
                "next": ["tools"],
                "waited": 1,
                "told": [["tool", "the letter to ann is sent"], ["AIMessageChunk", "Sent."]],
                "status": "idle",
            },
            "cancelled": "interrupted",
            "strategies": {
                "reject": 409,
                "enqueue": ["pending", ["!hang first", "!say Second.", "Second."]],
                "interrupt": [["!hang first", "!say Second.", "Second."], "interrupted"],
                "rollback": [["!say Second.", "Second."], "interrupted"],
            },
            "cameBack": {"same": True, "words": 30, "gap": False},
        }
        assert letters.sent == ["ann"]
