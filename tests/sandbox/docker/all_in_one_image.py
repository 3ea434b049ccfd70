"""An image that starts an HTTP API of its own, made offline: the plain one of the tests, and a simulator of the API."""

from __future__ import annotations

import functools
import io
import json
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import tests.simulators.all_in_one
from tests.sandbox.docker.image import write_image

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.sandbox.docker.daemon import Daemon

_PROGRAMS = Path(next(iter(tests.simulators.all_in_one.__path__)))
_CHANGES = (
    'ENTRYPOINT ["/bin/bash", "/opt/api/entrypoint.sh"]',
    "EXPOSE 8080",
    "ENV USER_UID=1000 USER_GID=1000 PATH=/usr/bin:/opt/api/bin",
)


@functools.cache
def all_in_one_image(daemon: Daemon) -> str:
    """Its name; it is loaded at the first call."""
    return load(daemon, "antler-test-api:1", {})


def load(daemon: Daemon, name: str, environment: Mapping[str, str]) -> str:
    """environment: of the image, beside what it always has."""
    repository, _, tag = name.partition(":")
    changes = [*_CHANGES, *(f"ENV {key}={json.dumps(value)}" for key, value in environment.items())]
    with tempfile.TemporaryFile() as file:
        write_image(file, _add_programs)
        file.seek(0)
        with daemon.client() as client:
            query = {"fromSrc": "-", "repo": repository, "tag": tag, "changes": changes}
            client.post("/images/create", params=query, content=file).raise_for_status()
    return name


def _add_programs(tar: tarfile.TarFile) -> None:
    for source in sorted(_PROGRAMS.iterdir()):
        if source.is_file():
            tar.add(source, f"opt/api/{source.name}")
    tool = tarfile.TarInfo("opt/api/bin/image-tool")
    script = b"#!/bin/sh\necho of the image\n"
    tool.size, tool.mode = len(script), 0o755
    tar.addfile(tool, io.BytesIO(script))
