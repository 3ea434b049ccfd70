"""Runs scripts of skills/public as the agent's sandbox does: with the runtime's Python, away from this environment."""

from __future__ import annotations

import json
import os
import subprocess
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.policy import CHECKOUT, DEFAULT_FOLDER, complete

if TYPE_CHECKING:
    from pathlib import Path

LIBRARY = CHECKOUT / "skills" / "public"
CONTENTS = CHECKOUT / "tests" / "skills" / "contents.py"
SECONDS = 60
_CACHE = TemporaryDirectory(prefix="antler-skills-")
"""matplotlib keeps its list of fonts there, which takes long to make."""


def require_runtime() -> None:
    """Skip the module where the runtime is not built; a CI has to have it."""
    if complete(DEFAULT_FOLDER) is None and not os.environ.get("CI"):
        pytest.skip("the runtime for the agent's code is not built: make sandbox-runtime", allow_module_level=True)


def script(name: str, *arguments: object, folder: Path, fails: bool = False) -> str:
    """What `skill/script.py` printed, its errors too. name: as in "data-analysis/query". fails: whether it has to."""
    skill, _, file = name.partition("/")
    return runtime_python(LIBRARY / skill / "scripts" / f"{file}.py", *arguments, folder=folder, fails=fails)


def contents(file: Path) -> Any:
    """What is in an Excel or Word file, as contents.py tells."""
    return json.loads(runtime_python(CONTENTS, file, folder=file.parent))


def runtime_python(*arguments: object, folder: Path, fails: bool = False) -> str:
    """Run the runtime's Python in a folder."""
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "HOME": _CACHE.name}
    done = subprocess.run(
        [str(DEFAULT_FOLDER / "bin" / "python3"), *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    said = done.stdout + done.stderr
    assert (done.returncode != 0) is fails, said
    assert "Traceback" not in said
    return said
