"""What the sandbox contract needs of a provider: a bench, which makes one for threads' folders.

`sandbox_benches.py` lists them all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import pytest

from sandbox.config import SandboxLimits, SandboxSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sandbox.base import SandboxProvider
    from sandbox.files.skills import SkillsOf

SETTINGS = SandboxSettings(limits=SandboxLimits(file_mb=4, disk_mb=16, inodes=400, free_disk_mb=1))
"""Small limits, so that tests can reach them. A provider of a bench is made with these."""


class Ability(StrEnum):
    """What not every provider has."""

    COMMANDS = "commands"
    SHELL = "shell"
    """The commands are a real shell's, and its processes can be seen from this machine."""
    HELD = "commands that are held"
    """What commands must not change they cannot change."""
    HOST_FOLDERS = "host folders"
    """The files are in the thread's folders on this machine."""
    OWN_FILES = "files of its own"
    """Its file half is not the very one of another bench."""


LOCAL_FILES_ARE_ELSEWHERE = {Ability.OWN_FILES: "its files are those of the bench `local files`"}


@dataclass(frozen=True)
class SandboxBench:
    """make: a provider that has not started, for functions from thread id to the thread's user-data folder and to its
    folders of skills.

    lacks: abilities that it does not have, each with the reason. missing: why it cannot run on this machine, or "".
    """

    make: Callable[[Callable[[str], Path], SkillsOf], SandboxProvider]
    lacks: Mapping[Ability, str] = field(default_factory=dict)
    missing: Callable[[], str] = str


def needs(bench: SandboxBench, ability: Ability) -> None:
    """Skip the test where the provider does not have the ability."""
    if ability in bench.lacks:
        pytest.skip(bench.lacks[ability])
