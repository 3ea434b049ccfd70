"""Behind a company's proxy: all goes through it, a private CA is trusted, and the environment decides nothing."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.flow.gateway import World
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess
from tests.simulators.proxy.authority import PrivateAuthority
from tests.simulators.proxy.client import ProxySimulator
from tests.simulators.telegram import client as telegram_client
from tests.simulators.telegram.seen import ALICE, FileSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TELEGRAM, MODEL = "api.telegram.test", "model.test"
NOWHERE = "http://127.0.0.1:9"


@dataclass
class Office:
    """A gateway that knows its servers by names which only the proxy can resolve; all speak TLS of a private CA."""

    world: World
    proxy: ProxySimulator
    authority: PrivateAuthority

    def through_the_proxy(self) -> dict[str, Any]:
        return {
            "network": {"proxy": self.proxy.url, "no_proxy": [], "ca_file": str(self.authority.cert)},
            "channels": {"telegram": {"base_url": f"https://{TELEGRAM}", "rate": {"per_chat_per_second": 20}}},
            "models": [model(f"https://{MODEL}/v1")],
        }

    async def targets(self) -> set[str]:
        """Whom the proxy was asked for."""
        return {connect.target for connect in await self.proxy.connects()}


def model(base_url: str) -> dict[str, Any]:
    return {"name": "main", "model": "sim", "base_url": base_url, "api_key": "$MODEL_KEY"}


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    authority = PrivateAuthority.create(tmp_path)
    telegram_tls, model_tls = authority.issue(TELEGRAM), authority.issue(MODEL)
    model_arguments = ("--tls-cert", str(model_tls.cert), "--tls-key", str(model_tls.key))
    async with (
        SimulatorProcess(telegram_client.MODULE, str(telegram_tls.cert), str(telegram_tls.key)) as telegram_process,
        SimulatorProcess("tests.simulators.model", *model_arguments) as model_process,
        SimulatorProcess("tests.simulators.proxy") as proxy_process,
        telegram_client.connect(telegram_process, authority.cert) as telegram,
        ModelSimulator(model_process.port, authority.cert) as model_server,
        ProxySimulator(proxy_process.port) as proxy,
    ):
        await proxy.route(f"{TELEGRAM}:443", telegram_process.port)
        await proxy.route(f"{MODEL}:443", model_process.port)
        yield Office(World(telegram, model_server, tmp_path), proxy, authority)


async def test_all_traffic_goes_through_the_proxy(office: Office) -> None:
    world = office.world
    world.settings = office.through_the_proxy()
    async with world:
        await world.telegram.user_says("hello from the office", file=FileSpec(name="a.txt", content=b"a"))
        await world.telegram.wait_for_text(ALICE, "hello from the office")
        await world.telegram.user_says("!long 20000")
        await world.telegram.wait_for_message(ALICE, lambda message: bool(message.files), timeout=20)
    assert await office.targets() == {f"{TELEGRAM}:443", f"{MODEL}:443"}


async def test_a_proxy_that_cuts_all_connections_is_survived(office: Office) -> None:
    world = office.world
    world.settings = office.through_the_proxy()
    async with world:
        await world.telegram.user_says("before")
        await world.telegram.wait_for_text(ALICE, "before")
        await office.proxy.cut()
        await world.telegram.user_says("after")
        await world.telegram.wait_for_text(ALICE, "You said: after", timeout=20)


async def test_without_the_private_ca_nobody_is_believed(office: Office) -> None:
    world = office.world
    world.settings = office.through_the_proxy()
    world.settings["channels"]["telegram"]["base_url"] = world.telegram.root
    world.settings["network"] = {"ca_file": str(office.authority.cert)}
    world.settings["models"] = [model(world.model.base_url)]
    async with world:  # directly, with the CA: all is well
        await world.telegram.user_says("hello")
        await world.telegram.wait_for_text(ALICE, "hello")
    world.settings["network"] = {}
    async with world_that_does_not_connect(world):
        code, output = await world.command("status")
        assert code == 1
        assert "telegram: retrying" in output


@asynccontextmanager
async def world_that_does_not_connect(world: World) -> AsyncIterator[World]:
    """The gateway runs, but cannot reach its platform."""
    await world.begin()
    await world.wait_for_log("trying again")
    try:
        yield world
    finally:
        assert await world.stop() == 0


async def test_the_environment_is_not_asked(office: Office) -> None:
    world = office.world
    names = ("http_proxy", "https_proxy", "all_proxy")
    world.environment = {name: NOWHERE for name in (*names, *(name.upper() for name in names))}
    world.settings = {
        "network": {"ca_file": str(office.authority.cert)},
        "channels": {"telegram": {"base_url": world.telegram.root}},
        "models": [model(world.model.base_url)],
    }
    async with world:
        await world.telegram.user_says("hello")
        await world.telegram.wait_for_text(ALICE, "hello")
    assert await office.targets() == set()


async def test_no_proxy_and_an_own_proxy_win_over_the_general_one(office: Office) -> None:
    world = office.world
    world.settings = office.through_the_proxy()
    port = world.model.base_url.split(":")[2].split("/")[0]
    world.settings["network"]["no_proxy"] = ["127.0.0.0/8"]
    world.settings["models"] = [model(f"https://127.0.0.1:{port}/v1")]
    async with world:
        await world.telegram.user_says("hello")
        await world.telegram.wait_for_text(ALICE, "hello")
    assert await office.targets() == {f"{TELEGRAM}:443"}
    world.settings["network"]["proxy"] = NOWHERE
    world.settings["channels"]["telegram"]["proxy"] = office.proxy.url
    async with world:
        await world.telegram.user_says("hello again")
        await world.telegram.wait_for_text(ALICE, "hello again")


async def test_a_proxy_that_is_not_there_is_no_secret(office: Office) -> None:
    world = office.world
    world.settings = office.through_the_proxy()
    world.settings["network"]["proxy"] = "http://user:pa55word-of-proxy@127.0.0.1:9"
    async with world_that_does_not_connect(world):
        assert "pa55word-of-proxy" not in world.log
        assert world.telegram.token not in world.log
