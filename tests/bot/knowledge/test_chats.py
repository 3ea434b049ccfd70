"""/knowledge in chats: each collection is found by whom it belongs to, whatever they are called by then."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.store import accounts
from bot.texts.en import EN
from bot.texts.zh import ZH
from channels.message import Attachment, Quote
from harness.knowledge.config import KnowledgeSettings
from harness.knowledge.port import Asker
from tests.bot.core import ANN, BOB, Core, core

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SAY = EN.knowledge
GROUP = "g"


async def ready(c: Core, **settings: int) -> Core:
    known = KnowledgeSettings.model_validate({"enabled": True, **settings})
    await c.parts.knowledge.adopt(c.settings.model_copy(update={"knowledge": known}))
    return c


async def said(
    c: Core, text: str, person: str = ANN, chat: str | None = None, content: bytes = b"", **more: str
) -> str:
    """The newest answer, as it is read. content: of a file that comes with it."""
    files: tuple[Attachment, ...] = ()
    if content:
        name = more.pop("file", "note.txt")
        c.channel.files[name] = content
        files = (Attachment(ref=name, kind="file", name=name, size=len(content)),)
    reply = Quote(message_id=more["reply"], text="", author="Ann", from_bot=False) if "reply" in more else None
    await c.say(text, person, chat, attachments=files, reply_to=reply)
    await c.answered()
    return c.texts(chat or person)[-1].replace("\\", "")


async def finds(c: Core, query: str, owner: str) -> list[str]:
    looked = await c.parts.knowledge.search(query, Asker(owner=owner, speaker=ANN))
    return [hit.text for hit in looked.hits]


async def test_what_is_added_is_found_there_alone(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await ready(c)
        added = await said(c, "/knowledge add #travel", ANN, GROUP, b"The ferry leaves at nine.")
        assert added == SAY["added"].format(name="note.txt", collection="travel", count=1)
        await said(c, "/knowledge add", ANN, None, b"My ferry card is blue.")
        assert await finds(c, "ferry", f"memory:{GROUP}") == ["The ferry leaves at nine."]
        assert await finds(c, "ferry", f"memory:{ANN}") == ["My ferry card is blue."]
        assert await finds(c, "ferry", f"memory:{BOB}") == []
        assert await finds(c, "ferry", "memory:k") == []
        assert "1. note.txt · travel" in await said(c, "/knowledge", BOB, GROUP)
        assert SAY["empty"] in await said(c, "/knowledge", BOB)
        # A group gets another id, an account another name: what it collected goes along.
        await c.store.write(lambda tx: accounts.migrate_chat(tx, "memory", GROUP, "g2"))
        assert await finds(c, "ferry", "memory:g2") == ["The ferry leaves at nine."]
        assert await finds(c, "ferry", f"memory:{GROUP}") == []


async def test_who_may_not_control_a_group_changes_nothing(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await ready(c)
        await said(c, "/knowledge add", ANN, GROUP, b"The ferry leaves at nine.")
        for text in ("/knowledge add https://example.org/", "/knowledge remove 1", "/knowledge remove all"):
            assert await said(c, text, BOB, GROUP) == EN.not_allowed
        assert await finds(c, "ferry", f"memory:{GROUP}") != []
        assert SAY["unknown_number"].format(number=2) == await said(c, "/knowledge remove 2", ANN, GROUP)
        assert (await said(c, "/knowledge remove 1", ANN, GROUP)).startswith("Removed (1): note.txt")
        assert await finds(c, "ferry", f"memory:{GROUP}") == []


async def test_mistakes_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "bot.knowledge")
    async with core(tmp_path) as c:
        assert await said(c, "/knowledge") == SAY["off"]
        await ready(c)
        assert await said(c, "/knowledge add") == SAY["usage"]
        assert await said(c, "/knowledge add nothing.pdf") == SAY["unknown_file"].format(name="nothing.pdf")
        assert await said(c, "/knowledge add", reply="p999") == SAY["reply_unknown"]
        assert await said(c, f"/knowledge add #{'a' * 41}", ANN, None, b"text") == SAY["bad_collection"]
        assert EN.knowledge_problem["no_web"] in await said(c, "/knowledge add https://example.org/a#b")
        assert "a document was not read: no_web (web.fetch.enabled)" in caplog.text
        for problem in (*EN.knowledge_problem.values(), *ZH.knowledge_problem.values()):
            assert not re.search("[a-z]+[.][a-z_]+", problem), "people cannot change the config"
        assert EN.knowledge_problem["empty"] in await said(c, "/knowledge add", ANN, None, b"  ")
        too_large = EN.file_problem["too_large"].format(name="note.txt", limit="0.001")
        assert await said(c, "/knowledge add", ANN, None, b"x" * 2000) == too_large
        assert await said(c, "/knowledge remove 1") == SAY["unknown_number"].format(number=1)
        assert await said(c, "/knowledge frobnicate") == SAY["usage"]


async def test_a_collection_cannot_be_taken_for_another_one(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await ready(c)
        await said(c, "/knowledge add #port", ANN, None, b"The ferry leaves at nine.")
        alike = EN.knowledge_problem["alike"].format(detail="port")
        assert alike in await said(c, "/knowledge add #\u0440\u043e\u0433\u0442", ANN, None, b"The ferry sinks.")
        assert await finds(c, "ferry", f"memory:{ANN}") == ["The ferry leaves at nine."]
        assert alike not in await said(c, "/knowledge add #\u043f\u043e\u0440\u0442", ANN, None, b"The ferry swims.")


async def test_a_file_that_was_sent_before_is_added_by_a_reply_and_by_its_name(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await ready(c)
        content = b"The ferry leaves at nine."
        c.channel.files["plan"] = content
        file = Attachment(ref="plan", kind="file", name="plan.txt", size=len(content))
        message = await c.say("look", ANN, attachments=(file,))
        await c.answered()
        added = SAY["added"].format(name="plan.txt", collection="main", count=1)
        assert await said(c, "/knowledge add", reply=message.platform_message_id) == added
        assert await said(c, "/knowledge remove all") != ""
        assert await said(c, "/knowledge add plan.txt") == added
        assert await finds(c, "ferry", f"memory:{ANN}") == [content.decode()]
        assert ".knowledge-" not in str(os.listdir(tmp_path))


async def test_only_so_much_waits_to_be_read_at_once(tmp_path: Path) -> None:
    async with core(tmp_path) as c:

        async def told(chat: str, text: str) -> None:
            while text not in [said.replace("\\", "") for said in c.texts(chat)]:
                await c.clock.sleep(0.1)

        await ready(c, readers=1, max_waiting=2)
        file = Attachment(ref="0.txt", kind="file", name="0.txt", size=30)
        async with c.parts.knowledge._readers.slot("another owner"):
            for number in range(2):
                c.channel.files[f"{number}.txt"] = f"The ferry leaves at {number}.".encode()
                name = f"{number}.txt"
                await c.say("/knowledge add", ANN, attachments=(replace(file, ref=name, name=name),))
                await c.clock.until(told(ANN, SAY["reading"].format(name=name, number=1, count=1)))
            await c.say("/knowledge add", ANN, attachments=(file,))
            await c.clock.until(told(ANN, SAY["full"].format(count=2)))
            # What she adds to a group is hers too.
            await c.say("/knowledge add", ANN, GROUP, attachments=(file,))
            await c.clock.until(told(GROUP, SAY["full_group"].format(count=2)))
        await c.answered()
        assert sorted(await finds(c, "ferry", f"memory:{ANN}")) == ["The ferry leaves at 0.", "The ferry leaves at 1."]
        added = SAY["added"].format(name="note.txt", collection="main", count=1)
        assert await said(c, "/knowledge add", ANN, GROUP, b"The ferry leaves late.") == added
