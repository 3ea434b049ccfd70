"""Researches as the page and the API show them, and the decisions that are made there, over real HTTP."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from markupsafe import Markup

from bot.http.panel.sources import with_citations
from bot.http.resources.research import contradictions_in
from bot.store import runs
from harness.events import ReadyFile, TodosChanged, TodoStatus
from harness.knowledge.config import KnowledgeSettings
from harness.research.config import Style
from harness.research.plan import Plan, Step
from harness.research.record import Cited, Finding, Past, Phase, Research
from tests.bot.core import ANN, BOB
from tests.bot.http.served import ADMIN, PERSON, ServedCore, served

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    import httpx

    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller

SOURCES = {"knowledge": KnowledgeSettings(enabled=True)}
"""Without something to look into there is no research."""
QUESTION = "How high is the lighthouse of Arnvik?"
PLAN = Plan(
    title="The lighthouse of Arnvik",
    thought="One by one.",
    steps=(
        Step(id="1", title="Its height", description="Look for the height.", type="research"),
        Step(id="2", title="Its year", description="Look for the year.", type="research"),
        Step(id="3", title="Compare", description="Weigh both.", type="analysis", depends_on=("1", "2")),
    ),
)
REPORT = """\
# The lighthouse of Arnvik

It is "20 metres high" [1], and `x[1]` is no citation. Nobody knows [9].

## Contradictions

One says 1780 [1], the other 1820 [2].

## Open

Who built it.
"""
CITED = (
    Cited(
        number=1,
        address="https://example.org/plan",
        title="Plan <b>of</b> it",
        fetched_at="2026-01-02T03:04:05+00:00",
        sha256="ab" * 32,
        quotes=("20 metres high",),
        gone="",
    ),
    Cited(
        number=2,
        address="javascript:alert(1)",
        title="A chronicle",
        fetched_at="2026-01-02T03:04:06+00:00",
        gone="unreachable",
    ),
)
CHECK = {"citations": 3, "unknown": 1, "foreign": 0, "quotes": 2, "misquoted": 1, "gone": 1}


def research(phase: Phase = Phase.REVIEW, who: str = PERSON, **more: Any) -> Research:
    given: dict[str, Any] = {"plan": PLAN, "style": Style.NEWS, "question": QUESTION, "runs": ("r1",)} | more
    return Research(id="r1", who=who, phase=phase, **given)


def finished(**more: Any) -> Research:
    found = {
        "1": Finding(state="completed", text="It is *20 metres* high.", seconds=12, calls=4),
        "2": Finding(state="timed_out", detail="it took too long"),
        "3": Finding(state="completed", text="So it is.", cut=True),
    }
    return research(Phase.DONE, findings=found, delivered=REPORT, whole=REPORT, cited=CITED, check=CHECK, **more)


async def begun(world: ServedCore, record: Research, chat: str | None = None, person: str = BOB) -> str:
    """A thread with this research; returns its id."""
    await world.say("hello", person, chat)
    await world.answered()
    thread: str = world.harness.starts[-1].ctx.thread_id
    world.harness.researches[thread] = record
    await world.clock.advance(1)
    return thread


def presents(world: ServedCore, run_id: str, name: str, content: bytes) -> None:
    """A file of a run, as the harness's spool keeps it (harness/files/spool.py)."""
    folder = world.parts.settings.data_dir / "spool" / run_id
    folder.mkdir(parents=True)
    (folder / name).write_bytes(content)
    mime_type = "application/octet-stream"
    file = ReadyFile(
        name=name, path=name, mime_type=mime_type, size=len(content), kind="file", spooled=f"{run_id}/{name}"
    )
    (folder / "card.json").write_text(json.dumps({"file": asdict(file), "place": 0}))


async def decide(client: httpx.AsyncClient, thread: str, do: str, run_id: str = "r1", text: str = "") -> httpx.Response:
    return await client.post(f"/api/research/{thread}", json={"do": do, "run_id": run_id, "text": text})


async def test_a_research_is_told_with_its_steps_sources_and_report(tmp_path: Path) -> None:
    async with served(tmp_path, sections=SOURCES) as world:
        past = (Past(title="Before", phase=Phase.FAILED),)
        thread = await begun(world, finished(past=past, changes=("no blogs",), clarified=(("Which?", "The old one"),)))
        bob = await world.program(PERSON, "read")
        (listed,) = (await bob.get("/api/research")).json()["researches"]
        assert (listed["thread_id"], listed["title"], listed["phase"], listed["style"]) == (
            thread, "The lighthouse of Arnvik", "done", "news",
        )  # fmt: skip
        assert (listed["steps"], listed["ended"], listed["sources"], listed["busy"]) == (3, 3, 2, False)
        assert listed["past"] == [{"title": "Before", "phase": "failed", "sources": 0}]
        told = (await bob.get(f"/api/research/{thread}")).json()
        assert told["research"] == listed
        assert [(s["id"], s["state"], s["after"]) for s in told["steps"]] == [
            ("1", "completed", []), ("2", "timed_out", []), ("3", "completed", ["1", "2"]),
        ]  # fmt: skip
        assert (told["steps"][0]["calls"], told["steps"][1]["detail"], told["steps"][2]["cut"]) == (
            4, "it took too long", True,
        )  # fmt: skip
        assert told["report"] == REPORT
        assert told["contradictions"] == "One says 1780 [1], the other 1820 [2]."
        assert (told["report_state"], told["actions"], told["changes"]) == ("completed", [], ["no blogs"])
        assert [(s["quotes"], s["gone"]) for s in told["sources"]] == [(["20 metres high"], ""), ([], "unreachable")]
        page = await (await world.browser(PERSON)).get(f"/research/{thread}")
        assert '<a class="citation" href="#source-1">[1]</a>' in page.text
        assert "<code>x[1]</code>" in page.text
        assert "Nobody knows [9]" in page.text
        assert 'href="https://example.org/plan" target="_blank" rel="noopener noreferrer nofollow"' in page.text
        assert "Plan &lt;b&gt;of&lt;/b&gt; it" in page.text
        assert 'href="javascript:' not in page.text
        assert "did not answer when it was checked (it cannot be reached)" in page.text
        assert "<em>20 metres</em>" in page.text


async def test_start_on_the_page_is_what_start_in_the_chat_is(tmp_path: Path) -> None:
    async with served(tmp_path, sections=SOURCES) as world:
        thread = await begun(world, research())
        bob = await world.browser(PERSON)
        shown = (await bob.get(f"/research/{thread}")).text
        assert "Nothing has been searched for the steps yet." in shown
        form = {"do": "start", "run_id": "r1"}
        works = world.harness.hold("Start")
        answers = [await bob.post(f"/research/{thread}", data=form) for _ in range(2)]
        works.set()
        assert [answer.status_code for answer in answers] == [204, 409], "what is decided is decided once"
        assert answers[0].headers["X-Antler-Location"] == f"/research/{thread}"
        await world.answered()
        (started,) = [start for start in world.harness.starts if start.run_input.choice]
        assert (started.run_input.choice, started.ctx.thread_id, started.ctx.speaker.id) == ("start", thread, PERSON)
        assert started.ctx.account == "memory"
        assert world.texts(BOB)[-1] == "The whole answer", "what comes of it stands in the chat"


async def test_a_change_is_said_in_words_and_of_the_plan_that_was_seen(tmp_path: Path) -> None:
    async with served(tmp_path, sections=SOURCES) as world:
        thread = await begun(world, research())
        bob = await world.program(PERSON, "read", "runs")
        stale = await decide(bob, thread, "change", "r0", "no blogs")
        assert (stale.status_code, stale.json()["error"]["code"]) == (409, "research_changed")
        for text in ("", "  ", "/new"):
            refused = await decide(bob, thread, "change", text=text)
            assert (refused.status_code, refused.json()["error"]["code"]) == (422, "no_change")
        assert (await decide(bob, thread, "resume")).json()["error"]["code"] == "not_now"
        assert (await decide(bob, thread, "change", text=" no\nblogs ")).json() == {"done": "change"}
        await world.answered()
        assert (world.harness.starts[-1].run_input.text, len(world.harness.starts)) == ("no blogs", 2)


async def test_in_a_chat_of_the_page_the_decision_stands_as_its_persons_words(tmp_path: Path) -> None:
    async with served(tmp_path, sections=SOURCES) as world:
        bob = await world.browser(PERSON, **{"Accept-Language": "zh-CN"})
        chat = (await bob.post("/api/conversations")).json()["chat"]
        await bob.post(f"/api/conversations/{chat}/messages", json={"text": "你好", "client_id": "1"})
        await world.clock.advance(1)
        await world.answered()
        thread = world.harness.starts[-1].ctx.thread_id
        world.harness.researches[thread] = research()
        assert (await decide(bob, thread, "stop")).json() == {"done": "stop"}
        await world.clock.advance(1)
        await world.answered()
        assert world.harness.starts[-1].run_input.choice == "stop"
        messages = (await bob.get(f"/api/conversations/{chat}/messages")).json()["messages"]
        assert [each["text"] for each in messages if each["author"] == "person"] == ["你好", "停止"]


async def test_what_was_interrupted_goes_on_and_what_works_is_stopped_and_seen_live(tmp_path: Path) -> None:
    async with served(tmp_path, sections=SOURCES) as world:
        steps = [("Its height", TodoStatus.COMPLETED), ("Its year", TodoStatus.IN_PROGRESS)]
        steps += [("Compare", TodoStatus.PENDING), ("Report", TodoStatus.PENDING)]

        async def works(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            yield tell(TodosChanged, todos=tuple(steps))
            await world.harness.hold("never").wait()
            yield tell.answer("done")

        thread = await begun(world, research(Phase.WORKING))
        bob = await world.program(PERSON, "read", "runs")
        assert (await bob.get(f"/api/research/{thread}")).json()["actions"] == ["resume"]
        world.harness.scripts["resume"] = works
        assert (await decide(bob, thread, "resume")).json() == {"done": "resume"}
        await world.clock.advance(2)
        told = (await bob.get(f"/api/research/{thread}")).json()
        assert [step["state"] for step in told["steps"]] == ["completed", "working", "open"]
        assert (told["report_state"], told["research"]["busy"], told["actions"]) == ("open", True, ["stop"])
        live = await (await world.browser(PERSON)).get(f"/research/{thread}/live")
        assert live.text.count("at work") == 2
        assert (await decide(bob, thread, "stop")).json() == {"done": "stop"}
        await world.answered()
        assert (await bob.get(f"/api/research/{thread}")).json()["actions"] == ["resume"]


async def test_a_question_of_its_own_is_answered(tmp_path: Path) -> None:
    async with served(tmp_path, sections=SOURCES) as world:
        thread = await begun(world, research(Phase.ASKED, plan=None, asked="Which *one*?"))
        bob = await world.browser(PERSON)
        shown = (await bob.get(f"/research/{thread}")).text
        assert "Which <em>one</em>?" in shown
        assert "There is no plan yet." in shown
        await bob.post(f"/research/{thread}", data={"do": "answer", "run_id": "r1", "text": "The old one"})
        await world.answered()
        assert world.harness.starts[-1].run_input.text == "The old one"


async def test_only_who_asked_sees_and_decides(tmp_path: Path) -> None:
    async with served(tmp_path, sections=SOURCES) as world:
        thread = await begun(world, research())
        admin, ann = await world.program(ADMIN), await world.browser(ADMIN)
        for client in (admin, ann):
            assert (await client.get("/api/research", params={"everybody": "true"})).json()["researches"] == []
            for path in ("", "/files/report.md"):
                assert (await client.get(f"/api/research/{thread}{path}")).status_code == 404
            assert (await decide(client, thread, "start")).status_code == 404
        assert (await ann.get(f"/research/{thread}")).status_code == 404
    (tmp_path / "read").mkdir()
    async with served(tmp_path / "read", sections=SOURCES, http={"admins_read_threads": True}) as world:
        thread = await begun(world, research())
        admin, ann = await world.program(ADMIN), await world.browser(ADMIN)
        (listed,) = (await admin.get("/api/research", params={"everybody": "true"})).json()["researches"]
        assert (listed["own"], listed["owner"]) == (False, PERSON)
        assert (await admin.get("/api/research")).json()["researches"] == []
        assert (await admin.get(f"/api/research/{thread}")).json()["actions"] == []
        assert (await decide(admin, thread, "start")).status_code == 409
        assert "The lighthouse of Arnvik" in (await ann.get("/research?all=yes")).text


async def test_of_a_group_who_asked_there_sees_theirs(tmp_path: Path) -> None:
    async with served(tmp_path, sections=SOURCES) as world:
        await world.say("hello", ANN, "g", name="Ann")
        await world.answered()
        thread = await begun(world, research(past=(Past(title="Ann's secret", phase=Phase.DONE),)), "g")
        bob, ann = await world.program(PERSON, "read", "runs"), await world.program(ADMIN)
        told = await bob.get(f"/api/research/{thread}")
        assert told.status_code == 200
        assert "secret" not in told.text
        assert (await ann.get(f"/api/research/{thread}")).status_code == 404
        assert (await decide(bob, thread, "start")).json() == {"done": "start"}
        await world.answered()
        assert (world.harness.starts[-1].run_input.choice, world.harness.starts[-1].ctx.speaker.id) == ("start", PERSON)


async def test_a_thread_that_its_chat_has_left_takes_no_decision(tmp_path: Path) -> None:
    async with served(tmp_path, sections=SOURCES) as world:
        thread = await begun(world, research())
        await world.say("/new", BOB)
        await world.clock.advance(1)
        await world.answered()
        bob = await world.browser(PERSON)
        told = (await bob.get(f"/api/research/{thread}")).json()
        assert (told["actions"], told["elsewhere"]) == ([], True)
        assert "go back to it there with /threads" in (await bob.get(f"/research/{thread}")).text
        assert (await decide(bob, thread, "start")).status_code == 409


async def test_without_something_to_look_into_nothing_can_be_begun(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        thread = await begun(world, research())
        bob = await world.browser(PERSON)
        listed = (await bob.get("/api/research")).json()
        assert (listed["off"], len(listed["researches"])) == ("no_web", 1)
        assert "none is set up on this gateway" in (await bob.get("/research")).text
        assert (await bob.get(f"/api/research/{thread}")).json()["actions"] == []


async def test_files_are_those_that_are_kept_and_those_that_are_made(tmp_path: Path) -> None:
    async with served(tmp_path, sections=SOURCES) as world:
        thread = await begun(world, finished())
        bob = await world.program(PERSON, "read")
        assert [f["name"] for f in (await bob.get(f"/api/research/{thread}")).json()["files"]] == [
            "report.md", "record.json",
        ]  # fmt: skip
        presents(world, "r1", "arnvik.docx", b"PK")
        files = (await bob.get(f"/api/research/{thread}")).json()["files"]
        assert [(f["name"], f["size"]) for f in files] == [
            ("arnvik.docx", 2),
            ("report.md", None),
            ("record.json", None),
        ]
        kept = await bob.get(f"/api/research/{thread}/files/arnvik.docx")
        assert (kept.content, kept.headers["content-disposition"]) == (
            b"PK",
            "attachment; filename*=UTF-8''arnvik.docx",
        )
        made = await bob.get(f"/api/research/{thread}/files/report.md")
        assert made.text.startswith("# The lighthouse of Arnvik")
        assert made.headers["content-disposition"] == 'attachment; filename="report.md"'
        record = (await bob.get(f"/api/research/{thread}/files/record.json")).json()
        assert record["question"] == QUESTION
        assert (await bob.get(f"/api/research/{thread}/files/other.md")).status_code == 404
        page = await world.browser(PERSON)
        assert (await page.get(f"/research/{thread}/files/arnvik.docx")).content == b"PK"


@pytest.mark.parametrize("language", ["en", "zh-CN"])
async def test_every_state_has_a_page_in_both_languages(tmp_path: Path, language: str) -> None:
    async with served(tmp_path, sections=SOURCES) as world:
        bob = await world.browser(PERSON, **{"Accept-Language": language})
        assert (await bob.get("/research")).status_code == 200, "without any"
        thread = await begun(world, research())
        for phase in Phase:
            await world.clock.advance(5)  # lists have a rate
            for style in Style:
                world.harness.researches[thread] = research(phase, style=style)
                for path in ("/research", f"/research/{thread}", f"/research/{thread}/live"):
                    assert (await bob.get(path)).status_code == 200, (phase, path)


async def test_nothing_is_known_of_a_thread_that_is_none(tmp_path: Path) -> None:
    async with served(tmp_path, sections=SOURCES) as world:
        await world.say("hello", BOB)
        await world.answered()
        bob = await world.browser(PERSON)
        for thread in (world.harness.starts[-1].ctx.thread_id, "nosuch"):
            assert (await bob.get(f"/api/research/{thread}")).status_code == 404
            assert (await bob.get(f"/research/{thread}")).status_code == 404
        assert (await bob.get("/api/research")).json()["researches"] == []
        assert await world.store.read(runs.unended) == []


def test_numbers_in_brackets_lead_to_sources_that_there_are() -> None:
    html = [
        Markup('<p>A [1][2] <a href="x">[1]</a> <strong>[2]</strong></p>'),
        Markup("<pre><code>[1]</code></pre>[3]"),
    ]
    assert with_citations(html, {1, 2}) == (
        '<p>A <a class="citation" href="#source-1">[1]</a><a class="citation" href="#source-2">[2]</a> '
        '<a href="x">[1]</a> <strong><a class="citation" href="#source-2">[2]</a></strong></p>'
        "<pre><code>[1]</code></pre>[3]"
    )


def test_contradictions_are_the_section_of_that_name() -> None:
    chinese = "# T\n\n## 矛盾之处\n\n一说 1780。\n\n### 细节\n\n二。\n\n## 结论\n\n三。"
    assert contradictions_in(chinese) == "一说 1780。\n\n### 细节\n\n二。"
    assert contradictions_in("# Contradictions in law\n\nAll of it.\n\n#Contradictions\n") == ""
