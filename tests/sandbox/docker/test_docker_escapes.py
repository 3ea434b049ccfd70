"""The attempts of tests/sandbox/escapes against a container; the host's own state tells what got out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sandbox.base import FileInfo
from sandbox.config import SandboxSettings
from tests.sandbox.escapes.world import World

if TYPE_CHECKING:
    from tests.sandbox.docker.conftest import Gateway

LONG = 90.0
ATTEMPTS = 80

SHOWN = {"A14"}
"""Docker mounts /sys, read-only: the provider reports it. Nothing else gets further than with bubblewrap."""


async def test_nothing_gets_out(gateway: Gateway) -> None:
    provider = await gateway.start()
    with World(SandboxSettings().uid) as world:
        sandbox = await provider.acquire("thread")
        for name, content in world.files().items():
            assert isinstance(await sandbox.write_file(name, content), FileInfo)
        result = await sandbox.execute_command("python3 attempts.py 2>/dev/null", timeout=LONG)
        got: dict[str, str] = json.loads(result.output)
        assert len(got) == ATTEMPTS
        escaped = world.escaped(got, gateway.folder("thread") / "workspace")
        assert set(escaped) == SHOWN
        assert not world.pattern_changed()
        after = await sandbox.execute_command("echo fine", timeout=LONG)
        assert after.output == "fine\n"
