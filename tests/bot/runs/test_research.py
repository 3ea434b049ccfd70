"""What people type of a research."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bot.runs.inputs import edited_run, message_id
from bot.runs.research import BadOption, asked, choice, missing_files, named_collections, tried_again
from bot.store.rows import InboxRow, InboxState
from bot.store.sql import to_json
from bot.texts.command_line import parse
from channels.message import INBOUND_EVENT
from harness.context import InputFile, ResearchRequest, ResearchView
from tests.bot.store.samples import message, run_row


def test_a_question_with_and_without_options() -> None:
    assert asked(parse("/research Why?")) == (ResearchRequest(), "Why?")
    line = parse("/research --auto --style popular-science Why\nand how?")
    assert asked(line) == (ResearchRequest(style="popular_science", auto=True), "Why\nand how?")
    assert asked(parse("/research resume")) == (ResearchRequest(resumes=True), "resume")


@pytest.mark.parametrize("text", ["/research", "/research status", "/research --auto", "/other Why?", "Why?"])
def test_what_asks_the_agent_nothing(text: str) -> None:
    assert asked(parse(text)) is None


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [("/research --stile news Why?", "bad_option", "--stile"), ("/research --style epic Why?", "bad_style", "epic")],
)
def test_options_that_there_are_not(text: str, key: str, value: str) -> None:
    with pytest.raises(BadOption) as caught:
        asked(parse(text))
    assert (caught.value.key, caught.value.value) == (key, value)


def test_trying_again_goes_on_with_a_research_that_was_left_in_the_middle() -> None:
    ended = run_row()
    known = ResearchView(
        run_id=ended.run_id,
        question="Why?",
        title="",
        phase="working",
        can_resume=True,
        steps=(("a", "completed"),),
        sources=1,
    )
    again = tried_again(ended, known)
    assert again is not None
    assert again.input.research == ResearchRequest(resumes=True)
    assert tried_again(ended, None) is None
    assert tried_again(ended, replace(known, run_id="another")) is None
    assert tried_again(ended, replace(known, can_resume=False)) is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Start", "start"),
        ("START!", "start"),
        ("开始。", "start"),
        ("stop", "stop"),
        ("修改", "change"),
        ("start it", ""),
    ],
)
def test_answers_to_a_plan_in_any_language(text: str, meant: str) -> None:
    assert choice(text) == meant


def test_collections_that_are_named_are_no_addresses_of_people() -> None:
    text = "@handbook and @产品手册: what holds, says ann@example.org or @site.example? @handbook!"
    assert named_collections(text) == ("handbook", "产品手册")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Compare Plan.PDF with last year.xlsx", ()),
        ("Compare plan.pdf, old.pdf and old.pdf.", ("old.pdf",)),
        ("请阅读报告plan.pdf并总结", ()),
        ("data.plan.pdf", ("data.plan.pdf",)),
        ("See https://example.org/a.pdf and /mnt/user-data/outputs/b.md", ()),
        ("Is node.js better than v1.2, and example.com?", ()),
    ],
)
def test_files_that_are_named_and_did_not_come(text: str, missing: tuple[str, ...]) -> None:
    assert missing_files(text, ["plan.pdf", "figures of last year.xlsx"]) == missing


def test_an_edited_question_keeps_its_style_and_files_and_the_collections_that_it_still_names() -> None:
    earlier = InputFile(path=Path("/data/1a-plan.txt"), name="plan.txt", mime_type="text/plain", size=1)
    request = ResearchRequest(style="news", files=(earlier,))
    run = run_row(1)
    asked_first = replace(run.input, message_id=message_id(1), research=request, collections=("Handbook", "rules"))
    said = message("k", text="/research @handbook, @rules: why?")
    event = to_json(INBOUND_EVENT, said)
    row = InboxRow(id=1, account=said.account, event=event, received_at=said.received_at, state=InboxState.ASSIGNED)
    edited = edited_run(replace(run, input=asked_first), [row], replace(said, text="/research --auto @handbook: how?"))
    assert edited is not None
    assert edited[0].input.text == "@handbook: how?"
    assert edited[0].input.research == replace(request, auto=True)
    assert edited[0].input.collections == ("Handbook",)
