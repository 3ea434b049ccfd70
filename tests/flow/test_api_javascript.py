"""LangGraph's client for JavaScript against a running gateway, where node and the package are installed.

`npm install` in tests/flow/javascript installs it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.flow.api_world import AGENT, serving
from tests.simulators.process import REPO_ROOT, child_environment

if TYPE_CHECKING:
    from tests.flow.gateway import World

FOLDER = REPO_ROOT / "tests" / "flow" / "javascript"
NODE = shutil.which("node")
INSTALLED = (FOLDER / "node_modules" / "@langchain" / "langgraph-sdk").is_dir()


@pytest.mark.skipif(NODE is None or not INSTALLED, reason="node or its packages are not installed")
async def test_the_client_for_javascript_works_as_that_for_python(world: World) -> None:
    async with serving(world) as api:
        process = await asyncio.create_subprocess_exec(
            *(str(NODE), str(FOLDER / "client.mjs")),
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
        }
