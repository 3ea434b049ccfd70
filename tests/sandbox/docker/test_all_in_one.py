"""Containers of an all-in-one image: what they are made of, who reaches their API, what is found again, what ends."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.base import SandboxError, SandboxUnavailable
from sandbox.docker.api import DockerApi
from sandbox.docker.http_api import ImageApi, Silent
from tests.sandbox.docker.all_in_one_image import all_in_one_image, load
from tests.sandbox.docker.daemon import IMAGE
from tests.sandbox.docker.running import LONG, output
from tests.sandbox.docker.test_gateway_killed import GATEWAY, ROOT
from tests.sandbox.processes import marked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.docker.provider import DockerProvider
    from tests.sandbox.docker.conftest import Gateway
    from tests.sandbox.docker.daemon import Daemon

OF_THE_IMAGE = "2147483001"
"""An argument of a program that the image starts for itself."""


async def start(gateway: Gateway, **docker: Any) -> DockerProvider:
    return await gateway.start(**{"image": all_in_one_image(gateway.daemon), "api": "all_in_one"} | docker)


async def test_the_image_starts_what_it_wants_and_commands_can_do_no_more_than_elsewhere(gateway: Gateway) -> None:
    await (await start(gateway)).acquire("thread")
    made = gateway.inspect()
    assert made["Config"]["Entrypoint"] == ["/bin/bash", "/opt/api/entrypoint.sh"]
    assert made["Config"]["User"] == ""
    host = made["HostConfig"]
    assert (host["NetworkMode"], host["PortBindings"] or {}, host["PublishAllPorts"]) == ("none", {}, False)
    assert not made["NetworkSettings"]["Ports"]
    assert (host["Privileged"], host["CapDrop"], host["SecurityOpt"]) == (False, ["ALL"], ["no-new-privileges:true"])
    assert "SYS_ADMIN" not in " ".join(host["CapAdd"])
    assert host["Memory"] == host["MemorySwap"] == 1024 << 20
    assert gateway.report is not None
    assert sum("writable root" in each or "same user" in each for each in gateway.report.shortfalls) == 2


async def test_each_container_has_a_key_of_its_own_and_answers_nobody_else(gateway: Gateway) -> None:
    provider = await start(gateway)
    await asyncio.gather(provider.acquire("one"), provider.acquire("two"))
    docker = DockerApi(gateway.daemon.host)
    try:
        found = [await docker.find(each) for each in gateway.containers().values()]
        keys = [each.partition("=")[2] for one in found for each in one.environment if "SANDBOX_API_KEY" in each]
        assert len(set(keys)) == 2
        assert min(map(len, keys)) > 30
        api = ImageApi(docker, found[0].id, user="65534:65534", port=8080, key=keys[1])
        assert not await api.is_there()
        assert await api.asks_for_the_key()
        with pytest.raises(Silent):
            await api.ask("id")
        await api.close()
    finally:
        await docker.close()


async def test_a_released_one_stays_as_it_is_and_the_images_own_programs_run_on(gateway: Gateway) -> None:
    provider = await start(gateway)
    sandbox = await provider.acquire("thread")
    own = marked(OF_THE_IMAGE)
    await output(sandbox, "echo kept >/tmp/kept")
    before = gateway.inspect()
    await provider.release("thread")
    again = await provider.acquire("thread")
    assert await output(again, "cat /tmp/kept") == "kept\n"
    assert gateway.inspect()["State"]["StartedAt"] == before["State"]["StartedAt"]
    assert set(own) <= set(marked(OF_THE_IMAGE))


async def test_what_a_command_has_the_api_start_ends_with_the_run(gateway: Gateway, mark: str) -> None:
    provider = await start(gateway)
    sandbox = await provider.acquire("thread")
    script = f"""
import glob, json, urllib.request
for file in glob.glob("/proc/[0-9]*/environ"):
    try:
        found = dict(each.split("=", 1) for each in open(file).read().split(chr(0)) if "=" in each)
    except OSError:
        continue
    if "SANDBOX_API_KEY" in found:
        key = found["SANDBOX_API_KEY"]
body = json.dumps({{"command": "setsid sleep {mark} & setsid sleep {mark}", "async_mode": True}}).encode()
headers = {{"X-AIO-API-Key": key, "Content-Type": "application/json"}}
print(urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8080/v1/bash/exec", body, headers)).status)
"""
    await sandbox.write_file("start.py", script)
    assert await output(sandbox, "python3 start.py") == "200\n"
    async with asyncio.timeout(LONG):
        while len(await asyncio.to_thread(marked, mark)) < 2:
            pass
    await provider.release("thread")
    assert marked(mark) == []


async def test_after_a_restart_of_antler_the_same_one_is_found_and_started_anew(gateway: Gateway, mark: str) -> None:
    before = await start(gateway)
    sandbox = await before.acquire("thread")
    running = asyncio.create_task(sandbox.execute_command(f"sleep {mark}", timeout=LONG))
    async with asyncio.timeout(LONG):
        while not await asyncio.to_thread(marked, mark):
            pass
    made = gateway.containers()
    found = await (await start(gateway)).acquire("thread")
    assert marked(mark) == []
    assert await output(found, "echo fine") == "fine\n"
    assert gateway.containers() == made
    with pytest.raises(SandboxError, match="started anew"):
        await running
    assert await output(found, "echo fine") == "fine\n"


async def test_a_removed_one_is_made_again(gateway: Gateway) -> None:
    sandbox = await (await start(gateway)).acquire("thread")
    assert await output(sandbox, "echo before") == "before\n"
    (container,) = gateway.containers().values()
    with gateway.daemon.client() as client:
        client.delete(f"/containers/{container}", params={"force": "1"}).raise_for_status()
    assert await output(sandbox, "echo after") == "after\n"
    assert container not in gateway.containers().values()


async def test_without_antler_its_commands_end(gateway: Gateway, mark: str) -> None:
    """kill -9 of the gateway: no connection tells the container, so the commands notice the silence."""
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


async def test_an_image_that_is_too_old(gateway: Gateway) -> None:
    image = load(gateway.daemon, "antler-test-api:old", {"API_WITHOUT_BASH": "1"})
    with pytest.raises(SandboxUnavailable, match="no /v1/bash") as caught:
        await start(gateway, image=image)
    assert "1.9.3" in caught.value.hint
    assert gateway.containers() == {}


async def test_an_image_whose_api_does_not_come(gateway: Gateway) -> None:
    with pytest.raises(SandboxUnavailable, match="did not answer within 1 seconds") as caught:
        await start(gateway, api_port=8081, api_seconds=1)
    assert "api_seconds" in caught.value.hint
    assert gateway.containers() == {}


async def test_an_image_without_an_api(gateway: Gateway) -> None:
    with pytest.raises(SandboxUnavailable):
        await start(gateway, image=IMAGE)
    assert gateway.containers() == {}


@pytest.fixture
def network(daemon: Daemon) -> Iterator[str]:
    name = f"antler-test-{uuid.uuid4().hex[:8]}"
    with daemon.client() as client:
        body = {"Name": name, "Internal": True, "Options": {"com.docker.network.bridge.name": f"at{name[-8:]}"}}
        client.post("/networks/create", json=body).raise_for_status()
        yield name
        client.delete(f"/networks/{name}").raise_for_status()


@pytest.mark.parametrize(("environment", "said"), [({}, False), ({"API_WITHOUT_KEY": "1"}, True)])
async def test_on_a_network_an_api_without_a_key_is_told_of(
    gateway: Gateway, network: str, environment: dict[str, str], said: bool
) -> None:
    image = load(gateway.daemon, "antler-test-api:key", environment)
    egress = {"network": {"mode": "egress", "allow": ["api.example.com"]}}
    provider = await gateway.start(egress, image=image, api="all_in_one", network=network)
    assert gateway.report is not None
    assert any("does not ask for a key" in each for each in gateway.report.shortfalls) is said
    await provider.shutdown()
