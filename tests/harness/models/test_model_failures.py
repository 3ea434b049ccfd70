"""Every way a model call can fail, against a server that fails so: what the run says at the end, how often it asked."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import aclosing
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from harness.config import LlmSettings, ModelSettings, SummarizationSettings
from harness.events import FailureKind as Kind
from harness.events import Outcome
from harness.failures import PASSING
from harness.middleware.llm_errors import TOLD_EVERY
from harness.models.pool import COUNTED_OF_ONE_CALL, FAILURES_TO_OPEN, OPEN_SECONDS
from tests.harness.support import Bench, HeldClock, TurnedClock, collect, context, failed, finished, said, visible
from tests.simulators.model.scripts import Call, Say, ToolUse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from harness.run.runner import HarnessRunner
    from tests.simulators.model.client import ModelSimulator


PATIENCE, MANY = 60.0, 0


def settings(simulator: ModelSimulator, **changes: object) -> ModelSettings:
    values = {"name": "main", "model": "gpt-sim", "base_url": simulator.base_url, "api_key": simulator.api_key}
    return ModelSettings.model_validate(values | {"timeout": 5.0} | changes)


@pytest.fixture
async def harness(bench: Bench, simulator: ModelSimulator) -> AsyncIterator[HarnessRunner]:
    bench.llm = LlmSettings(patience=PATIENCE, max_retries=2, max_retry_wait=60)
    async with bench.open(settings(simulator)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "kind", "asked"),
    [
        ("!status 401", Kind.AUTH, 1),
        ("!status 403", Kind.AUTH, 1),
        ("!status 402", Kind.QUOTA, 1),
        ("!status 404", Kind.NOT_FOUND, 1),
        ("!status 429", Kind.RATE_LIMITED, MANY),
        ("!status 429 retry-after=3600", Kind.RATE_LIMITED, 1),
        ("!status 429 code=insufficient_quota", Kind.QUOTA, 1),
        ("!status 400", Kind.BAD_REQUEST, 1),
        ("!status 400 code=context_length_exceeded", Kind.CONTEXT_LENGTH, 1),
        ("!status 413", Kind.CONTEXT_LENGTH, 1),
        ("!status 500", Kind.UNAVAILABLE, MANY),
        ("!status 502", Kind.UNAVAILABLE, MANY),
        ("!status 503", Kind.OVERLOADED, MANY),
        ("!status 529", Kind.OVERLOADED, MANY),
        ("!filter request", Kind.CONTENT_FILTER, 1),
        ("!filter", Kind.CONTENT_FILTER, 1),
        ("!empty", Kind.EMPTY, 3),
        ("!reset", Kind.CUT, 3),
        ("!reset after=0", Kind.CONNECTION, MANY),
        ("!cut", Kind.CUT, 3),
        ("!garbage", Kind.BAD_RESPONSE, 3),
        ("!garbage after=0", Kind.BAD_RESPONSE, 3),
        ("!error", Kind.CUT, 3),
        ("!error after=0", Kind.UNAVAILABLE, MANY),
    ],
)
async def test_a_failure_is_named_and_retried_where_that_helps(
    bench: Bench, harness: HarnessRunner, simulator: ModelSimulator, text: str, kind: Kind, asked: int
) -> None:
    """asked: how often; MANY: until the patience is used up."""
    events = await collect(harness, context("r1"), said(text))
    end = failed(events)
    assert (end.kind, end.model) == (kind, "main")
    assert end.detail_for_log
    assert "\n" not in end.detail_for_log
    calls = len(await simulator.completions())
    assert asked in (calls, MANY)
    told = [e for e in events if e.type == "model_retrying"]
    assert list(dict.fromkeys(e.attempt for e in told)) == list(range(1, calls))
    if asked == MANY:
        assert 8 <= calls <= 20
        assert sum(bench.clock.slept) == pytest.approx(PATIENCE)
    else:
        assert sum(bench.clock.slept) < 2
    # The thread lives on, and no other call waits for this one's failures.
    slept = len(bench.clock.slept)
    assert (await collect(harness, context("r2"), said("!say well again")))[-1].type == "finished"
    assert len(bench.clock.slept) == slept


@pytest.mark.parametrize(
    "fault", ["status 429 retry-after=2", "status 502", "reset", "cut", "garbage", "error", "error after=0"]
)
async def test_a_retry_that_succeeds_shows_its_text_once(harness: HarnessRunner, fault: str) -> None:
    events = await collect(harness, context("r1"), said(f"!{fault} times=1\n!say The answer."))
    assert visible(events) == finished(events).text
    assert finished(events).text.endswith("The answer.")
    assert {e.message_id for e in events if e.type in ("text_delta", "text_reset", "finished")} == {"r1-1"}


@pytest.mark.parametrize(
    "calls",
    [
        [("", "{}")],
        [("functions.bash", "{}")],
        [("a" * 200, "{}")],
        [("write_todos\0", "{}"), ("über", "{}")],
        [("write_todos", '{"todos": []}'), ("write_todos", "[}")],
    ],
)
async def test_a_thread_survives_calls_that_no_provider_accepts(
    harness: HarnessRunner, simulator: ModelSimulator, calls: list[tuple[str, str]]
) -> None:
    """The simulator rejects requests like the strictest provider does."""
    asked = tuple(ToolUse(name=name, arguments=arguments) for name, arguments in calls)
    await simulator.script("call it", (Call(calls=asked), Say(text="did it")), "contains")
    assert finished(await collect(harness, context("r1"), said("call it"))).text == "did it"
    assert finished(await collect(harness, context("r2"), said("!say well again"))).text == "well again"


async def test_retry_after_is_honoured_and_a_longer_one_is_told(bench: Bench, harness: HarnessRunner) -> None:
    await collect(harness, context("r1"), said("!status 429 retry-after=7 times=1\n!say ok"))
    slept = sum(bench.clock.slept)
    assert 7 <= slept <= 8
    end = failed(await collect(harness, context("r2", thread="t2"), said("!status 429 retry-after=61")))
    assert end.retry_after == 61
    assert sum(bench.clock.slept) == slept


async def test_backoff_grows_and_is_jittered(bench: Bench, harness: HarnessRunner) -> None:
    await collect(harness, context("r1"), said("!status 500"))
    first, second, third, fourth = bench.clock.slept[:4]
    assert 0.25 <= first <= 0.5 <= second <= 1.0 <= third <= 2.0 <= fourth <= 4.0
    assert max(bench.clock.slept) <= TOLD_EVERY


async def test_a_wait_is_told_with_the_time_that_it_has_lasted(bench: Bench, harness: HarnessRunner) -> None:
    events = await collect(harness, context("r1"), said("!status 529 times=9\n!say There."))
    assert finished(events).text == "There."
    waited = [e.waited for e in events if e.type == "model_retrying"]
    assert waited[0] == 0
    assert waited == sorted(waited)
    assert all(later - before < TOLD_EVERY + 0.1 for before, later in pairwise(waited))
    assert {e.kind for e in events if e.type == "model_retrying"} == {Kind.OVERLOADED}
    assert 15 <= waited[-1] <= PATIENCE


async def test_a_stop_ends_the_wait_at_once(bench: Bench, simulator: ModelSimulator) -> None:
    bench.clock = clock = HeldClock()
    async with bench.open(settings(simulator)) as harness:
        task = asyncio.create_task(collect(harness, context("r1"), said("!status 503")))
        await clock.asleep.wait()
        task.cancel()
        await asyncio.wait({task}, timeout=2)
        assert task.cancelled()
        assert len(await simulator.completions()) == 1


async def test_a_patience_of_nothing_asks_once(bench: Bench, simulator: ModelSimulator) -> None:
    bench.llm = LlmSettings(patience=0)
    async with bench.open(settings(simulator)) as harness:
        for number, fault in enumerate(("status 429 retry-after=1", "status 503", "reset after=0")):
            assert failed(await collect(harness, context(f"r{number}"), said(f"!{fault}"))).kind in PASSING
        assert len(await simulator.completions()) == 3
        events = await collect(harness, context("r9"), said("!cut after=0 times=1\n!say There."))
        assert finished(events).text == "There."


class PassingClock(TurnedClock):
    """Time passes by itself too."""

    def monotonic(self) -> float:
        return super().monotonic() + time.monotonic()


async def test_silence_is_a_timeout_that_counts_for_the_patience(bench: Bench, simulator: ModelSimulator) -> None:
    bench.clock, bench.llm = PassingClock(), LlmSettings(patience=0.2)
    async with bench.open(settings(simulator, timeout=0.3)) as harness:
        events = await collect(harness, context("r1"), said("!hang after=2"))
    assert failed(events).kind is Kind.TIMEOUT
    assert len(await simulator.completions()) == 2


async def test_a_refused_connection_is_unavailable(bench: Bench, simulator: ModelSimulator) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        async with bench.open(settings(simulator, base_url=closed)) as harness:
            events = await collect(harness, context("r1"), said("hello"))
    assert failed(events).kind is Kind.CONNECTION


async def test_a_too_long_context_is_summarised_once_and_the_cut_is_kept(
    bench: Bench, simulator: ModelSimulator
) -> None:
    async with bench.open(settings(simulator)) as harness:
        for number in range(6):
            await collect(harness, context(f"r{number}"), said(f"!say answer {number}"))
        events = await collect(harness, context("r6"), said("!context 6\n!say short enough"))
        assert events[-1].type == "finished"
        assert [e.kind for e in events if e.type == "notice"] == ["summarizing", "summarized"]
        assert len(await harness.history("thread-1")) == 2
        before = len(await simulator.completions())
        assert (await collect(harness, context("r7"), said("!say next")))[-1].type == "finished"
        requests = (await simulator.completions())[before:]
    assert len(requests) == 1
    assert "Summary of a conversation" in str(requests[0].body["messages"][1]["content"])


async def test_a_thread_survives_a_message_that_is_too_long_for_the_model(
    bench: Bench, simulator: ModelSimulator
) -> None:
    bench.summarization = SummarizationSettings(max_messages=60, keep=20)
    async with bench.open(settings(simulator, context_window=2000)) as harness:
        giant = "!status 400 code=context_length_exceeded\n" + "word " * 20_000
        events = await collect(harness, context("r1"), said(giant, "giant"))
        assert failed(events).kind is Kind.CONTEXT_LENGTH
        assert finished(await collect(harness, context("r2"), said("!say fine"))).text == "fine"
        last = (await simulator.completions())[-1]
    assert len(str(last.body["messages"])) < 10_000


async def test_reasoning_is_told_apart_from_the_answer(bench: Bench, simulator: ModelSimulator) -> None:
    async with bench.open(settings(simulator, supports_thinking=True, show_thinking=True)) as harness:
        events = await collect(harness, context("r1"), said("!reasoning Let me see.\n!say Four."))
    assert "".join(e.text for e in events if e.type == "reasoning_delta") == "Let me see."
    assert visible(events).endswith("Four.")
    assert finished(events).text == "Four."


async def test_a_refusal_is_the_answer(harness: HarnessRunner) -> None:
    assert finished(await collect(harness, context("r1"), said("!refuse"))).text == "I can't help with that."


async def test_an_answer_that_the_providers_limit_cut_is_marked(harness: HarnessRunner) -> None:
    end = finished(await collect(harness, context("r1"), said("!tokens 3 0\n!finish length")))
    assert (end.outcome, end.calls) == (Outcome.LIMITED, None)


async def test_stopping_a_run_closes_the_connection_at_once(harness: HarnessRunner, simulator: ModelSimulator) -> None:
    task = asyncio.create_task(collect(harness, context("r1"), said("!pause here")))
    await simulator.wait_for_pause("here")
    task.cancel()
    await asyncio.wait({task}, timeout=2)
    assert task.cancelled()
    gone = await simulator.wait_for_request(lambda record: record.state == "disconnected", timeout=2)
    assert "!pause here" in gone.last_user_text


@pytest.mark.parametrize("after", range(8))
async def test_a_stop_works_at_every_moment_of_the_stream(harness: HarnessRunner, after: int) -> None:
    async def follow() -> None:
        seen = 0
        async with aclosing(harness.run(context("r1"), said("!tokens 500 2"))) as stream:
            async for _ in stream:
                seen += 1
                if seen > after:
                    task.cancel()

    task = asyncio.create_task(follow())
    await asyncio.wait({task}, timeout=2)
    assert task.cancelled()
    assert finished(await collect(harness, context("r2"), said("!say next"))).text == "next"


async def test_a_provider_that_is_down_is_not_asked_by_every_chat(bench: Bench, simulator: ModelSimulator) -> None:
    bench.llm = LlmSettings(patience=0)
    async with bench.open(settings(simulator)) as harness:
        for number in range(FAILURES_TO_OPEN + 4):
            end = failed(await collect(harness, context(f"r{number}", thread=f"t{number}"), said("!status 503")))
        assert len(await simulator.completions()) == FAILURES_TO_OPEN
        assert end.retry_after == pytest.approx(OPEN_SECONDS)
        bench.clock.advance(OPEN_SECONDS)
        assert (await collect(harness, context("r-up", thread="up"), said("!say up again")))[-1].type == "finished"
    assert len(await simulator.completions()) == FAILURES_TO_OPEN + 1


async def test_a_run_waits_for_a_provider_that_comes_back(harness: HarnessRunner, simulator: ModelSimulator) -> None:
    for number in range(FAILURES_TO_OPEN // COUNTED_OF_ONE_CALL):
        await collect(harness, context(f"r{number}", thread=f"t{number}"), said("!status 503"))
    asked = len(await simulator.completions())
    events = await collect(harness, context("r-up", thread="up"), said("!say up again"))
    assert events[-1].type == "finished"
    assert len(await simulator.completions()) == asked + 1
    assert [e.kind for e in events if e.type == "model_retrying"][:1] == [Kind.OVERLOADED], "what it was closed for"


async def test_usage_is_what_the_provider_counted(harness: HarnessRunner) -> None:
    events = await collect(harness, context("r1"), said("!say one two three"))
    (usage,) = [e for e in events if e.type == "usage"]
    assert usage.model == "main"
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0


async def test_lone_surrogates_and_nul_in_a_message_do_no_harm(harness: HarnessRunner) -> None:
    events = await collect(harness, context("r1"), said("!say a\ud800b\0c 😀", "m1"))
    assert events[-1].type == "finished"
    assert finished(events).text == "a\ufffdbc 😀"
