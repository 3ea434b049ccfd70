"""Agents that people really install, in the thread's sandbox beside a simulated model: `make .venv/.installed-node`."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import acp
import pytest

from bot.texts.en import EN
from tests.flow.sandboxed import call, require_bubblewrap
from tests.simulators.model.scripts import STEPS, Call, Say, ToolUse
from tests.simulators.process import REPO_ROOT
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from tests.flow.gateway import World

require_bubblewrap()

JAVASCRIPT = Path(sys.prefix) / "javascript"
PYTHON_PACKAGES = Path(acp.__file__).parents[1]
ORDER = "Note that deer have antlers."


@dataclass(frozen=True, slots=True)
class Program:
    """arguments: of node. environment: besides the model's address. tool, path: what writes a file, and its parameter
    for where."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    tool: str
    path: str = "file_path"


PROGRAMS = {
    "claude": Program(
        ("@zed-industries/claude-code-acp/dist/index.js",),
        {"ANTHROPIC_API_KEY": "$MODEL_KEY", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        "Write",
    ),
    "gemini": Program(
        ("@google/gemini-cli/bundle/gemini.js", "--experimental-acp"),
        {"GEMINI_API_KEY": "$MODEL_KEY", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        "write_file",
    ),
}


def missing() -> str:
    """What this machine has not, "" for nothing."""
    if shutil.which("node", path="/usr/bin:/bin") is None:
        return "node is not installed"
    if not (JAVASCRIPT / "node_modules/@google/gemini-cli").is_dir():
        return "the agents are not installed: make .venv/.installed-node"
    return ""


pytestmark = [pytest.mark.node, pytest.mark.skipif(bool(missing()), reason=missing() or "nothing is missing")]


def shown_to_the_sandbox(folder: Path, script: dict[str, Any]) -> list[dict[str, Any]]:
    """Mounts of the agents and of the simulated model with its script."""
    shutil.copytree(REPO_ROOT / "tests/simulators", folder / "tests/simulators")
    shutil.copytree(JAVASCRIPT, folder / "javascript")
    (folder / "script.json").write_text(json.dumps(script))
    for parent in (folder, *folder.parents):
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    return [
        {"path": "/mnt/beside", "host": str(folder), "read_only": True},
        {"path": "/mnt/packages", "host": str(PYTHON_PACKAGES), "read_only": True},
    ]


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_asks_and_writes_its_file(name: str, world: World, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    file = f"/mnt/user-data/workspace/acp/{name}/deer.txt"
    arguments = json.dumps({program.path: file, "content": "antlers"})
    write = ToolUse(name=program.tool, arguments=arguments)
    steps = STEPS.dump_python((Call(calls=(write,)), Say(text="Noted.")), mode="json")
    mounts = shown_to_the_sandbox(tmp_path / "beside", {"match": "contains", "text": ORDER, "steps": steps})
    python = f"/usr/bin/python3.{sys.version_info.minor}"
    starter = ("PYTHONPATH=/mnt/beside:/mnt/packages", "HOME=/tmp", "PYTHONDONTWRITEBYTECODE=1", python)
    node = ("/usr/bin/node", f"/mnt/beside/javascript/node_modules/{program.arguments[0]}", *program.arguments[1:])
    beside = ("/mnt/beside/tests/simulators/acp/beside_model.py", "/mnt/beside/script.json")
    agent = {"command": "env", "args": [*starter, *beside, *node], "env": program.environment, "start_timeout": 180}
    world.settings |= {"sandbox": {"use": "bubblewrap", "mounts": mounts}, "acp_agents": {name: agent}}
    async with world:
        order = call("invoke_acp_agent", agent=name, prompt=ORDER)
        await world.telegram.user_says(f"{order}\n!say I am back.")
        card = await world.telegram.wait_for_text(ALICE, "deer.txt", 120)
        await world.telegram.press(card.message_id, EN.approval_buttons["once"], user=ALICE, chat=ALICE.id)
        await world.telegram.wait_for_text(ALICE, "I am back.", 120)
        told = str((await world.model.completions())[-1].body["messages"][-1])
        assert "Noted." in told
        (written,) = world.data_dir.glob(f"threads/*/user-data/workspace/acp/{name}/deer.txt")
        assert written.read_text() == "antlers"
