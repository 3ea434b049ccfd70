"""Documents on the page and in the API, over real HTTP: whose they are, how they come and go, what is found in them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from bot.files.uploads import UploadLimits
from bot.knowledge.keeper import ARRIVING
from bot.settings.model import Settings
from harness.knowledge.config import FolderSettings, KnowledgeSettings
from tests.bot.core import BOB
from tests.bot.http.served import ADMIN, PERSON, served
from tests.simulators.process import SimulatorProcess

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

ON = {"knowledge": KnowledgeSettings(enabled=True)}
HANDBOOK = b"# Handbook\n\n## Travel\n\nTrains are paid.\n\n## Meals\n\nLunch is paid up to 20 euros.\n"
UPLOAD = "/api/uploads/knowledge/"


async def put(client: httpx.AsyncClient, name: str = "handbook.md", body: bytes = HANDBOOK, query: str = "") -> str:
    answer = await client.put(f"{UPLOAD}{name}{query}", content=body)
    assert answer.status_code == 200, answer.text
    added: str = answer.json()["id"]
    return added


async def places(client: httpx.AsyncClient, question: str) -> list[str]:
    found = (await client.get("/api/knowledge/search", params={"q": question})).json()["passages"]
    return [each["place"] for each in found]


async def test_a_file_is_found_by_who_added_it_and_gone_when_removed(tmp_path: Path) -> None:
    async with served(tmp_path, sections=ON) as world:
        bob, ann = await world.program(PERSON), await world.program(ADMIN)
        known = await put(bob, query="?collection=travel")
        assert await put(bob, query="?collection=travel") == known, "the same name takes its place"
        (own,) = (await bob.get("/api/knowledge")).json()["own"]
        assert (own["collection"], own["kind"], own["name"], own["title"], own["by"], own["removable"]) == (
            "travel", "file", "handbook.md", "Handbook", PERSON, True,
        )  # fmt: skip
        assert (own["size"], own["problem"], own["passages"] > 0) == (len(HANDBOOK), "", True)
        assert await places(bob, "lunch") == ["Handbook, Handbook"]
        told = (await ann.get("/api/knowledge")).json()
        assert (told["own"], told["documents"], await places(ann, "lunch")) == ([], [], [])
        assert (await ann.delete(f"/api/knowledge/{known}")).status_code == 404
        assert (await bob.delete(f"/api/knowledge/{known}")).json()["name"] == "handbook.md"
        assert await places(bob, "lunch") == []


async def test_only_so_much_may_wait_at_once(tmp_path: Path) -> None:
    few = {"knowledge": KnowledgeSettings(enabled=True, max_waiting=1)}
    async with served(tmp_path, sections=few) as world:
        bob = await world.browser(PERSON)
        with world.served.knowledge.admitted(PERSON, PERSON, 1):
            refused = await bob.put(f"{UPLOAD}next.md", content=HANDBOOK)
            assert (refused.status_code, "too_many_waiting" in refused.text) == (429, True)
            assert "at most 1" in refused.text
        await put(bob, "next.md")
        assert not [name for name in os.listdir(tmp_path) if name.startswith(ARRIVING)]


async def test_what_is_found_in_the_chat_is_what_is_found_here(tmp_path: Path) -> None:
    async with served(tmp_path, sections=ON) as world:
        await put(await world.browser(PERSON))
        await world.say("/knowledge", BOB)
        await world.answered()
        await world.clock.advance(1)
        assert "Handbook" in world.texts(BOB)[-1]


async def test_a_passage_is_shown_in_its_place(tmp_path: Path) -> None:
    async with served(tmp_path, sections=ON) as world:
        bob, ann = await world.browser(PERSON), await world.browser(ADMIN)
        words = enumerate(("tea", "milk", "coffee"), 1)
        text = "\f".join(f"# Part {number}\n\nThis page is about <b>{word}</b>.\n" for number, word in words)
        await put(bob, "drinks.txt", text.encode())
        (found,) = (await bob.get("/api/knowledge/search", params={"q": "coffee"})).json()["passages"]
        assert (found["page"], found["heading"], found["address"]) == (3, "Part 3", "")
        told = (await bob.get(f"/api/knowledge/passages/{found['id']}")).json()
        assert [(p["page"], p["here"]) for p in told["passages"]] == [(1, False), (2, False), (3, True)]
        assert (told["name"], told["own"]) == ("drinks.txt", True)
        page = (await bob.get(f"/knowledge/passages/{found['id']}")).text
        assert "page 3" in page
        assert "&lt;b&gt;coffee&lt;/b&gt;" in page
        assert f'/knowledge/passages/{found["id"]}"' in (await bob.get("/knowledge?q=coffee")).text
        assert (await bob.get("/api/knowledge")).json()["own"][0]["pages"] == 3
        for path in (f"/api/knowledge/passages/{found['id']}", f"/knowledge/passages/{found['id']}"):
            assert (await ann.get(path)).status_code == 404
        for nothing in ("0", "x", "²", "9" * 40):
            assert (await bob.get(f"/api/knowledge/passages/{nothing}")).status_code == 404


async def test_documents_for_everybody_are_kept_by_administrators_and_found_by_all(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "rule.md").write_text("# Rules\n\nNobody smokes here.\n")
    folder = FolderSettings(name="rules", path=tmp_path / "rules")
    async with served(tmp_path, sections={"knowledge": KnowledgeSettings(enabled=True, folders=(folder,))}) as world:
        await world.served.knowledge.look()
        bob, ann = await world.program(PERSON), await world.browser(ADMIN)
        refused = await bob.put(f"{UPLOAD}a.md?everybody=true", content=HANDBOOK)
        assert (refused.status_code, refused.json()["error"]["scopes"]) == (403, ["admin"])
        everybodys = await put(ann, query="?everybody=true&collection=handbook")
        assert await places(bob, "lunch smokes") == ["Rules, Rules", "Handbook, Handbook"]
        told = (await bob.get("/api/knowledge")).json()
        assert told["everybodys"] == [{"name": "handbook", "documents": 1}, {"name": "rules", "documents": 1}]
        assert (told["own"], told["documents"]) == ([], [])
        documents = (await ann.get("/api/knowledge")).json()["documents"]
        assert {(d["name"], d["by"], d["removable"]) for d in documents} == {
            ("handbook.md", "", True), ("rule.md", "", False),
        }  # fmt: skip
        assert "rule.md" in (await ann.get("/knowledge")).text
        assert "rule.md" not in (await (await world.browser(PERSON)).get("/knowledge")).text
        (ruled,) = [d["id"] for d in documents if d["kind"] == "folder"]
        assert (await ann.delete(f"/api/knowledge/{ruled}")).status_code == 409
        assert (await ann.put(f"{UPLOAD}a.md?everybody=true&collection=rules", content=b"x")).status_code == 409
        assert (await bob.delete(f"/api/knowledge/{everybodys}")).status_code == 404
        assert (await ann.post("/knowledge/remove", data={"id": everybodys})).status_code == 204
        assert await places(bob, "lunch") == []


async def test_an_address_is_read_by_the_rules_of_web_fetch(tmp_path: Path) -> None:
    with SimulatorProcess("tests.simulators.web") as website:
        web = f"http://127.0.0.1:{website.port}"
        fetch = {"fetch": {"enabled": True, "allow": [web.removeprefix("http://")]}}
        given = Settings.model_validate({"channels": {"console": {}}, "web": fetch, "knowledge": {"enabled": True}})
        async with served(tmp_path, sections={"knowledge": given.knowledge, "web": given.web}) as world:
            bob = await world.browser(PERSON)
            added = await bob.post("/api/knowledge", json={"address": f"{web}/handbook", "collection": "web"})
            assert (added.status_code, added.json()["kind"]) == (200, "page"), added.text
            asked = {"q": added.json()["title"]}
            (found, *_) = (await bob.get("/api/knowledge/search", params=asked)).json()["passages"]
            assert found["address"].startswith(f"{web}/handbook#:~:text=")
            shown = (await bob.get("/knowledge", params=asked)).text
            assert f'href="{web}/handbook"' in shown
            told = await bob.post("/knowledge/add", data={"address": "http://127.0.0.1:9/x"})
            assert (told.status_code, told.json()["error"]["code"]) == (422, "not_readable")
            for wrong in ("ftp://example.org/x", "https://a b", "javascript:alert(1)"):
                assert (await bob.post("/api/knowledge", json={"address": wrong})).status_code == 422


async def test_what_cannot_be_read_or_passes_a_limit_changes_nothing_and_says_why(tmp_path: Path) -> None:
    small = {"knowledge": KnowledgeSettings(enabled=True, max_file_mb=0.001, max_documents=1)}
    async with served(tmp_path, sections=small, upload_limits=UploadLimits(*[10**8] * 4)) as world:
        bob = await world.browser(PERSON, **{"Accept-Language": "zh-CN"})
        for name, body, part in (
            ("a.txt", b"x" * 1001, "0.001 MB"),
            ("empty.txt", b"  \n", ""),
        ):
            refused = await bob.put(f"{UPLOAD}{name}", content=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (422, "not_readable"), name
            assert part in refused.json()["error"]["message"]
            assert not refused.json()["error"]["message"].isascii(), "in the language of who asks"
        bad = await bob.put(f"{UPLOAD}a.txt?collection=two%20words", content=b"x")
        assert bad.json()["error"]["code"] == "bad_collection"
        await put(bob, "a.txt", b"one")
        full = await bob.put(f"{UPLOAD}b.txt", content=b"two")
        assert (full.status_code, full.json()["error"]["code"]) == (422, "not_readable")
        assert [d["name"] for d in (await bob.get("/api/knowledge")).json()["own"]] == ["a.txt"]


async def test_a_days_uploads_count_here_too(tmp_path: Path) -> None:
    limits = UploadLimits(file=10**8, thread=10**8, message=10**8, person=len(HANDBOOK) + 1)
    async with served(tmp_path, sections=ON, upload_limits=limits) as world:
        bob = await world.program(PERSON)
        await put(bob)
        again = await bob.put(f"{UPLOAD}b.md", content=HANDBOOK)
        assert (again.status_code, again.json()["error"]["code"]) == (429, "upload_quota")


@pytest.mark.parametrize("language", ["en", "zh-CN"])
async def test_the_page_is_there_with_and_without_documents(tmp_path: Path, language: str) -> None:
    async with served(tmp_path, sections=ON) as world:
        bob = await world.browser(PERSON, **{"Accept-Language": language})
        for query in ("", "?q=lunch"):
            assert (await bob.get(f"/knowledge{query}")).status_code == 200
        await put(bob)
        assert "handbook.md" in (await bob.get("/knowledge/list")).text
        assert "20 euros" in (await bob.get("/knowledge?q=lunch")).text
        unknown = await bob.get("/api/knowledge/search", params={"q": "lunch", "collection": "nosuch"})
        assert unknown.status_code == 404


async def test_a_gateway_without_knowledge_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob = await world.browser(PERSON)
        assert (await bob.get("/api/knowledge")).json()["enabled"] is False
        assert "knowledge.enabled" in (await bob.get("/knowledge?q=x")).text
        assert (await bob.put(f"{UPLOAD}a.md", content=HANDBOOK)).status_code == 409
        assert (await bob.get("/api/knowledge/search?q=x")).status_code == 409
