"""allowed-tools, by what stands in a thread: what is followed, what is always possible, what a summary leaves of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from harness.graph.messages import CHOSEN_SKILL
from harness.graph.results import VERSIONS
from harness.graph.state import STEERED
from harness.middleware.summarization import cut_history
from harness.skills.followed import forbidden, limits_of, skill_reads
from harness.skills.library import SkillLibrary
from tests.harness.skills.writing import put_skill

if TYPE_CHECKING:
    from pathlib import Path


def reading(name: str) -> ToolMessage:
    """The result of reading a public skill."""
    path = f"/mnt/skills/public/{name}/SKILL.md"
    return ToolMessage("text", name="read_file", tool_call_id="1", artifact={VERSIONS: {path: "v"}})


def test_what_joins_the_turn_later_ends_nothing(tmp_path: Path) -> None:
    put_skill(tmp_path, "tidy", allowed_tools="[write_file]")
    put_skill(tmp_path, "other", allowed_tools="[bash]")
    view = SkillLibrary(tmp_path, None).of(None)
    asked = HumanMessage("x", id="m1", additional_kwargs={CHOSEN_SKILL: "other"})
    joined = HumanMessage("and y", id="m2")
    state = {"messages": [asked, reading("tidy"), joined], STEERED: ["m2"]}
    assert set(limits_of(state, view)) == {"tidy", "other"}
    assert limits_of({**state, STEERED: []}, view) == {}


@pytest.mark.parametrize("tool", ["ask_clarification", "present_files", "view_image", "grep"])
def test_no_list_keeps_the_agent_from_asking_looking_and_handing_over(tool: str) -> None:
    assert not forbidden(tool, {"tidy": frozenset()})
    assert forbidden("web_search", {"tidy": frozenset()})


@pytest.mark.parametrize(("status", "followed"), [("success", {"tidy"}), ("error", set())])
def test_who_answers_a_question_goes_on_with_it(tmp_path: Path, status: str, followed: set[str]) -> None:
    put_skill(tmp_path, "tidy", allowed_tools="[write_file]")
    asked = ToolMessage("asked", name="ask_clarification", tool_call_id="2", status=status)
    messages = [HumanMessage("x", id="m1"), reading("tidy"), asked, HumanMessage("the blue one", id="m2")]
    view = SkillLibrary(tmp_path, None).of(None)
    assert set(limits_of({"messages": messages}, view)) == followed
    later = [*messages, AIMessage("done"), HumanMessage("and now", id="m3")]
    assert limits_of({"messages": later}, view) == {}


def test_a_summary_keeps_the_request_that_chose_it_until_it_is_answered() -> None:
    asked = HumanMessage("x", id="m1", additional_kwargs={CHOSEN_SKILL: "tidy"})
    rounds = [
        message
        for n in range(4)
        for message in (
            AIMessage("", tool_calls=[{"name": "ls", "args": {}, "id": f"{n}"}]),
            ToolMessage("text", name="ls", tool_call_id=f"{n}"),
        )
    ]
    joined = HumanMessage("and y", id="m2")
    cut = cut_history([asked, *rounds[:4], joined, *rounds[4:]], keep=4, fits=lambda kept: True)
    assert cut.kept == [asked, joined, *rounds[4:]]
    answered = AIMessage("done")
    cut = cut_history([asked, *rounds[:4], answered, joined, *rounds[4:]], keep=4, fits=lambda kept: True)
    assert cut.kept == [joined, *rounds[4:]]


def test_readings_are_found_by_part_though_calls_are_numbered_anew() -> None:
    def read(name: str, **lines: int) -> list[AIMessage | ToolMessage]:
        result = reading(name)
        call = {"name": "read_file", "args": {"path": "x", **lines}, "id": result.tool_call_id}
        return [AIMessage("", tool_calls=[call]), result]

    messages = [*read("tidy", last_line=9), *read("tidy", first_line=10), *read("other"), *read("tidy", last_line=9)]
    assert [sorted(found) for found in skill_reads(messages)] == [[6, 7], [4, 5], [2, 3]]
