"""Which turns belong to a research, and how each begins."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from harness.context import InputFile, ResearchRequest, RunContext, RunInput, Speaker
from harness.graph.state import RESEARCH, merge_research
from harness.research.config import Style
from harness.research.plan import read_plan
from harness.research.record import MOST_FILES, Finding, Phase, Research, begun, belongs, research_of

PLAN = read_plan('{"title": "T", "steps": [{"title": "a"}, {"title": "b"}]}', most=6)


def context(run_id: str = "r2", who: str = "telegram:1", **more: Any) -> RunContext:
    speaker = Speaker(id=who, display_name="Ann", is_admin=more.pop("is_admin", False))
    return RunContext(
        thread_id="t",
        run_id=run_id,
        account="telegram",
        conversation="c",
        owner="o",
        speaker=speaker,
        is_group=True,
        locale="en",
        model="m",
        **more,
    )


def said(text: str = "", **more: Any) -> RunInput:
    return RunInput(message_id="m", text=text, **more)


def values(phase: Phase, **more: Any) -> dict[str, Any]:
    known = Research(
        id="r1",
        runs=("r1",),
        who="telegram:1",
        phase=phase,
        question="Why?",
        style=Style.NEWS,
        plan=PLAN,
        topic="Why?",
        **more,
    )
    return {RESEARCH: known.model_dump(mode="json")}


def after(state: dict[str, Any], run_input: RunInput, run_id: str = "r2") -> Research:
    """The record once a turn with this input has begun."""
    update = begun(state, context(run_id), run_input, Style.ACADEMIC)
    merged = merge_research(state.get(RESEARCH, {}), update[RESEARCH])
    found = research_of({RESEARCH: merged})
    assert found is not None
    return found


@pytest.mark.parametrize("phase", [Phase.REVIEW, Phase.ASKED])
def test_what_its_person_says_while_it_waits_belongs_to_it(phase: Phase) -> None:
    assert belongs(values(phase), context(), said("other words"))
    assert belongs(values(phase), context(who="telegram:9", is_admin=True), said("x"))


def test_what_others_say_and_what_a_schedule_says_does_not() -> None:
    assert not belongs(values(Phase.REVIEW), context(who="telegram:9"), said("start", choice="start"))
    assert not belongs(values(Phase.REVIEW), context(schedule="s1"), said("x"))


@pytest.mark.parametrize("phase", [Phase.WORKING, Phase.DONE, Phase.STOPPED, Phase.FAILED])
def test_what_is_said_when_nothing_waits_does_not(phase: Phase) -> None:
    assert not belongs(values(phase), context(), said("x"))
    assert not belongs({}, context(), said("x"))


def test_its_own_run_goes_on_with_it_after_a_restart() -> None:
    assert belongs(values(Phase.WORKING), context("r1"), said("x"))


def test_a_question_begins_a_new_one_in_the_place_of_the_old() -> None:
    asked = said("What?", research=ResearchRequest(style="strategic", auto=True))
    assert belongs({}, context(), asked)
    new = after(values(Phase.DONE, findings={"1": Finding(state="completed")}), asked)
    assert new.runs == ("r2",)
    assert (new.id, new.question, new.style, new.auto, new.findings) == ("r2", "What?", Style.STRATEGIC, True, {})
    assert new.phase is Phase.BEGUN


def test_without_a_style_of_its_own_it_has_that_of_the_settings() -> None:
    assert after({}, said("What?", research=ResearchRequest())).style is Style.ACADEMIC


def test_start_stop_and_change_are_choices_and_other_words_are_changes() -> None:
    for choice in ("start", "change", "stop"):
        chosen = after(values(Phase.REVIEW), said(choice, choice=choice))
        assert (chosen.choice, chosen.changes, chosen.run) == (choice, (), "r2")
    changed = after(values(Phase.REVIEW, changes=("before",)), said("not like this"))
    assert (changed.choice, changed.changes) == ("changed", ("before", "not like this"))


@pytest.mark.parametrize(
    ("phase", "run_input"),
    [
        (Phase.ASKED, said("That one")),
        (Phase.REVIEW, said("start", choice="start")),
        (Phase.FAILED, said("resume", research=ResearchRequest(resumes=True))),
    ],
)
def test_every_run_that_works_on_it_is_remembered_once(phase: Phase, run_input: RunInput) -> None:
    later = after(values(phase, asked="Which?"), run_input)
    assert (later.runs, later.run) == (("r1", "r2"), "r2")
    state = {RESEARCH: later.write(phase=phase)[RESEARCH] | later.model_dump(mode="json") | {"phase": phase.value}}
    assert after(state, run_input).runs == ("r1", "r2")


def test_an_answer_to_a_question_is_kept_with_it() -> None:
    answered = after(values(Phase.ASKED, asked="Which?"), said("That one"))
    assert answered.clarified == (("Which?", "That one"),)
    assert answered.phase is Phase.BEGUN


def test_a_resumed_one_keeps_what_is_completed_and_tries_the_rest_again() -> None:
    findings = {"1": Finding(state="completed", text="x"), "2": Finding(state="failed")}
    resumed = after(values(Phase.FAILED, findings=findings), said("resume", research=ResearchRequest(resumes=True)))
    assert resumed.phase is Phase.WORKING
    assert resumed.ended_steps.keys() == {"1"}
    assert [step.id for step in PLAN.ready(resumed.ended_steps)] == ["2"]


def test_a_start_that_failed_is_tried_again_where_it_was() -> None:
    state = values(Phase.WORKING, findings={"1": Finding(state="completed", text="x")})
    assert belongs(state, context(), said("Start", choice="start"))
    assert after(state, said("Start", choice="start")).ended_steps.keys() == {"1"}


def test_one_of_another_version_is_none() -> None:
    assert research_of({RESEARCH: {"id": "r1", "phase": "unheard of"}}) is None


def test_the_reducer_is_associative() -> None:
    writes: list[dict[str, Any]] = [
        {"id": "a", "phase": "x"},
        {"id": "a", "findings": {"1": {"state": "open"}}},
        {"id": "a", "findings": {"1": {"state": "completed"}, "2": {}}, "phase": "y"},
        {"id": "b", "findings": {"1": {}}},
    ]
    for one, two, three in product(writes, repeat=3):
        if two["id"] != one["id"] == three["id"]:
            continue  # what was replaced never comes again
        left = merge_research(merge_research(one, two), three)
        assert left == merge_research(one, merge_research(two, three))


def test_files_and_collections_of_all_that_is_said_are_kept_once() -> None:
    def sent(name: str) -> InputFile:
        return InputFile(path=Path(f"/data/{name}"), name=name, mime_type="text/plain", size=1)

    earlier = tuple(sent(f"{number}.txt") for number in range(MOST_FILES + 5))
    request = ResearchRequest(files=(sent("own.txt"), *earlier))
    asked = after({}, said("What?", research=request, files=(sent("own.txt"),), collections=("handbook",)))
    assert [file.name for file in asked.files[:2]] == ["own.txt", "0.txt"]
    assert len(asked.files) == MOST_FILES
    waiting = values(Phase.REVIEW, files=asked.files[:2], collections=("handbook",))
    changed = after(waiting, said("that too", files=(sent("new.txt"),), collections=("rules", "handbook")))
    assert [file.name for file in changed.files] == ["own.txt", "0.txt", "new.txt"]
    assert changed.collections == ("handbook", "rules")
    unread = begun({}, context(), said("What?", research=request), Style.ACADEMIC, reads_files=False)
    assert unread[RESEARCH]["files"] == [], "without a sandbox nobody can read them"
