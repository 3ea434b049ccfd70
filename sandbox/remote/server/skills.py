"""The skills sent by clients, each state of a place in a folder named by its digest; read-only in sandboxes."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import secrets
import shutil
from collections import OrderedDict
from typing import TYPE_CHECKING

from sandbox.base import SandboxError
from sandbox.files.skills import SkillFile
from sandbox.remote import wire

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MOST_KEPT = 500
"""Maximum number of states on disk; those not shown by a known sandbox and unused the longest are removed."""
MOST_SANDBOXES = 10_000
"""Maximum number of sandboxes whose places are remembered; clients send them before each use."""


class SkillStore:
    """Stores skills in a folder. own: this machine's, for sandboxes whose client sends none of that place."""

    def __init__(self, folder: Path, own: Mapping[str, Path]) -> None:
        self._folder = folder
        self._own = dict(own)
        self._places: OrderedDict[str, dict[str, str]] = OrderedDict()
        self._writing = asyncio.Lock()

    def of(self, sandbox: str) -> Mapping[str, Path]:
        """The folders that a sandbox shows, by place."""
        sent = self._places.get(sandbox, {})
        return self._own | {place: self._folder / digest for place, digest in sent.items()}

    async def tell(self, sandbox: str, places: Mapping[str, str]) -> list[str]:
        """Set what a sandbox shows; returns the digests that have to be sent."""
        self._places[sandbox] = dict(places)
        self._places.move_to_end(sandbox)
        if len(self._places) > MOST_SANDBOXES:
            self._places.popitem(last=False)
        return await asyncio.to_thread(self._missing, set(places.values()))

    def forget(self, sandbox: str) -> None:
        self._places.pop(sandbox, None)

    async def put(self, digest: str, body: wire.SkillFilesBody) -> None:
        """Store the files of a digest. Idempotent. Raises wire.Malformed if they do not match it, SandboxError."""
        files = await asyncio.to_thread(_decoded, body)
        if await asyncio.to_thread(wire.digest_of, files) != digest:
            raise wire.Malformed("the files do not match the digest")
        async with self._writing:
            try:
                await asyncio.to_thread(self._keep, digest, files)
            except OSError as error:
                raise SandboxError(f"skills cannot be stored: {os.strerror(error.errno or 0).lower()}") from error

    def _missing(self, digests: set[str]) -> list[str]:
        missing = []
        for digest in sorted(digests):
            try:
                os.utime(self._folder / digest)  # marks it as used
            except FileNotFoundError:
                missing.append(digest)
        return missing

    def _keep(self, digest: str, files: Mapping[str, SkillFile]) -> None:
        target = self._folder / digest
        if target.exists():
            return
        new = self._folder / f".{secrets.token_hex(8)}"
        new.mkdir(parents=True)
        try:
            for path, file in files.items():
                _write(new / path, file)
            for folder, _, _ in os.walk(new):
                os.chmod(folder, 0o755)
            new.rename(target)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        self._prune()

    def _prune(self) -> None:
        used = {digest for places in tuple(self._places.values()) for digest in places.values()}
        kept = [entry for entry in os.scandir(self._folder) if not entry.name.startswith(".")]
        idle = sorted((entry.stat().st_mtime, entry.name) for entry in kept if entry.name not in used)
        for _, name in idle[: max(0, len(kept) - MOST_KEPT)]:
            shutil.rmtree(self._folder / name)


def _write(path: Path, file: SkillFile) -> None:
    """Write a file that is readable for the user of commands, under any umask."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.data)
    path.chmod(0o755 if file.executable else 0o644)


def _decoded(body: wire.SkillFilesBody) -> dict[str, SkillFile]:
    files = {}
    for file in body.files:
        parts = file.path.split("/")
        if "\0" in file.path or any(part in ("", ".", "..") for part in parts):
            raise wire.Malformed("a file's path leads outside")
        try:
            data = base64.b64decode(file.content, validate=True)
        except (binascii.Error, ValueError):
            raise wire.Malformed("content is not base64") from None
        files[file.path] = SkillFile(data=data, executable=file.executable, version="")
    return files
