"""Agents of the operator's own: read from their folders, and given what those say, no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.tools import tool

from harness.agents.parts import ExtraSettings
from harness.agents.profiles import DEFAULT, LONGEST_SOUL, AgentDefinition, AgentSettings, Known, load_agents
from harness.config import ToolSettings
from harness.subagents.config import SubagentsSettings
from harness.web.config import WebSettings
from tests.harness.support import Bench, Script, calls, collect, context, finished, in_memory, said

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = Known(models=["main", "fast"], groups=["crm"], subagents=["general-purpose", "bash"], servers=["wiki"])


@tool
def look_up(number: int) -> str:
    """Looks a customer up."""
    return f"customer {number}"


def write(folder: Path, name: str, soul: str = "You are kind.", config: str | None = None) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SOUL.md").write_text(soul)
    if config is not None:
        (folder / name / "config.yaml").write_text(config)


def problems(folder: Path) -> dict[str, str]:
    """By place, below the folder."""
    return {
        f"{problem.file.relative_to(folder)}:{problem.key}": problem.message
        for problem in load_agents(folder, KNOWN).problems
    }


def test_antlers_own_agent_is_there_without_any_folder(tmp_path: Path) -> None:
    loaded = load_agents(tmp_path / "nowhere", KNOWN)
    assert loaded.problems == ()
    assert list(loaded.definitions) == [DEFAULT]
    soul = loaded.definitions[DEFAULT].soul
    assert soul.startswith("You are Antler")
    assert len(soul) < 2000


def test_an_agent_is_what_its_folder_says(tmp_path: Path) -> None:
    config = """\
        description: Answers customers
        model: fast
        tool_groups: [crm]
        subagents: [bash]
        features: {web: false}
        """
    write(tmp_path, "support", "\ufeffYou are patient.\n", config)
    write(tmp_path, "default", "You are mine.")
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("not an agent")
    loaded = load_agents(tmp_path, KNOWN)
    assert loaded.problems == ()
    assert list(loaded.definitions) == ["default", "support"]
    assert loaded.definitions["default"].soul == "You are mine."
    support = loaded.definitions["support"]
    assert support.soul == "You are patient."
    assert (support.settings.model, support.settings.tool_groups, support.settings.subagents) == (
        "fast",
        ("crm",),
        ("bash",),
    )
    assert (support.settings.features.web, support.settings.features.sandbox) == (False, True)


def test_every_fault_is_named_with_its_place_and_the_agent_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "Loud")
    (tmp_path / "empty").mkdir()
    write(tmp_path, "long", "x" * (LONGEST_SOUL + 1))
    write(tmp_path, "wrong", config="model: fst\ntool_groups: [crn]\nsubagents: [x]\nfeatures: {web: 7}\n")
    write(tmp_path, "named", config="model: fst\ntool_groups: [crn]\nsubagents: [x]\nmcp_servers: [wicki]\n")
    write(tmp_path, "mine", config="features: {memory: mine}\n")
    write(tmp_path, "typo", config="modell: fast\n")
    write(tmp_path, "list", config="- a\n")
    write(tmp_path, "yaml", config="a: [\n")
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary" / "SOUL.md").write_bytes(b"\xff\xfe\xff")
    found = problems(tmp_path)
    assert "should be named" in found.pop("Loud:")
    assert "is missing or empty" in found.pop("empty/SOUL.md:")
    assert f"longer than {LONGEST_SOUL}" in found.pop("long/SOUL.md:")
    assert "valid boolean" in found.pop("wrong/config.yaml:features.web")
    assert found.pop("mine/config.yaml:features.memory") == "Input should be True, False or 'own'"
    assert found.pop("named/config.yaml:model") == "fst is not a configured model; known: fast, main"
    assert found.pop("named/config.yaml:tool_groups") == "crn is not the group of any tool; known: crm"
    assert found.pop("named/config.yaml:mcp_servers") == "wicki is not in mcp_servers; known: wiki"
    assert "is not a subagent type" in found.pop("named/config.yaml:subagents")
    assert found.pop("typo/config.yaml:modell") == "unknown key"
    assert "valid dictionary" in found.pop("list/config.yaml:")
    assert "is not valid YAML" in found.pop("yaml/config.yaml:")
    assert found.pop("binary/SOUL.md:") == "is not UTF-8 text"
    assert found == {}
    assert list(load_agents(tmp_path, KNOWN).definitions) == [DEFAULT]


def definition(name: str, soul: str, **settings: Any) -> AgentDefinition:
    return AgentDefinition(name, soul, AgentSettings.model_validate(settings))


@pytest.fixture
def crowded(bench: Bench) -> Bench:
    """A bench whose agents have all that there is."""
    in_memory(bench)
    bench.subagents = SubagentsSettings()
    bench.extras = ExtraSettings(
        web=WebSettings.model_validate({"fetch": {"enabled": True}}),
        tools=(ToolSettings(use="tests.harness.agents.test_souls:look_up", group="crm"),),
    )
    return bench


async def system_and_tools(bench: Bench, script: Script, agent: AgentDefinition) -> tuple[str, set[str]]:
    bench.definitions = {agent.name: agent}
    async with bench.open() as harness:
        ctx = context(agent.name, thread=agent.name, agent=agent.name)
        assert finished(await collect(harness, ctx, said("hello"))).text
    return str(script.requests[-1][0].content), set(script.tool_names[-1])


async def test_the_soul_stands_in_the_prompt_where_all_turns_begin_alike(crowded: Bench, script: Script) -> None:
    system, tools = await system_and_tools(crowded, script, definition("kind", "You are kind to {everybody}."))
    assert "<soul>\nYou are kind to {everybody}.\n</soul>" in system
    assert "Antler" not in system
    assert {"bash", "web_fetch", "look_up", "task", "write_todos", "ask_clarification"} <= tools


@pytest.mark.parametrize(
    ("settings", "gone"),
    [
        ({"features": {"web": False}}, {"web_fetch"}),
        ({"tool_groups": []}, {"look_up"}),
        ({"tool_groups": ["crm"]}, set()),
        ({"subagents": False}, {"task"}),
        ({"subagents": []}, {"task"}),
        ({"features": {"planning": False}}, {"write_todos"}),
        (
            {"features": {"sandbox": False}},
            {"bash", "ls", "glob", "grep", "read_file", "write_file", "str_replace", "present_files"},
        ),
    ],
)
async def test_an_agent_has_only_what_it_was_given(
    crowded: Bench, script: Script, settings: dict[str, Any], gone: set[str]
) -> None:
    _, all_tools = await system_and_tools(crowded, script, definition("all", "All."))
    system, tools = await system_and_tools(crowded, script, definition("some", "Some.", **settings))
    assert all_tools - tools == gone
    assert ("<working-directory>" in system) is ("bash" in tools)
    assert ("<outside>" in system) is bool(tools & {"web_fetch", "look_up"})


async def test_only_its_types_of_subagents_are_offered(crowded: Bench, script: Script) -> None:
    crowded.definitions = {"one": definition("one", "One.", subagents=["general-purpose"])}
    script.steps = []
    async with crowded.open() as harness:
        script.steps = [call_task("bash"), "done"]
        await collect(harness, context("r1", agent="one"), said("delegate"))
    assert "general-purpose" in str(script.requests[-1][-1].content)
    assert len(script.requests) == 2


def call_task(subagent: str) -> Any:
    return calls(("task", {"description": "d", "prompt": "p", "subagent_type": subagent}))


async def test_agents_share_their_threads_and_their_models(crowded: Bench, script: Script) -> None:
    """/agent in mid-thread: the other one goes on where the first has stopped, over the same connections."""
    crowded.definitions = {"a": definition("a", "You are A."), "b": definition("b", "You are B.", tool_groups=[])}
    async with crowded.open() as harness:
        await collect(harness, context("r1", agent="a"), said("one"))
        await collect(harness, context("r2", agent="b"), said("two"))
        await collect(harness, context("r3", agent="gone"), said("three"))
    for who, request in zip(("You are A.", "You are B.", "You are Antler"), script.requests, strict=True):
        assert who in str(request[0].content)
    assert [len(request) for request in script.requests] == [2, 4, 6]
