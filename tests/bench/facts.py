"""Facts about the machine that a reader needs to judge the figures; nothing that identifies its owner."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from tests.bench.gauge import MEGABYTE
from tests.simulators.process import REPO_ROOT

PACKAGES = (
    *(
        "antler",
        "aiohttp",
        "langchain",
        "langchain-core",
        "langchain-openai",
        "langgraph",
        "langgraph-checkpoint-sqlite",
    ),
    *("lark-oapi", "openai", "py-spy", "pydantic", "python-telegram-bot", "slack-bolt", "sqlalchemy", "websockets"),
)


def machine() -> dict[str, Any]:
    """Cores, memory, versions, and the load average before the first scenario."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory_mb": psutil.virtual_memory().total // MEGABYTE,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "commit": _commit(),
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the source tree, with a + if files differ from it; None outside a checkout."""
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"], cwd=REPO_ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.stdout.strip()
