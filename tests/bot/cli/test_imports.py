"""Imports at the start: what takes a second is imported after the platforms are listened to, or never."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_version_imports_neither_settings_nor_agent() -> None:
    code = (
        "import sys\nfrom bot.__main__ import app\napp(['version'], standalone_mode=False)\n"
        "print(sorted({'bot.settings', 'bot.process.app', 'yaml', 'langgraph', 'telegram'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    name, modules = done.stdout.splitlines()
    assert name.startswith("antler ")
    assert modules == "[]"


def test_the_gateway_is_imported_without_the_agent() -> None:
    """The platforms are listened to before what takes a second to import."""
    code = (
        "import sys\nimport bot.process.gateway\n"
        "print(sorted({'langchain_core', 'langgraph', 'openai', 'mcp', 're2', 'PIL'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
