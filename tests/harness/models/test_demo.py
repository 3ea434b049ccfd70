"""The demo model: says what it is, streams, needs nothing."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from harness.config import ModelSettings, SummarizationSettings
from harness.models.demo import DemoModel
from harness.scheduling.schedules import MemorySchedules, Scheduling
from harness.subagents.config import SubagentsSettings
from tests.harness.support import Bench, HeldClock, collect, context, finished, in_memory, said, visible

if TYPE_CHECKING:
    from harness.events import Finished

DEMO = ModelSettings(name="demo", use="demo")


@pytest.mark.parametrize("text", ["hello", "what can you do?", "tell me a story", "你好", "", "你会什么？"])
async def test_it_says_what_it_is(bench: Bench, text: str) -> None:
    end = await ask(bench, text)
    assert "demo model" in end.text or "演示模型" in end.text


async def test_it_streams(bench: Bench) -> None:
    async with bench.open(DEMO) as harness:
        events = await collect(harness, context("r1", model="demo"), said("hello", "m1"))
    assert sum(e.type == "text_delta" for e in events) > 10


@pytest.mark.parametrize("text", ["What can you do?", "what can you do", "?", "你会什么？", "help"])
async def test_asked_what_it_can_do_it_lists_it_and_the_way_to_a_real_one(bench: Bench, text: str) -> None:
    end = await ask(bench, text)
    assert all(word in end.text for word in ("`markdown`", "`run ls`", "`write a file`", "`remind me in 1 minute"))
    assert all(f"\n{number}. " in end.text for number in range(1, 9))
    assert "antler init" in end.text


@pytest.mark.parametrize("text", ["hello", "markdown", "long", "thanks", "tell me a story", "run echo hello"])
async def test_no_other_answer_advertises(bench: Bench, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("harness.models.demo.DemoModel", partial(DemoModel, pause=0.0))
    in_memory(bench)
    assert "config.yaml" not in (await ask(bench, text)).text


async def test_it_repeats_what_it_heard_and_not_the_context_around_it(bench: Bench) -> None:
    async with bench.open(DEMO) as harness:
        end = finished(await collect(harness, context("r1", model="demo"), said("the moon is round", "m1")))
    assert end.text.startswith("You wrote: “the moon is round”.")
    assert "context" not in end.text


async def test_it_copes_with_its_own_summaries(bench: Bench) -> None:
    bench.summarization = SummarizationSettings(max_messages=4, keep=2)
    async with bench.open(DEMO) as harness:
        for number in range(5):
            events = await collect(harness, context(f"r{number}", model="demo"), said(f"message {number}"))
            assert f"message {number}" in finished(events).text


async def test_it_reminds(bench: Bench) -> None:
    kept = MemorySchedules(bench.clock)
    assert "turned off" in (await ask(bench, "Remind me in 1 minute to stretch", "r0")).text
    bench.scheduling = Scheduling(schedules=kept)
    end = await ask(bench, "Remind me in 90 seconds to stretch")
    assert "Done. What `schedule` returned" in end.text
    (made,) = await kept.own(context("r2"))
    assert made.text == "stretch"
    assert made.next_at == bench.clock.now() + timedelta(seconds=90)
    async with bench.open(DEMO) as harness:
        events = await collect(harness, context("r3", model="demo", schedule=made.id), said("stretch", "m3"))
    assert finished(events).text.startswith("It is time: stretch")


async def ask(bench: Bench, text: str, run: str = "r1") -> Finished:
    async with bench.open(DEMO) as harness:
        events = await collect(harness, context(run, model="demo"), said(text, f"m-{run}"))
    end = finished(events)
    assert visible(events).endswith(end.text)
    return end


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("run echo hello there", "hello there"),
        ("Run `ls /mnt/user-data/uploads`", "cat.txt"),
        ("please list files", "uploads/cat.txt (4 bytes)"),
        ("show uname", "command not found"),  # the sandbox in memory knows a few commands only
        ("run cat missing", "[exit code 1]"),
        ("run cat /etc/shadow", "This did not work"),
    ],
)
async def test_it_uses_the_sandbox(bench: Bench, text: str, shown: str) -> None:
    in_memory(bench).drive("thread-1").put("/mnt/user-data/uploads/cat.txt", b"meow")
    end = await ask(bench, text)
    assert shown in end.text


async def test_it_writes_a_file_and_sends_it(bench: Bench) -> None:
    in_memory(bench)
    for run in ("r1", "r2"):
        (file,) = (await ask(bench, "write a file", run)).files
        assert file.name.startswith("hello-")
        assert file.size > 0


async def test_it_delegates_what_it_is_told_to(bench: Bench) -> None:
    bench.subagents, bench.clock = SubagentsSettings(), HeldClock()
    in_memory(bench)
    end = await ask(bench, "delegate run echo hello; tell me of cats")
    assert "> Done. What `bash` returned:\n> \n> ```\n> hello" in end.text
    assert "tell me of cats" in end.text


async def test_it_says_what_is_missing(bench: Bench) -> None:
    for text in ("run ls", "list files", "write a file", "show uname"):
        assert "there is none here" in (await ask(bench, text, text.replace(" ", "-"))).text
    assert "`subagents.enabled`" in (await ask(bench, "delegate this", "r7")).text
    in_memory(bench, bash=False)
    assert "this machine's sandbox runs none" in (await ask(bench, "run ls", "r8")).text
    assert "/mnt/user-data/workspace/" in (await ask(bench, "list files", "r9")).text


async def test_other_requests_call_no_tool(bench: Bench) -> None:
    in_memory(bench)
    assert (await ask(bench, "why do people run marathons?")).text.startswith("You wrote")


async def test_what_a_tool_printed_cannot_leave_its_block(bench: Bench) -> None:
    in_memory(bench)
    end = await ask(bench, "run printf '```\\n# no heading'")
    assert "\n````\n```\n# no heading\n````" in end.text
