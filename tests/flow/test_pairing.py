"""How people and groups come to talk to the bot: the first administrator, pairing, groups; in chats, on the machine."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from bot.texts import LANGUAGES
from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import ALICE, BOB, TEAM, Person, Room

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import SeenMessage

EN, ZH = LANGUAGES["en"], LANGUAGES["zh"]
CODE = re.compile(r"\b[2-9A-Z]{4}-[2-9A-Z]{4}-[2-9A-Z]{4}\b")
CAROL = Person(1004, "Carol")
MEI = Person(1003, "小梅", language_code="zh-hans")
CLUB = Room(-1001000000077, "supergroup", "Chess club")


@pytest.fixture
def world(world: World) -> World:
    """Alice is the administrator; nobody else and no group is let in."""
    world.settings = {"access": {"allow": None, "groups": None, "admins": [f"telegram:{ALICE.id}"]}}
    return world


async def pressed(world: World, seen: SeenMessage, label: str, user: Person) -> str:
    press = await world.telegram.press(seen.message_id, label, user=user, chat=user.id)
    return str((await world.telegram.wait_answered(press.callback_id)).get("text"))


async def code_for(world: World, person: Person, text: str = "hello?") -> str:
    await world.telegram.user_says(text, user=person)
    return found_in((await world.telegram.wait_for_text(person, "/pair ")).text)


def found_in(text: str) -> str:
    found = CODE.search(text)
    assert found is not None, text
    return found[0]


async def claim_code(world: World) -> str:
    await world.wait_for_log("Valid for one person")
    return found_in(world.log)


async def test_a_stranger_asks_an_admin_types_the_code_and_the_stranger_is_answered(world: World) -> None:
    async with world:
        code = await code_for(world, BOB)
        await world.telegram.user_says("are you there?", user=BOB)
        await world.telegram.user_says(f"/pair {code}")
        told = await world.telegram.wait_for_text(ALICE, "can talk to me now")
        assert "Bob" in told.text
        assert f"telegram:{BOB.id}" in told.text
        await world.telegram.wait_for_text(BOB, "An administrator let you in")
        await world.telegram.wait_for_text(BOB, "This code has been used")
        assert len(await world.telegram.bot_messages(BOB)) == 2
        assert await world.model.completions() == []
        await world.kill()
        assert code not in everything_stored(world.data_dir)
        await world.start()
        await world.telegram.user_says("thank you", user=BOB)
        await world.telegram.wait_for_text(BOB, "You said: thank you")


async def test_from_an_empty_config_to_the_first_answer_with_nothing_but_the_claim_code(world: World) -> None:
    world.settings = {"access": None}
    async with world:
        code = await claim_code(world)
        await world.telegram.user_says("hello?")
        await world.telegram.wait_for_text(ALICE, "claim code")
        await world.telegram.user_says(code, user=BOB, chat=TEAM)
        await world.telegram.user_says(code)
        await world.telegram.wait_for_text(ALICE, "This code is not valid")
        done, printed = await world.command("pair", "--claim")
        assert (done, "Valid for one person" in printed) == (0, True)
        await world.telegram.user_says(f"/claim {found_in(printed).lower()}")
        await world.telegram.wait_for_text(ALICE, "You are now my administrator")
        await world.telegram.user_says("what is new?")
        await world.telegram.wait_for_text(ALICE, "You said: what is new?")
        assert await world.stop() == 0
        (world.folder / "log.txt").write_text("")
        await world.start()
        await world.telegram.user_says("still mine?")
        await world.telegram.wait_for_text(ALICE, "You said: still mine?")
        assert "administrator yet" not in world.log
        done, said = await world.command("pair", "--claim")
        assert (done, "has an administrator" in said) == (1, True)


async def test_a_link_claims_the_bot_with_one_tap_and_shows_what_it_can_do(world: World) -> None:
    world.settings = {"access": None}
    async with world:
        code = await claim_code(world)
        link = f"https://t.me/antler_bot?start={code}"
        assert link in world.log
        assert "█" not in world.log  # drawn for terminals only
        await world.telegram.user_says(f"/start {code}", user=MEI)
        claimed = await world.telegram.wait_for_text(MEI, "管理员")
        assert "/allow" in claimed.text
        here = json.dumps({"chat_id": MEI.id, "type": "chat"})
        await world.telegram.wait_for_record(
            lambda call: call.method == "setMyCommands" and str(MEI.id) in str(call.params.get("scope"))
        )
        menus = {
            json.dumps(json.loads(each["scope"]), sort_keys=True): each for each in await world.telegram.commands()
        }
        names = [command["command"] for command in menus[here]["commands"]]
        assert names == [*ZH.command_menu, *(name for name in ZH.admin_menu if name != "web")]
        await world.telegram.user_says("/start", user=MEI)
        welcome = await world.telegram.wait_for_text(MEI, "我可以")
        assert ZH.abilities["files"] in welcome.text
        assert ZH.abilities["search"] not in welcome.text  # it is not turned on


@pytest.mark.parametrize("way", ["/start {code}", "my code is {code}", "/pair {code}"])
async def test_an_administrator_lets_in_with_the_code_however_it_is_sent(world: World, way: str) -> None:
    async with world:
        code = await code_for(world, BOB)
        await world.telegram.user_says(way.format(code=code))
        await world.telegram.wait_for_text(ALICE, "can talk to me now")
        await world.telegram.wait_for_text(BOB, "An administrator let you in")


async def test_the_bot_says_what_it_is_before_it_is_written_to_but_not_over_its_operators_words(world: World) -> None:
    async with world:
        said = await world.telegram.wait_for_record(lambda call: call.method == "setMyShortDescription")
        assert said.params["short_description"] in (EN.about["summary"], ZH.about["summary"])
        await world.telegram.wait_for_record(
            lambda call: call.method == "setMyShortDescription" and not call.params.get("language_code")
        )
        await world.wait_for_log("bot.files.sandboxes")
        assert await world.stop() == 0
        before = await world.telegram.records("setMyDescription")
        seen = await world.telegram.records("getMyShortDescription")
        await world.start()
        await world.telegram.wait_for_record(
            lambda call: call.method == "getMyShortDescription", since=seen[-1].index + 1
        )
        assert await world.telegram.records("setMyDescription") == before
        await world.wait_for_log("bot.files.sandboxes")


async def test_without_the_menu_and_the_words_of_itself_it_answers_all_the_same(world: World) -> None:
    await world.telegram.fail("setMyCommands", faults.bad_request("BOT_COMMAND_INVALID"), times=9)
    await world.telegram.fail("setMyShortDescription", faults.bad_request("BOT_INVALID"), times=9)
    async with world:
        await world.telegram.wait_for_record(lambda call: call.method == "setMyShortDescription")
        await world.telegram.user_says("hello")
        await world.telegram.wait_for_message(ALICE.id, lambda message: "You said: hello" in message.text)
        await world.wait_for_log("telegram: its description was not set: setMyShortDescription")
        assert "telegram: its menu was not set: setMyCommands" in world.log
        assert "Traceback" not in world.log


async def test_with_json_logs_the_code_is_not_printed_but_the_command_is_named(world: World) -> None:
    world.settings = {"access": None, "log": {"format": "json"}}
    async with world:
        await world.wait_for_log("antler pair --claim")
        assert CODE.search(world.log) is None
        assert all(line.startswith("{") for line in world.log.splitlines())


async def test_a_group_is_opened_by_an_admin_in_it_and_closed_again(world: World) -> None:
    async with world:
        await world.telegram.user_says("hello")
        await world.telegram.wait_for_text(ALICE, "You said: hello")
        await world.telegram.membership("member", chat=CLUB, user=BOB)
        await world.telegram.wait_for_text(CLUB, "An administrator can allow it: /allow")
        told = await world.telegram.wait_for_text(ALICE, "Chess club")
        assert f"antler access allow telegram:{CLUB.id}" in told.text
        await world.telegram.group_says("@antler_bot hello", chat=CLUB, user=BOB)
        await world.telegram.group_says("/allow", chat=CLUB, user=BOB)
        await world.telegram.group_says("/allow", chat=CLUB, user=ALICE)
        asked = await world.telegram.wait_for_text(CLUB, "May I talk in this group")
        assert "Everybody" in asked.text
        other = await world.telegram.press(asked.message_id, "Allow", chat=CLUB, user=BOB)
        await world.telegram.wait_answered(other.callback_id)
        press = await world.telegram.press(asked.message_id, "Allow", chat=CLUB, user=ALICE)
        await world.telegram.wait_answered(press.callback_id)
        await world.telegram.wait_for_text(CLUB, "I can talk here now")
        await world.telegram.group_says("@antler_bot who is there?", chat=CLUB, user=BOB)
        await world.telegram.wait_for_text(CLUB, "You said: who is there?")
        await world.kill()
        await world.start()
        await world.telegram.group_says("@antler_bot and now?", chat=CLUB, user=BOB)
        await world.telegram.wait_for_text(CLUB, "You said: and now?")
        await world.telegram.group_says("/disallow", chat=CLUB, user=ALICE)
        await world.telegram.wait_for_text(CLUB, "no longer answer here")
        shown = len(await world.telegram.bot_messages(CLUB))
        await world.telegram.group_says("@antler_bot hello?", chat=CLUB, user=BOB)
        await world.telegram.wait_idle()
        assert len(await world.telegram.bot_messages(CLUB)) == shown


async def test_a_stranger_is_let_in_or_refused_by_a_button_of_any_administrator(world: World) -> None:
    world.settings["access"]["admins"].append(f"telegram:{CAROL.id}")
    world.settings["access"]["admins"].append("telegram:99")  # who never wrote, and cannot be written to
    async with world:
        for admin in (ALICE, CAROL):
            await world.telegram.user_says("hello", user=admin)
            await world.telegram.wait_for_text(admin, "You said: hello")
        await code_for(world, BOB)
        asked, other = [await world.telegram.wait_for_text(admin, "asks to be let in") for admin in (ALICE, CAROL)]
        assert f"`Bob` (`telegram:{BOB.id}`)".replace("`", "") in asked.text
        assert [button["text"] for button in asked.buttons] == ["Let in", "Refuse"]
        assert CODE.search(asked.text) is None
        await world.wait_for_log(f"telegram:{BOB.id} asks for access; administrators notified: 2")
        assert "Bob" not in world.log
        await world.telegram.user_says("/access")
        assert (
            f"telegram:{BOB.id} Bob — asks to be let in"
            in (await world.telegram.wait_for_text(ALICE, "Who has access")).text
        )
        await world.kill()
        await world.start()
        assert await pressed(world, asked, "Let in", ALICE) == "Let in: Bob"
        await world.telegram.wait_for_text(BOB, "An administrator let you in")
        for admin, seen in ((ALICE, asked), (CAROL, other)):
            decided = await world.telegram.wait_for_text(admin, f"Let in by telegram:{ALICE.id}")
            assert (decided.message_id, decided.buttons) == (seen.message_id, [])
        await world.telegram.user_says("thanks", user=BOB)
        await world.telegram.wait_for_text(BOB, "You said: thanks")

        await world.telegram.user_says("你好", user=MEI)
        await world.telegram.wait_for_text(MEI, "/pair ")
        asked = await world.telegram.wait_for_message(CAROL, lambda seen: "小梅" in seen.text and bool(seen.buttons))
        assert await pressed(world, asked, "Refuse", CAROL) == "Refused: 小梅"
        await world.telegram.wait_for_text(MEI, "管理员没有让你加入")
        await world.telegram.user_says("还在吗？", user=MEI)
        await world.telegram.wait_idle()
        assert sum("小梅" in seen.text for seen in await world.telegram.bot_messages(ALICE)) == 1


async def test_a_group_is_allowed_or_ignored_by_a_button(world: World) -> None:
    async with world:
        await world.telegram.user_says("hello")
        await world.telegram.wait_for_text(ALICE, "You said: hello")
        for room in (CLUB, TEAM):
            await world.telegram.group_says("@antler_bot hello", chat=room, user=BOB)
            await world.telegram.wait_for_text(room, "An administrator can allow it: /allow")
        asked = await world.telegram.wait_for_text(ALICE, "Chess club")
        assert [button["text"] for button in asked.buttons] == ["Allow", "Ignore"]
        assert await pressed(world, asked, "Allow", ALICE) == "Let in: Chess club"
        await world.telegram.group_says("@antler_bot and now?", chat=CLUB, user=BOB)
        await world.telegram.wait_for_text(CLUB, "You said: and now?")
        team = await world.telegram.wait_for_text(ALICE, str(TEAM.id))
        assert await pressed(world, team, "Ignore", ALICE) == f"Refused: {TEAM.title}"
        shown = len(await world.telegram.bot_messages(TEAM))
        await world.telegram.group_says("@antler_bot hello?", chat=TEAM, user=BOB)
        await world.telegram.wait_idle()
        assert len(await world.telegram.bot_messages(TEAM)) == shown
        await world.telegram.group_says("/allow", chat=TEAM, user=ALICE)
        await world.telegram.wait_for_text(TEAM, "May I talk in this group")


async def test_on_the_machine_while_it_runs(world: World) -> None:
    async with world:
        code = await code_for(world, BOB)
        assert (await world.command("pair", "ABCD-EFGH-JKLM"))[0] == 1
        assert await world.command("pair", code) == (0, f"Bob (telegram:{BOB.id}) now has access\n")
        await world.telegram.wait_for_text(BOB, "An administrator let you in")
        await world.telegram.user_says("!pause half", user=BOB)
        await world.telegram.wait_for_text(BOB, "The first half")
        await world.telegram.user_says("and this", user=BOB)
        done, said = await world.command("access", "revoke", f"telegram:{BOB.id}")
        assert (done, "no longer has access" in said) == (0, True)
        await world.telegram.wait_for_text(BOB, "Stopped: an administrator has revoked access")
        await world.telegram.wait_for_text(BOB, "Not answered: an administrator")
        await world.telegram.user_says("and now?", user=BOB)
        await world.telegram.wait_for_text(BOB, "has revoked your access")
        assert (await world.command("access", "allow", f"telegram:{CLUB.id}"))[0] == 0
        await world.telegram.group_says("@antler_bot hi", chat=CLUB, user=MEI)
        await world.telegram.wait_for_text(CLUB, "You said: hi")
        done, listed = await world.command("access", "list")
        rows = [re.split(r"  +", line) for line in listed.splitlines()[1:]]
        assert [(row[0], row[1]) for row in rows] == [
            ("person", f"telegram:{ALICE.id}"),
            ("person", f"telegram:{BOB.id}"),
            ("group", f"telegram:{CLUB.id}"),
        ]
        assert "config (access.admins)" in listed
        assert "blocked" in listed


async def test_on_the_machine_while_it_is_stopped(world: World) -> None:
    async with world:
        code = await code_for(world, MEI, "你好")
        assert await world.stop() == 0
        done, listed = await world.command("access", "list")
        assert (done, "pending, 60 min left" in listed, code in listed) == (0, True, False)
        assert (await world.command("pair", "--claim"))[0] == 1
        assert await world.command("pair", code) == (0, f"小梅 (telegram:{MEI.id}) now has access\n")
        assert (await world.command("pair", code))[0] == 1
        assert (await world.command("access", "allow", f"telegram:{BOB.id}", "--admin"))[0] == 0
        await world.start()
        await world.telegram.wait_for_text(MEI, "管理员已允许你使用")
        await world.telegram.user_says("谢谢", user=MEI)
        await world.telegram.wait_for_text(MEI, "You said: 谢谢")
        await world.telegram.user_says("/access", user=BOB)
        await world.telegram.wait_for_text(BOB, "Who has access")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("access", "allow", "@bob"), "names change hands"),
        (("access", "allow", "telegram:0123"), "leading zero"),
        (("access", "allow", "slack:1"), "belongs to none of my accounts (telegram)"),
        (("access", "allow", f"telegram:{ALICE.id}"), "access.admins in the config"),
        (("access", "revoke", f"telegram:{ALICE.id}"), "in access.admins of the config: remove it there"),
        (("access", "allow", f"telegram:{TEAM.id}", "--admin"), "only a person can be an administrator"),
        (("pair", "nonsense"), "not valid"),
    ],
)
async def test_what_cannot_be_is_refused_with_its_reason(
    world: World, arguments: tuple[str, ...], expected: str
) -> None:
    """Without a gateway: the commands need none."""
    world.write_config()
    code, output = await world.command(*arguments)
    assert (code, expected in output) == (1, True), output
    assert "Traceback" not in output


async def test_when_who_has_access_cannot_be_read_nothing_starts(world: World) -> None:
    async with world:
        assert await world.stop() == 0
        with closing(sqlite3.connect(world.data_dir / "antler.db")) as database, database:
            database.execute("ALTER TABLE access RENAME COLUMN state TO nonsense")
        assert await world.ends() == 1
        assert "the access list cannot be read, so nobody is admitted" in world.log
        assert "Traceback" not in world.log
        code, output = await world.command("access", "list")
        assert (code, "cannot be read" in output) == (1, True)


def everything_stored(data_dir: Path) -> str:
    """The whole database as text."""
    with closing(sqlite3.connect(data_dir / "antler.db")) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = [row for table in tables if table != "inbox" for row in database.execute(f"SELECT * FROM {table}")]
    return str(rows)
