"""A group collects a PDF and a page, asks and is answered with citations; other chats find nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from bot.texts.en import EN
from sandbox.policy import DEFAULT_FOLDER, complete
from tests.flow.sandboxed import call, require_bubblewrap
from tests.flow.test_sandbox_documents import ruled_pdf
from tests.simulators.telegram.seen import ALICE, BOB, TEAM, FileSpec, Person, Room
from tests.simulators.web.site import Site, page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World

require_bubblewrap()
if complete(DEFAULT_FOLDER) is None and not os.environ.get("CI"):
    pytest.skip("the runtime for the agent's code is not built: make sandbox-runtime", allow_module_level=True)

SAY = EN.knowledge
OTHER = Room(-1001000000009, "supergroup", "Other")
REFUNDS = (
    "<html><head><title>Refunds</title></head><body><article><h1>Refunds</h1>"
    "<p>A ticket for the ferry is refunded within thirty days of its purchase.</p></article></body></html>"
)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site(own={"/refunds": page(REFUNDS)}).serve() as site:
        yield site


@pytest.fixture
def world(world: World, site: Site) -> World:
    people = [f"telegram:{ALICE.id}", f"telegram:{BOB.id}"]
    world.settings = {
        "access": {
            "allow": people,
            "admins": people[:1],
            "groups": {"allow": [f"telegram:{TEAM.id}", f"telegram:{OTHER.id}"]},
        },
        "channels": {"telegram": {"rate": {"per_chat_per_second": 50, "per_group_per_minute": 3000}}},
        "sandbox": {"limits": {"memory_mb": 500}},
        "web": {"fetch": {"enabled": True, "allow": [f"127.0.0.1:{site.port}"]}},
        "knowledge": {"enabled": True},
    }
    return world


class Chat:
    """What is said in a chat, and how the bot answers there."""

    def __init__(self, world: World, person: Person, room: Room | None) -> None:
        self.world, self.person, self.room = world, person, room

    async def says(self, text: str, expected: str, file: FileSpec | None = None, reply_to: int | None = None) -> str:
        place = self.room or self.person
        if self.room is not None and not text.startswith("/"):
            text = f"@antler_bot {text}"
        said = await self.world.telegram.user_says(text, user=self.person, chat=self.room, file=file, reply_to=reply_to)
        seen = await self.world.telegram.wait_for_message(
            place, lambda message: expected in message.text and message.message_id > said.message_id
        )
        return seen.text

    async def finds(self, question: str, words: str) -> str:
        """What the agent quotes of what it found."""
        return await self.says(f"{call('knowledge_search', query=question)}\n!quote {words}", "I read: ")

    async def is_told(self, question: str) -> str:
        """All that the tool tells the agent."""
        await self.says(f"{call('knowledge_search', query=question)}\n!say Looked up.", "Looked up.")
        records = [record.body["messages"] for record in await self.world.model.completions()]
        return next(str(m[-1]["content"]) for m in reversed(records) if m[-1]["role"] == "tool" and question in str(m))

    async def finds_nothing(self, question: str) -> None:
        await self.says(call("knowledge_search", query=question), "Nothing was found")


async def test_a_group_collects_and_asks(world: World, site: Site) -> None:
    async with world:
        team, other = Chat(world, ALICE, TEAM), Chat(world, ALICE, OTHER)

        # A file with the command as its caption, and an address.
        paper = FileSpec(name="harbour.pdf", mime="application/pdf", content=ruled_pdf())
        added = await team.says("/knowledge@antler_bot add #port", "added to port", paper)
        assert "harbour.pdf" in added
        assert "Refunds" not in added
        await team.says(f"/knowledge@antler_bot add {site.url('/refunds')}", "added to main")
        listed = await team.says("/knowledge@antler_bot", SAY["head_group"].strip("*"))
        assert "1. harbour.pdf" in listed
        assert "2. Refunds" in listed

        # Asked, the agent gets passages with the places to cite.
        assert "thirty days" in await team.finds("When is a ticket refunded?", "thirty")
        told = await team.is_told("the second page")
        assert "harbour.pdf, page 2 (port)\naddress: knowledge:port/harbour.pdf#page=2\n" in told
        told = await team.is_told("ferry ticket refunds")
        assert f"Refunds (main)\naddress: {site.url('/refunds')}#:~:text=" in told
        assert told.index("<antler-outside>") < told.index("thirty days") < told.index("</antler-outside>")
        await team.says("/knowledge@antler_bot ask When is a ticket refunded?", "refunded?")
        asked = [str(record.last_user_text) for record in await world.model.completions()]
        assert any("/knowledge" in text and "ask When is a ticket refunded?" in text for text in asked)

        # Nobody else's: another group, a private chat of the same person.
        await other.finds_nothing("When is a ticket refunded?")
        await Chat(world, ALICE, None).finds_nothing("When is a ticket refunded?")
        assert "Refunds" not in await other.says("/knowledge@antler_bot", SAY["empty_group"])

        # Who may not control the group looks, and changes nothing.
        bob = Chat(world, BOB, TEAM)
        await bob.says("/knowledge@antler_bot remove 1", EN.not_allowed)
        await bob.says(f"/knowledge@antler_bot add {site.url('/refunds')}", EN.not_allowed)

        # A crash loses nothing of it; what is removed is found no more.
        await world.kill()
        await world.start()
        assert "thirty days" in await team.finds("refunded tickets", "thirty")
        await team.says("/knowledge@antler_bot remove 2", "Removed (1): Refunds")
        await team.finds_nothing("refunded ferry tickets")

        # A person's own: a reply to a file that was sent before; gone with them.
        alone = Chat(world, BOB, None)
        note = FileSpec(name="note.txt", mime="text/plain", content="仓库的备用钥匙在灯塔里。".encode())
        said = await world.telegram.user_says("a note", user=BOB, file=note)
        await world.telegram.wait_for_text(BOB, "a note")
        await alone.says("/knowledge add", "note.txt: added to main", reply_to=said.message_id)
        assert "灯塔" in await alone.finds("备用钥匙", "钥匙")
        await team.finds_nothing("备用钥匙")
        await alone.says("/knowledge remove all", "Removed (1)")
        await alone.finds_nothing("备用钥匙")

        code, output = await world.command("knowledge", "list")
        assert code == 0, output
        assert "1 documents of a person or a group" in output
        assert "harbour" not in output
