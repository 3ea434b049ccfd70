"""Building models: what the config says, nothing from the environment, errors that say what to do."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr  # noqa: TC002  pydantic reads the annotation

from harness.config import ModelSettings
from harness.errors import ModelSetupError
from harness.models.build import build_model, check_model
from harness.run.runner import make_harness
from tests.harness.support import (
    Bench,
    Script,
    ScriptedModel,
    collect,
    context,
    finished,
    in_memory,
    said,
    scripted_settings,
)
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
        ("langchain_nosuchvendor:ChatVendor", f"run: {sys.executable} -m pip install langchain-nosuchvendor"),
        ("tests.harness.needy_model:ChatNeedy", "needs nosuch_sdk, .* run: .* -m pip install nosuch-sdk"),
        ("langchain_openai:ChatNothing", "langchain_openai has no class ChatNothing"),
        ("json:JSONDecoder", "json:JSONDecoder is not a LangChain chat model"),
        ("nonsense", f"run: {sys.executable} -m pip install nonsense"),
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


class Vendors(ScriptedModel):
    """As a vendor's class: with settings of its own."""

    api_key: SecretStr
    budget: int = 0


def test_any_class_gets_the_settings_that_it_knows() -> None:
    values = {"use": "tests.harness.models.test_models:Vendors", "api_key": "sk-1", "supports_thinking": True}
    thinks = scripted_settings(**values, when_thinking_enabled={"budget": 9}, when_thinking_disabled={"budget": 1})
    chat: Any = build_model(thinks, DIRECT).chat
    assert (type(chat).__name__, chat.model, chat.api_key.get_secret_value(), chat.budget) == (
        "Vendors",
        "main",
        "sk-1",
        9,
    )
    chat = build_model(thinks.model_copy(update={"thinking": False}), DIRECT).chat
    assert chat.budget == 1
    with pytest.raises(ModelSetupError, match="rejects its settings"):
        build_model(scripted_settings(use="tests.harness.models.test_models:Vendors"), DIRECT)


@pytest.mark.parametrize(("thinking", "sent"), [(True, "enabled"), (False, "disabled")])
async def test_thinking_adds_its_arguments_to_the_request(
    bench: Bench, simulator: ModelSimulator, thinking: bool, sent: str
) -> None:
    settings = ModelSettings.model_validate(
        {
            "name": "main",
            "model": "gpt-sim",
            "base_url": simulator.base_url,
            "api_key": simulator.api_key,
            "supports_thinking": True,
            "thinking": thinking,
            "when_thinking_enabled": {"thinking": {"type": "enabled"}, "extra_body": {"effort": 1}},
            "when_thinking_disabled": {"thinking": {"type": "disabled"}},
        }
    )
    async with bench.open(settings) as harness:
        await collect(harness, context("r1"), said("hello"))
    # Outside of a graph the client does not stream, and goes another way.
    chat = build_model(settings, DIRECT)
    await chat.chat.ainvoke("hello")
    await chat.close()
    streamed, plain = await simulator.completions()
    assert (streamed.body["thinking"], plain.body["thinking"]) == ({"type": sent}, {"type": sent})
    assert [("effort" in asked.body, "extra_body" in asked.body) for asked in (streamed, plain)] == [
        (thinking, False)
    ] * 2


async def test_thoughts_go_back_to_a_server_that_wants_them(
    bench: Bench, simulator: ModelSimulator, script: Script
) -> None:
    """Word for word, and a space where another model answered: nothing, or an empty text, is refused."""
    in_memory(bench)
    values = {"model": "gpt-sim", "base_url": simulator.base_url, "api_key": simulator.api_key}
    thinks = ModelSettings.model_validate(
        values | {"name": "thinks", "supports_thinking": True, "return_thinking": True}
    )
    plain = ModelSettings.model_validate(values | {"name": "plain", "supports_thinking": True})
    async with bench.open(scripted_settings(), thinks, plain) as harness:
        await collect(harness, context("r1"), said("hello"))
        turn = said('!reasoning Let me look.\n!tool ls {"path": "."}')
        await collect(harness, context("r2", model="thinks"), turn)
        await collect(harness, context("r3", model="thinks"), said("and?"))
        await collect(harness, context("r4", model="plain"), said("and you?"))
    sent = [
        [m.get("reasoning_content") for m in record.body["messages"] if m["role"] == "assistant"]
        for record in await simulator.completions()
    ]
    assert sent[:2] == [[" "], [" ", "Let me look."]]
    assert sent[2][:2] == sent[1]
    assert sent[3] == [None] * 4


async def test_thoughts_are_told_only_where_they_are_wanted(bench: Bench, simulator: ModelSimulator) -> None:
    values = {"model": "gpt-sim", "base_url": simulator.base_url, "api_key": simulator.api_key}
    models = [
        ModelSettings.model_validate(values | {"name": "main", "supports_thinking": True}),
        ModelSettings.model_validate(values | {"name": "open", "supports_thinking": True, "show_thinking": True}),
    ]
    thoughts = []
    async with bench.open(*models) as harness:
        for model in ("main", "open"):
            turn = said("!reasoning Let me see.\n!say Four.", model)
            events = await collect(harness, context(model, thread=model, model=model), turn)
            assert finished(events).text == "Four."
            thoughts.append("".join(e.text for e in events if e.type == "reasoning_delta"))
    assert thoughts == ["", "Let me see."]


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
        parts = replace(bench.parts(settings), route=lambda name: (proxy.url, authority.cert))
        harness = await make_harness(parts, bench.database)
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
