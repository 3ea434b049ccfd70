"""Sends the skills of this machine to the sandbox server, which keeps them by their digests. Used by sandbox.py.

A place is sent once for every state of its files, whichever threads see it; before each use of a sandbox only the
digests are.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from sandbox.files.skills import read_place, skill_roots
from sandbox.remote import wire
from sandbox.remote.http import not_understood

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sandbox.files.skills import SkillFile
    from sandbox.remote.http import Http

log = logging.getLogger(__name__)

MOST_BYTES = 32 << 20
MOST_ENTRIES = 5000
"""Of one place; a larger one is not sent."""

_WANTED = TypeAdapter(wire.Wanted)


class SkillSender:
    """One sandbox's. folders: of the thread's skills, by place. path: of the sandbox on the server."""

    def __init__(self, http: Http, path: str, folders: Callable[[], Mapping[str, Path]]) -> None:
        self._http = http
        self._path = path
        self._folders = folders

    async def send(self) -> None:
        """Have the sandbox show them as they are now, from its next opening on. Raises SandboxError."""
        places = await asyncio.to_thread(_read, self._folders())
        digests = {name: wire.digest_of(files) for name, files in places.items()}
        said = await self._http.call("PUT", f"{self._path}/skills", wire.SkillsBody(places=digests), again=True)
        try:
            wanted = set(wire.understood(_WANTED, said).wanted)
        except wire.Malformed as error:
            raise not_understood() from error
        for name, files in places.items():
            if digests[name] in wanted:
                wanted.discard(digests[name])
                body = await asyncio.to_thread(_body, files)
                await self._http.call("PUT", f"/skills/{digests[name]}", body, again=True)


def _read(folders: Mapping[str, Path]) -> dict[str, dict[str, SkillFile]]:
    read = {}
    for root in skill_roots(folders):
        place = root.virtual.rpartition("/")[2]
        found = read_place(root.host, most_entries=MOST_ENTRIES, most_bytes=MOST_BYTES)
        if found.complete:
            read[place] = found.files
        else:
            log.warning("the skills of %s are not sent to the sandbox server: they are too many or too large", place)
    return read


def _body(files: Mapping[str, SkillFile]) -> wire.SkillFilesBody:
    return wire.SkillFilesBody(
        files=[
            wire.SkillFileBody(path=path, content=base64.b64encode(file.data).decode(), executable=file.executable)
            for path, file in files.items()
        ]
    )
