"""The attempts of tests/sandbox/escapes against a container with an API; the host's own state tells what got out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sandbox.base import FileInfo
from sandbox.config import SandboxSettings
from tests.sandbox.docker.all_in_one_image import all_in_one_image
from tests.sandbox.escapes.world import World

if TYPE_CHECKING:
    from tests.sandbox.docker.conftest import Gateway

LONG = 90.0

OWN = {
    "A14": "/sys is shown, read-only",
    "D10": "netlink, of its own empty network",
    "D11": "vsock: closed by Docker's filter from version 23 on",
    "D12": "the kernel's cryptography, which has its own record of holes",
    "E06": "io_uring: closed by Docker's filter from version 25 on",
    "E10": "into a terminal that it made itself; there is none of the host's",
    "E15": "32-bit calls, which Docker's filter holds by the same rules",
    "E16": "a file of the commands' own user, who is nobody else",
}
"""What Docker's own filter of system calls leaves open. None of it reaches the host's files, processes or network."""


async def test_nothing_gets_out(gateway: Gateway) -> None:
    provider = await gateway.start(image=all_in_one_image(gateway.daemon), api="all_in_one")
    with World(SandboxSettings().uid) as world:
        sandbox = await provider.acquire("thread")
        for name, content in world.files().items():
            assert isinstance(await sandbox.write_file(name, content), FileInfo)
        result = await sandbox.execute_command("python3 attempts.py 2>/dev/null", timeout=LONG)
        got: dict[str, str] = json.loads(result.output)
        assert len(got) >= 75
        escaped = world.escaped(got, gateway.folder("thread") / "workspace")
        assert set(escaped) - set(OWN) == set(), sorted(escaped)
        assert not world.pattern_changed()
        after = await sandbox.execute_command("echo fine", timeout=LONG)
        assert after.output == "fine\n"
