"""How people and groups come in and are shut out again, in the chat: codes, /pair, /allow, /access."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bot.access.admission import AccessRules
from bot.access.service import TIDY_SECONDS
from bot.store import access, inbox
from bot.texts import texts_for
from bot.texts.commands import unmarked
from bot.texts.en import EN
from channels.message import MembershipChanged
from tests.bot.core import ANN, BOB, EVE, RULES, Core, core

if TYPE_CHECKING:
    from pathlib import Path

OPEN = replace(RULES, pairing=True)
NOBODY = AccessRules(pairing=True)
CODE = re.compile(r"`([2-9A-Z]{4}-[2-9A-Z]{4}-[2-9A-Z]{4})`")


async def reply(c: Core, text: str, person: str = ANN, chat: str | None = None, **more: Any) -> str:
    """What somebody's line brings into their chat; "" for silence."""
    before = len(c.texts(chat or person))
    await c.say(text, person, chat, **more)
    await c.clock.advance(2)
    return "\n".join(c.texts(chat or person)[before:])


async def get_code(c: Core, person: str = EVE, **more: Any) -> str:
    found = CODE.search(await reply(c, "hello", person, **more))
    assert found is not None
    return found[1]


async def button(c: Core, chat: str, label: str, person: str = ANN) -> str:
    """Press a button of the newest message there; what the button answers."""
    shown = c.channel.chats[chat][-1]
    data = next(button.data for row in shown.part.buttons for button in row if button.label == label)
    await c.press(shown.message_id, data, person, chat)
    await c.clock.advance(2)
    return c.channel.acknowledged[-1][1]


# Persons.


async def test_a_stranger_gets_a_code_an_admin_lets_them_in_and_both_are_told(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        code = await get_code(c, name="Eve")
        assert await reply(c, "are you there?", EVE) == ""
        assert await reply(c, f"/pair {code}") == EN.paired.format(name="Eve", person="memory:666")
        assert c.texts(EVE) == [EN.pairing_used, EN.welcome]
        assert await reply(c, "now?", EVE) == "echo: now?"
        await c.restart()
        assert await reply(c, "still?", EVE) == "echo: still?"
        assert "hello" not in c.harness.asked


async def test_a_code_that_ran_out_says_so_and_the_next_message_gets_another(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        c.tasks.spawn("pairing", c.access_service.tidy())
        code = await get_code(c)
        await c.clock.advance(3600 + TIDY_SECONDS)
        assert c.texts(EVE) == [EN.pairing_over]
        assert await reply(c, f"/pair {code}") == EN.code_refused
        assert await get_code(c) != code
        rows = await c.store.read(access.everything)
        assert len(rows) == 1


async def test_a_person_is_addressed_in_their_own_language(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        code = CODE.search(await reply(c, "你好", EVE))
        assert code is not None
        assert "配对码" in c.texts(EVE)[0]
        await reply(c, f"/pair {code[1]}")
        assert c.texts(EVE)[-1] == unmarked(texts_for("zh").welcome)


async def test_a_code_waits_over_a_restart(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        code = await get_code(c)
        await c.restart()
        assert await reply(c, "hello again", EVE) == ""
        assert "can talk to me now" in await reply(c, f"/pair {code.lower().replace('-', ' ')}")


async def test_after_too_many_wrong_codes_not_even_the_right_one_counts(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        code = await get_code(c)
        for _ in range(5):
            assert await reply(c, "/pair ABCD-EFGH-JKLM") == EN.code_refused
        assert await reply(c, f"/pair {code}") == EN.code_limit
        await c.clock.advance(600)
        assert await reply(c, f"/pair {code}") == EN.paired.format(name="Ann", person="memory:666")


async def test_a_request_that_nobody_decides_is_closed_and_one_by_a_code_shows_it(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        await reply(c, "hello", ANN)
        c.tasks.spawn("pairing", c.access_service.tidy())
        await get_code(c, name="Eve")
        asked = c.channel.chats[ANN][-1]
        assert [b.label for b in asked.part.buttons[0]] == ["Let in", "Refuse"]
        await c.clock.advance(3600 + TIDY_SECONDS)
        assert "No longer open: the request of `Eve` (`memory:666`)" in c.texts(ANN)[-1]
        assert asked.part.buttons == ()
        code = await get_code(c, name="Eve")
        shown = len(c.texts(ANN))
        assert "can talk to me now" in await reply(c, f"/pair {code}")
        assert "Let in by `memory:1`" in c.texts(ANN)[shown - 1]


@pytest.mark.parametrize(("label", "answer"), [("Let in", "in"), ("Refuse", "out")])
async def test_a_card_that_keeps_its_buttons_tells_a_late_press_what_was_decided(
    tmp_path: Path, label: str, answer: str
) -> None:
    async with core(tmp_path, OPEN) as c:
        await reply(c, "hello", ANN)
        await get_code(c, name="Eve")
        asked = c.channel.chats[ANN][-1]
        late = asked.part.buttons[0][0].data
        await button(c, ANN, label)
        await c.press(asked.message_id, late, ANN, ANN)
        await c.clock.advance(2)
        decided = EN.request_answers[answer].format(name="Eve")
        assert c.channel.acknowledged[-1][1] == EN.pressed["decided"].format(answer=decided)


async def test_a_refused_person_is_not_asked_about_again_for_a_month_and_keeps_their_groups(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        await reply(c, "hello", ANN)
        await get_code(c, name="Eve")
        assert await button(c, ANN, "Refuse") == EN.request_answers["out"].format(name="Eve")
        assert c.texts(EVE) == [EN.pairing_refused]
        await c.restart()
        assert await reply(c, "why?", EVE) == EN.pairing_refused
        assert await reply(c, "why?", EVE) == ""
        assert await reply(c, "hello", EVE, "g") == "echo: hello"
        assert "- `memory:666 Eve` — refused" in await reply(c, "/access")
        assert await reply(c, "/access allow memory:666") == EN.access_allowed.format(subject="memory:666")
        assert await reply(c, "now?", EVE) == "echo: now?"


async def test_the_log_tells_who_asked_and_what_was_decided_by_whom(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "bot")
    async with core(tmp_path, OPEN) as c:
        await reply(c, "hello", ANN)
        await get_code(c, name="Eve")
        await button(c, ANN, "Refuse")
        await reply(c, "/access allow memory:666")
    told = [vars(record) for record in caplog.records if getattr(record, "event", None) in ("pairing", "access")]
    assert [(each["event"], each["person"], each.get("state"), each.get("by")) for each in told] == [
        ("pairing", "memory:666", None, None),
        ("access", "memory:666", "refused", f"memory:{ANN}"),
        ("access", "memory:666", "allowed", f"memory:{ANN}"),
    ]
    assert "Eve" not in caplog.text


async def test_of_a_flood_of_strangers_an_administrator_hears_a_few_times(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        await reply(c, "hello", ANN)
        for number in range(1000, 1040):
            await c.say("hello", str(number))
        await c.clock.advance(60)
        told = c.texts(ANN)[1:]
        assert sum("asks to be let in" in text or "No longer open" in text for text in told) == 5
        assert told.count(EN.requests_many) == 1
        assert len(told) == 6


async def test_a_group_that_moves_or_is_left_while_it_asks_is_not_let_in(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        await reply(c, "hello", ANN)
        said = await c.say("hey bot", EVE, "new")
        assert c.editor.moved("memory", "new", "newer") is None
        about: dict[str, Any] = {"sent_at": said.sent_at, "received_at": said.received_at, "address": said.address}
        left = MembershipChanged(account="memory", dedupe_keys=("left",), sender=said.sender, present=False, **about)
        await c.receive(left)
        await c.clock.advance(2)
        assert c.channel.chats[ANN][-1].part.buttons == ()
        assert "No longer open" in c.texts(ANN)[-1]
        assert await c.store.read(access.everything) == []


async def test_pair_alone_says_how_it_is_used(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        assert await reply(c, "/pair") == EN.pair_usage


# The first administrator.


@pytest.mark.parametrize(
    "form",
    ["{}", "/claim {}", " {} ", "/start {}", "/pair {}", "my code is {}", "My code is {}.", "it's {}, is it not?"],
)
async def test_who_sends_the_claim_code_is_the_administrator(tmp_path: Path, form: str) -> None:
    async with core(tmp_path, NOBODY) as c:
        claim = c.claims.make("memory")
        code = f"{claim[:4]}-{claim[4:8]}-{claim[8:]}"
        assert await reply(c, "hello", ANN) == EN.unclaimed
        assert await reply(c, "hello?", ANN) == EN.unclaimed
        assert await reply(c, form.format("ABCD-EFGH-JKLM"), ANN) == EN.code_refused
        assert await reply(c, "/start", ANN) == EN.unclaimed
        assert await reply(c, form.format(code), ANN) == EN.claimed
        assert await reply(c, "hello", ANN) == "echo: hello"
        assert "For administrators" in await reply(c, "/help")
        assert CODE.search(await reply(c, form.format(code), EVE))
        await c.restart()
        eves = CODE.search(c.texts(EVE)[0])
        assert eves is not None
        assert "can talk to me now" in await reply(c, f"/pair {eves[1]}")


async def test_a_wrong_claim_is_refused_and_soon_not_even_answered(tmp_path: Path) -> None:
    async with core(tmp_path, NOBODY) as c:
        c.claims.make("memory")
        for _ in range(5):
            assert await reply(c, "ABCD-EFGH-JKLM", EVE) == EN.code_refused
        assert await reply(c, "/claim ABCD-EFGH-JKLM", EVE) == ""
        assert c.editor.book.admins("memory") == []


@pytest.mark.parametrize("split", [12, 5])
async def test_wrong_codes_of_strangers_and_of_ones_own_lock_nobody_out(tmp_path: Path, split: int) -> None:
    async with core(tmp_path, NOBODY) as c:
        claim = c.claims.make("memory")
        for number in range(1000):
            await c.receive(c.message("ABCD-EFGH-JKLM", str(10_000 + number % 20)))
        for _ in range(10):
            await c.say("/claim ABCD-EFGH-JKLM", ANN)
        await c.say("hello?", ANN)
        await c.answered()
        assert await reply(c, f"/claim {claim[:split]} - {claim[split:]}") == EN.claimed


async def test_a_bot_without_an_administrator_says_so_at_each_line_but_not_to_a_flood(tmp_path: Path) -> None:
    async with core(tmp_path, NOBODY) as c:
        c.claims.make("memory")
        for text in ("hello", "hello?", "understanding", "/help", "difficulties"):
            assert await reply(c, text) == EN.unclaimed, text
        for _ in range(5):
            await c.receive(*(c.message("let me in", str(number)) for number in range(1000, 1500)))
        await c.answered()
        assert len(c.channel.calls) < 60


async def test_where_strangers_are_only_told_their_id_the_claim_code_counts_all_the_same(tmp_path: Path) -> None:
    async with core(tmp_path, AccessRules()) as c:
        claim = c.claims.make("memory")
        assert await reply(c, "hello", ANN) == EN.unknown_sender.format(person="memory:1")
        assert await reply(c, f"/claim {claim}", ANN) == EN.claimed


async def test_without_a_claim_the_command_says_that_there_is_nothing_to_claim(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        assert await reply(c, "/claim ABCD-EFGH-JKLM", BOB) == EN.code_refused
        assert await reply(c, "Benchmarkers", BOB) == "echo: Benchmarkers"


# Groups.


async def test_an_unknown_group_gets_one_line_a_day_and_the_admins_hear_of_it(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        await reply(c, "hello", ANN)
        assert await reply(c, "hey bot", EVE, "new", name="Eve") == EN.group_unknown
        assert "`Eve` (`memory:666`) spoke to me" in c.texts(ANN)[-1]
        assert "antler access allow memory:new" in c.texts(ANN)[-1]
        assert await reply(c, "hey bot", EVE, "new") == ""
        assert await reply(c, "talking to others", EVE, "third", mention=False) == ""
        told = len(c.texts(ANN))
        await c.clock.advance(86_401)
        assert await reply(c, "hey bot", EVE, "new") == EN.group_unknown
        assert len(c.texts(ANN)) == told + 1
        assert c.harness.asked == ["hello"]


async def test_an_admin_who_only_ever_typed_commands_hears_of_an_unknown_group(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        await reply(c, "/status", ANN)
        assert await reply(c, "hey bot", EVE, "new", name="Eve") == EN.group_unknown
        assert "`Eve` (`memory:666`) spoke to me" in c.texts(ANN)[-1]


async def test_being_added_to_an_unknown_group_counts_as_being_spoken_to(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        await reply(c, "hello", ANN)
        for chat, present in (("new", True), ("new", True), ("gone", False), ("g", True)):
            said = c.message("", EVE, chat)
            await c.receive(
                MembershipChanged(
                    account="memory",
                    dedupe_keys=(f"k{next(c.numbers)}",),
                    sent_at=said.sent_at,
                    received_at=said.received_at,
                    address=said.address,
                    sender=said.sender,
                    present=present,
                    chat_title="The `New` group",
                )
            )
        await c.clock.advance(2)
        assert {chat: c.texts(chat) for chat in ("new", "gone", "g")} == {
            "new": [EN.group_unknown], "gone": [], "g": [],
        }  # fmt: skip
        assert "added me to a group: `The 'New' group`" in c.texts(ANN)[-1]


async def test_an_admin_opens_a_group_by_a_button_and_closes_it_again(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        assert "**Everybody** in it" in await reply(c, "/allow", ANN, "new")
        assert await reply(c, "hello", BOB, "new") == EN.group_unknown
        await c.press(c.channel.chats["new"][0].message_id, "x", ANN, "new")
        asked = c.channel.chats["new"][0]
        await c.press(asked.message_id, asked.part.buttons[0][0].data, ANN, "new")
        await c.clock.advance(2)
        assert c.texts("new")[0] == EN.group_opened["any"]
        assert await reply(c, "hello", EVE, "new") == "echo: hello"
        assert await reply(c, "/allow", ANN, "new") == EN.group_is_open
        assert await reply(c, "/disallow", EVE, "new") == EN.not_allowed
        await c.restart()
        assert await reply(c, "hello", EVE, "new") == "echo: hello"
        assert await reply(c, "/disallow", ANN, "new") == EN.group_closed
        assert await reply(c, "hello", EVE, "new") == ""
        assert "May I talk" in await reply(c, "/allow", ANN, "new")
        await button(c, "new", "Cancel")
        assert c.texts("new")[-1] == EN.group_cancelled
        assert await reply(c, "hello", EVE, "new") == ""


async def test_with_listed_members_a_group_opens_for_those_who_have_access(tmp_path: Path) -> None:
    async with core(tmp_path, replace(OPEN, members="listed")) as c:
        assert "who have access themselves" in await reply(c, "/allow", ANN, "new")
        await button(c, "new", "Allow")
        assert c.texts("new")[-1] == EN.group_opened["listed"]
        assert await reply(c, "hello", BOB, "new") == "echo: hello"
        assert await reply(c, "hello", EVE, "new") == ""


async def test_a_group_of_the_config_is_closed_in_the_config(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        assert "`access.groups.allow` of the config" in await reply(c, "/disallow", ANN, "g")
        assert await reply(c, "/allow", ANN) == EN.allow_where
        assert await reply(c, "/disallow", ANN) == EN.allow_where


# Taking it back.


async def test_access_lists_allows_and_revokes_by_id(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        await get_code(c, name="`Eve`")
        listed = await reply(c, "/access")
        assert "- `memory:1` — administrator · `access.admins`" in listed
        assert "- `memory:2` — allowed · `access.allow`" in listed
        assert "- `memory:666 'Eve'` — asks to be let in (60 min)" in listed
        assert await reply(c, "/access allow memory:666") == EN.access_allowed.format(subject="memory:666")
        assert await reply(c, "/access allow memory:666") == "`memory:666` already has access."
        assert await reply(c, "hi", EVE) == "echo: hi"
        assert await reply(c, "/access revoke memory:666") == EN.access_taken.format(subject="memory:666")
        assert await reply(c, "hi", EVE) == EN.access_revoked
        assert await reply(c, "hi", EVE) == ""
        assert "`access.allow` of the config" in await reply(c, "/access revoke memory:2")
        assert "of the config" in await reply(c, "/access revoke memory:1")
        assert await reply(c, "/access revoke other:2") == EN.access_other_account.format(account="memory")
        assert await reply(c, "/access", ANN, "g") == EN.access_in_private


async def test_somebody_shut_out_in_the_middle_of_a_run_is_stopped_at_once_and_told(tmp_path: Path) -> None:
    """The running answer stops, what waits is dropped, each says so; the others of the group go on."""
    async with core(tmp_path, OPEN) as c:
        await reply(c, "/access allow memory:666")
        gates = [c.harness.hold(text) for text in ("mine", "in the group")]
        await c.say("mine", EVE)
        await c.say("and this", EVE)
        await c.say("in the group", EVE, "g")
        await c.say("from Bob", BOB, "g")
        await c.say("overheard", EVE, "g", mention=False)
        await c.clock.advance(2)
        await reply(c, "/access revoke memory:666")
        await c.answered()
        mine, waiting = c.texts(EVE)
        assert mine.startswith("The first half")
        assert EN.stopped_by["revoked"] in mine
        assert waiting == EN.dropped_by_revoke
        group = c.texts("g")
        assert EN.stopped_by["revoked"] in group[0]
        assert group[1] == "echo: from Bob"
        assert c.harness.starts[-1].run_input.background == ()
        assert not any(gate.is_set() for gate in gates)
        assert await c.store.read(inbox.unsettled) == []


async def test_who_is_taken_out_of_the_config_is_expelled_like_somebody_shut_out(tmp_path: Path) -> None:
    async with core(tmp_path, replace(OPEN, members="listed")) as c:
        held = [c.harness.hold(text) for text in ("mine", "in the group", "from Ann")]
        await c.say("mine", BOB)
        await c.say("and this", BOB)
        await c.say("in the group", BOB, "g")
        await c.say("from Ann", ANN, "g")
        await c.say("overheard", BOB, "g", mention=False)
        await c.clock.advance(2)
        listed = c.policy.access.allow - {f"memory:{BOB}"}
        c.policy = replace(c.policy, access=replace(c.policy.access, allow=listed))
        c.manager.review_access()
        held[2].set()
        await c.answered()
        mine, waiting = c.texts(BOB)
        assert EN.stopped_by["revoked"] in mine
        assert waiting == EN.dropped_by_revoke
        group = c.texts("g")
        assert EN.stopped_by["revoked"] in group[0]
        assert group[1] == "The whole answer"
        assert [start.run_input.background for start in c.harness.starts if start.run_input.text == "from Ann"] == [()]
        assert await c.store.read(inbox.unsettled) == []


async def test_a_group_that_is_taken_out_of_the_config_is_left_in_the_middle_of_its_answer(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        c.harness.hold("work")
        private = c.harness.hold("private")
        await c.say("private", BOB)
        await c.say("work", ANN, "g")
        await c.say("and this", BOB, "g")
        await c.clock.advance(2)
        c.policy = replace(c.policy, access=replace(c.policy.access, groups=frozenset()))
        c.manager.review_access()
        private.set()
        await c.answered()
        assert [EN.stopped_by["revoked"] in text or text == EN.dropped_by_revoke for text in c.texts("g")] == [True] * 2
        assert c.texts(BOB) == ["The whole answer"]


async def test_a_closed_group_stops_what_runs_there_for_whomever(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        await reply(c, "/allow", ANN, "new")
        await button(c, "new", "Allow")
        c.harness.hold("work")
        c.harness.hold("private")
        await c.say("private", BOB)
        await c.say("work", BOB, "new")
        await c.say("more work", EVE, "new")
        await reply(c, "/disallow", ANN, "new")
        await c.clock.advance(2)
        shown = "\n".join(c.texts("new"))
        assert EN.stopped_by["revoked"] in shown
        assert EN.dropped_by_revoke in shown
        assert "Stopped" not in "\n".join(c.texts(BOB))


async def test_a_run_of_somebody_shut_out_meanwhile_does_not_go_on_after_a_restart(tmp_path: Path) -> None:
    async with core(tmp_path, OPEN) as c:
        await reply(c, "/access allow memory:666")
        c.harness.hold("work")
        await c.say("work", EVE)
        await c.clock.advance(2)
        await c.crash()
        c.policy = replace(c.policy, access=replace(OPEN, blocked=frozenset({"memory:666"})))
        await c.start()
        await c.answered()
        assert c.texts(EVE)[-1] == EN.stopped_by["revoked"]
        assert c.harness.asked == ["work"]
