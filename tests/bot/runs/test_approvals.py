"""A run that waits for a person, seen from the gateway: time, crashes, numbers instead of buttons."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from bot.runs.approval_cards import OPTIONS
from bot.store import prompts, runs
from bot.store.prompts import Decided
from bot.store.rows import RunState
from bot.texts import LANGUAGES
from bot.texts.en import EN
from channels.errors import Rejected, Temporary
from channels.message import ChatMigrated, Quote
from harness.events import ApprovalRequested, Question, TextDelta
from harness.guardrails.approvals import ADMINS, ONCE
from tests.bot.conversations.test_policies import bubble, press
from tests.bot.core import ANN, BOB, RULES, Core, core
from tests.memory_channel import CALLS, NO_BUTTONS, NO_EDIT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from bot.texts.catalogue import Texts
    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller
    from tests.memory_channel import Bubble


def asks(
    c: Core, text: str, *, seconds: float = 1800, gate: asyncio.Event | None = None, coverage: str = "tool:"
) -> None:
    """For that message the agent wants to send a letter, and tells in the end whether it was allowed. gate: it works
    until that is set."""

    async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        run_id = tell.ctx.run_id
        decided = await c.store.read(lambda tx: prompts.decisions(tx, run_id))
        if decided:
            (approval,) = decided.values()
            yield tell.answer(f"allowed: {approval.allowed} {approval.reason}".strip())
            return
        if gate is not None:
            await gate.wait()
        about: dict[str, Any] = {"prompt_id": f"a{run_id[:20]}", "call_id": "1", "tool": "send", "args_hash": "f" * 64}
        about |= {"args_masked": "to: ```\nall", "requester": ANN, "reason": "", "coverage": coverage}
        yield tell(ApprovalRequested, expires_at=c.clock.now() + timedelta(seconds=seconds), **about)

    c.harness.scripts[text] = script


QUOTE = Quote(message_id="other", text="x", author="Bob", from_bot=False)


async def say(c: Core, text: str, person: str = ANN) -> None:
    await c.say(text, person)
    await c.clock.advance(2)


async def states(c: Core) -> list[RunState]:
    return [row.state for row in await c.store.read(runs.unended)]


async def test_a_number_decides_where_there_are_no_buttons(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        asks(c, "send it")
        await say(c, "send it")
        assert "````\nto: ```\nall\n````" in c.texts()[-1]
        assert "1. Allow once\n2. Allow for this chat\n3. Deny\n4. Deny, and say why" in c.texts()[-1]
        assert await states(c) == [RunState.WAITING]
        await say(c, "1")
        await c.answered()
        assert "allowed: True" in c.texts()
        assert c.harness.asked == ["send it", "send it"]


@pytest.mark.parametrize("refused", [False, True])
async def test_words_that_were_said_before_a_request_stand_above_it(tmp_path: Path, refused: bool) -> None:
    async with core(tmp_path, mode=CALLS) as c:

        async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            run_id = tell.ctx.run_id
            yield tell(TextDelta, message_id="a", text="I will send it.")
            about = {"prompt_id": f"a{run_id[:20]}", "call_id": "1", "tool": "send", "args_hash": "f" * 64}
            expires = c.clock.now() + timedelta(seconds=1800)
            yield tell(
                ApprovalRequested,
                args_masked="",
                requester=ANN,
                reason="",
                coverage="tool:",
                expires_at=expires,
                **about,
            )

        c.harness.scripts["send it"] = script
        if refused:
            c.channel.fail("send", Temporary("no route"))
        await c.say("send it")
        await c.clock.advance(9)
        words, request = c.channel.chats[ANN]
        assert words.text.startswith("I will send it.\n\nWaiting for a decision")
        assert "I need a decision" in request.text
        assert (words.silent, request.silent) == (True, False)


async def test_the_log_tells_once_what_was_asked_decided_and_how_it_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "bot")
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        asks(c, "send it")
        await say(c, "send it")
        await say(c, "1")
        await c.answered()
        await say(c, "hello")
        await c.answered()
    told = [vars(record) for record in caplog.records if getattr(record, "event", None) in ("approval", "run_ended")]
    assert [(each["event"], each["state"], each.get("by")) for each in told] == [
        ("approval", "asked", None),
        ("approval", "once", f"memory:{ANN}"),
        ("run_ended", "success", None),
        ("run_ended", "success", None),
    ]
    assert {each["run"] for each in told[:3]} == {told[0]["run"]}
    assert {(each["account"], each["person"]) for each in told} == {("memory", f"memory:{ANN}")}
    assert told[2]["model"] == "main"
    assert told[3]["tokens"] == 12
    assert told[3]["seconds"] >= told[3]["first_words"] >= 0
    assert "send it" not in caplog.text


async def test_the_log_names_nobody_for_what_no_person_decided(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "bot")
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        asks(c, "send it")
        await say(c, "send it")
        await say(c, "/stop")
        await c.answered()
    told = [record.getMessage() for record in caplog.records if getattr(record, "event", None) == "approval"]
    assert [line.partition(": ")[2] for line in told] == ["asked of a person", "stopped"]


async def test_a_number_decides_also_after_a_restart_where_the_buttons_were_refused(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_EDIT) as c:
        asks(c, "send it")
        c.channel.fail("send", Rejected("no cards here"))
        await say(c, "send it")
        assert "1. Allow once\n2. Allow for this chat\n3. Deny\n4. Deny, and say why" in c.texts()[-1]
        for restart in (c.crash, c.stop):
            await restart()
            await c.start()
            await c.clock.advance(2)
        assert await states(c) == [RunState.WAITING]
        await say(c, "1")
        await c.answered()
        assert "allowed: True" in c.texts()
        assert set(c.harness.asked) == {"send it"}


async def test_the_reason_is_the_next_message_also_there(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        asks(c, "send it")
        await say(c, "send it")
        await say(c, "4")
        await say(c, "not on a Sunday")
        await c.answered()
        assert "allowed: False not on a Sunday" in c.texts()


@pytest.mark.parametrize(("below", "is_reason"), [(1, True), (2, True), (0, False)])
async def test_a_reply_in_a_thread_of_a_direct_message_is_the_reason(
    tmp_path: Path, below: int, is_reason: bool
) -> None:
    """There the thread is a conversation of its own; below: the request, the question why, or something else."""
    async with core(tmp_path) as c:
        asks(c, "send it")
        await say(c, "send it")
        await press(c, bubble(c, 1), "say why")
        await c.clock.advance(2)
        await c.say("archive the draft", topic=bubble(c, below).message_id)
        await c.clock.advance(5)
        assert ("allowed: False archive the draft" in c.texts()) is is_reason
        assert ("echo: archive the draft" in c.texts()) is not is_reason


async def test_what_comes_later_or_with_something_else_is_a_request_and_never_lost(tmp_path: Path) -> None:
    for number, (seconds, quote) in enumerate([(130, None), (0, QUOTE)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with core(folder, mode=NO_BUTTONS) as c:
            asks(c, "send it")
            await say(c, "send it")
            await say(c, "4")
            await c.clock.advance(seconds)
            await c.say("what is the weather?", reply_to=quote)
            await c.answered()
            assert {"allowed: False", "echo: what is the weather?"} <= set(c.texts())


async def test_after_a_crash_only_a_reply_is_the_reason(tmp_path: Path) -> None:
    for replies in (True, False):
        folder = tmp_path / str(replies)
        folder.mkdir()
        async with core(folder) as c:
            asks(c, "send it")
            await say(c, "send it")
            await press(c, bubble(c, 1), "say why")
            await c.clock.advance(2)
            question = bubble(c, 2)
            assert (question.part.text, question.part.asks_reply) == (EN.approval_write_why, True)
            await c.crash()
            await c.start()
            quote = replace(QUOTE, message_id=question.message_id) if replies else None
            await c.say("not on a Sunday", reply_to=quote)
            await c.answered()
            if replies:
                assert "allowed: False not on a Sunday" in c.texts()
            else:
                assert {"allowed: False", "echo: not on a Sunday"} <= set(c.texts())


@pytest.mark.parametrize(
    ("said", "replies", "is_reason"),
    [
        ("Book a table", False, False),
        ("Book a table", True, True),
        ("she has moved", False, True),
        ("no " * 120 + "way", True, False),
    ],
)
async def test_in_a_group_a_mention_that_explains_or_a_reply_is_the_reason_and_no_request_is_lost(
    tmp_path: Path, said: str, replies: bool, is_reason: bool
) -> None:
    async with core(tmp_path) as c:
        asks(c, "send it")
        await c.say("send it", ANN, "g")
        await c.clock.advance(2)
        await press(c, bubble(c, 1, "g"), "say why", ANN, "g")
        await c.clock.advance(2)
        quote = replace(QUOTE, message_id=bubble(c, 2, "g").message_id) if replies else None
        await c.say(said, ANN, "g", reply_to=quote)
        await c.answered()
        if is_reason:
            assert f"allowed: False {said}" in c.texts("g")
        else:
            assert {"allowed: False", f"echo: {said}"} <= set(c.texts("g"))


async def test_an_administrator_who_denies_is_asked_without_opening_the_requesters_field(tmp_path: Path) -> None:
    async with core(tmp_path, replace(RULES, admins=frozenset({f"memory:{BOB}"}))) as c:
        asks(c, "send it")
        await c.say("send it", ANN, "g")
        await c.clock.advance(2)
        await press(c, bubble(c, 1, "g"), "say why", BOB, "g")
        await c.clock.advance(2)
        question = bubble(c, 2, "g")
        assert (question.part.text, question.part.asks_reply) == (EN.approval_write_why, False)
        await c.say("she has moved", BOB, "g", reply_to=replace(QUOTE, message_id=question.message_id))
        await c.answered()
        assert "allowed: False she has moved" in c.texts("g")


async def test_time_decides_also_after_crashes_and_no_attempt_is_counted(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        asks(c, "send it", seconds=600)
        await say(c, "send it")
        for _ in range(5):
            await c.crash()
            await c.start()
            await c.clock.advance(60)
        assert await states(c) == [RunState.WAITING]
        assert c.dead == []
        assert {start.attempt for start in c.harness.starts} == {1}
        await c.clock.advance(400)
        await c.answered()
        assert "allowed: False" in c.texts()
        assert sum("decided in time" in text for text in c.texts()) == 1
        assert len(c.texts()) == 2


async def test_what_waits_is_told_for_what_and_stop_ends_it(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        asks(c, "send it")
        await say(c, "send it")
        await say(c, "and then?")
        assert c.texts()[-1].startswith("Queued. First I need your decision: send")
        await say(c, "/stop")
        await c.answered()
        assert any("because the answer was stopped first" in text for text in c.texts())
        assert c.texts()[-1] == "echo: and then?"
        assert await states(c) == []


async def test_of_eight_messages_behind_a_decision_one_asks_for_it_and_all_are_answered(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        asks(c, "send it")
        await say(c, "send it")
        for number in range(8):
            await say(c, f"number {number}")
        await c.clock.advance(60)
        assert len(c.texts()) == 3
        asking = open_request(c)
        assert asking.text.endswith("more messages waiting: 7")
        await say(c, "/queue")
        assert "8\\. " in c.texts()[-1] or "8. " in c.texts()[-1]
        assert await press(c, asking, "Allow once") == EN.approval_answers["once"]
        await c.answered()
        assert [text for text in c.texts() if text.startswith("echo: number")] == [
            f"echo: number {number}" for number in range(8)
        ]


async def test_what_was_queued_before_the_request_keeps_its_message(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        gate = asyncio.Event()
        asks(c, "send it", gate=gate)
        await say(c, "send it")
        for number in range(3):
            await say(c, f"number {number}")
        gate.set()
        await c.clock.advance(60)
        assert sum("First I need your decision" in text for text in c.texts()) == 1
        assert sum("in line" in text for text in c.texts()) == 2
        (third,) = [seen for seen in c.channel.chats[ANN] if "3rd in line" in seen.text]
        await press(c, third, "Drop")
        assert any(EN.dropped_by["author"] in text for text in c.texts())


async def test_a_chat_that_moves_while_the_agent_works_is_asked_under_its_new_id(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        gate = asyncio.Event()
        asks(c, "send it", gate=gate)
        said = await c.say("send it", ANN, "g")
        c.policy = replace(c.policy, access=replace(RULES, groups=frozenset({"memory:g", "memory:G2"})))
        moved: dict[str, Any] = {"account": "memory", "sent_at": said.sent_at, "received_at": said.received_at}
        await c.receive(ChatMigrated(dedupe_keys=("k",), old_chat="g", new_chat="G2", **moved))
        gate.set()
        await c.clock.advance(2)
        assert await press(c, bubble(c, 0, "G2"), "Allow once", ANN, "G2") == "Allowed once."
        await c.answered()
        assert c.harness.starts[-1].ctx.conversation == "memory:G2"
        assert await states(c) == []


async def test_who_writes_elsewhere_cannot_give_a_reason(tmp_path: Path) -> None:
    """An administrator's next message is one for the agent there; the request must not wait for it in vain."""
    async with core(tmp_path) as c:
        c.policy = replace(c.policy, group_scope="speaker")
        asks(c, "send it")
        await c.say("send it", BOB, "g")
        await c.clock.advance(2)
        assert await press(c, bubble(c, 1, "g"), "say why", ANN, "g") == EN.approval_answers["deny"]
        await c.say("because", ANN, "g")
        await c.answered()
        assert {"allowed: False", "echo: because"} <= set(c.texts("g"))


async def test_a_question_with_options_is_answered_by_its_number(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        expires = c.clock.now() + timedelta(days=7)

        def question(tell: Teller) -> AnyRunEvent:
            run_id = f"q{tell.ctx.run_id}"
            return tell(Question, prompt_id=run_id, text="Which?", options=("this", "that"), expires_at=expires)

        c.harness.tells("do it", question, lambda tell: tell.answer("Which?"))
        await say(c, "do it")
        assert c.texts()[-1] == "Which?\n\n1. this\n2. that"
        await say(c, "2")
        await c.answered()
        assert c.harness.asked == ["do it", "that"]
        assert c.texts()[-1] == "echo: that"


@pytest.mark.parametrize(
    ("said", "shown"),
    [("THAT ", "that"), ("neither\n*of* them", "neither \\*of\\* them"), ("no " * 40, ("no " * 20)[:59].strip() + "…")],
)
async def test_a_typed_answer_stands_in_its_question(tmp_path: Path, said: str, shown: str) -> None:
    async with core(tmp_path) as c:
        expires = c.clock.now() + timedelta(days=7)

        def question(tell: Teller) -> AnyRunEvent:
            run_id = f"q{tell.ctx.run_id}"
            return tell(Question, prompt_id=run_id, text="Which?", options=("this", "that"), expires_at=expires)

        c.harness.tells("do it", question, lambda tell: tell.answer("Which?"))
        await say(c, "do it")
        asked = open_request(c)
        await say(c, said)
        await c.answered()
        (now,) = [seen for seen in c.channel.chats[ANN] if seen.message_id == asked.message_id]
        assert (now.part.text, now.part.buttons) == (f"Which?\n\n☑ {shown}", ())


async def test_what_somebody_else_says_is_no_answer_to_a_question_unless_it_is_an_option(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        expires = c.clock.now() + timedelta(days=7)

        def question(tell: Teller) -> AnyRunEvent:
            run_id = f"q{tell.ctx.run_id}"
            return tell(Question, prompt_id=run_id, text="Which?", options=("this", "that"), expires_at=expires)

        for answer, stands in (("something else", "Which?"), ("that", "Which?\n\n☑ that")):
            c.harness.tells("do it", question, lambda tell: tell.answer("Which?"))
            await c.say("do it", ANN, "g")
            await c.clock.advance(60)
            asked = open_request(c, "g")
            await c.say(answer, BOB, "g")
            await c.clock.advance(60)
            (now,) = [seen for seen in c.channel.chats["g"] if seen.message_id == asked.message_id]
            assert now.part.text == stands


def open_request(c: Core, chat: str = ANN) -> Bubble:
    return [seen for seen in c.channel.chats[chat] if seen.part.buttons][-1]


async def test_what_is_asked_for_anew_each_time_is_not_allowed_for_the_chat(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        asks(c, "send it", coverage=f"{ONCE}:{'f' * 64}")
        await say(c, "send it")
        shown = open_request(c)
        assert [button.label for row in shown.part.buttons for button in row] == [
            "Allow once",
            "Deny",
            "Deny, and say why",
        ]
        assert any("Approval covers exactly this." in text for text in c.texts())
        prompt = shown.part.buttons[0][0].data.partition(":")[0]
        await c.press(shown.message_id, f"{prompt}:{OPTIONS.index('chat')}", ANN)
        await c.answered()
        assert "allowed: True" in c.texts()
        assert await c.store.read(lambda tx: prompts.grants(tx, f"memory:{ANN}")) == []


async def test_what_is_for_everybody_only_an_administrator_allows(tmp_path: Path) -> None:
    rules = replace(RULES, admins=frozenset({f"memory:{BOB}"}))
    async with core(tmp_path, rules) as c:
        asks(c, "send it", coverage=f"{ADMINS}:{'f' * 64}")
        await c.say("send it", ANN, "g")
        await c.clock.advance(2)
        shown = open_request(c, "g")
        assert any("only an administrator can allow it" in text for text in c.texts("g"))
        assert await press(c, shown, "Allow once", ANN, "g") == EN.approval_answers["admins"]
        assert await press(c, shown, "Allow once", BOB, "g") == EN.approval_answers["once"]
        await c.answered()
        await c.say("send it", ANN, "g")
        await c.clock.advance(2)
        assert await press(c, open_request(c, "g"), "Deny", ANN, "g") == EN.approval_answers["deny"]


async def test_who_presses_too_late_is_told_what_was_decided(tmp_path: Path) -> None:
    async with core(tmp_path, replace(RULES, admins=frozenset({f"memory:{BOB}"}))) as c:

        async def requested(seconds: float = 1800) -> Bubble:
            asks(c, "send it", seconds=seconds)
            await c.say("send it", ANN, "g")
            await c.clock.advance(2)
            return replace(open_request(c, "g"))  # as it looks now: the buttons go with the decision

        shown = await requested()
        assert await press(c, shown, "Allow once", ANN, "g") == EN.approval_answers["once"]
        await c.answered()
        assert await press(c, shown, "Deny", ANN, "g") == "Already allowed once, by you."
        assert await press(c, shown, "Deny", BOB, "g") == "Already allowed once, by Ann."
        shown = await requested()
        assert await press(c, shown, "Deny", BOB, "g") == EN.approval_answers["deny"]
        await c.answered()
        assert await press(c, shown, "Allow for this chat", ANN, "g") == "Already denied, by an administrator."
        c.policy = replace(c.policy, locale="zh")
        assert await press(c, shown, "Allow once", ANN, "g") == "此前已由管理员拒绝。"
        c.policy = replace(c.policy, locale="en")
        shown = await requested(seconds=600)
        await c.clock.advance(601)
        await c.answered()
        assert await press(c, shown, "Allow once", ANN, "g") == EN.approval_over["expired"]
        shown = await requested()
        await c.say("/stop", ANN, "g")
        await c.answered()
        assert await press(c, shown, "Allow once", ANN, "g") == EN.approval_over["stopped"]
        assert await c.store.read(lambda tx: prompts.grants(tx, "memory:g")) == []
        assert [text for text in c.texts("g") if "allowed: True" in text] == ["allowed: True"]


@pytest.mark.parametrize("texts", LANGUAGES.values(), ids=LANGUAGES)
def test_every_language_has_every_word(texts: Texts) -> None:
    assert tuple(texts.approval_buttons) == OPTIONS
    assert set(texts.approval_decided) == {str(each) for each in Decided}
    assert set(OPTIONS) | {"not_yours", "admins", "taken_back", "over"} == set(texts.approval_answers)
    assert set(texts.approval_exact_terms) == {ONCE, ADMINS}


async def test_a_stop_tells_the_agent_that_nobody_waits_any_more(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        asks(c, "send it")
        await c.say("send it")
        await c.clock.advance(2)
        assert c.harness.abandoned == []
        await c.say("/stop")
        await c.answered()
        assert c.harness.abandoned == [c.harness.starts[0].ctx.run_id]
