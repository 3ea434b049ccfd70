"""The process of `antler worker`: one of a name."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from bot.control.lock import DataDirLock
from tests.simulators.process import REPO_ROOT

if TYPE_CHECKING:
    from pathlib import Path


def command(folder: Path, url: str) -> list[str]:
    config = folder / "config.yaml"
    config.write_text(
        f"data_dir: {folder / 'data'}\ndatabase: {{url: '{url}'}}\nworkers: {{enabled: true}}\n"
        "channels: {console: {}}\nmodels: [{name: demo, use: demo}]\nshutdown_grace_seconds: 1\n"
    )
    return [sys.executable, "-m", "bot", "worker", "--config", str(config), "--name", "a/b"]


def test_a_second_worker_of_a_name_is_refused(tmp_path: Path) -> None:
    with DataDirLock(tmp_path / "data", "worker-a%2Fb.lock"):
        done = subprocess.run(
            command(tmp_path, "postgresql:///never"),
            cwd=REPO_ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 78, done.stderr
    assert "is the worker 'a/b' of this data_dir: give this one another --name" in done.stderr
