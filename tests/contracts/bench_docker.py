"""The bench of the docker provider: on a daemon of the tests' own, with an image made offline."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from sandbox.docker.config import DockerSettings
from sandbox.docker.provider import DockerProvider
from sandbox.workspace import Workspaces
from tests.contracts.sandbox_bench import SETTINGS, SandboxBench
from tests.sandbox.docker.daemon import IMAGE, the_daemon

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _make(folder_of: Callable[[str], Path]) -> DockerProvider:
    settings = DockerSettings(image=IMAGE, host=the_daemon().host)
    return DockerProvider(SETTINGS, settings, Workspaces(folder_of, SETTINGS), instance=uuid.uuid4().hex[:8])


DOCKER = SandboxBench(_make)
