"""A model that cannot answer is stood in for by the next of its list: what is told, counted, kept, and sent to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from harness.config import LlmSettings, ModelSettings
from harness.context import InputFile, RunInput
from harness.errors import ModelFailure
from harness.events import FailureKind as Kind
from harness.middleware.fallback import BRIEF
from harness.models.pool import FAILURES_TO_OPEN
from tests.harness.support import (
    SCRIPTS,
    Bench,
    Script,
    ScriptedModel,
    calls,
    collect,
    context,
    failed,
    finished,
    in_memory,
    said,
    scripted_settings,
    visible,
)

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.messages import BaseMessage

    from harness.events import AnyRunEvent
    from tests.simulators.model.client import ModelSimulator


def fault(kind: Kind, model: str = "main") -> ModelFailure:
    return ModelFailure(kind, model=model, detail="as the test wants it")


@pytest.fixture
def other(script: Script) -> Script:
    """The script of the model `other`."""
    SCRIPTS["other"] = Script()
    return SCRIPTS["other"]


def pair(main: dict[str, Any] | None = None, other: dict[str, Any] | None = None) -> list[ModelSettings]:
    return [
        scripted_settings(**({"fallbacks": ("other",)} | (main or {}))),
        scripted_settings(**({"name": "other", "model": "other"} | (other or {}))),
    ]


def notices(events: list[AnyRunEvent]) -> list[tuple[str, str, str]]:
    return [(e.kind, e.model, e.instead_of) for e in events if e.type == "notice"]


INSTEAD = ("fallback", "other", "main")


def pictures(messages: list[BaseMessage]) -> list[str]:
    blocks: list[Any] = [block for m in messages if isinstance(m.content, list) for block in m.content]
    return [block["image_url"]["url"] for block in blocks if block.get("type") == "image_url"]


def write_png(path: Path) -> Path:
    Image.new("RGB", (4, 4), "red").save(path, "PNG")
    return path


@pytest.mark.parametrize(
    "kind",
    [
        *(Kind.AUTH, Kind.QUOTA, Kind.NOT_FOUND, Kind.RATE_LIMITED, Kind.OVERLOADED, Kind.TIMEOUT),
        *(Kind.CONNECTION, Kind.CUT, Kind.UNAVAILABLE, Kind.BAD_RESPONSE, Kind.EMPTY),
    ],
)
async def test_the_next_model_answers_the_same_request(bench: Bench, script: Script, other: Script, kind: Kind) -> None:
    bench.llm = LlmSettings(patience=0, max_retries=0)
    script.steps, other.steps = [fault(kind)], ["I can."]
    async with bench.open(*pair()) as harness:
        events = await collect(harness, context("r1"), said("hello"))
    assert finished(events).text == visible(events) == "I can."
    assert notices(events) == [INSTEAD]
    assert [e.model for e in events if e.type == "usage"] == ["other"]
    assert other.requests == script.requests


@pytest.mark.parametrize("kind", [Kind.CONTENT_FILTER, Kind.BAD_REQUEST, Kind.CONTEXT_LENGTH])
async def test_what_another_model_would_not_do_better_ends_the_run(
    bench: Bench, script: Script, other: Script, kind: Kind
) -> None:
    script.steps = [fault(kind)]
    async with bench.open(*pair()) as harness:
        end = failed(await collect(harness, context("r1"), said("hello")))
    assert (end.kind, end.model) == (kind, "main")
    assert other.requests == []


@pytest.mark.parametrize("kind", [Kind.RATE_LIMITED, Kind.OVERLOADED, Kind.CONNECTION])
async def test_nobody_waits_for_a_busy_model_while_another_can_answer(
    bench: Bench, script: Script, other: Script, kind: Kind
) -> None:
    script.steps, other.steps = [fault(kind)] * 50, ["I can."]
    async with bench.open(*pair()) as harness:
        events = await collect(harness, context("r1"), said("hello"))
    assert finished(events).text == "I can."
    assert notices(events) == [INSTEAD]
    assert sum(bench.clock.slept) <= BRIEF


async def test_when_all_are_busy_all_are_asked_again_until_one_answers(
    bench: Bench, script: Script, other: Script
) -> None:
    script.steps = [fault(Kind.OVERLOADED)] * 50
    other.steps = [fault(Kind.RATE_LIMITED, "other") for _ in range(10)]
    async with bench.open(*pair()) as harness:
        events = await collect(harness, context("r1"), said("hello"))
        assert finished(events).text == "answer 11"
        assert notices(events) == [INSTEAD]
        assert BRIEF < sum(bench.clock.slept) < bench.llm.patience
        told = [e for e in events if e.type == "model_retrying"]
        assert told[-1].waited > BRIEF
        script.steps = other.steps = [fault(Kind.RATE_LIMITED)] * 200
        began = bench.clock.monotonic()
        end = failed(await collect(harness, context("r2"), said("hello?")))
    assert (end.kind, end.model) == (Kind.RATE_LIMITED, "main")
    assert bench.clock.monotonic() - began == pytest.approx(bench.llm.patience + BRIEF, abs=0.1)


async def test_of_several_models_only_those_are_asked_again_that_may_recover(
    bench: Bench, script: Script, other: Script
) -> None:
    busy = ModelFailure(Kind.RATE_LIMITED, model="other", detail="busy", retry_after=20)
    script.steps, other.steps = [fault(Kind.AUTH)], [busy, "I can."]
    async with bench.open(*pair()) as harness:
        events = await collect(harness, context("r1"), said("hello"))
    assert finished(events).text == "I can."
    assert (len(script.requests), len(other.requests)) == (1, 2)
    assert 20 <= sum(bench.clock.slept) <= 21


async def test_when_none_answers_the_first_failure_is_told_and_the_log_has_all(
    bench: Bench, script: Script, other: Script
) -> None:
    script.steps, other.steps = [fault(Kind.AUTH)], [fault(Kind.QUOTA, "other")]
    async with bench.open(*pair()) as harness:
        events = await collect(harness, context("r1"), said("hello"))
    end = failed(events)
    assert (end.kind, end.model) == (Kind.AUTH, "main")
    assert "other: as the test wants it" in end.detail_for_log
    assert notices(events) == []


async def test_a_run_stays_with_the_model_that_answered_and_the_next_run_begins_anew(
    bench: Bench, script: Script, other: Script
) -> None:
    in_memory(bench)
    script.steps, other.steps = [fault(Kind.QUOTA)], [calls(("ls", {})), "done"]
    async with bench.open(*pair()) as harness:
        events = await collect(harness, context("r1"), said("look"))
        assert finished(events).text == "done"
        assert (len(script.requests), len(other.requests)) == (1, 2)
        assert notices(events) == [INSTEAD]
        assert [e.model for e in events if e.type == "usage"] == ["other", "other"]
        script.steps = ["well again"]
        events = await collect(harness, context("r2"), said("and now?"))
    assert finished(events).text == "well again"
    assert notices(events) == []


async def test_a_list_is_followed_in_its_order(bench: Bench, script: Script, other: Script) -> None:
    SCRIPTS["third"] = Script(["third here"])
    script.steps, other.steps = [fault(Kind.QUOTA)], [fault(Kind.AUTH, "other")]
    models = pair({"fallbacks": ("other", "third")}, {"fallbacks": ("main",)})
    async with bench.open(*models, scripted_settings(name="third", model="third")) as harness:
        events = await collect(harness, context("r1"), said("hello"))
        assert finished(events).text == "third here"
        assert notices(events) == [("fallback", "third", "main")]
        # Only the list of the model that was asked for counts: nobody is asked in circles.
        script.steps, other.steps = [fault(Kind.QUOTA)], [fault(Kind.AUTH, "other")]
        end = failed(await collect(harness, context("r2", model="other"), said("hello?")))
    assert (end.kind, end.model) == (Kind.AUTH, "other")


async def test_a_model_without_vision_is_sent_no_images(
    bench: Bench, script: Script, other: Script, tmp_path: Path
) -> None:
    script.steps, other.steps = [fault(Kind.QUOTA)], ["no idea"]
    picture = InputFile(path=write_png(tmp_path / "cat.png"), name="cat.png", mime_type="image/png", size=9)
    async with bench.open(*pair({"supports_vision": True})) as harness:
        turn = RunInput(message_id="m1", text="what is this?", files=(picture,))
        events = await collect(harness, context("r1"), turn)
        assert notices(events) == [INSTEAD, ("images_not_seen", "other", "")]
        assert pictures(script.requests[0])
        assert pictures(other.requests[0]) == []
        assert "cannot see" in str(other.requests[0][-1].content)
        # The thread keeps the picture for who can see it.
        script.steps = ["a cat"]
        events = await collect(harness, context("r2"), said("try again"))
        assert pictures(script.requests[-1])
        # And /models to a blind one does no harm.
        await collect(harness, context("r3", model="other"), said("you then"))
    assert pictures(other.requests[-1]) == []


async def test_a_model_without_vision_is_not_offered_to_look(bench: Bench, script: Script, other: Script) -> None:
    in_memory(bench)
    script.steps, other.steps = [fault(Kind.QUOTA)], ["ok"]
    async with bench.open(*pair({"supports_vision": True})) as harness:
        await collect(harness, context("r1"), said("hello"))
    assert "view_image" in script.tool_names[0]
    assert set(script.tool_names[0]) - set(other.tool_names[0]) == {"view_image"}


async def test_a_fallback_gets_no_more_than_its_window_takes(bench: Bench, script: Script, other: Script) -> None:
    script.steps = ["word " * 3000, fault(Kind.QUOTA), "back"]
    other.steps = ["in short: words", "fits"]
    async with bench.open(*pair(other={"context_window": 2000})) as harness:
        await collect(harness, context("r1"), said("tell me a lot"))
        events = await collect(harness, context("r2"), said("and?"))
        assert finished(events).text == "fits"
        assert [kind for kind, _, _ in notices(events)] == ["summarizing", "summarized", "fallback"]
        assert [e.model for e in events if e.type == "usage"] == ["other", "other"]
        assert size(other.requests[-1]) < 2000
        # The cut is kept, as every cut is: the next request need not be cut anew.
        await collect(harness, context("r3"), said("back?"))
    assert "in short: words" in str(script.requests[-1])


class Unbuildable(ScriptedModel):
    """A class that refuses its settings."""

    needed: str


def size(messages: list[BaseMessage]) -> int:
    return sum(len(str(message.content)) for message in messages if message.type != "system")


def settings(simulator: ModelSimulator, name: str, **changes: Any) -> ModelSettings:
    values = {"name": name, "model": f"sim-{name}", "base_url": simulator.base_url, "api_key": simulator.api_key}
    return ModelSettings.model_validate(values | {"timeout": 5.0} | changes)


async def test_text_of_the_model_that_broke_off_is_taken_back(bench: Bench, simulator: ModelSimulator) -> None:
    """!cut fails after five words, once for each of main's attempts; then the other model answers in full."""
    bench.llm = LlmSettings(max_retries=1)
    models = [settings(simulator, "main", fallbacks=("other",)), settings(simulator, "other")]
    async with bench.open(*models) as harness:
        events = await collect(harness, context("r1"), said("!cut times=2\n!say The answer."))
    assert finished(events).text == visible(events)
    assert finished(events).text.endswith("The answer.")
    assert [e.type for e in events if e.type in ("text_reset", "notice")] == ["text_reset", "text_reset", "notice"]
    assert [record.body["model"] for record in await simulator.completions()] == ["sim-main", "sim-main", "sim-other"]


async def test_models_of_one_provider_share_its_circuit_breaker(bench: Bench, simulator: ModelSimulator) -> None:
    bench.llm = LlmSettings(patience=0, max_retries=0)
    models = [settings(simulator, "main", fallbacks=("other",)), settings(simulator, "other")]
    async with bench.open(*models) as harness:
        for number in range(FAILURES_TO_OPEN):
            end = failed(await collect(harness, context(f"r{number}", thread=f"t{number}"), said("!status 503")))
    assert end.kind is Kind.OVERLOADED
    assert len(await simulator.completions()) == FAILURES_TO_OPEN


async def test_a_fallback_that_cannot_be_built_is_left_out(bench: Bench, script: Script) -> None:
    script.steps = [fault(Kind.AUTH)]
    SCRIPTS["other"] = Script(["here"])
    unnamed = scripted_settings(name="unnamed", use="tests.harness.models.test_fallbacks:Unbuildable")
    main = scripted_settings(fallbacks=("unnamed", "other"))
    async with bench.open(main, scripted_settings(name="other", model="other"), unnamed) as harness:
        assert finished(await collect(harness, context("r1"), said("hello"))).text == "here"
