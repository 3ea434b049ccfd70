"""One contract for the vendors' own packages, each over loopback against a simulator of its API."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from harness.config import LlmSettings, ModelSettings
from harness.context import InputFile, RunInput
from harness.errors import ModelSetupError
from harness.events import FailureKind as Kind
from harness.events import Outcome
from harness.models.build import build_model
from harness.models.vendors import VENDORS
from harness.run.runner import make_harness
from tests.harness.support import Bench, collect, context, failed, finished, in_memory, said, visible
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import PROXY_VARIABLES, SimulatorProcess
from tests.simulators.proxy.authority import PrivateAuthority
from tests.simulators.proxy.client import ProxySimulator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from harness.run.runner import HarnessRunner
    from tests.simulators.model.records import Record

NAMES = ("anthropic", "gemini", "deepseek", "ollama")
USES = dict(zip(NAMES, VENDORS, strict=True))
THINKS: dict[str, dict[str, Any]] = {
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "gemini": {"thinking_budget": 512},
    "deepseek": {"thinking": {"type": "enabled"}},
    "ollama": {"reasoning": True},
}
MODELS = {"gemini": "gemini-3-sim"}


def settings(simulator: ModelSimulator, name: str, **changes: Any) -> ModelSettings:
    values: dict[str, Any] = {
        **{"name": name, "use": USES[name], "model": MODELS.get(name, f"{name}-sim")},
        **{"base_url": simulator.vendor_url(name), "api_key": "sk-of-the-vendor", "max_tokens": 4096},
        **{"supports_thinking": True, "show_thinking": True, "when_thinking_enabled": THINKS[name]},
        **{"supports_vision": name != "deepseek", "context_window": 32000, "timeout": 20.0},
    }
    return ModelSettings.model_validate(values | changes)


@pytest.fixture(autouse=True)
def a_hostile_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it may be used: keys, addresses, proxies."""
    for name in [name for name in os.environ if name.lower() in PROXY_VARIABLES]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    for name in ("ANTHROPIC", "GOOGLE", "GEMINI", "DEEPSEEK", "OLLAMA"):
        monkeypatch.setenv(f"{name}_API_KEY", "bad-key-of-the-environment")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:1")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")


@pytest.fixture
async def harness(bench: Bench, simulator: ModelSimulator) -> AsyncIterator[HarnessRunner]:
    """With all four, a sandbox in memory, and a clock that runs as fast as it is waited for."""
    in_memory(bench)
    bench.llm = LlmSettings(patience=2, max_retries=1, max_retry_wait=60)
    async with bench.open(*(settings(simulator, name) for name in NAMES)) as opened:
        yield opened
    assert [r.error for r in await simulator.requests() if r.error] == []


async def ask(harness: HarnessRunner, name: str, text: str, run: str = "r1", thread: str = "") -> list[Any]:
    return await collect(harness, context(run, thread=thread or f"{name}-{run}", model=name), said(text, f"m-{run}"))


@pytest.mark.parametrize("name", NAMES)
async def test_an_answer_streams_and_is_counted(harness: HarnessRunner, simulator: ModelSimulator, name: str) -> None:
    events = await ask(harness, name, "!reasoning Let me see. It is four.\n!count 40")
    text = " ".join(map(str, range(1, 41)))
    assert (finished(events).text, visible(events)) == (text, text)
    assert "".join(e.text for e in events if e.type == "reasoning_delta") == "Let me see. It is four."
    (usage,) = [e for e in events if e.type == "usage"]
    (asked,) = await simulator.completions()
    assert (usage.model, usage.input_tokens > 100, usage.output_tokens >= 8) == (name, True, True)
    cached = usage.cached_tokens * 2 in (usage.input_tokens, usage.input_tokens - 1)
    assert cached == (name in ("anthropic", "deepseek"))
    assert asked.body["model"] == (MODELS.get(name, f"{name}-sim"))
    assert asked.stream


@pytest.mark.parametrize("name", NAMES)
async def test_thoughts_are_hidden_unless_they_are_wanted(bench: Bench, simulator: ModelSimulator, name: str) -> None:
    async with bench.open(settings(simulator, name, show_thinking=False)) as opened:
        events = await ask(opened, name, "!reasoning Secretly.\n!say Four.")
    assert finished(events).text == "Four."
    assert [e for e in events if e.type == "reasoning_delta"] == []


@pytest.mark.parametrize("name", NAMES)
async def test_tools_are_called_and_their_results_told(
    harness: HarnessRunner, simulator: ModelSimulator, name: str
) -> None:
    """Two calls in one step, another step behind them, and a turn behind those: each request fits what was before."""
    first = '!reasoning I look.\n!say One moment. \n!tools ls {"path": "."} ls {"path": ".."}\n!tool ls {"path": "."}'
    events = await ask(harness, name, first, thread="t")
    assert finished(events).text.startswith("Tool result:")
    await ask(harness, name, "!say And on.", run="r2", thread="t")
    requests = await simulator.completions()
    assert len(requests) == 4
    assert [len(parts) for parts in map(_answered, requests)] == [0, 2, 3, 3]


def _answered(record: Record) -> list[Any]:
    """The tool results in a request, in whichever form."""
    body = record.body
    if "contents" in body:
        return [part for content in body["contents"] for part in content["parts"] if "functionResponse" in part]
    messages = [m for m in body["messages"] if m["role"] == "tool"]
    blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
    return messages + [block for block in blocks if block.get("type") == "tool_result"]


@pytest.mark.parametrize("name", NAMES)
async def test_a_picture_arrives(harness: HarnessRunner, simulator: ModelSimulator, tmp_path: Path, name: str) -> None:
    path = tmp_path / "cat.png"
    Image.new("RGB", (30, 20), "red").save(path)
    file = InputFile(name="cat.png", mime_type="image/png", size=path.stat().st_size, path=path)
    run_input = RunInput(message_id="m1", text="Who is it?", files=(file,))
    events = await collect(harness, context("r1", model=name), run_input)
    (asked,) = await simulator.completions()
    seen = [(image.width, image.height) for image in asked.images]
    assert seen == ([] if name == "deepseek" else [(30, 20)])
    assert finished(events).outcome is Outcome.SUCCESS


FAILURES: list[tuple[str, Kind | None, int | None]] = [
    ("!status 401", Kind.AUTH, 1),
    ("!status 403", Kind.AUTH, 1),
    ("!status 404", Kind.NOT_FOUND, 1),
    ("!status 400", Kind.BAD_REQUEST, 1),
    ("!status 429 retry-after=3600", Kind.RATE_LIMITED, 1),
    ("!status 429 retry-after=1", Kind.RATE_LIMITED, None),
    ("!status 500", Kind.UNAVAILABLE, None),
    ("!status 503", Kind.OVERLOADED, None),
    ("!status 529", Kind.OVERLOADED, None),
    ("!status 400 code=context_length_exceeded", Kind.CONTEXT_LENGTH, 1),
    ("!tokens 20 20\n!reset after=0", Kind.CUT, None),  # what is on its way at a reset may be lost: seldom it is all
    ("!reset after=0", Kind.CONNECTION, None),
    ("!cut", Kind.CUT, 2),
    ("!error", Kind.CUT, 2),
    ("!garbage", Kind.BAD_RESPONSE, 2),
    ("!garbage after=0", Kind.BAD_RESPONSE, 2),
    ("!empty", Kind.EMPTY, 2),
]


@pytest.mark.parametrize("name", NAMES)
async def test_failures_have_the_same_names(harness: HarnessRunner, simulator: ModelSimulator, name: str) -> None:
    """asked: how often; None: until the patience is used up."""
    for number, (text, kind, asked) in enumerate(FAILURES):
        events = await ask(harness, name, text, run=f"r{number}")
        end = failed(events)
        counted = len(await simulator.completions())
        assert (text, end.kind, end.model) == (text, kind, name)
        assert counted == asked if asked else counted > 1, (text, counted)
        if "3600" in text:
            assert end.retry_after == 3600
        assert "sk-of-the-vendor" not in end.detail_for_log
        await ask(harness, name, "!say Well.", run=f"r{number}-well")  # or the breaker opens
        await simulator.reset()


@pytest.mark.parametrize("name", NAMES)
async def test_what_is_refused_and_what_is_cut_by_a_limit(harness: HarnessRunner, name: str) -> None:
    ends = {text: (await ask(harness, name, text, run=f"r{i}"))[-1] for i, text in enumerate(REFUSED)}
    cut = finished([ends["!say Half an\n!finish length"]])
    assert (cut.text, cut.outcome) == ("Half an", Outcome.LIMITED)
    if name in ("anthropic", "gemini"):
        assert {failed([ends[text]]).kind for text in REFUSED[1:]} == {Kind.CONTENT_FILTER}
    elif name == "deepseek":
        assert {failed([ends[text]]).kind for text in ("!filter", "!filter request")} == {Kind.CONTENT_FILTER}
    else:
        assert finished([ends["!refuse"]]).text == "I can't help with that."


REFUSED = ("!say Half an\n!finish length", "!refuse", "!filter", "!filter request")


@pytest.mark.parametrize("name", NAMES)
async def test_a_run_that_is_stopped_in_mid_answer_closes_its_stream(
    harness: HarnessRunner, simulator: ModelSimulator, name: str
) -> None:
    events, begun = [], asyncio.Event()

    async def until_stopped() -> None:
        async with aclosing(harness.run(context("r1", model=name), said("!pause here"))) as stream:
            async for event in stream:
                events.append(event)
                if visible(events) == "The first half of the answer, ":
                    begun.set()

    task = asyncio.create_task(until_stopped())
    await asyncio.wait_for(begun.wait(), 40)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await simulator.wait_for_request(lambda record: record.state == "disconnected")


async def test_a_thread_goes_from_model_to_model(harness: HarnessRunner, simulator: ModelSimulator) -> None:
    """Signed thoughts, blocks and calls of one vendor are nothing that another one refuses."""
    turn = '!reasoning I look.\n!say A moment. \n!tool ls {"path": "."}\n!reasoning Good.\n!say Done.'
    for first, second in permutations(NAMES, 2):
        for number, name in enumerate((first, second, first)):
            run = f"{first}-{second}-{number}"
            assert finished(await ask(harness, name, turn, run=run, thread=f"{first}-{second}")).text == "Done."
    assert len(await simulator.completions()) == 12 * 3 * 2


@pytest.mark.parametrize("name", NAMES)
async def test_calls_that_a_limit_took_back_do_not_come_again(
    bench: Bench, simulator: ModelSimulator, name: str
) -> None:
    in_memory(bench)
    bench.model_call_limit = 2
    async with bench.open(settings(simulator, name)) as opened:
        steps = '!reasoning I look.\n!say I look. \n!tool ls {"path": "."}\n' * 3
        assert finished(await ask(opened, name, steps, thread="t")).outcome is Outcome.LIMITED
        assert finished(await ask(opened, name, "!say On.", run="r2", thread="t")).text == "On."
    assert [r.error for r in await simulator.requests() if r.error] == []


async def test_what_the_config_says_reaches_each_vendor(harness: HarnessRunner, simulator: ModelSimulator) -> None:
    for name in NAMES:
        await ask(harness, name, "hello")
    requests = dict(zip(NAMES, await simulator.completions(), strict=True))
    bodies = {name: record.body for name, record in requests.items()}
    assert (bodies["anthropic"]["max_tokens"], bodies["deepseek"]["max_tokens"]) == (4096, 4096)
    assert bodies["anthropic"]["cache_control"] == {"type": "ephemeral"}
    config = bodies["gemini"]["generationConfig"]
    assert config["maxOutputTokens"] == 4096
    assert config["thinkingConfig"] == {"thinkingBudget": 512, "includeThoughts": True}
    assert "x-server-timeout" not in requests["gemini"].headers, "it would bound the whole answer"
    assert bodies["ollama"]["options"] == {"num_ctx": 32000, "num_predict": 4096}
    assert bodies["ollama"]["think"] is True
    assert "environment" not in str([record.headers for record in requests.values()])


async def test_a_model_answers_outside_of_a_graph_too(simulator: ModelSimulator) -> None:
    """As titles and memories ask it."""
    for name in NAMES:
        built = build_model(settings(simulator, name), (None, None))
        answer = await built.chat.ainvoke("!say Four.")
        await built.close()
        assert str(answer.text) == "Four."


async def test_each_is_reached_through_a_proxy_with_a_private_authority(bench: Bench, tmp_path: Path) -> None:
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
        models = [settings(model, name, base_url=f"https://model.test/{name}") for name in NAMES]
        opened = await make_harness(
            replace(bench.parts(*models), route=lambda name: (proxy.url, authority.cert)), bench.database
        )
        try:
            for name in NAMES:
                assert finished(await ask(opened, name, "!say through")).text == "through"
        finally:
            await opened.close()
        assert {c.target for c in await proxy.connects(at_least=len(NAMES))} == {"model.test:443"}


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, use in USES.items():
        monkeypatch.setitem(__import__("sys").modules, use.partition(":")[0], None)
        with pytest.raises(ModelSetupError, match=rf"run: .* -m pip install 'antler\[{name}\]'"):
            build_model(ModelSettings(name="main", use=use), (None, None))


def test_settings_that_a_package_refuses_are_named(simulator: ModelSimulator) -> None:
    wrong = settings(simulator, "gemini", when_thinking_enabled={"thinking_budget": "much"})
    with pytest.raises(ModelSetupError, match=r"model gemini: .* rejects its settings"):
        build_model(wrong, (None, None))
