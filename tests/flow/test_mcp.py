"""Tools of MCP servers, from the chat to the server and back: called, killed, away, back again; nothing leaks."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import TYPE_CHECKING, Any

import psutil

from tests.flow.sandboxed import call
from tests.simulators.mcp.web import CLIENT
from tests.simulators.process import REPO_ROOT, SimulatorProcess
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from tests.flow.gateway import World
    from tests.simulators.model.records import Record

KEY, HEADER, VARIABLE = "k3y-of-the-url-canary", "h3ader-s3cret-canary", "v4riable-s3cret-canary"


def harmless() -> dict[str, Any]:
    """Hints without which people would be asked for each call."""
    return {"*": {"destructive": False}}


PROGRAM = ["-m", "tests.simulators.mcp", "stdio", "--name", "local"]


def local(**more: Any) -> dict[str, Any]:
    return {
        "command": sys.executable,
        "args": PROGRAM,
        "cwd": str(REPO_ROOT),
        "env": {"CANARY_TOKEN": "$CANARY"},
        "hints": harmless(),
        **more,
    }


def away(port: int) -> dict[str, Any]:
    token = {"token_url": f"http://127.0.0.1:{port}/token", "client_id": CLIENT[0], "client_secret": CLIENT[1]}
    url = f"http://127.0.0.1:{port}/mcp?key={KEY}"
    return {
        "url": url,
        "headers": {"X-Api-Key": HEADER},
        "oauth": token,
        "tools": {"allow": ["runtime"]},
        "hints": harmless(),
    }


def remote(port: int) -> SimulatorProcess:
    return SimulatorProcess("tests.simulators.mcp", "http", "--tokens", "--name", "remote", "--port", str(port))


def configured(world: World, **servers: dict[str, Any]) -> None:
    world.settings = {
        "mcp_servers": servers,
        "tool_search": {"enabled": "off"},
        "sandbox": {"use": "off"},
        "access": {"admins": [f"telegram:{ALICE.id}"]},
    }
    world.environment = {"CANARY": VARIABLE}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def says(world: World, text: str, *, read: str) -> str:
    """Alice says something, and the answer comes; what the model read of the tool's, which is framed and not shown."""
    await world.telegram.user_says(text)

    def result(record: Record) -> str:
        messages: list[dict[str, Any]] = record.body["messages"] if record.path.endswith("/completions") else []
        return str(messages[-1]["content"]) if messages and messages[-1]["role"] == "tool" else ""

    record = await world.model.wait_for_request(lambda record: read in result(record), timeout=30)
    await world.telegram.wait_idle()
    return result(record)


async def test_a_servers_tool_answers_breaks_and_answers_again(world: World) -> None:
    configured(world, local=local(tools={"deny": ["runtime"]}))
    async with world:
        await says(world, call("echo", text="hello"), read="local says hello")
        await world.telegram.user_says(call("crash"))
        await world.telegram.wait_for_text(ALICE, "broke during the call")
        await says(world, call("echo", text="once more"), read="local says once more")
        environment = await says(world, call("environment"), read="CANARY_TOKEN")
        for secret in (world.telegram.token, world.model.api_key):
            assert secret not in environment
        assert VARIABLE in environment, "what the server itself was given"
        await world.telegram.user_says(f"!say it is {VARIABLE}")
        await world.telegram.wait_for_text(ALICE, "it is [redacted]")
    assert VARIABLE not in world.log


async def test_a_server_that_is_away_stops_nothing_and_is_named(world: World) -> None:
    port = free_port()
    configured(world, away=away(port), local=local(tools={"deny": ["runtime"]}))
    async with world:
        await says(world, call("echo", text="hello"), read="local says hello")
        await world.telegram.user_says("/status")
        status = await world.telegram.wait_for_text(ALICE, "Tool servers")
        assert "away not reachable, local connected" in status.text
        assert "cannot be reached" in status.text
        code, output = await world.command("status")
        assert (code, "mcp away: retrying, 0 tools" in output) == (0, True)
        async with remote(port):
            await world.wait_for_log("mcp away: connected", timeout=60)
            await says(world, call("runtime", input="one"), read="one")
        await world.telegram.user_says(call("runtime", input="two"))
        await world.telegram.wait_for_text(ALICE, "its server is not connected now", timeout=40)
        code, output = await world.command("check-config")
        assert code == 0
        assert "mcp       away: retrying" in output
        assert "mcp       local: ready" in output
    told = world.log + output + status.text
    for secret in (KEY, HEADER, VARIABLE, CLIENT[1], "token-secret-1"):
        assert secret not in told


async def test_nothing_of_a_server_outlives_a_killed_gateway(world: World) -> None:
    configured(world, local=local())
    await world.start()
    await world.telegram.user_says(call("leave_child"))
    await world.telegram.wait_for_text(ALICE, "Tool result")
    assert world.process is not None
    left = psutil.Process(world.process.pid).children(recursive=True)
    assert any("tests.simulators.mcp" in each.cmdline() for each in left)
    await world.kill()
    _, alive = await asyncio.to_thread(psutil.wait_procs, left, 20)
    assert [each.pid for each in alive] == []
