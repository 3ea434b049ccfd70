"""Collections on a real store: found by words and meaning, by whom they may be; kept up to date, and forgotten."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from bot.clock import SystemClock
from bot.files.sandboxes import Sandboxes
from bot.knowledge.keeper import FILE, MAIN, Addition, Knowledge, LimitReached
from bot.knowledge.reading import Unreadable
from bot.knowledge.searching import PAGE, named
from bot.settings import Settings
from bot.store import Store, conversations, forgetting, knowledge, usage
from bot.store.forgetting import DeletionKind, DeletionRow
from bot.store.knowledge import EVERYBODYS, Scope
from bot.store.retrying import RetryingStore
from bot.store.usage import NANO
from bot.usage.report import make_spending
from harness.knowledge.config import KnowledgeSettings
from harness.knowledge.embeddings import unit
from harness.knowledge.port import Asker
from harness.text.plain import tokens
from tests.bot.skills.test_installing import until
from tests.simulators.knowledge.services import KEY, Embedding, meaning, texts_asked
from tests.simulators.postgres import pgvector_server
from tests.simulators.web.site import Asked, Site, write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from bot.store.knowledge import DocumentRow
    from tests.simulators.postgres import PostgresServer

ANN, BOB, GROUP, OTHER = "telegram:1", "telegram:2", "telegram:-5", "telegram:-6"
CANARY = "zebra4711"


@asynccontextmanager
async def kept(
    store: Store, folder: Path, *, budgets: Any = None, fetch: Any = None, **settings: Any
) -> AsyncIterator[Knowledge]:
    sandbox = {"use": "off"}
    base = Settings.default(folder)
    whole = base.model_copy(
        update={
            "sandbox": type(base.sandbox).model_validate(sandbox),
            "knowledge": KnowledgeSettings.model_validate({"enabled": True, **settings}),
            "budgets": type(base.budgets).model_validate(budgets or {}),
            "web": type(base.web).model_validate({"fetch": fetch or {}}),
        }
    )
    sandboxes = Sandboxes(whole.sandbox, folder)
    await sandboxes.start()
    clock = store.clock
    spending = make_spending(RetryingStore(store, clock), clock, whole.budgets, whole.prices, whole.zone)
    made = Knowledge(whole, store, sandboxes, spending)
    try:
        yield made
    finally:
        await made.close()


async def add(made: Knowledge, text: str, owner: str = GROUP, name: str = "note.md", **more: str) -> DocumentRow:
    known = {"owner": owner, "collection": MAIN, "kind": FILE, "place": name, "added_by": ANN}
    return await made.add_file(Addition(**(known | more)), text.encode)


async def found(made: Knowledge, query: str, owner: str = GROUP, *collections: str) -> list[str]:
    looked = await made.search(query, Asker(owner=owner, speaker=ANN), collections)
    return [hit.text for hit in looked.hits]


async def test_a_collection_has_one_spelling(store: Store, tmp_path: Path) -> None:
    """Else a group's "handbook" would hide the installation's "Handbook" from who asks for it."""
    async with kept(store, tmp_path) as made:
        await add(made, f"The {CANARY} is for everybody.", EVERYBODYS, collection="Handbook")
        own = await add(made, f"The {CANARY} is the group's.", collection="handbook")
        assert own.collection == "Handbook"
        assert len(await found(made, CANARY, GROUP, "HANDBOOK")) == 2
    assert named(["handbook"], ["Handbook", "handbook", "other"])[0] == ["Handbook", "handbook"]


async def test_words_find_whose_they_are(store: Store, tmp_path: Path) -> None:
    async with kept(store, tmp_path) as made:
        await add(made, f"The {CANARY} lives in the group.")
        await add(made, f"The {CANARY} is private.", ANN)
        await add(made, f"The {CANARY} is for everybody.", EVERYBODYS, collection="handbook")
        everybodys = f"The {CANARY} is for everybody."
        assert set(await found(made, CANARY, GROUP)) == {f"The {CANARY} lives in the group.", everybodys}
        for owner in (OTHER, BOB, ""):
            assert await found(made, CANARY, owner) == [f"The {CANARY} is for everybody."]
        assert set(await found(made, CANARY, ANN)) == {f"The {CANARY} is private.", f"The {CANARY} is for everybody."}
        assert await found(made, CANARY, GROUP, "HANDBOOK") == [f"The {CANARY} is for everybody."]
        async with kept(store, tmp_path, groups=False) as without:
            looked = await without.search(CANARY, Asker(owner=GROUP, speaker=ANN, is_group=True))
            assert [hit.text for hit in looked.hits] == [everybodys]
        nothing = await made.search(CANARY, Asker(owner=OTHER, speaker=BOB), (MAIN,))
        assert (nothing.hits, nothing.unknown, nothing.collections) == ((), (MAIN,), ("handbook",))


async def test_chinese_and_english_are_found_by_their_words(store: Store, tmp_path: Path) -> None:
    async with kept(store, tmp_path) as made:
        await add(made, "# 退款政策\n\n客户可以在三十天内申请退款。", name="a.md")
        await add(made, "# Parking\n\nTwo cars may park behind the house.", name="b.md")
        for query in ("退款", "怎么申请退款?", "款"):
            assert (await found(made, query))[0].startswith("# 退款政策"), query
        assert (await found(made, "parked where?"))[0].startswith("# Parking")
        assert await found(made, "天空") == []
        assert await found(made, "' OR 1=1 -- \" NEAR(*)") == []


async def test_meaning_finds_what_words_do_not(store: Store, tmp_path: Path) -> None:
    simulator = Embedding()
    simulator.longest = 3000
    async with Site(own=simulator.answers()).serve() as site:
        settings = {"base_url": site.url("/v1"), "model": "small", "api_key": KEY}
        async with kept(store, tmp_path, embeddings=settings, passage_characters=5000) as made:
            await add(made, "An automobile needs fuel.", name="a.md")
            await add(made, "x" * 4000, name="long.md")
            await add(made, "A car of another group.", OTHER, name="b.md")
            await made.look()
            assert (await found(made, "a car"))[0] == "An automobile needs fuel."
            assert "A car of another group." not in await found(made, "a car")
            # Compared by the database, and where it cannot: the same order.
            scope, asked = Scope((GROUP, OTHER)), unit(meaning("a car"))
            there = await store.read(lambda tx: knowledge.by_vector(tx, asked, "small", scope))
            portion, after = await store.read(lambda tx: knowledge.nearest_after(tx, 0, asked, "small", scope))
            assert after is None
            assert len(portion) == 2
            assert there is None or there == [passage for _, passage in portion]
            # Made once; an endpoint that is away costs the meaning, not the words.
            asked_before = len(texts_asked(simulator))
            await made.look()
            assert len(texts_asked(simulator)) == asked_before
            simulator.status = 500
            looked = await made.search("fuel", Asker(owner=GROUP, speaker=ANN))
            assert [hit.text for hit in looked.hits] == ["An automobile needs fuel."]
            assert "embeddings endpoint" in looked.missing[0]


@pytest.mark.parametrize("tells", [True, False])
async def test_vectors_are_paid_for_by_who_adds_and_who_asks(store: Store, tmp_path: Path, tells: bool) -> None:
    simulator = Embedding()
    simulator.tells_usage = tells
    now = store.clock.now()
    ann = await store.write(lambda tx: conversations.ensure(tx, "telegram:1/dm", "telegram", ANN, now))
    async with Site(own=simulator.answers()).serve() as site:
        price = {"input": 1000.0, "currency": "EUR"}
        settings = {"base_url": site.url("/v1"), "model": "small", "api_key": KEY, "price": price}
        async with kept(store, tmp_path, embeddings=settings) as made:
            await add(made, "An automobile needs fuel.", ANN)
            await add(made, "A boat needs wind.", added_by=BOB)
            await add(made, "For everybody.", EVERYBODYS, added_by="")
            await made.look()
            text = "How many cars are there?"
            await made.search(text, Asker(owner=GROUP, speaker=BOB, conversation=GROUP, run_id="r", thread_id="t"))
    by_ann = await store.read(lambda tx: usage.spent(tx, speaker=ANN, conversation=ann.key))
    by_bob = await store.read(lambda tx: usage.spent(tx, speaker=BOB))
    asked = await store.read(lambda tx: usage.spent(tx, run_id="r", thread_id="t", conversation=GROUP, speaker=BOB))
    whole = await store.read(usage.spent)
    if tells:
        assert (by_ann.tokens, asked.tokens, by_bob.tokens, whole.tokens) == (4, 5, 9, 15)
    else:
        assert asked.tokens == tokens(text)
    assert whole.costs == {"EUR": whole.tokens * NANO // 1000}


async def test_a_used_up_budget_stops_its_owners_vectors_alone(store: Store, tmp_path: Path) -> None:
    simulator = Embedding()
    async with Site(own=simulator.answers()).serve() as site:
        settings = {"base_url": site.url("/v1"), "model": "small", "api_key": KEY, "at_once": 1}
        budgets = {"speaker_day": {"tokens": 8}}
        async with kept(store, tmp_path, budgets=budgets, embeddings=settings) as made:
            for number in range(3):
                await add(made, f"An automobile needs fuel, {number}.", ANN, name=f"{number}.md")
            await add(made, "A boat needs wind.", added_by=BOB)
            await add(made, "The harbour is green, since last week, and wide, too.", EVERYBODYS, added_by="")
            await add(made, "The harbour is small.", EVERYBODYS, name="small.md", added_by="")
            await made.look()
            assert len([text for text in texts_asked(simulator) if "automobile" in text]) == 2
            assert "A boat needs wind." in texts_asked(simulator)
            assert "The harbour is small." in texts_asked(simulator)  # nobody's: the budget of all together alone
            assert "budgets.speaker_day.tokens" in made.troubles["embeddings"]
            assert await made.vectors_wait_for(Asker(owner=ANN, speaker=ANN)) == "budgets.speaker_day.tokens"
            assert await made.vectors_wait_for(Asker(owner=GROUP, speaker=BOB)) == ""
            looked = await made.search("automobile", Asker(owner=ANN, speaker=ANN))
            assert len(looked.hits) == 3
            assert "the budget budgets.speaker_day.tokens is used up" in looked.missing[0]
        # With more room they are made, and only those that were missing.
        before = len(texts_asked(simulator))
        async with kept(store, tmp_path, embeddings=settings) as made:
            await made.look()
            assert len(texts_asked(simulator)) == before + 1
            assert "embeddings" not in made.troubles


async def test_a_folder_is_followed(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "handbook"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.md").write_text("# Boats\n\nThe red boat.")
    (folder / "b.txt").write_text("The blue boat.")
    (folder / ".hidden.md").write_text("The hidden boat.")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / "link.md").symlink_to(folder / "b.txt")
    (folder / "bad.pdf").write_bytes(b"%PDF")
    settings = {"folders": [{"name": "handbook", "path": str(folder), "url": "https://files.example.org/h/"}]}
    async with kept(store, tmp_path, **settings) as made:
        await made.look()
        looked = await made.search("boat", Asker(owner=OTHER, speaker=BOB))
        assert {hit.address for hit in looked.hits} == {
            "https://files.example.org/h/deep/a.md#:~:text=Boats",
            "https://files.example.org/h/b.txt#:~:text=The%20blue%20boat.",
        }
        rows = {row.place: row for row in await made.documents(EVERYBODYS)}
        assert rows.keys() == {"deep/a.md", "b.txt", "bad.pdf"}
        assert rows["bad.pdf"].problem.startswith("no_sandbox")

        # What did not change is not read again; what did is, and what went goes.
        read_at = rows["deep/a.md"].read_at
        (folder / "b.txt").write_text("The green boat.")
        os.utime(folder / "b.txt", ns=(1, 1))
        await made.look()
        rows = {row.place: row for row in await made.documents(EVERYBODYS)}
        assert rows["deep/a.md"].read_at == read_at
        assert await found(made, "green boat") != []
        assert await found(made, "blue") == []
        (folder / "b.txt").unlink()
        await made.look()
        assert await found(made, "green") == []

        # A folder that is away keeps what was read; one that is not in the settings any more does not.
        folder.rename(tmp_path / "elsewhere")
        await made.look()
        assert await found(made, "red boat") != []
        assert "handbook" in made.troubles
    async with kept(store, tmp_path) as made:
        await made.look()
        assert await made.documents(EVERYBODYS) == []


async def test_a_new_version_takes_the_place_of_the_old_one(store: Store, tmp_path: Path) -> None:
    async with kept(store, tmp_path, passage_characters=200) as made:
        long = "\n\n".join(f"Old paragraph {number} about boats. " * 4 for number in range(250))
        row = await add(made, long)
        assert row.passages > 200
        again = await add(made, long)
        assert (again.id, again.passages) == (row.id, row.passages)
        await add(made, "The new text.")
        assert await found(made, "boats") == []
        assert await found(made, "new text") == ["The new text."]
        assert len(await made.documents(GROUP)) == 1


async def test_limits_are_told_and_change_nothing(store: Store, tmp_path: Path) -> None:
    async with kept(
        store, tmp_path, max_documents=2, max_passages=3, passage_characters=200, max_file_mb=0.001
    ) as made:
        await add(made, "one", name="1.md")
        with pytest.raises(LimitReached, match="passages: 3"):
            await add(made, "\n\n".join("A paragraph of its own. " * 8 for _ in range(4)), name="2.md")
        with pytest.raises(Unreadable, match="too_large"):
            await add(made, "x" * 1001, name="2.md")
        with pytest.raises(Unreadable, match="kind"):
            await add(made, "a\0b", name="2.bin")
        with pytest.raises(Unreadable, match="empty"):
            await add(made, " \n", name="2.md")
        await add(made, "two", name="2.md")
        with pytest.raises(LimitReached, match="documents: 2"):
            await add(made, "three", name="3.md")
        await add(made, "two, changed", name="2.md")
        await add(made, "another owner's", OTHER, name="3.md")
        assert [row.place for row in await made.documents(GROUP)] == ["1.md", "2.md"]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le"])
async def test_a_text_in_another_encoding_is_found_by_its_words(store: Store, tmp_path: Path, encoding: str) -> None:
    text = "Éléonore a reçu hier une lettre de sa sœur à Paris. L'été dernier, où étaient-ils passés ?"
    async with kept(store, tmp_path) as made:
        note = Addition(owner=GROUP, collection=MAIN, kind=FILE, place="note.txt", added_by=ANN)
        await made.add_file(note, lambda: text.encode(encoding))
        assert await found(made, "été passés") == [text]


async def test_an_address_needs_the_web(store: Store, tmp_path: Path) -> None:
    async with kept(store, tmp_path) as made:
        page = Addition(owner=GROUP, collection=MAIN, kind="page", place="https://example.org/")
        with pytest.raises(Unreadable, match="no_web"):
            await made.add_page(page)


async def test_files_whose_names_are_not_utf_8_are_read_once(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "handbook"
    folder.mkdir()
    for name, text in ((b"caf\xe9.txt", "coffee"), (b"caf\xe8.txt", "tea")):
        (folder / os.fsdecode(name)).write_text(text)
    async with kept(store, tmp_path, folders=[{"name": "handbook", "path": str(folder)}]) as made:
        await made.look()
        first = await made.documents(EVERYBODYS)
        assert [row.place for row in first] == ["caf\\xe8.txt", "caf\\xe9.txt"]
        assert await found(made, "coffee") == ["coffee"]
        await made.look()
        assert await made.documents(EVERYBODYS) == first


class SlowSite:
    """A site whose pages below /slow/ answer once they are let go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.slow: list[str] = []
        self.site = Site(rest=self._answer)

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.path.startswith("/slow/"):
            self.slow.append(asked.path)
            await self.let_go.wait()
        write(writer, f"<html><body><p>A page about boats at {asked.path}.</p></body></html>")

    @property
    def fetch(self) -> dict[str, Any]:
        return {"enabled": True, "allow": [f"127.0.0.1:{self.site.port}"], "robots": False, "host_interval": 0}

    def page(self, owner: str, path: str) -> Addition:
        return Addition(owner=owner, collection=MAIN, kind=PAGE, place=self.site.url(path), added_by=owner)


async def test_one_owners_slow_addresses_hold_up_nobody_else(store: Store, tmp_path: Path) -> None:
    slow = SlowSite()
    async with slow.site.serve(), kept(store, tmp_path, fetch=slow.fetch, readers=2) as made:
        theirs = [asyncio.create_task(made.add_page(slow.page(ANN, f"/slow/{number}"))) for number in range(3)]
        async with asyncio.timeout(20):
            await made.add_page(slow.page(BOB, "/fast"))
            await add(made, "The boat of a file.", GROUP)
        assert slow.slow == ["/slow/0"]  # of two readers she holds one
        assert not any(task.done() for task in theirs)
        slow.let_go.set()
        await asyncio.gather(*theirs)
        assert len(await made.documents(ANN)) == 3

        # Read again: hers wait for each other, his does not wait for any of hers.
        slow.let_go.clear()
        before = (await made.documents(BOB))[0].read_at
        looking = asyncio.create_task(made.look(anew=True))
        async with asyncio.timeout(20):
            while True:
                if (await made.documents(BOB))[0].read_at != before:
                    break
                await asyncio.sleep(0.01)
        assert len(slow.slow) == 4
        assert not looking.done()
        slow.let_go.set()
        await looking
        assert len(slow.slow) == 6


async def test_what_is_added_gets_its_vectors_while_addresses_are_slow(store: Store, tmp_path: Path) -> None:
    slow, simulator = SlowSite(), Embedding()
    slow.site.own |= simulator.answers()
    async with slow.site.serve():
        embeddings = {"base_url": slow.site.url("/v1"), "model": "small", "api_key": KEY}
        async with kept(store, tmp_path, fetch=slow.fetch, embeddings=embeddings, refresh_hours=1e-9) as made:
            slow.let_go.set()
            await made.add_page(slow.page(ANN, "/slow/0"))
            slow.let_go.clear()
            serving = asyncio.create_task(made.serve())
            await until(lambda: len(slow.slow) == 2)
            await add(made, "The boat of a file.", GROUP)
            await until(lambda: "The boat of a file." in texts_asked(simulator))
            assert len(slow.slow) == 2
            slow.let_go.set()
            serving.cancel()
            await asyncio.wait({serving})


async def test_what_belongs_to_a_person_or_a_thread_goes_with_it(store: Store, tmp_path: Path) -> None:
    async with kept(store, tmp_path) as made:
        await add(made, f"{CANARY} one", ANN, thread_id="t1")
        await add(made, f"{CANARY} two", GROUP, name="by-ann.md", added_by=ANN)
        await add(made, f"{CANARY} three", GROUP, name="by-bob.md", added_by=BOB, thread_id="t2")
        now = store.clock.now()
        await store.write(lambda tx: knowledge.remove_person(tx, ANN, now - timedelta(days=1)))
        assert len(await found(made, CANARY, GROUP)) == 2  # what is younger than the request stays
        await store.write(lambda tx: knowledge.remove_person(tx, ANN, now))
        assert await found(made, CANARY, ANN) == []
        assert await found(made, CANARY, GROUP) == [f"{CANARY} three"]
        await store.write(lambda tx: knowledge.remove_thread(tx, "t2"))
        await store.write(knowledge.tidy)
        assert await found(made, CANARY, GROUP) == []


@pytest.mark.parametrize("subject", [ANN, "t1"])
async def test_what_is_read_while_its_owner_is_forgotten_is_not_kept(
    store: Store, tmp_path: Path, subject: str
) -> None:
    async with kept(store, tmp_path) as made:
        reading = made._reading.file

        async def slow(name: str, body: bytes, whose: str) -> Any:
            read = await reading(name, body, whose)
            kind = DeletionKind.PERSON if subject == ANN else DeletionKind.THREAD
            now = store.clock.now()
            row = DeletionRow(
                id="d", kind=kind, subject=subject, account="telegram", asked_by=ANN, asked_at=now, done_at=now
            )
            await store.write(lambda tx: forgetting.ask_deletion(tx, row))
            return read

        made._reading.file = slow  # type: ignore[method-assign]
        with pytest.raises(Unreadable, match="gone"):
            await add(made, CANARY, f"page:{ANN}", thread_id="t1")
        assert await made.owners() == {}


async def test_what_a_crash_cut_short_is_read_again(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "a.md").write_text("The red boat.")
    settings = {"folders": [{"name": "handbook", "path": str(folder)}]}
    async with kept(store, tmp_path, **settings) as made:
        await made.look()
        (row,) = await made.documents(EVERYBODYS)
        # As a kill between the first portion and the last transaction leaves it.
        from dataclasses import replace

        await store.write(lambda tx: knowledge.put(tx, replace(row, sha256="")))
        await made.look()
        (again,) = await made.documents(EVERYBODYS)
        assert again.sha256 == row.sha256
        assert await found(made, "boat") == ["The red boat."]


@pytest.fixture
def pgvector() -> Iterator[PostgresServer]:
    yield from pgvector_server()


@pytest.mark.postgres
async def test_pgvector_is_asked_where_it_is_there(pgvector: PostgresServer, tmp_path: Path) -> None:
    store = await Store.open(pgvector.database(), clock=SystemClock())
    async with kept(store, tmp_path) as made:
        for name in ("a", "b", "c"):
            await add(made, f"note {name}", name=f"{name}.md")
    vectors = [(1, unit([1, 0])), (2, unit([0, 1])), (3, unit([1, 1, 1]))]
    await store.write(lambda tx: knowledge.set_vectors(tx, "m", vectors))

    async def nearest() -> list[int] | None:
        return await store.read(lambda tx: knowledge.by_vector(tx, unit([1, 5]), "m", Scope((GROUP,))))

    assert await nearest() is None
    await store.write(lambda tx: tx.exec_driver_sql("CREATE EXTENSION vector"))
    assert await nearest() == [2, 1]  # one of another length is left out
    await store.close()
