"""The benches of the docker provider: on a daemon of the tests' own, with images made offline."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from sandbox.config import DockerSettings
from sandbox.docker.provider import DockerProvider
from sandbox.files.workspace import Workspaces
from tests.contracts.sandbox_bench import LOCAL_FILES_ARE_ELSEWHERE, SETTINGS, SandboxBench
from tests.sandbox.docker.all_in_one_image import all_in_one_image
from tests.sandbox.docker.daemon import IMAGE, the_daemon

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.files.skills import SkillsOf


def _plain(folder_of: Callable[[str], Path], skills: SkillsOf) -> DockerProvider:
    return _make(DockerSettings(image=IMAGE, host=the_daemon().host), folder_of, skills)


def _all_in_one(folder_of: Callable[[str], Path], skills: SkillsOf) -> DockerProvider:
    daemon = the_daemon()
    settings = DockerSettings(image=all_in_one_image(daemon), host=daemon.host, api="all_in_one")
    return _make(settings, folder_of, skills)


def _make(settings: DockerSettings, folder_of: Callable[[str], Path], skills: SkillsOf) -> DockerProvider:
    workspaces = Workspaces(folder_of, SETTINGS, skills=skills)
    return DockerProvider(SETTINGS, settings, workspaces, instance=uuid.uuid4().hex[:8])


DOCKER = SandboxBench(_plain, lacks=LOCAL_FILES_ARE_ELSEWHERE)
ALL_IN_ONE = SandboxBench(_all_in_one, lacks=LOCAL_FILES_ARE_ELSEWHERE)
