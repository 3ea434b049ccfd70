"""Building models: what the config says, nothing from the environment, errors that say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.config import ModelSettings
from harness.errors import ModelSetupError
from harness.models import build_model, check_model
from harness.runner import make_harness
from tests.harness.support import Bench, Script, collect, context, finished, said, scripted_settings
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess
from tests.simulators.proxy.authority import PrivateAuthority
from tests.simulators.proxy.client import ProxySimulator

if TYPE_CHECKING:
    from pathlib import Path

DIRECT = (None, None)


@pytest.mark.parametrize(
    ("use", "says"),
    [
        ("langchain_nosuchvendor:ChatVendor", "run: pip install langchain-nosuchvendor"),
        ("langchain_openai:ChatNothing", "langchain_openai has no class ChatNothing"),
        ("json:JSONDecoder", "json:JSONDecoder is not a LangChain chat model"),
        ("nonsense", "run: pip install nonsense"),
    ],
)
def test_a_wrong_class_path_says_what_to_do(use: str, says: str) -> None:
    with pytest.raises(ModelSetupError, match=says):
        build_model(ModelSettings(name="main", use=use), DIRECT)


def test_a_missing_package_is_found_without_importing_anything() -> None:
    with pytest.raises(ModelSetupError, match="pip install langchain-nosuchvendor"):
        check_model(ModelSettings(name="main", use="langchain_nosuchvendor:ChatVendor"))
    check_model(ModelSettings(name="main", use="langchain_openai:ChatOpenAI"))
    check_model(ModelSettings(name="main", use="demo"))


async def test_a_missing_package_stops_the_start(bench: Bench) -> None:
    with pytest.raises(ModelSetupError):
        async with bench.open(scripted_settings(use="langchain_nosuchvendor:Chat")):
            pass


def test_a_class_that_cannot_use_the_proxy_says_so() -> None:
    with pytest.raises(ModelSetupError, match=r"cannot use network\.proxy"):
        build_model(scripted_settings(), ("http://127.0.0.1:3128", None))


async def test_the_environment_is_not_looked_at(
    bench: Bench, simulator: ModelSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "OPENAI_PROXY",
    ):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-from-the-environment")
    settings = ModelSettings(name="main", model="gpt-sim", base_url=simulator.base_url)
    async with bench.open(settings) as harness:
        await collect(harness, context("r1"), said("hello"))
    (asked,) = await simulator.completions()
    assert "from-the-environment" not in str(asked.headers)


async def test_settings_reach_the_provider(bench: Bench, simulator: ModelSimulator) -> None:
    settings = ModelSettings.model_validate(
        {
            "name": "main",
            "model": "gpt-sim",
            "base_url": simulator.base_url,
            "api_key": simulator.api_key,
            "temperature": 0.5,
            "max_tokens": 77,
        }
    )
    async with bench.open(settings) as harness:
        assert (await collect(harness, context("r1"), said("!say hi")))[-1].type == "finished"
    (asked,) = await simulator.completions()
    assert asked.body["model"] == "gpt-sim"
    assert asked.body["temperature"] == 0.5
    assert 77 in (asked.body.get("max_tokens"), asked.body.get("max_completion_tokens"))
    assert asked.body["stream_options"] == {"include_usage": True}


async def test_a_model_is_reached_through_a_proxy_with_a_private_authority(tmp_path: Path, bench: Bench) -> None:
    authority = PrivateAuthority.create(tmp_path)
    made = authority.issue("model.test")
    server = SimulatorProcess("tests.simulators.model", "--tls-cert", str(made.cert), "--tls-key", str(made.key))
    async with (
        server,
        SimulatorProcess("tests.simulators.proxy") as proxy_process,
        ModelSimulator(server.port, authority.cert) as model,
        ProxySimulator(proxy_process.port) as proxy,
    ):
        await proxy.route("model.test:443", server.port)
        settings = ModelSettings.model_validate(
            {"name": "main", "model": "m", "base_url": "https://model.test/v1", "api_key": model.api_key}
        )
        harness = await make_harness(
            models=[settings],
            summarization=bench.summarization,
            llm=bench.llm,
            model_call_limit=100,
            database=bench.database,
            effects=bench.effects,
            ledger=bench.ledger,
            clock=bench.clock,
            route=lambda name: (proxy.url, authority.cert),
        )
        try:
            events = await collect(harness, context("r1"), said("!say through the tunnel"))
        finally:
            await harness.close()
        assert finished(events).text == "through the tunnel"
        (connect,) = await proxy.connects(at_least=1)
        assert (connect.target, connect.status) == ("model.test:443", 200)


async def test_each_model_answers_under_its_own_name(bench: Bench, script: Script) -> None:
    async with bench.open(scripted_settings(), ModelSettings(name="trial", use="demo")) as harness:
        await collect(harness, context("r1"), said("hello"))
        events = await collect(harness, context("r2", model="trial"), said("hello"))
    assert "demo model" in finished(events).text
    assert [e.model for e in events if e.type == "usage"] == ["trial"]
