"""Nobody pays for MCP who has no server: nothing of the SDK is imported."""

from __future__ import annotations

import asyncio
import json
import sys

from tests.simulators.process import REPO_ROOT, child_environment

PROGRAM = """
import json, sys
import bot.process.gateway, harness.run.runner
print(json.dumps([name for name in ("mcp", "starlette", "uvicorn", "re2", "jsonschema") if name in sys.modules]))
"""


async def test_nothing_is_imported_without_a_server() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM), cwd=REPO_ROOT, env=child_environment(), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert (process.returncode, json.loads(output)) == (0, [])
