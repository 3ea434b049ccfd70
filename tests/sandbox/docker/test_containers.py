"""A thread's container is found again, replaced when it is another one's, and removed when nobody needs it."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from typing import TYPE_CHECKING

import pytest

from sandbox.base import SandboxError, sandbox_id
from tests.sandbox.docker.daemon import IMAGE
from tests.sandbox.docker.running import LONG, output
from tests.sandbox.processes import marked

if TYPE_CHECKING:
    from tests.sandbox.docker.conftest import Gateway


_RUNNING = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def name(gateway: Gateway, thread_id: str) -> str:
    return f"antler-{gateway.instance}-{sandbox_id(thread_id)}"


async def test_after_a_restart_the_same_container_is_found(gateway: Gateway) -> None:
    before = await gateway.start()
    await output(await before.acquire("thread"), "echo kept >/tmp/kept")
    made = gateway.containers()
    assert set(made) == {name(gateway, "thread")}
    after = await gateway.start()
    assert await output(await after.acquire("thread"), "cat /tmp/kept") == "kept\n"
    assert gateway.containers() == made


async def test_what_an_earlier_gateway_left_running_is_ended(gateway: Gateway) -> None:
    before = await gateway.start()
    sandbox = await before.acquire("thread")
    user = (await output(sandbox, "id -u")).strip()
    await asyncio.to_thread(gateway.leave_running, user, "sleep", "601")
    assert "601" in await output(sandbox, _RUNNING)
    after = await gateway.start()
    assert "601" not in await output(await after.acquire("thread"), _RUNNING)


async def test_several_processes_make_one_container(gateway: Gateway) -> None:
    providers = [await gateway.start() for _ in range(3)]
    await asyncio.gather(*(provider.acquire("thread") for provider in providers))
    assert set(gateway.containers()) == {name(gateway, "thread")}


async def test_other_settings_replace_it(gateway: Gateway) -> None:
    before = await gateway.start()
    await before.acquire("thread")
    await before.release("thread")
    made = gateway.containers()
    after = await gateway.start({"limits": {"memory_mb": 256, "free_disk_mb": 1}})
    assert gateway.containers() == {}
    await after.acquire("thread")
    assert set(gateway.containers()) == set(made)
    assert gateway.containers() != made
    assert gateway.inspect()["HostConfig"]["Memory"] == 256 << 20


async def test_one_of_another_folder_is_replaced(gateway: Gateway) -> None:
    before = await gateway.start()
    await before.acquire("thread")
    made = gateway.containers()
    gateway.data = gateway.data / "moved"
    after = await gateway.start()
    await after.acquire("thread")
    assert set(gateway.containers()) == set(made)
    assert gateway.containers() != made


async def test_it_is_replaced_where_a_place_of_skills_has_come_and_only_there(gateway: Gateway) -> None:
    gateway.skills = {"public": gateway.data / "public", "mine": gateway.data / "mine"}
    gateway.skills["public"].mkdir()
    provider = await gateway.start()
    made = []
    for come in (None, gateway.skills["public"] / "x", gateway.skills["mine"]):
        if come is not None:
            come.mkdir()
        await provider.acquire("thread")
        made.append(gateway.containers())
        await provider.release("thread")
    after = await gateway.start()
    await after.acquire("thread")
    assert made[0] == made[1] != made[2] == gateway.containers()


async def test_a_strangers_container_of_that_name_is_left_alone(gateway: Gateway) -> None:
    provider = await gateway.start()
    taken = name(gateway, "thread")
    with gateway.daemon.client() as client:
        client.post("/containers/create", params={"name": taken}, json={"Image": IMAGE, "Cmd": ["sleep"]})
        with pytest.raises(SandboxError, match="not Antler's"):
            await provider.acquire("thread")
        assert client.delete(f"/containers/{taken}").is_success


async def test_at_a_start_what_nobody_needs_is_removed(gateway: Gateway) -> None:
    before = await gateway.start()
    for thread in ("kept", "deleted", "stopped"):
        await before.acquire(thread)
        await before.release(thread)
    shutil.rmtree(gateway.folder("deleted"))
    with gateway.daemon.client() as client:
        client.post(f"/containers/{name(gateway, 'stopped')}/kill").raise_for_status()
    await gateway.start()
    assert set(gateway.containers()) == {name(gateway, "kept")}


async def test_a_forgotten_thread_has_none(gateway: Gateway) -> None:
    before = await gateway.start()
    for thread in ("held", "warm"):
        await before.acquire(thread)
    await before.release("warm")
    await before.forget("held")
    await before.forget("warm")
    assert gateway.containers() == {}


async def test_at_the_end_none_is_left(gateway: Gateway) -> None:
    provider = await gateway.start()
    await provider.acquire("held")
    await provider.acquire("warm")
    await provider.release("warm")
    await provider.shutdown()
    assert gateway.containers() == {}


async def test_a_released_one_stays_warm_and_quiet(gateway: Gateway) -> None:
    provider = await gateway.start()
    sandbox = await provider.acquire("thread")
    await output(sandbox, "echo kept >/tmp/kept")
    made = gateway.containers()
    await provider.release("thread")
    with pytest.raises(SandboxError, match="closed"):
        await sandbox.execute_command("true", timeout=LONG)
    with gateway.daemon.client() as client:
        top = client.get(f"/containers/{name(gateway, 'thread')}/top").raise_for_status().json()
    assert len(top["Processes"]) == 2  # the init process and the one that keeps the container
    assert await output(await provider.acquire("thread"), "cat /tmp/kept") == "kept\n"
    assert gateway.containers() == made


async def test_what_the_sweeper_may_not_end_the_daemon_does(gateway: Gateway) -> None:
    provider = await gateway.start()
    await provider.acquire("thread")
    mark = f"600.{uuid.uuid4().int % 10**9}"
    container = name(gateway, "thread")
    with gateway.daemon.client() as client:
        order = {"Cmd": ["/bin/sleep", mark], "User": "60701:60701"}
        made = client.post(f"/containers/{container}/exec", json=order).raise_for_status().json()
        client.post(f"/exec/{made['Id']}/start", json={"Detach": True}).raise_for_status()
    async with asyncio.timeout(LONG):
        while not await asyncio.to_thread(marked, mark):
            pass
    await provider.release("thread")
    assert marked(mark) == []
    assert set(gateway.containers()) == {container}
    assert await output(await provider.acquire("thread"), "echo fine") == "fine\n"


async def test_the_least_recently_used_one_makes_room(gateway: Gateway) -> None:
    provider = await gateway.start(replicas=2)
    for thread in ("a", "b"):
        await provider.acquire(thread)
    await provider.release("b")
    await provider.release("a")
    assert await output(await provider.acquire("c"), "echo fine") == "fine\n"
    assert set(gateway.containers()) == {name(gateway, "a"), name(gateway, "c")}


async def test_when_all_are_busy_one_waits_and_is_told(gateway: Gateway) -> None:
    provider = await gateway.start(replicas=1, acquire_timeout=0.2)
    await provider.acquire("a")
    with pytest.raises(SandboxError, match="all 1 sandboxes are in use"):
        await provider.acquire("b")
    await provider.release("a")
    assert await output(await provider.acquire("b"), "echo fine") == "fine\n"
    assert set(gateway.containers()) == {name(gateway, "b")}


async def test_an_idle_one_is_removed_when_its_time_is_over(gateway: Gateway) -> None:
    clock = Clock()
    provider = await gateway.start(None, clock, idle_timeout=600)
    await provider.acquire("busy")
    await provider.acquire("idle")
    await provider.release("idle")
    clock.seconds += 599
    await provider.remove_idle()
    assert len(gateway.containers()) == 2
    clock.seconds += 1
    await provider.remove_idle()
    assert set(gateway.containers()) == {name(gateway, "busy")}
    assert await output(await provider.acquire("idle"), "echo fine") == "fine\n"


async def test_one_that_somebody_removed_is_made_again(gateway: Gateway) -> None:
    provider = await gateway.start()
    sandbox = await provider.acquire("thread")
    await sandbox.write_file("kept", "kept\n")
    with gateway.daemon.client() as client:
        client.delete(f"/containers/{name(gateway, 'thread')}", params={"force": "1"}).raise_for_status()
    assert await output(sandbox, "cat kept") == "kept\n"
    assert set(gateway.containers()) == {name(gateway, "thread")}
