"""Files that people sent as sources: what was read of them can be cited, what agents wrote themselves cannot."""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.messages import ToolMessage

from harness.graph.signals import RunScope
from harness.research.citations import check
from harness.research.tool import CitedFiles
from harness.skills.library import NO_SKILLS
from harness.web.sources import MemorySources, pages_read, texts_of
from tests.harness.support import TurnedClock, context

SENT = "/mnt/user-data/uploads/plan.txt"


async def read(
    sources: MemorySources, path: str, text: str, *, run: str = "r1", status: Literal["success", "error"] = "success"
) -> None:
    async def made(request: Any) -> ToolMessage:
        return ToolMessage(text, tool_call_id="c", name="read_file", status=status)

    request: Any = type("Request", (), {})()
    request.tool_call = {"name": "read_file", "args": {"path": path}, "id": "c", "type": "tool_call"}
    request.runtime = type("Runtime", (), {"context": RunScope(context(run), NO_SKILLS)})()
    result = await CitedFiles(sources, TurnedClock()).awrap_tool_call(request, made)
    assert isinstance(result, ToolMessage)
    assert result.text == text, "the agent gets it as it is"


async def test_what_was_read_of_a_sent_file_is_one_source_with_all_its_parts() -> None:
    sources = MemorySources()
    await read(sources, SENT, "The tower is to be green.")
    await read(sources, "/mnt/user-data/uploads/./plan.txt", "It costs 310 marks.")
    await read(sources, SENT, "The tower is to be green.")
    pages = await pages_read(sources, "thread-1", ["r1"])
    (page,) = pages
    assert (page.first.address, page.first.title) == (SENT, "plan.txt")
    report = '"The tower is to be green" [1]. "It costs 310 marks" [1]. "It costs nothing at all" [1].'
    checked = check(report, pages, await texts_of(sources, pages))
    assert (checked.citations, len(checked.misquoted)) == (2, 1)


async def test_a_source_has_the_name_that_its_sender_gave_the_file() -> None:
    sources = MemorySources()
    for name in ("0a1b2c3d-report.pdf.md", "0a1b2c3e-notes.old.md", "0a1b2c3f-minutes.docx.md", "deadbeef-x"):
        await read(sources, f"/mnt/user-data/uploads/{name}", f"The words of {name}.")
    titles = {page.first.title for page in await pages_read(sources, "thread-1", ["r1"])}
    assert titles == {"report.pdf", "notes.old.md", "minutes.docx", "x"}


async def test_what_is_no_file_of_a_person_or_was_not_read_is_none() -> None:
    sources = MemorySources()
    await read(sources, "/mnt/user-data/workspace/plan.txt", "Made up.")
    await read(sources, "/mnt/user-data/uploads/../workspace/plan.txt", "Made up.")
    await read(sources, SENT, "It does not exist.", status="error")
    assert not await pages_read(sources, "thread-1", ["r1"])


async def test_another_research_reads_it_anew() -> None:
    sources = MemorySources()
    await read(sources, SENT, "The first words of it.")
    await read(sources, SENT, "Other words stand there now.", run="r2")
    (page,) = await pages_read(sources, "thread-1", ["r2"])
    assert page.first.run_id == "r2"
    assert await sources.text(page.first) == "Other words stand there now."
