"""Chats that begin with another one: what they show and know, that the other stays, and that no crash leaves a half."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from bot.http.errors import HttpProblem
from bot.http.page import branches as making
from bot.http.page.branches import AT_ONCE, _title, cut_at
from bot.store import branches, forgetting
from bot.store.branches import Place
from bot.store.forgetting import DeletionKind, DeletionRow
from tests.bot.http.served import PERSON, ServedCore, served
from tests.bot.http.test_artifacts import makes_a_file

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

HTML = {"Accept": "text/html"}


def entry(message_id: str, author: str = "bot", **more: Any) -> dict[str, Any]:
    return {"message_id": message_id, "author": author, "text": message_id, "final": True} | more


def turn(run_id: str) -> Place:
    return Place(run_id, "thread", f"in-{run_id}", f"before-{run_id}")


CHAT = [
    entry("p1", "person"), entry("b1"), entry("f1"),
    entry("p2", "person"), entry("p3", "person"), entry("b2"),
    entry("c1", "person"), entry("help"),
    entry("p4", "person"), entry("b4", final=False),
]  # fmt: skip
TURNS = {
    name: turn(run_id)
    for run_id, names in {"r1": "p1 b1 f1", "r2": "p2 p3 b2", "r4": "p4 b4"}.items()
    for name in names.split()
}


@pytest.mark.parametrize(
    ("chosen", "last", "run_id", "edits"),
    [
        ("b1", "f1", "r1", False),
        ("f1", "f1", "r1", False),
        ("p1", None, "r1", True),
        ("p3", "f1", "r2", True),
        ("b2", "b2", "r2", False),
        ("help", "help", "r2", False),
        ("c1", "b2", "r2", False),
        ("p4", "help", "r4", True),
    ],
)
def test_whole_turns_are_taken_along(chosen: str, last: str | None, run_id: str, edits: bool) -> None:
    cut = cut_at(CHAT, TURNS, chosen)
    assert (cut.entries[-1]["message_id"] if cut.entries else None) == last
    assert (cut.turn, cut.edits) == (turn(run_id), edits)


def test_an_answer_that_grows_is_waited_for() -> None:
    with pytest.raises(HttpProblem) as growing:
        cut_at(CHAT, TURNS, "b4")
    assert (growing.value.status, growing.value.code) == (409, "growing")
    with pytest.raises(HttpProblem):
        cut_at([*CHAT, entry("p5", "person")], TURNS | {"p5": turn("r5")}, "p5")
    assert cut_at(CHAT, {}, "help").turn is None


def test_titles_are_counted() -> None:
    assert [_title(title, 2) for title in ("", "Shops", "Shops (2)", "Shops (north)")] == [
        "", "Shops (2)", "Shops (2)", "Shops (north) (2)",
    ]  # fmt: skip


async def said(world: ServedCore, client: httpx.AsyncClient, chat: str, *texts: str) -> list[dict[str, Any]]:
    """Say these; the messages of the chat then."""
    for text in texts:
        body = {"text": text, "client_id": text.replace(" ", "")}
        answer = await client.post(f"/api/conversations/{chat}/messages", json=body)
        assert answer.status_code == 202, answer.text
        await world.clock.advance(1)
        await world.answered()
        await world.clock.until(world.delivery.drained())
        await world.clock.advance(1)
    return await shown(client, chat)


async def shown(client: httpx.AsyncClient, chat: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get(f"/api/conversations/{chat}/messages")).json()["messages"]
    return found


async def branched(client: httpx.AsyncClient, chat: str, message: dict[str, Any]) -> str:
    answer = await client.post(f"/c/{chat}/branch", data={"message": message["message_id"]})
    assert answer.status_code == 201, answer.text
    made: str = answer.json()["chat"]
    assert answer.json()["address"] == f"/c/{made}"
    return made


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [each["text"] or each["file"]["name"] for each in messages]


async def test_a_branch_shows_what_it_began_with_and_both_name_each_other(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob = await world.browser(PERSON)
        await makes_a_file(world, "make it", "figures.txt", "1 2 3")
        chat = (await bob.post("/api/conversations")).json()["chat"]
        before = await said(world, bob, chat, "make it", "second", "third")
        await bob.post(f"/c/{chat}/title", data={"title": "Shops"})
        answer = next(each for each in before if each["text"] == "There it is.")
        branch = await branched(bob, chat, answer)

        inherited = await shown(bob, branch)
        assert texts(inherited) == ["make it", "There it is.", "figures.txt"]
        assert all(each["inherited"] for each in inherited)
        file = f"/api/conversations/{branch}/files/{inherited[-1]['message_id']}"
        assert (await bob.get(file)).text == "1 2 3"
        assert "figures.txt" in (await bob.get(f"/c/{branch}/files")).text
        page = (await bob.get(f"/c/{branch}", headers=HTML)).text
        assert f'<a href="/c/{chat}">Shops</a>' in page
        assert "Shops (2)" in page
        assert f'href="/c/{branch}"' in (await bob.get(f"/c/{chat}", headers=HTML)).text

        assert texts(await said(world, bob, branch, "go on"))[3:] == ["go on", "echo: go on"]
        assert texts(await shown(bob, chat)) == texts(before), "the other one stays as it was"
        runs = [start.ctx.thread_id for start in world.harness.starts]
        assert runs[-1] not in runs[:-1]
        assert [fork[1:] for fork in world.harness.forks] == [(runs[-1], "", world.harness.starts[0].ctx.run_id)]
        kept = [each.text for each in world.harness.said[runs[-1]]]
        assert kept == ["make it", "There it is."], "words alone, where the thread itself is not kept"
        assert "what tools answered" in page

        again = await branched(bob, branch, (await shown(bob, branch))[1])
        assert texts(await shown(bob, again)) == ["make it", "There it is.", "figures.txt"]


async def test_a_message_is_edited_in_a_chat_that_ends_before_it(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob = await world.browser(PERSON)
        chat = (await bob.post("/api/conversations")).json()["chat"]
        messages = await said(world, bob, chat, "first", "/help", "second")
        edited = await branched(bob, chat, messages[-2])
        assert texts(await shown(bob, edited))[:3] == texts(messages)[:3]
        assert texts(await shown(bob, edited))[-1] != "second"
        assert world.harness.forks[-1][2] == world.harness.starts[1].run_input.message_id
        assert [each.text for each in list(world.harness.said.values())[-1]] == ["first", "echo: first"]
        empty = await branched(bob, chat, messages[0])
        assert await shown(bob, empty) == []
        assert texts(await said(world, bob, empty, "anew")) == ["anew", "echo: anew"]


async def test_only_ones_own_messages_are_branched_from(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob, other = await world.browser(PERSON), await world.browser()
        chat = (await bob.post("/api/conversations")).json()["chat"]
        messages = await said(world, bob, chat, "first")
        for client, message in ((other, messages[0]["message_id"]), (bob, "nothing")):
            refused = await client.post(f"/c/{chat}/branch", data={"message": message})
            assert refused.status_code == 404
        reading = await world.program(PERSON, "read")
        refused = await reading.post(f"/c/{chat}/branch", data={"message": messages[0]["message_id"]})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "missing_scope")


@dataclass
class Held:
    """Stands in for the agent's copying of a history, which waits until it may go on. starts: how many runs had begun
    each time."""

    world: ServedCore
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    starts: list[int] = field(default_factory=list)

    async def fork(self, *_: Any, **__: Any) -> bool:
        self.starts.append(len(self.world.harness.starts))
        self.begun.set()
        await self.go_on.wait()
        return False


async def test_a_branch_that_a_crash_interrupted_is_made_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as world:
        bob = await world.browser(PERSON)
        chat = (await bob.post("/api/conversations")).json()["chat"]
        messages = await said(world, bob, chat, "first", "second")
        with monkeypatch.context() as patch:
            held = Held(world)
            patch.setattr(world.harness, "fork", held.fork)
            asking = asyncio.create_task(bob.post(f"/c/{chat}/branch", data={"message": messages[1]["message_id"]}))
            await asyncio.wait_for(held.begun.wait(), 30)
            ((unmade,), listed) = await world.store.read(branches.unmade), await bob.get("/api/conversations")
            assert [each["chat"] for each in listed.json()["conversations"]] == [chat], "it is no chat yet"
            branch = unmade.key.partition(":")[2]
            body = {"text": "too early", "client_id": "1"}  # by somebody who guessed its address
            assert (await bob.post(f"/api/conversations/{branch}/messages", json=body)).status_code == 202
            await world.crash()
            asking.cancel()
            await asyncio.wait({asking})

            held = Held(world)
            patch.setattr(world.harness, "fork", held.fork)
            await world.start()
            await asyncio.wait_for(held.begun.wait(), 30)
            held.go_on.set()
            await world.answered()
            await world.clock.until(world.delivery.drained())
        assert held.starts == [2], "nobody was answered there before"
        assert await world.store.read(branches.unmade) == []
        bob = await world.browser(PERSON)
        listed = (await bob.get("/api/conversations")).json()["conversations"]
        assert {each["chat"] for each in listed} == {chat, branch}
        expected = ["first", "echo: first", "too early", "echo: too early"]
        assert texts(await shown(bob, branch)) == expected
        assert [each.text for each in world.harness.said[unmade.thread_id]] == expected[:2]
        assert texts(await said(world, bob, branch, "go on"))[-1] == "echo: go on"


async def test_one_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path) as world:
        bob = await world.browser(PERSON)
        chat = (await bob.post("/api/conversations")).json()["chat"]
        messages = await said(world, bob, chat, "first")

        async def fails(*_: Any, **__: Any) -> bool:
            raise OSError("the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(world.harness, "fork", fails)
            refused = await bob.post(f"/c/{chat}/branch", data={"message": messages[1]["message_id"]})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_branched")
        listed = (await bob.get("/api/conversations")).json()["conversations"]
        assert [each["chat"] for each in listed] == [chat]
        assert await world.store.read(branches.unmade) == []


async def test_none_is_made_of_what_is_being_deleted(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob = await world.browser(PERSON)
        chat = (await bob.post("/api/conversations")).json()["chat"]
        messages = await said(world, bob, chat, "first")
        deletion = DeletionRow(
            id="d1",
            kind=DeletionKind.PERSON,
            subject=PERSON,
            account="memory",
            asked_by=PERSON,
            asked_at=world.clock.now(),
        )
        await world.store.write(lambda tx: forgetting.ask_deletion(tx, deletion))
        refused = await bob.post(f"/c/{chat}/branch", data={"message": messages[1]["message_id"]})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "being_deleted")
        listed = (await bob.get("/api/conversations")).json()["conversations"]
        assert [each["chat"] for each in listed] == [chat]


async def test_too_many_and_too_long_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path) as world:
        bob = await world.browser(PERSON)
        chat = (await bob.post("/api/conversations")).json()["chat"]
        messages = await said(world, bob, chat, "first")

        async def refused() -> tuple[int, str]:
            answer = await bob.post(f"/c/{chat}/branch", data={"message": messages[1]["message_id"]})
            return answer.status_code, answer.json()["error"]["code"]

        with monkeypatch.context() as bounds:
            bounds.setattr(making, "MOST_CHARACTERS", len("firstecho: first") - 1)
            assert await refused() == (413, "branch_too_long")
            bounds.setattr(making, "MOST_CHARACTERS", len("firstecho: first"))
            await branched(bob, chat, messages[1])
            bounds.setattr(branches, "MOST_OF_CHAT", 1)
            assert await refused() == (409, "too_many_branches")
            bounds.setattr(branches, "MOST_OF_CHAT", 2)
            bounds.setattr(branches, "MOST_A_DAY", 1)
            assert await refused() == (429, "branches_used_up")
        for _ in range(AT_ONCE - 4):
            await branched(bob, chat, messages[1])
        assert await refused() == (429, "too_many_requests")
        listed = (await bob.get("/api/conversations")).json()["conversations"]
        assert len(listed) == AT_ONCE - 2, "nothing is left of those"
        await world.clock.advance(10)
        await branched(bob, chat, messages[1])


async def test_the_files_of_one_branch_are_copied_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path) as world:
        bob = await world.browser(PERSON)
        chat = (await bob.post("/api/conversations")).json()["chat"]
        messages = await said(world, bob, chat, "first")
        at_once: list[int] = []
        working = 0

        async def copy(*_: object) -> bool:
            nonlocal working
            working += 1
            at_once.append(working)
            await all_forked.wait()
            working -= 1
            return True

        async def forked(*args: Any, **about: Any) -> bool:
            if len(world.harness.forks) == 2:
                all_forked.set()
            return await fork(*args, **about)

        all_forked, fork = asyncio.Event(), world.harness.fork
        monkeypatch.setattr(world.harness, "fork", forked)
        monkeypatch.setattr(world.parts.sandboxes, "copy", copy)
        await asyncio.gather(*(branched(bob, chat, messages[1]) for _ in range(3)))
        assert at_once == [1, 1, 1]
