"""A skill in a run: listed, read, followed with its own tools only, chosen by name, and kept when history is cut."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from harness.agents.profiles import AgentDefinition, AgentSettings
from harness.config import SummarizationSettings
from harness.context import RunInput
from harness.graph.calls import ASK
from harness.skills.library import NO_SKILLS, SkillLibrary, SkillSource
from harness.subagents.config import SubagentSettings, SubagentsSettings
from tests.harness.middleware.test_tool_chain import chain
from tests.harness.skills.writing import put_skill
from tests.harness.support import (
    HeldClock,
    answers,
    calls,
    collect,
    context,
    finished,
    in_memory,
    results,
    said,
    stopped_after,
    unpaired,
)
from tests.simulators.sandbox.provider import MemoryProvider

if TYPE_CHECKING:
    from pathlib import Path

    from tests.harness.support import Bench, Script

READ = ("read_file", {"path": "/mnt/skills/public/tidy/SKILL.md"})
BASH = ("bash", {"command": "echo hi", "description": "say hi"})
REFUSED = "bash is not among the allowed-tools of the skill tidy, so nothing happened."


@pytest.fixture
def public(tmp_path: Path, bench: Bench) -> Path:
    """A folder of skills, which the bench's runs have."""
    folder = tmp_path / "skills"
    library = SkillLibrary(folder, None)
    in_memory(bench, provider=MemoryProvider(skills=lambda thread: library.folders(None)))
    bench.skills = SkillSource(lambda ctx: library.of(None).without(ctx.skills_off), lambda: 2000)
    return folder


def prompt(script: Script, request: int = -1) -> str:
    message = script.requests[request][0]
    assert isinstance(message, SystemMessage)
    return str(message.content)


async def test_it_is_listed_before_everything_that_changes(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy", "Tidies notes.")
    await answers(bench, script, calls(BASH))
    await answers(bench, script, calls(BASH), run="r2")
    assert "/mnt/skills/public/NAME/SKILL.md:\n- tidy: Tidies notes.\n" in prompt(script)
    assert len({prompt(script, number) for number in range(len(script.requests))}) == 1
    put_skill(public, "other")
    await answers(bench, script, calls(BASH), run="r3")
    assert "- other: " in prompt(script), "a change on disk is seen at the next run"


async def test_without_skills_the_prompt_says_nothing_of_them(bench: Bench, script: Script, public: Path) -> None:
    await answers(bench, script, calls(BASH))
    assert "skills" not in prompt(script)


async def test_without_a_sandbox_there_are_none(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy")
    bench.sandbox = None
    await answers(bench, script)
    assert "tidy" not in prompt(script)


async def test_those_that_are_off_are_not_listed(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy")
    put_skill(public, "other")
    async with bench.open() as harness:
        await collect(harness, context("r1", skills_off=("tidy",)), said("hello"))
    assert "- tidy:" not in prompt(script)
    assert "- other:" in prompt(script)


async def test_the_workflow_of_one_that_is_off_is_not_read(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy", body="1. Sly.")
    put_skill(public, "other", body="1. Fine.")
    tidy, other = [("read_file", {"path": f"/mnt/skills//x/../public/{name}/SKILL.md"}) for name in ("tidy", "other")]
    script.steps = [calls(tidy, ids=["1"]), calls(other, ids=["2"]), "done"]
    async with bench.open() as harness:
        await collect(harness, context("r1", skills_off=("tidy",)), said("find a skill"))
    off, fine = results(script)
    assert (off.status, fine.status) == ("error", "success")
    assert "must not be followed" in str(off.content)
    assert "Sly" not in str(off.content)


async def test_an_agent_has_those_that_it_names(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy")
    put_skill(public, "other")
    bench.definitions = {
        "one": AgentDefinition("one", "You are one.", AgentSettings(skills=("tidy",))),
        "none": AgentDefinition("none", "You are none.", AgentSettings(skills=())),
    }
    async with bench.open() as harness:
        await collect(harness, context("r1", agent="one"), said("hello"))
        assert "- tidy:" in prompt(script)
        assert "- other:" not in prompt(script)
        await collect(harness, context("r2", agent="none", thread="t2"), said("hello"))
        assert "<skills>" not in prompt(script)


async def test_other_tools_are_refused_once_it_is_read(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy", allowed_tools="[read_file, write_file]", body="1. Write.")
    before, read, after, write, look = await answers(
        bench,
        script,
        calls(BASH, ids=["1"]),
        calls(READ, ids=["2"]),
        calls(BASH, ids=["3"]),
        calls(("write_file", {"path": "a.txt", "content": "x"}), ids=["4"]),
        calls(("ls", {}), ids=["5"]),
    )
    assert "hi" in before
    assert "1. Write." in read
    assert after.startswith(REFUSED)
    assert "only these may be called: read_file, write_file" in after
    assert "a.txt" in write
    assert "a.txt" in look, "looking is always possible"
    assert [result.status for result in results(script)] == ["success", "success", "error", "success", "success"]


async def test_it_ends_with_the_turn(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy", allowed_tools="[]")
    _, refused = await answers(bench, script, calls(READ, ids=["1"]), calls(BASH, ids=["2"]))
    assert refused.startswith(REFUSED)
    assert "may be called: none" in refused
    (again,) = await answers(bench, script, calls(BASH, ids=["3"]), run="r2")
    assert "hi" in again


async def test_a_run_that_goes_on_after_a_restart_is_bound_still(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy", allowed_tools="[]")
    async with bench.open() as harness:
        await stopped_after(harness, script, calls(READ, ids=["1"]))
    script.steps = [calls(BASH, ids=["2"]), "done"]
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("go"), attempt=2, next_seq=50)
    assert str(results(script)[-1].content).startswith(REFUSED)


async def test_a_turn_that_answers_its_question_is_bound_still(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy", allowed_tools="[]")
    script.steps = [calls(READ, ids=["1"]), calls((ASK, {"question": "Which one?"}), ids=["2"])]
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("go"))
        script.steps = [calls(BASH, ids=["3"]), "done"]
        await collect(harness, context("r2"), said("the blue one"))
        assert str(results(script)[-1].content).startswith(REFUSED)
        script.steps = [calls(BASH, ids=["4"]), "done"]
        await collect(harness, context("r3"), said("and now"))
    assert "hi" in str(results(script)[-1].content)


async def test_a_reading_that_failed_means_nothing(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy", allowed_tools="[]")
    missing = ("read_file", {"path": "/mnt/skills/public/tidy/SKILL.txt"})
    _, ran = await answers(bench, script, calls(missing, ids=["1"]), calls(BASH, ids=["2"]))
    assert "hi" in ran


async def test_names_of_other_agents_tools_are_understood(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy", allowed_tools="Read, Bash(echo:*)")
    _, ran, refused = await answers(
        bench,
        script,
        calls(READ, ids=["1"]),
        calls(BASH, ids=["2"]),
        calls(("write_file", {"path": "a", "content": "x"}), ids=["3"]),
    )
    assert "hi" in ran
    assert "write_file is not among" in refused


async def test_of_several_each_brings_its_tools(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy", allowed_tools="[write_file]")
    put_skill(public, "other", allowed_tools="[bash]")
    other = ("read_file", {"path": "/mnt/skills/public/other/SKILL.md"})
    *_, ran = await answers(bench, script, calls(READ, other, ids=["1", "2"]), calls(BASH, ids=["3"]))
    assert "hi" in ran


async def test_a_subagent_is_bound_too(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy", allowed_tools="[task]")
    bench.subagents, bench.clock = SubagentsSettings(), HeldClock()
    task = {"description": "say hi", "prompt": "say hi", "subagent_type": "general-purpose"}
    script.steps = [
        calls(READ, ids=["1"]),
        calls(("task", task), ids=["2"]),
        calls(BASH, ids=["3"]),
        "it failed",
        "done",
    ]
    async with bench.open() as harness:
        assert finished(await collect(harness, context("r1"), said("go"))).text == "done"
    worker = script.requests[3]
    assert "<skills>" in str(worker[0].content)
    assert str(worker[-1].content).startswith(REFUSED)


async def test_a_type_of_subagents_has_those_that_it_names(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy")
    put_skill(public, "other")
    own = {"description": "d", "system_prompt": "p", "skills": ("tidy",)}
    none = SubagentSettings.model_validate({**own, "skills": ()})
    types = {"tidier": SubagentSettings.model_validate(own), "bare": none}
    bench.subagents, bench.clock = SubagentsSettings(types=types), HeldClock()
    tasks = [("task", {"description": kind, "prompt": "go", "subagent_type": kind}) for kind in ("tidier", "bare")]
    script.steps = [calls(tasks[0], ids=["1"]), "report", calls(tasks[1], ids=["2"]), "report", "done"]
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("go"))
    assert "- tidy:" in prompt(script, 1)
    assert "- other:" not in prompt(script, 1)
    assert "<skills" not in prompt(script, 3)


async def test_one_that_the_person_chose(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy", allowed_tools="[write_file]", body="1. Tidy well.")
    script.steps = [calls(BASH), "done"]
    asked = RunInput(message_id="m1", text="my editor", skill="tidy")
    async with bench.open() as harness:
        assert finished(await collect(harness, context("r1"), asked)).text == "done"
        (history,) = [entry for entry in await harness.history("thread-1") if entry.role == "user"]
    user = next(message for message in script.requests[0] if isinstance(message, HumanMessage))
    assert str(user.content).startswith("my editor\n\n<antler-context>")
    assert "<antler-skill>\nskill: tidy\nfolder: /mnt/skills/public/tidy\n" in str(user.content)
    assert "1. Tidy well." in str(user.content)
    assert str(results(script)[0].content).startswith(REFUSED)
    assert history.text == "my editor"


async def test_one_that_was_chosen_and_is_gone(bench: Bench, script: Script, public: Path) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r1"), replace(said("my editor"), skill="tidy"))
    assert "no longer exists: tell the person." in str(script.requests[0][-1].content)


async def test_a_workflow_that_was_read_survives_a_summary(bench: Bench, script: Script, public: Path) -> None:
    put_skill(public, "tidy", allowed_tools="[write_file]", body="1. Word for word.")
    bench.summarization = SummarizationSettings(max_messages=20, keep=4)
    rounds = [
        calls(READ, ("ls", {}), ids=["0", "x"]),
        *[calls(("ls", {"depth": 1 + n % 5}), ids=[f"{n}"]) for n in range(1, 10)],
    ]
    script.steps = [*rounds, "a summary", calls(BASH, ids=["b"]), "done"]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"))
    assert finished(events).text == "done"
    assert any(getattr(event, "kind", "") == "summarized" for event in events)
    last = script.requests[-1]
    assert unpaired(last) is None
    assert sum("1. Word for word." in str(message.content) for message in last) == 1
    assert len(last) < 14
    assert str(last[-1].content).startswith(REFUSED), "it is still followed"


def test_its_places_in_the_chain() -> None:
    with_skills = chain(skills=SkillSource(lambda ctx: NO_SKILLS, lambda: 2000))
    assert with_skills.index("PromptSlots") == with_skills.index("LLMErrorHandling") - 1, (
        "outside retries and fallbacks"
    )
    assert with_skills.index("SkillTools") == with_skills.index("Guardrail") - 1, "nobody is asked about such a call"
    assert "SkillTools" not in chain()
