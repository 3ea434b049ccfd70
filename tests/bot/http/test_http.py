"""The HTTP listener of a real process on loopback: health, metrics, who may ask, and how it comes and goes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from bot.http.auth import Gatekeeper
from bot.http.metrics import Figures
from bot.process.http import http_parts
from bot.runs.active import TOOLS_APART
from bot.settings import ConfigError, load
from bot.settings.http import HttpSettings
from harness.events import ToolEnded
from tests.bot.core import ANN, Core, core
from tests.simulators.process import REPO_ROOT, child_environment
from tests.simulators.proxy.authority import PrivateAuthority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.http.parts import HttpParts
    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller

TOKEN = "0123456789abcdef0123456789abcdef"
SECONDS = 40.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


@dataclass
class Process:
    """A gateway with a terminal and the demo model. lines: what it logged."""

    process: asyncio.subprocess.Process
    client: httpx.AsyncClient
    lines: list[str]

    async def ask(self, path: str, **headers: str) -> httpx.Response:
        return await self.client.get(path, headers=headers)

    async def ready(self) -> None:
        async with asyncio.timeout(SECONDS):
            while True:
                with contextlib.suppress(httpx.ConnectError):
                    if (await self.ask("/readyz")).status_code == 200:
                        return
                await asyncio.wait({asyncio.create_task(self.process.wait())}, timeout=0.1)
                assert self.process.returncode is None, "".join(self.lines)

    async def say(self, text: str) -> None:
        """Write to the terminal, and wait for the answer to be counted."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n".encode())
        async with asyncio.timeout(SECONDS):
            while 'ending="success"' not in (await self.ask("/metrics")).text:
                await asyncio.wait({asyncio.create_task(self.process.wait())}, timeout=0.1)


def written(folder: Path, http: dict[str, Any]) -> Path:
    file = folder / "config.yaml"
    settings = {"data_dir": "data", "channels": {"console": {}}, "sandbox": {"use": "off"}, "http": http}
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


async def launched(folder: Path, http: dict[str, Any]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", "run", "--config", str(written(folder, http))),
        cwd=REPO_ROOT,
        env=child_environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )


@contextlib.asynccontextmanager
async def gateway(
    folder: Path, host: str = "127.0.0.1", trusted: ssl.SSLContext | None = None, **http: Any
) -> AsyncIterator[Process]:
    """trusted: it is asked over TLS."""
    port, lines = free_port(), list[str]()
    process = await launched(folder, {"listen": f"{host}:{port}", **http})
    verify, url = trusted or True, f"{'https' if trusted else 'http'}://127.0.0.1:{port}"

    async def keep() -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            lines.append(line.decode())

    logging = asyncio.create_task(keep())
    try:
        async with httpx.AsyncClient(base_url=url, trust_env=False, verify=verify) as client:
            yield Process(process, client, lines)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await logging


async def test_a_gateway_tells_that_it_is_well_and_what_it_did(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()
        healthy = await running.ask("/healthz")
        assert (healthy.status_code, healthy.text) == (200, "ok\n")
        assert (await running.client.head("/healthz")).status_code == 200
        assert (await running.ask("/nothing")).status_code == 404
        assert (await running.ask("/docs")).status_code == 404
        await running.say("hello there")
        told = (await running.ask("/metrics")).text
        assert 'antler_runs_total{account="console",ending="success",platform="console"} 1.0' in told
        assert 'antler_inbound_events_total{account="console",outcome="accepted",platform="console"} 1.0' in told
        assert 'antler_connection_up{account="console",platform="console"} 1.0' in told
        assert 'antler_model_calls_total{model="demo",outcome="answered"} 1.0' in told
        assert re.search(r'antler_tokens_total\{kind="output",model="demo"\} [1-9]', told)
        assert "antler_first_words_seconds_count 1.0" in told
        assert 'antler_final_wait_seconds_count{account="console",platform="console"} 1.0' in told
        assert re.search(r'antler_api_calls_total\{account="console",outcome="done",platform="console"\} [1-9]', told)
        running.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(running.process.wait(), SECONDS) == 0
        with pytest.raises(httpx.ConnectError):
            await running.ask("/healthz")
    assert "left behind" not in "".join(running.lines)


async def test_it_moves_when_the_config_says_so_and_stays_where_it_cannot(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()

        def reload(listen: str) -> None:
            written(tmp_path, {"listen": listen})
            running.process.send_signal(signal.SIGHUP)

        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            reload(address)
            kept = f"http was not changed and continues as before: http.listen: cannot listen on {address}"
            async with asyncio.timeout(SECONDS):
                while kept not in "".join(running.lines):
                    await asyncio.wait({asyncio.create_task(running.process.wait())}, timeout=0.1)
        assert (await running.ask("/healthz")).status_code == 200
        port = free_port()
        reload(f"127.0.0.1:{port}")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as moved:
            await Process(running.process, moved, running.lines).ready()
        with pytest.raises(httpx.ConnectError):
            await running.ask("/healthz")


async def test_metrics_ask_for_their_token_where_others_may_reach_them(tmp_path: Path) -> None:
    async with gateway(tmp_path, metrics_token=TOKEN) as running:
        await running.ready()
        refused = await running.ask("/metrics")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert "antler_" not in refused.text
        assert (await running.ask("/metrics", Authorization=f"Bearer {TOKEN[:-1]}x")).status_code == 401
        assert "antler_info" in (await running.ask("/metrics", Authorization=f"Bearer {TOKEN}")).text


async def test_on_all_interfaces_it_is_encrypted_and_health_is_open(tmp_path: Path) -> None:
    authority = PrivateAuthority.create(tmp_path)
    made = authority.issue("antler.test")
    tls = {"cert": str(made.cert), "key": str(made.key)}
    trusted = ssl.create_default_context(cafile=authority.cert)
    async with gateway(tmp_path, "0.0.0.0", trusted, tls=tls, metrics_token=TOKEN) as running:
        await running.ready()
        assert (await running.ask("/healthz")).text == "ok\n"
        assert (await running.ask("/metrics")).status_code == 401
        assert "antler_info" in (await running.ask("/metrics", Authorization=f"Bearer {TOKEN}")).text


async def test_behind_a_proxy_there_are_no_metrics_without_a_token(tmp_path: Path) -> None:
    async with gateway(tmp_path, behind_proxy=True) as running:
        await running.ready()
        refused = await running.ask("/metrics")
        assert (refused.status_code, refused.text) == (403, "set http.metrics_token, and send it\n")


async def test_a_port_that_is_in_use_ends_the_start_and_names_the_key(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = await launched(tmp_path, {"listen": address})
        _, told = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 1
    assert f"http.listen: cannot listen on {address} (address already in use" in told.decode()
    assert "Traceback" not in told.decode()
    assert "left behind" not in told.decode()


async def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    http = {"listen": f"127.0.0.1:{free_port()}", "tls": {"cert": "none.crt", "key": "none.key"}}
    process = await launched(tmp_path, http)
    _, told = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 1
    assert "http.tls cannot be used: No such file or directory" in told.decode()


def test_without_a_listener_its_libraries_are_not_imported() -> None:
    code = (
        "import sys, bot.process.gateway, bot.process.wiring, bot.control.logs, harness.run.runner\n"
        "heavy = {'fastapi', 'uvicorn', 'prometheus_client', 'opentelemetry.exporter', 'langfuse'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO_ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def problems(folder: Path, **http: Any) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load(written(folder, http), {})
    return {problem.key: problem.message for problem in caught.value.problems}


def test_beyond_this_machine_it_listens_only_encrypted(tmp_path: Path) -> None:
    told = problems(tmp_path, listen="0.0.0.0:8080")
    assert "give tls a cert and a key" in told["http"]
    assert "behind_proxy" in told["http"]
    for http in ({"behind_proxy": True}, {"tls": {"cert": "a.crt", "key": "a.key"}}):
        settings = load(written(tmp_path, {"listen": "0.0.0.0:8080", **http}), {}).http
        assert settings.is_exposed
    assert settings.tls is not None
    assert settings.tls.cert == tmp_path / "a.crt"
    told = problems(tmp_path, listen="127.0.0.1:8080", url="https://bots.example.org")
    assert "url is an address for other machines" in told["http"]
    assert "behind_proxy: true" in told["http"]
    assert "such as 10.0.0.5" in problems(tmp_path, behind_proxy=True, proxies=["traefik"])["http.proxies"]
    assert "set behind_proxy: true" in problems(tmp_path, proxies=["10.0.0.5"])["http"]
    assert HttpSettings(listen="127.0.0.1:8080", url="https://bots.example.org", behind_proxy=True).is_secure
    assert not HttpSettings(listen="127.0.0.1:8080", url="http://localhost:9000/antler").is_exposed
    assert not HttpSettings(listen="[::1]:8080").is_exposed
    assert not HttpSettings(listen="localhost:8080").is_exposed


@pytest.mark.parametrize(
    "listen", ["8080", 8080, ":8080", "127.0.0.1", "http://127.0.0.1:80", "a:b", "u@h:1", "h:99999"]
)
def test_an_address_is_host_and_port(tmp_path: Path, listen: object) -> None:
    assert "http.listen" in problems(tmp_path, listen=listen)


def test_a_certificate_without_a_key_and_a_short_token_are_faults(tmp_path: Path) -> None:
    assert "http.tls.key" in problems(tmp_path, tls={"cert": "a.crt"})
    assert "shorter than 16" in problems(tmp_path, metrics_token="abc")["http.metrics_token"]


def parts_of(c: Core) -> HttpParts:
    gatekeeper = Gatekeeper(c.parts.signins, c.parts.settings.http, c.clock)
    return replace(http_parts(c.parts, gatekeeper, lambda: True), platforms=dict.fromkeys(c.accounts, "memory"))


async def test_the_counts_of_a_gateway_name_no_person_and_no_chat(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        message = await c.say("one")
        await c.answered()
        await c.receive(message)  # as a platform that did not hear of the first time
        registry = CollectorRegistry()
        registry.register(Figures(parts_of(c), await c.parts.status.stored()))
        told = generate_latest(registry).decode()
    assert 'antler_inbound_events_total{account="memory",outcome="duplicate",platform="memory"} 1.0' in told
    labels = set(re.findall(r'(\w+)="', told))
    assert labels <= {
        *("version", "part", "name", "provider", "state", "server", "account", "platform", "outcome"),
        *("budget", "ending", "tool", "model", "kind", "currency", "le"),
    }
    assert not re.search(rf'="(?:memory:)?{ANN}"', told)


async def test_the_dashboard_and_the_page_name_what_there_is(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        families = list(Figures(parts_of(c), await c.parts.status.stored()).collect())
    suffixes = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
    names = {f"{family.name}{suffix}" for family in families for suffix in suffixes[family.type]}
    dashboard = json.loads((REPO_ROOT / "docs/grafana-dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    used = {name for expression in asked for name in re.findall(r"antler_\w+", expression)}
    assert used <= names
    shown = {family.name for family in families if any(name.startswith(family.name) for name in used)}
    assert shown == {family.name for family in families}
    page = (REPO_ROOT / "docs/monitoring.md").read_text()
    listed = {
        name for line in page.splitlines() if line.startswith("| `antler_") for name in re.findall(r"antler_\w+", line)
    }
    assert listed == {f"{family.name}{'_total' if family.type == 'counter' else ''}" for family in families}


async def test_of_tools_that_do_not_exist_there_are_only_so_many_names(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        names = [f"made_up_{number}" for number in range(TOOLS_APART + 10)]
        c.harness.tells("go", *(partial(called, tool=name) for name in names), lambda tell: tell.answer("done"))
        await c.say("go")
        await c.answered()
        counted = c.parts.runs.active.counts.tools
    assert len(counted) == TOOLS_APART + 1
    assert counted["other", "ok"] == 10


def called(tell: Teller, tool: str) -> AnyRunEvent:
    return tell(ToolEnded, call_id=tool, tool=tool, ok=True)
