"""Files that people sent as sources: what was read of them can be cited, what agents wrote themselves cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import ToolMessage

from harness.graph.results import canonical
from harness.graph.sandbox import RunSandbox
from harness.graph.signals import RunScope
from harness.research.citations import check
from harness.research.tool import CitedFiles
from harness.skills.library import NO_SKILLS
from harness.web.sources import MemorySources, hash_of, pages_read, texts_of
from sandbox.base import SandboxUnavailable
from tests.harness.support import TurnedClock, context
from tests.simulators.sandbox.provider import MemoryProvider, MemorySandbox

if TYPE_CHECKING:
    import pytest

SENT = "/mnt/user-data/uploads/plan.txt"
PLAN = "The tower is to be green.\nIt costs 310 marks.\n"


class Away(MemoryProvider):
    """Its sandboxes cannot be reached."""

    async def acquire(self, thread_id: str) -> MemorySandbox:
        raise SandboxUnavailable("away")


async def read(
    sources: MemorySources,
    path: str,
    text: str,
    *,
    run: str = "r1",
    status: Literal["success", "error"] = "success",
    came: str | None = PLAN,
    now: str | None = None,
    provider: MemoryProvider | None = None,
) -> None:
    """came: what a person sent to that path, None: nobody did. now: what is there, where it was changed."""
    provider, place = provider or MemoryProvider(), canonical(path)
    provider.drive("thread-1").write(place, now or came or text, append=False, expected=None)
    sent = {place: hash_of(came)} if came is not None else {SENT: hash_of(PLAN)}

    async def made(request: Any) -> ToolMessage:
        return ToolMessage(text, tool_call_id="c", name="read_file", status=status)

    request: Any = type("Request", (), {})()
    request.tool_call = {"name": "read_file", "args": {"path": path}, "id": "c", "type": "tool_call"}
    scope = RunScope(context(run), NO_SKILLS, RunSandbox(provider, "thread-1"), sent=sent)
    request.runtime = type("Runtime", (), {"context": scope})()
    result = await CitedFiles(sources, TurnedClock()).awrap_tool_call(request, made)
    assert isinstance(result, ToolMessage)
    assert result.text == text, "the agent gets it as it is"


async def test_what_was_read_of_a_sent_file_is_one_source_with_all_its_parts() -> None:
    sources = MemorySources()
    await read(sources, SENT, "The tower is to be green.")
    await read(sources, "/mnt/user-data/uploads/./plan.txt", "[lines 2 to 2 of 2]\nIt costs 310 marks.\n")
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
        words = f"The words of {name}."
        await read(sources, f"/mnt/user-data/uploads/{name}", words, came=words)
    titles = {page.first.title for page in await pages_read(sources, "thread-1", ["r1"])}
    assert titles == {"report.pdf", "notes.old.md", "minutes.docx", "x"}


async def test_what_is_no_file_of_a_person_or_was_not_read_is_none() -> None:
    sources = MemorySources()
    await read(sources, "/mnt/user-data/workspace/plan.txt", "Made up.", came=None)
    await read(sources, "/mnt/user-data/uploads/../workspace/plan.txt", "Made up.", came=None)
    await read(sources, SENT, PLAN, status="error")
    assert not await pages_read(sources, "thread-1", ["r1"])


async def test_what_an_agent_put_among_sent_files_or_in_the_place_of_one_is_none() -> None:
    sources = MemorySources()
    await read(sources, "/mnt/user-data/uploads/other.txt", "Made up.", came=None)
    await read(sources, SENT, "Made up.", now="Made up.")
    await read(sources, SENT, "310 marks", now=f"{PLAN}Made up.\n")
    await read(sources, SENT, "Made up.", now=PLAN)  # put back before anybody looked
    assert not await pages_read(sources, "thread-1", ["r1"])


async def test_what_cannot_be_compared_is_read_and_not_cited(caplog: pytest.LogCaptureFixture) -> None:
    sources = MemorySources()
    await read(sources, SENT, "310 marks", provider=Away())
    assert not await pages_read(sources, "thread-1", ["r1"])
    assert "could not be compared" in caplog.text


async def test_another_research_reads_it_anew() -> None:
    sources = MemorySources()
    await read(sources, SENT, "The tower is to be green.")
    await read(sources, SENT, "It costs 310 marks.", run="r2")
    (page,) = await pages_read(sources, "thread-1", ["r2"])
    assert page.first.run_id == "r2"
    assert await sources.text(page.first) == "It costs 310 marks."
