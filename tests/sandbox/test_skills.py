"""Skills as commands find them on this machine, whoever Antler runs as: seen, run, never changed, never a way out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sandbox.policy import DEFAULT_FOLDER, complete
from tests.sandbox.conftest import private_folder
from tests.sandbox.modes import MODES, Driver, Mode

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 60.0
HOST = pytest.param(Mode("host", as_root=False), id="host")


@pytest.fixture(params=[*MODES, HOST])
def driver(request: pytest.FixtureRequest, open_folder: Path) -> Driver:
    """Its gateway has a public skill and one of the thread's owner; a link of it leads to what nobody may read."""
    mode: Mode = request.param
    mode.require()
    folder = private_folder(open_folder / "data", mode)
    for path, text in {
        "skills/public/x/SKILL.md": "# X\n",
        "skills/public/x/scripts/run.py": "from part import said\nprint(said, __file__)\n",
        "skills/public/x/scripts/part.py": "said = 'run'\n",
        "users/t/skills/y/SKILL.md": "# Y\n",
        "secret": "a secret\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    os.symlink(folder / "secret", folder / "skills/public/x/link")
    for top, _, names in os.walk(folder):
        for name in (".", *names):
            os.chown(os.path.join(top, name), mode.gateway_user, mode.gateway_user, follow_symlinks=False)
    return Driver(mode, folder, runtime=str(complete(DEFAULT_FOLDER) or ""))


def test_they_are_read_and_run_and_nothing_more(driver: Driver) -> None:
    free = driver.mode.provider == "host"  # held by nothing
    commands = {
        "ls /mnt/skills && cat /mnt/skills/public/x/SKILL.md /mnt/skills/mine/y/SKILL.md": "mine\npublic\n# X\n# Y\n",
        "cd /mnt/skills && cat public/x/SKILL.md && cd mine/y && cat SKILL.md": "# X\n# Y\n",
        "python3 /mnt/skills/public/x/scripts/run.py": "run /mnt/skills/public/x/scripts/run.py\n",
        "cp -r /mnt/skills/public/x copy && cat copy/SKILL.md": "# X\n",
    }
    refused = (
        "cat /mnt/skills/public/x/link",
        "echo x > /mnt/skills/public/x/SKILL.md",
        "mkdir /mnt/skills/public/new",
        "rm -r /mnt/skills/mine/y",
        ": >/mnt/skills/new",
    )
    wanted = list(commands) if free else [*commands, *refused]
    results = driver.run(*((command, SECONDS) for command in wanted))["results"]
    for (command, output), result in zip(commands.items(), results, strict=False):
        assert (result["exit_code"], result["output"]) == (0, output), command
    for command, result in zip(wanted[len(commands) :], results[len(commands) :], strict=True):
        assert result["exit_code"], command
        assert "secret\n" not in result["output"]
        assert str(driver.folder) not in result["output"]
    assert sorted(os.listdir(driver.folder / "skills/public/x")) == ["SKILL.md", "link", "scripts"]
    assert sorted(os.listdir(driver.folder / "skills/public/x/scripts")) == ["part.py", "run.py"]
    assert (driver.folder / "users/t/skills/y/SKILL.md").read_text() == "# Y\n"


def test_what_stood_in_for_their_folder_is_gone_with_the_sandbox(driver: Driver) -> None:
    (there,) = driver.run(("ls /mnt/user-data", SECONDS))["results"]
    assert set(there["output"].split()) - {"tmp"} == {"outputs", "uploads", "workspace"}
    assert os.listdir(driver.folder / "threads/t") == ["user-data"]
    assert sorted(os.listdir(driver.folder / "threads/t/user-data")) == ["outputs", "uploads", "workspace"]
