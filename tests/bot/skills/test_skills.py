"""/skills, /skill-name, and what of them a run is told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bot.agents.profiles import AgentChoices
from bot.settings import Settings
from bot.skills.folders import home_of, move_owner
from bot.skills.service import SkillService
from bot.store.identity import folder_name
from channels.message import ChatMigrated
from harness.agents.profiles import AgentDefinition, AgentSettings, Features
from harness.skills.config import SkillsSettings
from harness.skills.editing import write
from harness.skills.history import Version
from harness.skills.library import SkillLibrary
from harness.skills.verdict import Finding, Level, Verdict
from tests.bot.core import ANN, BOB, RULES, core
from tests.harness.skills.writing import front, put_skill

if TYPE_CHECKING:
    from pathlib import Path

    from harness.context import RunContext, RunInput
    from tests.bot.core import Core

GROUP = {"person": BOB, "chat": "g"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put_skill(tmp_path / "public", "tidy-notes", "Tidies notes. Use it when somebody asks for order.", version="1.2")
    put_skill(tmp_path / "custom", "audit", "Audits.", allowed_tools="[read_file, bash]", author="Eve")
    for name in ("data", "off", "empty", "more"):
        (tmp_path / name).mkdir()
    return tmp_path


def service(folder: Path, *, agents: AgentChoices | None = None, **settings: Any) -> SkillService:
    library = SkillLibrary(folder / "public", folder / "custom", folder / "users", tell=lambda text: None)
    return SkillService(SkillsSettings(**settings), library, agents)


async def reply(c: Core, text: str, person: str = ANN, chat: str | None = None, **more: Any) -> str:
    before = len(c.texts(chat or person))
    await c.say(text, person, chat, **more)
    await c.clock.advance(2)
    return "\n".join(c.texts(chat or person)[before:])


def newest(c: Core) -> tuple[RunContext, RunInput]:
    start = c.harness.starts[-1]
    return start.ctx, start.run_input


async def test_the_list(folder: Path) -> None:
    async with core(folder / "data", skills=service(folder)) as c:
        listed = await reply(c, "/skills")
    assert listed.startswith("**Skills** (2 on)\n- `audit` — Audits\\. · this installation\n- `tidy-notes` — Tidies")
    assert "`/skills off name`" in listed


async def test_one_of_them(folder: Path) -> None:
    async with core(folder / "data", skills=service(folder)) as c:
        told = await reply(c, "/skills audit")
        assert "**audit**: Audits" in told
        assert "From: this installation" in told
        assert "Here: on" in told
        assert "Author: Eve" in told
        assert "`read_file`, `bash`" in told
        assert "Version: 1" in await reply(c, "/skills tidy-notes")
        assert await reply(c, "/skills audits") == "There is no skill `audits` here. Did you mean `audit`?"


async def test_people_who_use_chinese_read_it_in_chinese(folder: Path) -> None:
    words = "整理笔记，" * 30 + "完。"
    put_skill(folder / "custom", "audit", "Audits.", metadata=f"{{description-zh: {words}}}")
    put_skill(folder / "custom", "odd", "Is odd.", metadata="{description-zh: [1]}")
    async with core(folder / "data", skills=service(folder)) as c:
        for text in ("/skills audit", "/skills"):
            asked = c.message(text)
            await c.receive(replace(asked, sender=replace(asked.sender, locale="zh-hans")))
            await c.clock.advance(2)
        described, listed = c.texts(ANN)
        assert f"**audit**: {words}" in described
        assert "- `audit` — " + ("整理笔记，" * 18).rstrip("，") + "… · " in listed
        assert "- `tidy-notes` — Tidies notes\\." in listed, "what has none"
        assert "- `odd` — Is odd\\." in listed
        assert "- `audit` — Audits\\." in await reply(c, "/skills")


async def test_off_and_on_in_a_conversation(folder: Path) -> None:
    async with core(folder / "data", skills=service(folder)) as c:
        assert await reply(c, "/skills off audit") == "Off in this conversation: `audit`."
        assert "- `audit` — off in this conversation" in await reply(c, "/skills")
        await c.say("hello")
        await c.answered()
        assert newest(c)[0].skills_off == ("audit",)
        await c.say("hello", BOB)
        await c.answered()
        assert newest(c)[0].skills_off == (), "in nobody else's"
        assert "I do not know the command" in await reply(c, "/audit the books")
        assert await reply(c, "/skills on audit") == "On again in this conversation: `audit`."
        await reply(c, "/skills off audit tidy-notes")
        await reply(c, "/retry")
        assert newest(c)[0].skills_off == ("audit", "tidy-notes")
        assert "There is no skill `nothing` here" in await reply(c, "/skills off nothing")


async def test_what_is_off_stays_off_while_it_is_broken(folder: Path) -> None:
    audit = folder / "custom" / "audit" / "SKILL.md"
    text = audit.read_text()
    async with core(folder / "data", skills=service(folder)) as c:
        await reply(c, "/skills off audit")
        audit.write_text("broken")
        await reply(c, "/skills off tidy-notes")
        audit.write_text(text)
        assert "- `audit` — off in this conversation" in await reply(c, "/skills")


async def test_in_a_group_an_administrator_switches(folder: Path) -> None:
    async with core(folder / "data", RULES, skills=service(folder)) as c:
        assert await reply(c, "/skills off audit", **GROUP) == "Only administrators can do that here."
        assert "Off in this conversation" in await reply(c, "/skills off audit", ANN, "g")


async def test_what_the_config_turned_off(folder: Path) -> None:
    async with core(folder / "data", skills=service(folder, disabled=("audit",))) as c:
        assert "- `audit` — off for everybody" in await reply(c, "/skills")
        assert "turned off for everybody" in await reply(c, "/skills on audit")
        assert "I do not know the command" in await reply(c, "/audit x")


async def test_what_an_administrator_turned_off_is_off_in_all_processes(folder: Path) -> None:
    """Gateways, workers and standbys share the folder; the page that switches is of one of them."""
    settings = Settings.model_validate({"channels": {"console": {}}, "data_dir": str(folder / "data")})
    leader, worker = (SkillService.of(settings, AgentChoices(), lambda thread: None) for _ in range(2))
    for on in (False, True, False):
        await leader.switch("audit", on=on)
        assert worker.disabled == leader.disabled == (frozenset() if on else {"audit"})


@pytest.mark.parametrize("called", ["/tidy-notes my desk", "/tidy_notes my desk", "/TIDY-NOTES\nmy desk"])
async def test_its_name_calls_it_at_once(folder: Path, called: str) -> None:
    async with core(folder / "data", skills=service(folder)) as c:
        assert await reply(c, called) == "echo: my desk"
        assert (newest(c)[1].skill, newest(c)[1].text) == ("tidy-notes", "my desk")
        await c.say("/tidy-notes")
        await c.answered()
        assert (newest(c)[1].skill, newest(c)[1].text) == ("tidy-notes", "/tidy-notes"), "nothing else was said"
        await c.say("see /tidy-notes")
        await c.answered()
        assert newest(c)[1].skill == ""


async def test_a_name_in_another_script_calls_it_too(folder: Path) -> None:
    put_skill(folder / "custom", "报告生成", "Writes reports.")
    async with core(folder / "data", skills=service(folder)) as c:
        assert "- `报告生成` — Writes" in await reply(c, "/skills")
        assert await reply(c, "/报告生成 第三季度") == "echo: 第三季度"
        assert newest(c)[1].skill == "报告生成"
        assert "`报告生成`" in await reply(c, "/skills off 报告生成")


async def test_one_of_a_folder_of_folders_is_told_and_called_like_any_other(folder: Path) -> None:
    put_skill(folder / "custom" / "team" / "reports", "weekly", "Weekly reports.")
    async with core(folder / "data", skills=service(folder)) as c:
        assert "- `weekly` — Weekly reports\\. · this installation" in await reply(c, "/skills")
        assert "From: this installation (`team/reports/weekly`)" in await reply(c, "/skills weekly")
        assert await reply(c, "/weekly for May") == "echo: for May"
        assert newest(c)[1].skill == "weekly"
        assert "`weekly`" in await reply(c, "/skills off weekly")
        assert "I do not know the command" in await reply(c, "/weekly for May")


async def test_in_a_group_it_needs_no_mention(folder: Path) -> None:
    async with core(folder / "data", skills=service(folder)) as c:
        assert await reply(c, "/audit the books", mention=False, **GROUP) == "echo: the books"
        assert await reply(c, "/unknown the books", mention=False, **GROUP) == ""
        await reply(c, "/skills off audit", ANN, "g")
        assert await reply(c, "/audit the books", mention=False, **GROUP) == "", "said to nobody"
        assert "I do not know the command" in await reply(c, "/audit the books", **GROUP)


async def test_a_command_is_never_a_skill(folder: Path) -> None:
    put_skill(folder / "custom", "status", "Not the command.")
    async with core(folder / "data", skills=service(folder)) as c:
        assert "**Antler" in await reply(c, "/status")
        assert c.harness.starts == []


async def test_ones_own_are_nobody_elses(folder: Path) -> None:
    put_skill(folder / "users" / folder_name("memory:1") / "skills", "private", "Hers.")
    put_skill(folder / "users" / folder_name("memory:1") / "skills", "audit", "Hers too.")
    async with core(folder / "data", skills=service(folder)) as c:
        listed = await reply(c, "/skills", ANN)
        assert "`private` — Hers\\. · this chat's own" in listed
        assert "has the name of a custom skill" in listed.replace("\\", "")
        assert "private" not in await reply(c, "/skills", BOB)
        assert await reply(c, "/private x", ANN) == "echo: x"
        assert "I do not know" in await reply(c, "/private x", BOB)


async def test_administrators_hear_what_is_broken(folder: Path) -> None:
    put_skill(folder / "custom", "broken", "")
    async with core(folder / "data", skills=service(folder)) as c:
        assert "custom/broken: SKILL.md: description: is empty" in (await reply(c, "/skills", ANN)).replace("\\", "")
        assert "broken" not in await reply(c, "/skills", BOB)


async def test_where_there_are_none(folder: Path) -> None:
    library = SkillLibrary(folder / "public", None)
    async with core(folder / "data", skills=SkillService(library=library, works=lambda: False)) as c:
        assert "I do not know the command" in await reply(c, "/tidy-notes x")
        assert "I read them in my sandbox, and that is not available" in await reply(c, "/skills")
    async with core(folder / "off", skills=SkillService(SkillsSettings(enabled=False))) as c:
        assert await reply(c, "/skills") == "Skills are turned off in the config."
    async with core(folder / "empty", skills=SkillService()) as c:
        assert await reply(c, "/skills") == "There are no skills here."


async def test_an_agent_has_its_own_choice(folder: Path) -> None:
    only = AgentDefinition("default", "soul", AgentSettings(skills=("audit",)))
    async with core(folder / "data", skills=service(folder, agents=AgentChoices({"default": only}))) as c:
        assert "tidy-notes" not in await reply(c, "/skills")
    bare = AgentDefinition("default", "soul", AgentSettings(features=Features(sandbox=False)))
    async with core(folder / "more", skills=service(folder, agents=AgentChoices({"default": bare}))) as c:
        assert await reply(c, "/skills") == "There are no skills here."


async def test_an_edit_goes_on_calling_it(folder: Path) -> None:
    async with core(folder / "data", skills=service(folder)) as c:
        gate = c.harness.hold("work")
        await c.say("work")
        waiting = await c.say("/audit the boks")
        await c.edit(waiting, "/audit the books")
        gate.set()
        await c.answered()
        assert (newest(c)[1].skill, newest(c)[1].text) == ("audit", "the books")


class ToldService(SkillService):
    """Tells the test that something was turned on, or not; that happens in a thread, which no clock of a test turns."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.tried = asyncio.Event()

    async def turn_on(self, *what: Any, **whose: Any) -> bool:
        try:
            return await super().turn_on(*what, **whose)
        finally:
            self.tried.set()


def waiting_service(folder: Path) -> ToldService:
    settings = Settings.model_validate({"channels": {"console": {}}, "data_dir": folder, "skills": {"public": False}})
    home, files = home_of(settings, "custom", ""), {"SKILL.md": (front("sly") + "1. Go.").encode()}
    stamp = Version(at="2025-01-01T00:00:00+00:00", action="install")
    verdict = Verdict(Level.WARN, (Finding(Level.WARN, "some-rule", "SKILL.md", 1, "odd words"),))
    write(home, "sly", files, base="", change=stamp, verdict=verdict)
    return ToldService.of(settings, AgentChoices(), lambda thread: None)


async def test_what_waits_is_turned_on_as_it_was_shown(folder: Path) -> None:
    service = waiting_service(folder)
    async with core(folder / "data", skills=service) as c:
        assert "- `sly` — waiting for an administrator" in await reply(c, "/skills", BOB)
        assert "I do not know" in await reply(c, "/sly go", ANN)
        assert await reply(c, "/skills on sly", BOB) == "An administrator has to turn `sly` on."
        assert await reply(c, "/skills sly", BOB) == "An administrator has to turn `sly` on."
        assert "odd words" in await reply(c, "/skills sly", ANN)
        told = await reply(c, "/skills on sly", ANN)
        assert "odd words" in told
        line = told.rpartition("`/skills on ")[2].rstrip("`")
        skill = folder / "skills" / "custom" / "sly" / "SKILL.md"
        shown = skill.read_text()
        skill.write_text(shown + "2. Go further.")
        assert "it has changed since it was approved" in await reply(c, f"/skills on {line}", ANN)
        skill.write_text(shown)
        await c.say(f"/skills on {line}", ANN)
        async with asyncio.timeout(10):
            await service.tried.wait()
        await c.clock.advance(2)
        assert "`sly` is now on in this form" in c.texts(ANN)[-1]
        assert await reply(c, "/sly go", ANN) == "echo: go"
        skill.write_text(shown + "2. Go further.")
        assert "I do not know" in await reply(c, "/sly go", ANN)


async def test_a_groups_own_go_with_it_to_its_new_id(folder: Path) -> None:
    users = folder / "data" / "users"
    put_skill(users / folder_name("memory:g") / "skills", "ours", "Ours.")
    library = SkillLibrary(None, None, users, tell=lambda text: None)
    async with core(folder / "data", skills=SkillService(library=library)) as c:
        said = await c.say("/skills", ANN, "g")
        moved = ChatMigrated(
            account="memory",
            dedupe_keys=("k",),
            sent_at=said.sent_at,
            received_at=said.received_at,
            old_chat="g",
            new_chat="G2",
        )
        c.policy = replace(c.policy, access=replace(RULES, groups=frozenset({"memory:G2"})))
        await c.receive(moved)
        assert "- `ours` — Ours\\." in await reply(c, "/skills", ANN, "G2")
    assert not (users / folder_name("memory:g") / "skills").exists()


def test_another_id_never_takes_away_what_is_there(folder: Path) -> None:
    old, new = (folder / "users" / folder_name(owner) / "skills" for owner in ("a:1", "a:2"))
    move_owner(folder, "a:1", "a:2")
    put_skill(old, "one")
    put_skill(new, "two")
    move_owner(folder, "a:1", "a:2")
    assert [path.name for path in new.iterdir()] == ["two"]
    history = folder / "users" / folder_name("a:3") / "skill-history"
    for home in (old.parent, history.parent):
        (home / "skill-history" / "one").mkdir(parents=True)
    move_owner(folder, "a:1", "a:3")
    assert [path.name for path in (folder / "users" / folder_name("a:3") / "skills").iterdir()] == ["one"]


def test_folders_of_a_thread(folder: Path) -> None:
    settings = Settings.model_validate(
        {"channels": {"console": {}}, "data_dir": folder, "skills": {"public": False, "custom": folder / "custom"}}
    )
    mine = folder / "users" / folder_name("memory:1") / "skills"
    put_skill(mine, "private")
    made = SkillService.of(settings, AgentChoices(), {"t1": "memory:1"}.get)
    assert made.folders("t1") == {"custom": folder / "custom", "mine": mine}
    assert made.folders("unknown") == {"custom": folder / "custom"}
    made.adopt(settings.model_copy(update={"skills": SkillsSettings(enabled=False)}))
    assert made.folders("t1") == {}
