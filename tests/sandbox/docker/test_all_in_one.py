"""Containers of an all-in-one image: what they are made of, what commands find there, what stays and what ends."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.base import SandboxUnavailable
from tests.sandbox.docker.all_in_one_image import OF_THE_IMAGE, all_in_one_image
from tests.sandbox.docker.daemon import IMAGE
from tests.sandbox.docker.running import LONG, output
from tests.sandbox.docker.test_gateway_killed import GATEWAY, ROOT
from tests.sandbox.processes import marked

if TYPE_CHECKING:
    from sandbox.docker.provider import DockerProvider
    from tests.sandbox.docker.conftest import Gateway


async def start(gateway: Gateway, **docker: Any) -> DockerProvider:
    return await gateway.start(**{"image": all_in_one_image(gateway.daemon), "api": "all_in_one"} | docker)


async def own_programs(gateway: Gateway) -> list[str]:
    """The processes that the image itself started in the gateway's only container, once it did."""
    async with asyncio.timeout(LONG):
        while not (found := await asyncio.to_thread(gateway.processes, OF_THE_IMAGE)):
            pass
    return found


async def test_the_image_starts_what_it_wants_and_commands_can_do_no_more_than_elsewhere(gateway: Gateway) -> None:
    await (await start(gateway)).acquire("thread")
    made = gateway.inspect()
    assert made["Config"]["Entrypoint"] == ["/bin/bash", "/opt/own/entrypoint.sh"]
    assert made["Config"]["User"] == ""
    host = made["HostConfig"]
    assert (host["NetworkMode"], host["PortBindings"] or {}, host["PublishAllPorts"]) == ("none", {}, False)
    assert not made["NetworkSettings"]["Ports"]
    assert (host["Privileged"], host["CapDrop"], host["SecurityOpt"]) == (False, ["ALL"], ["no-new-privileges:true"])
    assert "SYS_ADMIN" not in " ".join(host["CapAdd"])
    assert host["Memory"] == host["MemorySwap"] == 1024 << 20
    assert gateway.report is not None
    assert sum("writable root" in each for each in gateway.report.shortfalls) == 1


async def test_what_a_command_finds_around_it(gateway: Gateway) -> None:
    sandbox = await (await start(gateway)).acquire("thread")
    assert await output(sandbox, "id -u; echo $HOME; image-tool") == "60700\n/mnt/user-data/workspace\nof the image\n"
    status = await output(sandbox, "cat /proc/self/status")
    assert all(f"\n{name}:\t0000000000000000\n" in status for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"))
    assert "\nNoNewPrivs:\t1\n" in status
    assert await output(sandbox, "ulimit -n; ulimit -Hn; ulimit -t; ulimit -Ht") == "1024\n1024\n600\n600\n"
    assert await output(sandbox, "ulimit -f; ulimit -c") == f"{256 * 1024}\n0\n"
    assert (await output(sandbox, "cat /proc/net/dev")).count(":") == 1  # the loopback


async def test_the_key_of_the_images_programs_is_no_commands_business(gateway: Gateway) -> None:
    sandbox = await (await start(gateway)).acquire("thread")
    await own_programs(gateway)
    (key,) = (each for each in gateway.inspect()["Config"]["Env"] if each.startswith("SANDBOX_API_KEY="))
    assert len(key) > 30
    assert "USER_UID" in await output(sandbox, "env")
    assert "SANDBOX_API_KEY" not in await output(sandbox, "env")
    readable = await output(sandbox, "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'")
    assert "USER_UID" in readable
    assert "SANDBOX_API_KEY" not in readable


async def test_a_released_one_stays_as_it_is_and_the_images_own_programs_run_on(gateway: Gateway) -> None:
    provider = await start(gateway)
    sandbox = await provider.acquire("thread")
    own = await own_programs(gateway)
    await output(sandbox, "echo kept >/tmp/kept")
    await output(sandbox, "kill -9 -1; sleep 50")
    before = gateway.inspect()
    await provider.release("thread")
    again = await provider.acquire("thread")
    assert await output(again, "cat /tmp/kept") == "kept\n"
    assert gateway.inspect()["State"]["StartedAt"] == before["State"]["StartedAt"]
    assert set(own) <= set(await own_programs(gateway))


async def test_after_a_restart_of_antler_the_same_one_is_found(gateway: Gateway, mark: str) -> None:
    sandbox = await (await start(gateway)).acquire("thread")
    running = asyncio.create_task(sandbox.execute_command(f"sleep {mark}", timeout=LONG))
    async with asyncio.timeout(LONG):
        while not await asyncio.to_thread(marked, mark):
            pass
    made, own = gateway.containers(), await own_programs(gateway)
    found = await (await start(gateway)).acquire("thread")
    assert marked(mark) == []
    assert await output(found, "echo fine") == "fine\n"
    assert gateway.containers() == made
    assert await own_programs(gateway) == own
    assert (await running).exit_code == 137


async def test_a_removed_one_is_made_again(gateway: Gateway) -> None:
    sandbox = await (await start(gateway)).acquire("thread")
    assert await output(sandbox, "echo before") == "before\n"
    (container,) = gateway.containers().values()
    with gateway.daemon.client() as client:
        client.delete(f"/containers/{container}", params={"force": "1"}).raise_for_status()
    assert await output(sandbox, "echo after") == "after\n"
    assert container not in gateway.containers().values()


async def test_without_antler_its_commands_end(gateway: Gateway, mark: str) -> None:
    """kill -9 of the gateway."""
    command = f"setsid nohup sleep {mark} & echo begun; sleep {mark}"
    program = GATEWAY.replace("image=image, ", 'image=image, api="all_in_one", ')
    image = all_in_one_image(gateway.daemon)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, gateway.daemon.host, image, gateway.instance, str(gateway.data), command),
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=asyncio.subprocess.PIPE,
        cwd="/",
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"begun\n"
    finally:
        process.kill()
        await process.communicate()
    async with asyncio.timeout(LONG):
        while await asyncio.to_thread(marked, mark):
            pass
    made = gateway.containers()
    sandbox = await (await start(gateway)).acquire("thread")
    assert await output(sandbox, "echo fine") == "fine\n"
    assert gateway.containers() == made


async def test_an_image_that_starts_nothing(gateway: Gateway) -> None:
    with pytest.raises(SandboxUnavailable):
        await start(gateway, image=IMAGE)
    assert gateway.containers() == {}
