"""Branches: recorded before they are made, whole or gone, and of what each began with nothing outlives its thread."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from bot.store import branches, conversations, forgetting, runs, search, shown
from bot.store.branches import BeingDeleted, Bound, BranchRow, Inherited, Related, Relations, TooManyBranches
from bot.store.forgetting import DeletionKind, DeletionRow
from bot.store.tables import threads
from channels.message import OutboundFile
from tests.bot.store.samples import LATER, NOW, run_row

if TYPE_CHECKING:
    from bot.store import Store

ANN = "telegram:7"
SAID = Inherited(entry={"message_id": "p1", "author": "person", "text": "hello \ud800"}, run_id="r1", input_id="m1")
FILE = OutboundFile(path=Path("/spool/new/b2"), name="a.txt", mime_type="text/plain")
GIVEN = Inherited(entry={"message_id": "b2", "author": "bot", "text": ""}, file=FILE, original="/spool/r1/a.txt")


async def begun(store: Store) -> BranchRow:
    row = await wanted(store)
    await store.write(lambda tx: branches.begin(tx, row, "Shops (2)"))
    return row


async def wanted(store: Store) -> BranchRow:
    """A branch that is not begun, and the chat that it comes from."""
    source = await store.write(lambda tx: conversations.ensure(tx, "web:a-1", "web", ANN, NOW))
    await store.write(lambda tx: conversations.choose(tx, "web:a-1", "agent", "writer"))
    await store.write(lambda tx: conversations.name_thread(tx, source.thread_id, "Shops"))
    return BranchRow(
        thread_id="new",
        key="web:a-2",
        source_key="web:a-1",
        source_thread=source.thread_id,
        before="",
        through="r1",
        checkpoint=None,
        messages=(SAID, GIVEN),
        created_at=NOW,
    )


async def test_one_is_recorded_before_it_is_made_and_has_what_the_other_chose(store: Store) -> None:
    row = await begun(store)
    (unmade,) = await store.read(branches.unmade)
    assert replace(unmade, messages=()) == replace(row, messages=())
    assert unmade.messages[1] == GIVEN
    assert unmade.messages[0].entry["text"].startswith("hello ")
    conversation = await store.read(lambda tx: conversations.load(tx, "web:a-2"))
    assert conversation is not None
    assert (conversation.thread_id, conversation.owner, conversation.agent, conversation.title) == (
        "new", ANN, "writer", "Shops (2)",
    )  # fmt: skip
    listed = await store.read(lambda tx: shown.listed(tx, "web", ANN, 10, None))
    assert [each.chat for each in listed] == ["a-1"], "it is no chat yet"
    assert await store.read(lambda tx: branches.relations(tx, "web:a-1")) == Relations()
    await store.write(lambda tx: branches.made(tx, "new", ["results", "files"], LATER))
    assert await store.read(branches.unmade) == []
    made = await store.read(lambda tx: branches.load(tx, "web:a-2"))
    assert made is not None
    assert (made.lacks, made.made_at) == (("results", "files"), LATER)
    newest = (await store.read(lambda tx: shown.listed(tx, "web", ANN, 10, None)))[0]
    assert (newest.chat, newest.touched_at) == ("a-2", LATER)
    assert "new" in await store.read(lambda tx: shown.kept_files(tx, ["new"]))


async def test_what_a_branch_began_with_is_found(store: Store) -> None:
    await begun(store)

    async def found(*words: str, person: str | None = ANN) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        chats = await store.read(lambda tx: search.chats(tx, "web", ANN, words, 10))
        there = await store.read(lambda tx: search.threads_with(tx, person, words, 10))
        return [(each.chat, told) for each, told in chats], [(each.thread_id, told) for each, told in there]

    assert await found("HELLO") == ([], []), "it is no chat yet"
    await store.write(lambda tx: branches.made(tx, "new", [], LATER))
    chats, own = await found("HELLO")
    assert ([chat for chat, _ in chats], [thread for thread, _ in own]) == (["a-2"], ["new"])
    assert chats[0][1].startswith("hello ")
    assert [thread for thread, _ in (await found("hello", person=None))[1]] == ["new"]
    assert (await found("hello", person="telegram:8"))[1] == []
    assert await found("hello", "author") == ([], []), "words of the record are none of a message"


async def test_two_chats_name_each_other_until_one_is_deleted(store: Store) -> None:
    row = await begun(store)
    await store.write(lambda tx: branches.made(tx, "new", [], LATER))
    source, child = Related("web:a-1", "Shops"), Related("web:a-2", "Shops (2)")
    assert await store.read(lambda tx: branches.relations(tx, "web:a-1")) == Relations(children=(child,))
    assert await store.read(lambda tx: branches.relations(tx, "web:a-2")) == Relations(source=source)
    assert await store.read(lambda tx: branches.relations(tx, "web:a-3")) == Relations()

    await store.write(lambda tx: forgetting.let_go(tx, "web:a-1", LATER, LATER, row.source_thread))
    assert await store.read(lambda tx: branches.relations(tx, "web:a-2")) == Relations()
    assert await store.read(lambda tx: branches.load(tx, "web:a-2")) is not None, "it is a chat of its own"
    await store.write(lambda tx: forgetting.delete_thread(tx, row.source_thread))
    assert await store.read(lambda tx: branches.relations(tx, "web:a-2")) == Relations()

    await store.write(lambda tx: forgetting.let_go(tx, "web:a-2", LATER, LATER, "new"))
    await store.write(lambda tx: forgetting.delete_thread(tx, "new"))
    assert await store.read(lambda tx: branches.load(tx, "web:a-2")) is None
    assert await store.read(lambda tx: shown.kept_files(tx, ["new"])) == set()


async def test_nothing_is_left_of_one_that_could_not_be_made(store: Store) -> None:
    row = await begun(store)
    await store.write(lambda tx: branches.drop(tx, row))
    assert await store.read(lambda tx: conversations.load(tx, "web:a-2")) is None
    assert await store.read(branches.unmade) == []
    left = await store.write(lambda tx: tx.execute(update(threads).values(title="x")).rowcount)
    assert left == 1, "the other one's"


@pytest.mark.parametrize("subject", [ANN, "source", "of an older turn"])
async def test_none_is_begun_of_what_is_being_deleted(store: Store, subject: str) -> None:
    row = await wanted(store)
    older = replace(run_row(conversation="web:a-1"), run_id="r1", thread_id="of an older turn")
    await store.write(lambda tx: runs.open(tx, older))
    is_person = subject == ANN
    asked = DeletionRow(
        id="d1",
        kind=DeletionKind.PERSON if is_person else DeletionKind.THREAD,
        subject=row.source_thread if subject == "source" else subject,
        account="web",
        asked_by=ANN,
        asked_at=NOW,
    )
    await store.write(lambda tx: forgetting.ask_deletion(tx, replace(asked, id="d2", subject="telegram:8")))
    await store.write(lambda tx: forgetting.ask_deletion(tx, asked))
    with pytest.raises(BeingDeleted):
        await store.write(lambda tx: branches.begin(tx, row, ""))
    await store.write(lambda tx: forgetting.finish_deletion(tx, "d1", LATER))
    with pytest.raises(BeingDeleted):  # what it begins with was read before that
        await store.write(lambda tx: branches.begin(tx, row, ""))
    assert await store.read(branches.unmade) == []
    later = replace(row, created_at=LATER + timedelta(seconds=1))
    await store.write(lambda tx: branches.begin(tx, later, ""))
    assert [each.key for each in await store.read(branches.unmade)] == [row.key]


async def test_of_a_chat_and_of_a_person_there_are_only_so_many(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    row = await wanted(store)
    other = await store.write(lambda tx: conversations.ensure(tx, "web:a-8", "web", ANN, NOW))
    strangers = await store.write(lambda tx: conversations.ensure(tx, "web:b-1", "web", "telegram:8", NOW))
    of_other = replace(row, source_key="web:a-8", source_thread=other.thread_id)
    of_stranger = replace(row, source_key="web:b-1", source_thread=strangers.thread_id)
    began = 0

    async def begin(wish: BranchRow, *, whole: bool = True) -> None:
        nonlocal began
        began += 1
        new = replace(wish, thread_id=f"new{began}", key=f"web:n-{began}")
        await store.write(lambda tx: branches.begin(tx, new, ""))
        if whole:
            await store.write(lambda tx: branches.made(tx, new.thread_id, [], LATER))

    async def refused(wish: BranchRow) -> Bound:
        with pytest.raises(TooManyBranches) as problem:
            await begin(wish)
        return problem.value.bound

    monkeypatch.setattr(branches, "MOST_OF_CHAT", 2)
    monkeypatch.setattr(branches, "MOST_A_DAY", 4)
    monkeypatch.setattr(branches, "MOST_UNMADE", 1)
    await begin(row)
    await begin(row)
    assert await refused(row) is Bound.CHAT
    await begin(of_other)
    await begin(of_other, whole=False)
    tomorrow = timedelta(days=1)
    later = replace(row, source_key="web:n-1", source_thread="new1", created_at=NOW + tomorrow)
    assert await refused(later) is Bound.UNMADE
    (unmade,) = await store.read(branches.unmade)
    await store.write(lambda tx: branches.made(tx, unmade.thread_id, [], LATER))
    assert await refused(replace(later, created_at=NOW + tomorrow / 2)) is Bound.DAY
    await begin(of_stranger)
    await begin(later)
