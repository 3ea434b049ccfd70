"""An image that starts programs of its own, made offline: the plain one of the tests, with an entrypoint."""

from __future__ import annotations

import functools
import io
import json
import tarfile
import tempfile
from typing import TYPE_CHECKING

from tests.sandbox.docker.image import write_image

if TYPE_CHECKING:
    from tests.sandbox.docker.daemon import Daemon

OF_THE_IMAGE = "2147483001"
"""An argument of a program that the image starts for itself."""
_ENTRYPOINT = f"""#!/bin/bash
# As the image's own: root starts its programs as another user, and starts them again when they end.
while :; do (exec setpriv --reuid "$USER_UID" --regid "$USER_GID" --clear-groups sleep {OF_THE_IMAGE}); done
"""
_TOOL = "#!/bin/sh\necho of the image\n"
_CHANGES = (
    f"ENTRYPOINT {json.dumps(['/bin/bash', '/opt/own/entrypoint.sh'])}",
    "ENV USER_UID=1000 USER_GID=1000 PATH=/usr/bin:/opt/own/bin",
)


@functools.cache
def all_in_one_image(daemon: Daemon) -> str:
    """Its name; it is loaded at the first call."""
    name, tag = "antler-test-all-in-one", "1"
    with tempfile.TemporaryFile() as file:
        write_image(file, _add_programs)
        file.seek(0)
        with daemon.client() as client:
            query = {"fromSrc": "-", "repo": name, "tag": tag, "changes": _CHANGES}
            client.post("/images/create", params=query, content=file).raise_for_status()
    return f"{name}:{tag}"


def _add_programs(tar: tarfile.TarFile) -> None:
    for name, text in (("entrypoint.sh", _ENTRYPOINT), ("bin/image-tool", _TOOL)):
        program = tarfile.TarInfo(f"opt/own/{name}")
        program.size, program.mode = len(text), 0o755
        tar.addfile(program, io.BytesIO(text.encode()))
