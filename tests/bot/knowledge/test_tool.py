"""`antler knowledge`: the installation's collections by the command line's tool, and what the doctor says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.doctor import online, parts
from bot.doctor.findings import Examined, Severity
from bot.knowledge.keeper import FILE, MAIN, Addition
from bot.knowledge.tool import KnowledgeTool
from bot.settings import Settings
from harness.knowledge.config import KnowledgeSettings
from tests.bot.knowledge.test_keeper import GROUP, kept
from tests.simulators.knowledge.services import DATASET, KEY, DifyService, Embedding
from tests.simulators.web.site import Site

if TYPE_CHECKING:
    from pathlib import Path

    from bot.store import Store


async def test_the_installations_documents(store: Store, tmp_path: Path) -> None:
    (tmp_path / "rules.md").write_text("# Rules\n\nDogs stay on a lead.")
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "cats.md").write_text("Cats roam free.")
    async with kept(store, tmp_path, folders=[{"name": "handbook", "path": str(folder)}]) as made:
        tool = KnowledgeTool(made, waits=True)
        await made.add_file(Addition(owner=GROUP, collection=MAIN, kind=FILE, place="secret.md"), lambda: b"zebra")

        added = await tool.do({"do": "add", "what": str(tmp_path / "rules.md"), "collection": "house"})
        assert added == {"text": "Rules: added to house, 1 passages", "done": True}
        assert (await tool.do({"do": "reindex"}))["done"]
        listed = await tool.do({"do": "list"})
        assert [each["place"] for each in listed["data"]["documents"]] == ["rules.md", "cats.md"]
        assert [each["documents"] for each in listed["data"]["others"]] == [1]
        assert "secret" not in str(listed)
        assert GROUP not in str(listed)

        found = await tool.do({"do": "ask", "what": "where do dogs go?"})
        assert [each["address"] for each in found["data"]] == ["knowledge:house/rules.md"]
        assert (await tool.do({"do": "ask", "what": "zebra"}))["text"] == "nothing was found"
        refused = await tool.do({"do": "remove", "what": "cats.md"})
        assert (refused["done"], "knowledge.folders" in refused["text"]) == (False, True)
        assert (await tool.do({"do": "remove", "collection": "house"}))["text"] == "removed: rules.md"
        for collection, reason in (("two words", "letters, digits"), ("handbook", "folder of the config")):
            refused = await tool.do({"do": "add", "what": str(tmp_path / "rules.md"), "collection": collection})
            assert (refused["done"], reason in refused["text"]) == (False, True)
        missing = await tool.do({"do": "add", "what": str(tmp_path / "none.md")})
        assert (missing["done"], "No such file" in missing["text"]) == (False, True)


async def test_what_the_doctor_finds(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    embedding, dify = Embedding(), DifyService()
    async with Site(own=embedding.answers() | dify.answers()).serve() as site:
        service = {"use": "dify", "base_url": site.url("/v1"), "datasets": [DATASET]}
        knowledge = {
            "enabled": True,
            "folders": [{"name": "here", "path": str(tmp_path)}, {"name": "gone", "path": str(tmp_path / "gone")}],
            "embeddings": {"base_url": site.url("/v1"), "model": "small", "api_key": KEY},
            "services": [
                {**service, "name": "one", "api_key": KEY},
                {**service, "name": "two", "api_key": "wrong-key"},
            ],
        }
        known = KnowledgeSettings.model_validate(knowledge)
        settings = Settings.default(tmp_path).model_copy(update={"knowledge": known})
        examined = Examined(settings=settings, file=None, gateway=None, served=False, fix=False)
        here, gone, _ = await parts.knowledge(examined)
        vectors, one, two = await online.knowledge(examined)
        embedding.tells_usage = False
        _, estimated, *_ = await online.knowledge(examined)
    assert (here.severity, gone.severity) == (Severity.OK, Severity.ERROR)
    assert gone.what == "knowledge.folders[1].path"
    assert vectors.says == "small returns vectors of 64 numbers"
    assert "cost are estimated" in estimated.says
    assert (one.severity, two.severity) == (Severity.OK, Severity.ERROR)
    assert "rejects the key" in two.says
    assert "wrong-key" not in str(two)
