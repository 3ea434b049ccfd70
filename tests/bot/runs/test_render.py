"""What the chat shows of a run: the fold of its events, and endings that never look like answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bot.runs.render import RunView
from bot.texts.en import EN
from bot.texts.zh import ZH
from bot.usage.meter import EventRecord
from harness.events import (
    RUN_EVENT,
    Failed,
    FailureKind,
    Finished,
    ModelRetrying,
    Notice,
    Outcome,
    Question,
    ReasoningDelta,
    Resumed,
    SubagentEnded,
    SubagentProgress,
    SubagentStarted,
    SubagentState,
    TextDelta,
    TextReset,
    TodosChanged,
    TodoStatus,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    Usage,
)
from harness.failures import PASSING
from harness.graph.calls import OWN_TOOLS
from harness.middleware.llm_errors import RETRIED
from tests.tables import table

if TYPE_CHECKING:
    from bot.texts.catalogue import Texts
    from harness.context import Progress

SENTENCE = "It failed."


def fold(*events: Any, progress: Progress = "full") -> RunView:
    view = RunView(progress=progress)
    for event in events:
        view.apply(event, EN)
    return view


def delta(text: str, message_id: str = "a", seq: int = 1) -> TextDelta:
    return TextDelta(run_id="r", seq=seq, message_id=message_id, text=text)


def started(call_id: str) -> ToolStarted:
    return ToolStarted(run_id="r", seq=1, call_id=call_id, tool="bash", summary=f"ls {call_id}")


def ended(call_id: str) -> ToolEnded:
    return ToolEnded(run_id="r", seq=1, call_id=call_id, tool="bash", ok=True)


def thought(text: str) -> ReasoningDelta:
    return ReasoningDelta(run_id="r", seq=1, message_id="a", text=text)


def shown(*events: Any, progress: Progress = "full") -> tuple[str, str]:
    draft = fold(*events, progress=progress).draft(EN)
    assert not draft.final
    return draft.text, draft.status


def progress(call_id: str, seconds: int) -> ToolProgress:
    return ToolProgress(run_id="r", seq=2, call_id=call_id, tool="bash", seconds=seconds, line="42 passed")


def test_before_anything_happens_it_is_working() -> None:
    assert shown() == ("", "")


def test_text_grows_and_a_new_message_stands_below_it() -> None:
    assert shown(delta("Hel"), delta("lo")) == ("Hello", "")
    assert shown(delta("Let me look."), delta("Found it.", "b")) == ("Let me look.\n\nFound it.", "")
    assert shown(delta(" \n"), delta("Found it.", "b")) == ("Found it.", "")


def test_what_is_said_before_a_tool_call_stands_above_the_answer() -> None:
    view = fold(delta("```py\nx"), started("1"), ended("1"), delta("Fou", "b"))
    assert view.draft(EN).text == "```py\nx\n```\n\nFou"
    finished = Finished(run_id="r", seq=9, outcome=Outcome.SUCCESS, text="Found it.", message_id="b")
    assert view.answer(finished, EN).text == "```py\nx\n```\n\nFound it."


def test_only_the_last_message_stays_where_that_is_wanted() -> None:
    view = RunView(intermediate="last")
    for event in (delta("Let me look."), started("1"), ended("1")):
        view.apply(event, EN)
    assert view.draft(EN).text == "Let me look.", "until there is another"
    view.apply(delta("Found it.", "b"), EN)
    assert view.draft(EN).text == "Found it."
    finished = Finished(run_id="r", seq=9, outcome=Outcome.SUCCESS, text="Found it.", message_id="b")
    assert view.answer(finished, EN).text == "Found it."


def test_a_question_stands_below_what_was_said_with_it() -> None:
    asks = Question(run_id="r", seq=8, prompt_id="q", text="Which one?", options=(), expires_at=datetime.now(UTC))
    end = Finished(run_id="r", seq=9, outcome=Outcome.SUCCESS, text="Which one?", message_id="b")
    view = fold(delta("Let me look."), started("1"), delta("There are two.", "b"), asks)
    assert view.answer(end, EN).text == "Let me look.\n\nThere are two.\n\nWhich one?"
    assert fold(delta("There are two. Which one?", "b"), asks).answer(end, EN).text == "There are two. Which one?"


@given(st.lists(st.text(alphabet=" ab`\n", max_size=6), min_size=1, max_size=5), st.integers(0, 12))
def test_a_resumed_run_shows_what_an_uninterrupted_one_does(texts: list[str], crash: int) -> None:
    """Whatever of the record a crash leaves: the agent tells its whole messages once more."""
    whole: list[Any] = []
    for number, text in enumerate(texts, 1):
        whole += [delta(text, f"r-{number}"), started(str(number)), ended(str(number))]
    before, resumed = fold(*whole[:crash]), RunView()
    resumed.go_on_from(whole[:crash], EN)
    assert resumed.visible_text == before.visible_text
    for number, text in enumerate(texts, 1):
        for event in (TextReset(run_id="r", seq=1, message_id=f"r-{number}"), delta(text, f"r-{number}")):
            resumed.apply(event, EN)
    resumed.apply(TextReset(run_id="r", seq=1, message_id=f"r-{len(texts) + 1}"), EN)
    assert resumed.visible_text == fold(*whole).visible_text
    assert resumed.unfinished[1] == ""


def test_a_reset_forgets_only_its_own_message() -> None:
    reset = TextReset(run_id="r", seq=3, message_id="a")
    assert shown(delta("half"), reset) == ("half", ""), "until the new text has passed it"
    assert shown(delta("half"), reset, delta("ag")) == ("half", "")
    assert shown(delta("half"), reset, delta("again")) == ("again", "")
    assert shown(delta("half"), reset, delta("ag"), started("1"))[0] == "ag"
    assert shown(delta("half"), delta("next", "b"), reset, delta("whole")) == ("whole\n\nnext", "")


def test_tools_that_run_are_named_until_they_end() -> None:
    assert shown(started("1"), started("2")) == ("", "bash: ls 1 · bash: ls 2")
    assert shown(delta("Looking."), started("1"), started("2"), ended("1")) == ("Looking.", "bash: ls 2")
    assert shown(started("1"), ended("1"), ended("unknown")) == ("", "")


def test_a_tool_that_takes_longer_tells_how_long_already() -> None:
    running = fold(started("1"), started("2"), progress("1", 12))
    assert running.status == "bash: ls 1 (12 s) · bash: ls 2"
    assert fold(started("1"), progress("1", 12), progress("1", 90)).status == "bash: ls 1 (1 min 30 s)"
    assert fold(progress("1", 12)).status == "", "what has ended, or never began, does not come back"


def call(tool: str, summary: str = "", description: str = "") -> ToolStarted:
    return ToolStarted(run_id="r", seq=1, call_id=tool, tool=tool, summary=summary, description=description)


@table(
    ("started", "told"),
    [
        (call("read_file", "uploads/sales.csv"), "Reading sales.csv"),
        (call("read_file", "/mnt/skills/public/report-generation/SKILL.md"), "Reading the skill report-generation"),
        (call("bash", "rm -rf /mnt/user-data/x"), "Running a command"),
        (call("bash", "make test", "Running the tests"), "Running the tests"),
        (call("web_search", "prices of pears"), "Searching: prices of pears"),
        (call("web_fetch", "https://example.org/a/b?c"), "Reading example.org"),
        (call("present_files", "a.csv, b.csv"), "Handing over a.csv, b.csv"),
        (call("web_search"), "Searching"),
        (call("crm_find_customer", "name=Ann"), "Using crm find customer"),
    ],
)
def test_people_read_what_a_call_does_and_no_folders_or_commands(started: ToolStarted, told: str) -> None:
    assert shown(started, progress="short") == ("", told)
    assert shown(started, progress="off") == ("", "")
    full = f"{started.tool}: {started.summary}" if started.summary else started.tool
    assert shown(started, progress="full") == ("", full)


def test_each_of_our_tools_has_a_label_in_each_language() -> None:
    for texts in (EN, ZH):
        assert texts.tool_labels.keys() == OWN_TOOLS | {"skill", "other"}


def test_where_nothing_of_the_work_is_shown_it_still_tells_that_it_goes_on() -> None:
    assert still(fold(started("1"), progress="off"), 10, 22) == ["", "Thinking, 22 s"]


def test_how_long_a_tool_takes_is_not_kept() -> None:
    record = EventRecord()
    for event in (started("1"), progress("1", 12)):
        record.add(event)
    assert [kind for _, kind, _ in record.rows] == ["tool_started"]


def test_waiting_and_resuming_are_told() -> None:
    retrying = ModelRetrying(run_id="r", seq=1, kind=FailureKind.RATE_LIMITED, attempt=1, delay=0.2)
    assert shown(retrying)[1] == "The model is busy, trying again in 1 s…"
    assert shown(replace(retrying, attempt=5, waited=24.3))[1] == "The model is busy, still trying after 24 s…"
    assert shown(retrying, delta("x")) == ("x", "")
    assert shown(Resumed(run_id="r", seq=1, attempt=2))[1] == EN.resumed


def test_what_was_read_before_a_restart_stands_until_the_new_text_is_longer() -> None:
    view = RunView()
    view.go_on_from([delta("One two three.")], EN)
    assert view.draft(EN).text == "One two three."
    assert view.draft(EN).status == "", "nobody needs to be told of work above an answer that stands"
    view.apply(Resumed(run_id="r", seq=1, attempt=2), EN)
    assert (view.draft(EN).text, view.draft(EN).status) == ("One two three.", EN.resumed)
    view.apply(delta("One"), EN)
    assert view.draft(EN).text == "One two three."
    assert view.ended(SENTENCE, EN).text.startswith("One two three.")
    view.apply(delta(" two three, four."), EN)
    assert view.draft(EN).text == "One two three, four."


def test_the_answer_is_what_finished_says_with_its_notices() -> None:
    finished = Finished(run_id="r", seq=2, outcome=Outcome.SUCCESS, text="Whole.", message_id="a")
    view = fold(delta("Who"), Notice(run_id="r", seq=1, kind="images_not_seen", model="m"))
    assert view.answer(finished, EN).text == "Whole.\n\n" + EN.images_not_seen.format(model="m")
    assert view.answer(finished, EN).final
    assert fold(Notice(run_id="r", seq=1, kind="summarized")).answer(finished, EN).text == "Whole."


def test_an_answer_that_was_cut_says_by_which_limit() -> None:
    cut = Finished(run_id="r", seq=2, outcome=Outcome.LIMITED, text="Half.", message_id="a")
    assert RunView().answer(cut, EN).text == "Half.\n\n" + EN.cut_short
    assert "the limit of 7 model calls" in RunView().answer(replace(cut, calls=7), EN).text


@table(
    ("text", "closed"),
    [
        ("plain", "plain"),
        ("```py\nx = 1", "```py\nx = 1\n```"),
        ("```py\nx = 1\n", "```py\nx = 1\n\n```"),
        ("```py\nx\n```", "```py\nx\n```"),
        ("````md\n```\nx\n```", "````md\n```\nx\n```\n````"),
        ("~~~\n```", "~~~\n```\n~~~"),
        ("~~~~\nx\n~~~", "~~~~\nx\n~~~\n~~~~"),
        ("use ``` for code", "use ``` for code"),
        ("    ```\n    indented", "    ```\n    indented"),
        ("- item\n\n  ```\n  x", "- item\n\n  ```\n  x"),
        ("1. x\n   ```\n   y", "1. x\n   ```\n   y"),
        ("> ```\n> x", "> ```\n> x"),
        ("```a```", "```a```"),
        ("```", "```\n```"),
    ],
)
def test_a_code_block_is_closed_before_the_sentence_below_it(text: str, closed: str) -> None:
    assert fold(delta(text)).ended(SENTENCE, EN).text == f"{closed}\n\n{SENTENCE}\n\n{EN.partial}"


def test_without_any_text_nothing_is_said_about_it() -> None:
    assert fold().ended(SENTENCE, EN).text == SENTENCE
    assert fold(delta(" \n")).ended(SENTENCE, EN).text == SENTENCE


@given(st.text(alphabet=st.sampled_from("`~ \n>-1.ab\t")))
def test_the_sentence_is_never_swallowed_by_what_stands_above(text: str) -> None:
    tokens = MarkdownIt("commonmark", {"html": False}).parse(fold(delta(text)).ended(SENTENCE, EN).text)
    paragraphs = [token.content for token in tokens if token.type == "inline" and token.level == 1]
    assert SENTENCE in paragraphs


def test_a_failure_tells_when_to_try_again_and_never_the_log() -> None:
    failed = Failed(
        run_id="r", seq=1, kind=FailureKind.RATE_LIMITED, model="m", detail_for_log="secret", retry_after=300
    )
    text = fold().failure(failed, EN).text
    begin, end = "⚠️ The model m is too busy at the moment.", " With /models you can choose another one."
    assert text == f"{begin} Try again in 5 min.{end}"
    assert fold().failure(replace(failed, retry_after=None), EN).text == begin + end


@pytest.mark.parametrize("texts", [EN, ZH])
def test_only_a_provider_that_says_so_is_called_busy(texts: Texts) -> None:
    """What is waited for has words of its own, and what members read names no key of the config and no log."""
    busy = {kind for kind, words in texts.troubles.items() if words == texts.troubles[FailureKind.OVERLOADED]}
    assert busy == {FailureKind.RATE_LIMITED, FailureKind.OVERLOADED}
    assert set(texts.troubles) == PASSING | RETRIED
    assert len(set(texts.troubles.values())) == len(texts.troubles) - 1
    said = " ".join(texts.failures.values())
    assert not any(word in said for word in ("`", "config", "API", " log ", "配置", "日志", "密钥"))


pieces = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ab"), st.text(max_size=3)),
        st.sampled_from([("reset", "a"), ("reset", "b"), ("usage", ""), ("tool", "")]),
    )
)


def _event(seq: int, piece: tuple[str, str]) -> Any:
    match piece:
        case ("reset", message_id):
            return TextReset(run_id="r", seq=seq, message_id=message_id)
        case ("usage", _):
            return Usage(run_id="r", seq=seq, model="m", input_tokens=1, output_tokens=1)
        case ("tool", _):
            return ToolStarted(run_id="r", seq=seq, call_id="1", tool="t", summary="")
        case (message_id, text):
            return delta(text, message_id, seq)


@given(pieces)
def test_the_folded_record_tells_the_same_story(story: list[tuple[str, str]]) -> None:
    events = [_event(seq, piece) for seq, piece in enumerate(story, 1)]
    record = EventRecord()
    for event in events:
        record.add(event)
    record.flush()
    replayed = fold(*(RUN_EVENT.validate_json(body) for _, _, body in record.rows))
    whole = fold(*events)
    assert (replayed.text, replayed.model_calls, replayed.tools) == (whole.text, whole.model_calls, whole.tools)
    seqs = [seq for seq, _, _ in record.rows]
    assert seqs == sorted(set(seqs))
    kinds = [kind for _, kind, _ in record.rows]
    assert len(record.usage) == kinds.count("usage") == sum(piece[0] == "usage" for piece in story)


def delegated(call_id: str, description: str) -> SubagentStarted:
    return SubagentStarted(run_id="r", seq=1, call_id=call_id, subagent="general-purpose", description=description)


def at_work(call_id: str, seconds: int = 0, command: str = "") -> SubagentProgress:
    tool = "bash" if command else ""
    return SubagentProgress(run_id="r", seq=2, call_id=call_id, seconds=seconds, tool=tool, summary=command)


def reported(call_id: str, state: SubagentState = SubagentState.COMPLETED) -> SubagentEnded:
    return SubagentEnded(run_id="r", seq=3, call_id=call_id, state=state, seconds=9, model_calls=2)


THREE = (delegated("a", "compare prices"), delegated("b", "read the report"), delegated("c", "ask the archive"))


def test_tasks_of_subagents_are_one_line() -> None:
    assert shown(*THREE)[1] == "3 tasks: 3 waiting: compare prices, read the report, ask the archive"
    running = (at_work("a", 12), at_work("b"))
    assert shown(*THREE, *running)[1] == (
        "3 tasks: 2 running: compare prices (12 s), read the report, 1 waiting: ask the archive"
    )
    ends = (reported("b"), at_work("c", 1), at_work("a", 20))
    assert shown(*THREE, *running, *ends)[1] == (
        "3 tasks: 1 done, 2 running: compare prices (20 s), ask the archive (1 s)"
    )


def test_what_a_task_does_is_told_when_it_runs_alone() -> None:
    alone = (delegated("a", "compare prices"), at_work("a", 3, "make test"))
    assert shown(*alone)[1] == "1 task: 1 running: compare prices (3 s) · bash: make test"
    assert shown(*alone, progress="short")[1] == "1 task: 1 running: compare prices (3 s) · Running a command"


def stuck(call_id: str, waited: float) -> SubagentProgress:
    trouble = FailureKind.RATE_LIMITED
    return SubagentProgress(run_id="r", seq=2, call_id=call_id, seconds=30, trouble=trouble, delay=2.0, waited=waited)


def test_a_task_that_waits_for_its_model_says_so_until_it_goes_on() -> None:
    one = (delegated("a", "compare prices"), at_work("a", 3, "make test"), stuck("a", 0.0))
    assert shown(*one)[1] == ("1 task: 1 running: compare prices (30 s) · The model is busy, trying again in 2 s…")
    assert shown(*one, stuck("a", 24.0))[1].endswith(" · The model is busy, still trying after 24 s…")
    assert shown(*one, at_work("a", 31, "make test"))[1].endswith("(31 s) · bash: make test")
    two = (*THREE[:2], at_work("b", 3), stuck("a", 24.0))
    assert shown(*two)[1].endswith(
        ", read the report (3 s) · compare prices: The model is busy, still trying after 24 s…"
    )
    assert shown(*two, stuck("b", 9.0))[1].endswith(" · The model is busy, still trying after 24 s…")


def test_tasks_that_did_not_end_well_are_counted() -> None:
    ends = (reported("a", SubagentState.TIMED_OUT), reported("b", SubagentState.FAILED), at_work("c", 2))
    assert shown(*THREE, *ends)[1] == "3 tasks: 2 failed, 1 running: ask the archive (2 s)"


def test_once_all_tasks_have_ended_the_next_ones_begin_anew() -> None:
    events = (*THREE, *map(reported, "abc"))
    assert shown(*events) == ("", "")
    assert shown(*events, delegated("d", "one more"))[1] == "1 task: 1 waiting: one more"


def test_a_task_takes_the_place_of_its_call_beside_other_tools() -> None:
    call = ToolStarted(run_id="r", seq=1, call_id="a", tool="task", summary="compare prices")
    assert shown(call, started("x"), delegated("a", "compare prices"), at_work("a", 5))[1] == (
        "1 task: 1 running: compare prices (5 s) · bash: ls x"
    )


def test_tasks_in_chinese() -> None:
    view = RunView()
    for event in (*THREE, at_work("a", 12), reported("b")):
        view.apply(event, ZH)
    assert (
        view.draft(ZH).status
        == "3 项任务：已完成 1 项，进行中 1 项：compare prices（12 秒），等待中 1 项：ask the archive"
    )


def test_the_progress_of_tasks_is_shown_and_not_kept() -> None:
    record = EventRecord()
    for event in (delegated("a", "x"), at_work("a", 1), reported("a")):
        record.add(event)
    assert [kind for _, kind, _ in record.rows] == ["subagent_started", "subagent_ended"]


def test_the_newest_line_of_a_thought_is_shown_until_the_answer_begins() -> None:
    assert shown(thought("Let me "), thought("see.\nFirst,"), thought(" the facts.\n")) == ("", "💭 First, the facts.")
    assert shown(thought("Let me see."), delta("Four.")) == ("Four.", "")
    text, status = shown(thought("word " * 100))
    assert text == ""
    assert status.startswith("💭 …")
    assert len(status) <= 125


def still(view: RunView, *seconds: float) -> list[str]:
    """The status after each of these times."""
    view.draft(EN, 0.0)
    return [view.draft(EN, each).status for each in seconds]


def test_what_stands_still_tells_its_age() -> None:
    assert still(fold(), 14.9, 15, 32, 150) == ["", "Thinking, 15 s", "Thinking, 32 s", "Thinking, 2 min 30 s"]
    assert still(fold(delta("Words.")), 10, 22) == ["", "Thinking, 22 s"]
    assert still(fold(started("1")), 10, 22) == ["bash: ls 1", "bash: ls 1 (22 s)"]
    retrying = ModelRetrying(run_id="r", seq=1, kind=FailureKind.TIMEOUT, attempt=1, delay=3)
    assert still(fold(retrying), 20) == ["Thinking, 20 s"], "the model has been asked again since"
    assert still(fold(thought("Let me see.\nFirst")), 20) == ["Thinking, 20 s"]


def test_a_summary_that_is_being_made_is_told_until_it_is_made() -> None:
    making, made = (Notice(run_id="r", seq=1, kind=kind) for kind in ("summarizing", "summarized"))
    assert still(fold(making), 1, 20) == [EN.condensing, f"{EN.condensing} (20 s)"]
    assert shown(making, made) == ("", "")
    assert shown(making, Notice(run_id="r", seq=1, kind="not_summarized")) == ("", "")


def plan(*steps: tuple[str, str]) -> TodosChanged:
    return TodosChanged(run_id="r", seq=1, todos=tuple((step, TodoStatus(status)) for step, status in steps))


PLAN = plan(("Read the list", "completed"), ("Compare prices", "in_progress"), ("Write it down", "pending"))
CHECKLIST = "☑ Read the list\n▶ Compare prices\n☐ Write it down"
DONE = Finished(run_id="r", seq=9, outcome=Outcome.SUCCESS, text="Four.", message_id="b")


def test_a_plan_is_a_checklist_that_stays() -> None:
    step = "📋 2/3 Compare prices"
    assert shown(PLAN) == ("", f"{CHECKLIST}\n{step}")
    assert shown(PLAN, started("1"))[1] == f"{CHECKLIST}\n{step} · bash: ls 1"
    assert shown(PLAN, started("1"), ended("1"), delta("Words.")) == ("Words.", f"{CHECKLIST}\n{step}")
    assert still(fold(PLAN, delta("Words.")), 20) == [f"{CHECKLIST}\nThinking, 20 s"]
    assert shown(PLAN, *THREE)[1].startswith(f"{CHECKLIST}\n{step} · 3 tasks: 3 waiting")
    assert fold(PLAN).answer(DONE, EN).done == ("What I did", *CHECKLIST.split("\n"))
    assert fold(PLAN).ended(SENTENCE, EN).done == ("What I did", *CHECKLIST.split("\n")), "also of what has no end"
    assert shown(PLAN, progress="off") == ("", "")


def test_what_was_done_is_told_with_the_answer() -> None:
    search = replace(call("web_search", "pears"), call_id="s")
    events = (search, search, call("write_todos"), call("task", "x"), delegated("a", "compare prices"))
    view = fold(*events, reported("a", SubagentState.FAILED), progress="short")
    assert view.answer(DONE, EN).done == ("What I did", "Searching: pears (2 times)", "✗ compare prices")
    many = fold(*(started(str(number)) for number in range(30)))
    assert many.done(EN)[-2:] == ("bash: ls 19", "… and 10 more")
    assert fold(*events, progress="off").done(EN) == ()
    assert fold(delta("Four.")).done(EN) == ()


def test_what_was_done_before_a_restart_is_told_too() -> None:
    view = RunView(progress="full")
    view.go_on_from([PLAN, started("1"), ended("1")], EN)
    assert view.done(EN) == ("What I did", *CHECKLIST.split("\n"), "bash: ls 1")
    assert view.draft(EN).status.startswith(CHECKLIST)


def test_thoughts_are_shown_also_below_what_was_said_before() -> None:
    told = (delta("Let me look."), started("1"), ended("1"), replace(thought("Hm.\nSo"), message_id="b"))
    assert shown(*told) == ("Let me look.", "💭 So")


def test_thoughts_are_not_kept() -> None:
    record = EventRecord()
    for event in (thought("Let me see."), delta("Four.")):
        record.add(event)
    record.flush()
    assert [kind for _, kind, _ in record.rows] == ["text_delta"]


def test_who_answered_instead_is_told_below_the_answer() -> None:
    notice = Notice(run_id="r", seq=1, kind="fallback", model="backup", instead_of="main")
    finished = Finished(run_id="r", seq=2, outcome=Outcome.SUCCESS, text="Four.", message_id="a")
    assert fold(notice).answer(finished, EN).text == "Four.\n\nℹ️ `backup` answered, because `main` could not."
