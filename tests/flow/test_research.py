"""/research in a chat: a question, the plan that waits for a person, the steps, the report with checked citations."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from bot.texts.en import EN
from bot.texts.zh import ZH
from harness.research.tool import FROM_RECORD
from sandbox.policy import DEFAULT_FOLDER, complete
from tests.flow.researching import Play, asked_for, reads, step, uses, web_settings
from tests.flow.sandboxed import call, require_bubblewrap
from tests.simulators.model.scripts import Call, Pause, Say, ToolUse
from tests.simulators.process import SimulatorProcess
from tests.simulators.telegram.seen import ALICE, TEAM, FileSpec, Person
from tests.simulators.web import pages
from tests.simulators.web.engines import HITS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from tests.flow.gateway import World
    from tests.simulators.model.scripts import Step
    from tests.simulators.telegram.seen import SeenMessage

require_bubblewrap()
shared = pytest.mark.asyncio(loop_scope="module")
"""Of tests that share one gateway."""
WORDS = EN.research
START, CHANGE, STOP = WORDS["start"], WORDS["change"], WORDS["stop"]
PLANS = "You plan the research of a topic"
REPORTS = "You write the report of a research"
AFTER_DEATHS = 300.0
"""Seconds: a run that was at work at two deaths of the process or more is held back for a minute or longer."""


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """The address of the simulated website, which answers as a SearXNG too."""
    with SimulatorProcess("tests.simulators.web") as process:
        yield f"http://127.0.0.1:{process.port}"


def with_web(world: World, web: str, **research: Any) -> World:
    world.settings |= web_settings(web, **research)
    return world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World, web: str) -> AsyncIterator[World]:
    public_world.settings["knowledge"] = {"enabled": True}
    async with with_web(public_world, web):
        yield public_world


async def plan_of(world: World, person: Person, text: str) -> SeenMessage:
    """The newest plan that shows this text and waits."""
    return await world.telegram.wait_for_message(person, lambda seen: text in seen.text and len(seen.buttons) == 3)


async def press(world: World, seen: SeenMessage, label: str, person: Person) -> None:
    pressed = await world.telegram.press(seen.message_id, label, chat=person.id, user=person)
    await world.telegram.wait_answered(pressed.callback_id)


async def summary_of(world: World, person: Person, attached: str = WORDS["summary_attached"]) -> SeenMessage:
    """What stands in the chat at the end, once the report has come as a file."""
    summary = await world.telegram.wait_for_text(person, attached.partition("{")[0])
    await world.telegram.wait_for_message(person, lambda seen: bool(seen.files))
    return summary


def reports(world: World) -> list[str]:
    """The reports below the outputs of all threads."""
    return [path.read_text() for path in sorted(world.data_dir.rglob("outputs/*.md"))]


# These four first: they look whether the model has connections left, which the shared gateway keeps.


async def test_without_a_way_to_the_web_it_says_so(world: World) -> None:
    async with world:
        await world.telegram.user_says("/research What is it?")
        await world.telegram.wait_for_text(ALICE, "Research needs a way to search")
        assert not await world.model.completions()


async def test_kill_between_and_within_steps_runs_none_twice_and_delivers_once(world: World, web: str) -> None:
    play = Play(
        "What survives?",
        [[step("Quick"), step("Slow"), step("Last", "analysis", 1, 2)]],
        {
            "Quick": reads(f"{web}/article", "The quick finding."),
            "Slow": [Say(text="It "), Pause(name="slow"), Say(text="took long.")],
            "Last": [Say(text="In the "), Pause(name="last"), Say(text="end.")],
        },
        f'# All\n\n## Key points\n\n- It is known that "{pages.FACT}" [1]',
    )
    with_web(world, web)
    async with world:
        await play.begin(world.model)
        await world.telegram.user_says(f"/research {play.question}")
        plan = await plan_of(world, ALICE, "Quick")
        await world.kill()  # while the plan waits
        await world.start()
        await press(world, plan, START, ALICE)
        await world.model.wait_for_pause("slow")
        await until_kept(world, "The quick finding.")
        await world.kill()  # with one step of a wave done, the other in the middle
        await world.model.release("slow")
        await world.start()
        await world.model.wait_for_pause("last")
        await world.kill()  # in the next wave
        await world.model.release("last")
        await world.start()
        await world.telegram.wait_for_message(ALICE, lambda seen: bool(seen.files))
        await world.telegram.wait_idle(ALICE)
        delivered = [seen for seen in await world.telegram.bot_messages(ALICE) if seen.files]
        assert len(delivered) == 1
        begun = [r for r in await asked_for(world.model, "<step>\nQuick") if r.body["messages"][-1]["role"] == "user"]
        assert len(begun) == 1, "a finished step is never run again"
        (written,) = await asked_for(world.model, REPORTS)
        assert "The quick finding." in written.last_user_text
        assert "took long." in written.last_user_text


async def test_the_buttons_of_a_report_survive_a_kill_and_begin_one_run_each(world: World, web: str) -> None:
    play = Play(
        "What is to be shown?",
        [[step("One thing")]],
        {"One thing": reads(f"{web}/article", "Green.")},
        "# T\n\n## Key points\n\n- It is green [1].",
    )
    with_web(world, web)
    async with world:
        await play.begin(world.model)
        slides: list[Step] = [Say(text="The "), Pause(name="slides"), Say(text="slides.")]
        await world.model.script("Make a presentation of the report", slides, "contains")
        await world.telegram.user_says(f"/research --auto {play.question}")
        report = await world.telegram.wait_for_message(ALICE, lambda seen: len(seen.buttons) == 2)
        labels = [button["text"] for button in report.buttons]
        assert labels == [EN.offers["ppt-generation"], EN.offers["deeper"]], "nothing is spoken here"
        await world.kill()
        await world.start()

        async def pressed() -> str:
            press = await world.telegram.press(report.message_id, labels[0], chat=ALICE.id, user=ALICE)
            return str((await world.telegram.wait_answered(press.callback_id))["text"])

        assert await pressed() == f"☑ {labels[0]} · {EN.working}"
        await world.model.wait_for_pause("slides")
        assert await pressed() == EN.pressed["making"]
        await world.kill()
        await world.model.release("slides")
        await world.start()
        await world.telegram.wait_for_text(ALICE, "The slides.")
        await world.telegram.wait_idle(ALICE)
        assert await pressed() == EN.pressed["made"]
        assert len([seen for seen in await world.telegram.bot_messages(ALICE) if "The slides." in seen.text]) == 1


async def test_a_sent_file_is_read_and_cited_over_a_restart(world: World, web: str) -> None:
    sentence = "The harbour of Antlerby has room for forty boats."
    play = Play("How large is the harbour, says harbour.txt, or old.pdf?", [[step("The harbour")]])
    with_web(world, web)
    async with world:
        await play.begin(world.model)
        note = FileSpec(name="harbour.txt", mime="text/plain", content=f"Boats\n\n{sentence}\n".encode())
        await world.telegram.user_says("!say I have it.", file=note)
        await world.telegram.wait_for_text(ALICE, "I have it.")
        other = FileSpec(name="boats.csv", mime="text/csv", content=b"boats\n40\n")
        await world.telegram.user_says(f"/research {play.question}", file=other)
        told = await world.telegram.wait_for_text(ALICE, "came to this thread")
        assert "No file old.pdf came to this thread." in told.text
        plan = await plan_of(world, ALICE, "The harbour")
        assert "Files at hand: boats.csv, harbour.txt\n" in plan.text
        (planned,) = await asked_for(world.model, f"{play.question}\n</topic>")
        path = planned.last_user_text.partition("harbour.txt (text/plain, 57 bytes): ")[2].partition("\n")[0]
        assert path.startswith("/mnt/user-data/uploads/")
        await world.model.reset()
        await world.model.script(
            "<step>\nThe harbour\n", [uses("read_file", path=path), Say(text=sentence)], "contains"
        )
        report = f'# All\n\n## Key points\n\n- It is large: "{sentence}" [1]\n- "It has no boats at all." [1]'
        await world.model.script(f"{play.question}\n</topic>\n\nTitle of the plan", [Say(text=report)], "contains")
        await world.kill()
        await world.start()
        await press(world, plan, START, ALICE)
        await summary_of(world, ALICE)
        begun = await asked_for(world.model, "<step>\nThe harbour\n")
        assert f": {path}\n" in begun[0].last_user_text, "the restart has not forgotten it"
        (written,) = reports(world)
        assert f'- It is large: "{sentence}" [1]\n' in written
        assert f"1. harbour.txt (`{path}`), read " in written
        assert "“It has no boats at all.” does not stand in" in written


@pytest.mark.long
async def test_a_run_of_twelve_steps_with_three_kills_is_delivered_once(world: World, web: str) -> None:
    """Waves of up to three, killed in the first, in the third, and while the report is being written."""
    names = [f"Part {chr(ord('A') + number)}" for number in range(12)]
    steps = [
        step(name, "research" if number < 3 else "analysis", *([number - 2] if number > 2 else []))
        for number, name in enumerate(names)
    ]
    answers: dict[str, Sequence[Any]] = {name: [Say(text=f"Found in {name}.")] for name in names}
    answers["Part A"] = reads(f"{web}/article", "Found in Part A.")
    answers["Part B"] = [Say(text="Found "), Pause(name="first"), Say(text="in Part B.")]
    answers["Part H"] = [Say(text="Found "), Pause(name="third"), Say(text="in Part H.")]
    play = Play("What has twelve parts?", [steps], answers)
    with_web(world, web, max_steps=12)
    written: list[Step] = [
        Say(text="# All\n\n"),
        Pause(name="report"),
        Say(text=f'## Key points\n\n- "{pages.FACT}" [1]'),
    ]
    async with world:
        await world.model.script(f"{play.question}\n</topic>\n\nTitle of the plan", written, "contains")
        await play.begin(world.model)
        await world.telegram.user_says(f"/research --auto {play.question}")
        for name in ("first", "third", "report"):
            await world.model.wait_for_pause(name, AFTER_DEATHS)
            await world.kill()
            await world.model.release(name)
            await world.start()
        await world.telegram.wait_for_message(ALICE, lambda seen: bool(seen.files), AFTER_DEATHS)
        await world.telegram.wait_idle(ALICE)
        assert len([seen for seen in await world.telegram.bot_messages(ALICE) if seen.files]) == 1
        asked = [r for r in await world.model.completions() if r.body["messages"][-1]["role"] == "user"]
        begun = {name: sum(f"<step>\n{name}\n" in r.last_user_text for r in asked) for name in names}
        killed = {"Part B", "Part H"}
        assert {name for name, count in begun.items() if count > 2} == set()
        # A step of the same wave may have been in the middle too; what came before it was not done again.
        assert all(begun[name] == 1 for name in names[3:6] + names[9:]), begun
        assert all(begun[name] == 2 for name in killed), begun
        told = (await asked_for(world.model, REPORTS))[-1].last_user_text
        assert all(f"Found in {name}." in told for name in names)


@pytest.mark.long
async def test_three_kills_within_one_wave_are_no_reason_to_give_up(world: World, web: str) -> None:
    """Four steps at once; in each process one of them ends before it dies."""
    names = [f"Part {each}" for each in "ABCD"]
    answers: dict[str, Sequence[Any]] = {
        name: [Say(text="Found "), Pause(name=name), Say(text=f"in {name}.")] for name in names
    }
    play = Play(
        "What comes in one wave?",
        [[step(name, "analysis") for name in names]],
        answers,
        "# All\n\n## Key points\n\n- It is known.",
    )
    with_web(world, web, at_once=4)
    async with world:
        await play.begin(world.model)
        await world.telegram.user_says(f"/research --auto {play.question}")
        for number, name in enumerate(names[:3]):
            await world.model.wait_for_pause(names[-1], AFTER_DEATHS)
            await world.model.release(name)
            await until_kept(world, f"Found in {name}.")
            await until_forgiven(world)
            await world.kill()
            if number == 2:
                await world.model.release(names[-1])
            await world.start()
        await world.telegram.wait_for_message(ALICE, lambda seen: bool(seen.files), AFTER_DEATHS)
        await world.telegram.wait_idle(ALICE)
        assert len([seen for seen in await world.telegram.bot_messages(ALICE) if seen.files]) == 1
        asked = [r for r in await world.model.completions() if r.body["messages"][-1]["role"] == "user"]
        begun = {name: sum(f"<step>\n{name}\n" in r.last_user_text for r in asked) for name in names}
        assert begun == {"Part A": 1, "Part B": 2, "Part C": 3, "Part D": 4}, "what had ended was not begun again"


@pytest.mark.long
async def test_a_kill_at_every_node_goes_on_there(world: World, web: str) -> None:
    """kill -9 while the model works for each node in turn: none that had ended is asked again, and all is told once."""
    question = "What is at every node?"
    coordinated = json.dumps({"action": "research", "topic": question, "text": "", "locale": "en-US"})
    planned = json.dumps({"locale": "en-US", "title": "Nodes", "thought": "So.", "steps": [step("Only step")]})
    written = f'# Nodes\n\n## Key points\n\n- "{pages.FACT}" [1]'
    nodes = {
        "coordinator": (f"<question>\n{question}", coordinated),
        "background": ("Look at the first 5 results", "There is a lighthouse."),
        "planner": (f"{question}\n</topic>\n\n<background>", planned),
        "step": ("<step>\nOnly step\n", "It is green."),
        "reporter": (f"{question}\n</topic>\n\nTitle of the plan", written),
    }
    with_web(world, web, background=True)
    for name, (text, answer) in nodes.items():
        fetched = [uses("web_fetch", url=f"{web}/article")] if name == "step" else []
        await world.model.script(
            text, [*fetched, Say(text=answer[:5]), Pause(name=name), Say(text=answer[5:])], "contains"
        )
    async with world:
        await world.telegram.user_says(f"/research {question}")
        for name in nodes:
            if name == "step":
                plan = await plan_of(world, ALICE, "Only step")
                await world.kill()  # while the plan waits for a person
                await world.start()
                await press(world, plan, START, ALICE)
            await world.model.wait_for_pause(name, AFTER_DEATHS)
            await world.kill()
            await world.model.release(name)
            await world.start()
        await world.telegram.wait_for_message(ALICE, lambda seen: bool(seen.files), AFTER_DEATHS)
        await world.telegram.wait_idle(ALICE)
        seen = await world.telegram.bot_messages(ALICE)
        assert len([each for each in seen if each.files]) == 1
        assert len([each for each in seen if len(each.buttons) == 3 or "Estimate:" in each.text]) == 1
        for name, (text, _) in nodes.items():
            asked = [r for r in await asked_for(world.model, text) if r.body["messages"][-1]["role"] == "user"]
            assert len(asked) == 2, f"{name}: once before the kill and once after it"


async def test_a_first_look_models_by_role_and_a_report_in_word(world: World, web: str) -> None:
    with_web(world, web, background=True, models={"reporter": "other"}, deliver=["md", "docx"])
    world.settings["models"] = [{**model, "price": {"input": 1.0, "output": 4.0}} for model in world.config()["models"]]
    play = Play(
        "What is in Word?",
        [[step("Its colour")]],
        {"Its colour": reads(f"{web}/article", "Green.")},
        "# In Word\n\n## Key points\n\n- It is green [1].\n\n| a | b |\n|---|---|\n| 1 | 2 |",
    )
    looked: list[Any] = [
        uses("web_search", query="word"),
        Say(text="There is a lighthouse at Antlerby."),
    ]
    await world.model.script("Look at the first 5 results", looked, "contains")
    async with world:
        await play.begin(world.model)
        await world.telegram.user_says(f"/research {play.question}")
        plan = await plan_of(world, ALICE, "Its colour")
        assert " USD." in plan.text
        (planned,) = await asked_for(world.model, f"{play.question}\n</topic>\n\n<background>")
        assert "There is a lighthouse at Antlerby." in planned.last_user_text
        searched = [r for r in await asked_for(world.model, "Look at the first") if HITS[0][0] in str(r.body)]
        assert searched, "the search was made"
        await press(world, plan, START, ALICE)
        summary = await summary_of(world, ALICE)
        (written,) = await asked_for(world.model, REPORTS)
        assert written.body["model"] == "sim-2"
        if complete(DEFAULT_FOLDER) is None:
            assert "It could not be made as docx" in summary.text
        else:
            assert "about-what-is-in-word.md, about-what-is-in-word.docx" in summary.text
            sent = await world.telegram.wait_for_message(ALICE, lambda seen: "docx" in str(seen.data.get("document")))
            assert sent.data["document"]["file_name"] == "about-what-is-in-word.docx"


@shared
async def test_a_question_becomes_a_plan_and_then_a_cited_report(gateway: World, person: Person, web: str) -> None:
    play = Play(
        f"What colour had the lighthouse of {person.first_name}?",
        [[step("Its colour"), step("Its height", "research", 1), step("What follows", "analysis", 1, 2)]],
        {
            "Its colour": reads(f"{web}/article", f"It was green since 1911 ({web}/article)."),
            "Its height": reads(f"{web}/text", f"Nothing but plain words ({web}/text)."),
            "What follows": [Say(text="It was green.")],
        },
        f"# The lighthouse of {person.first_name}\n\n## Key points\n\n"
        f'- It is green: "{pages.FACT}" [1]\n- It is 99 metres high [7]\n- "It was built by giants of old" [1]\n\n'
        "## Overview\n\nSee [this](https://evil.example.org/x).\n\n## Sources\n\n1. made up",
    )
    await play.begin(gateway.model)
    await gateway.telegram.user_says(f"/research {play.question}", user=person)
    plan = await plan_of(gateway, person, "Its colour")
    assert [button["text"] for button in plan.buttons] == [START, CHANGE, STOP]
    assert "3. What follows" in plan.text
    assert "after 1, 2" in plan.text
    assert "Estimate:" in plan.text
    assert not await asked_for(gateway.model, "<step>\nIts colour"), "nothing is spent before the person says so"

    await press(gateway, plan, START, person)
    summary = await summary_of(gateway, person)
    assert f'It is green: "{pages.FACT}" [1]' in summary.text
    assert f"It is 99 metres high {WORDS['unsourced']}\n" in summary.text, "a number that no source has is taken out"
    assert "The check took 3 citation(s) out" in summary.text
    (report,) = [text for text in reports(gateway) if person.first_name in text]
    assert f"1. [The lighthouse](<{web}/article>), read " in report
    assert "made up" not in report
    assert "evil.example.org" in report.partition("## Check of the citations")[2]
    assert "https://evil.example.org/x)" not in report
    assert "“It was built by giants of old” does not stand in" in report
    (analysed,) = await asked_for(gateway.model, "<step>\nWhat follows")
    assert "It was green since 1911" in analysed.last_user_text
    assert "Nothing but plain words" in analysed.last_user_text

    await gateway.telegram.user_says("/research status", user=person)
    status = await gateway.telegram.wait_for_text(person, "3 of 3 steps")
    assert "(done)" in status.text
    assert "2 page(s) read" in status.text


@shared
async def test_only_pages_that_its_runs_have_really_fetched_can_be_cited(
    gateway: World, person: Person, web: str, mark: str
) -> None:
    """A page of an earlier turn of the thread is none of it, nor one that a search has found and nobody has read. What
    a run that was stopped has read is, though another run writes the report."""
    name, (_, found, _) = person.first_name, HITS[0]
    handbook = call("web_fetch", url=f"{web}/handbook", section="fog horn")
    await gateway.telegram.user_says(f"{handbook}\n!quote Sentence 119", user=person)
    await gateway.telegram.wait_for_text(person, "I read: ")
    play = Play(
        f"What may {name} cite?",
        [[step("Its guide"), step("Its words", "research", 1)]],
        {
            "Its guide": [uses("web_search", query="lighthouse"), *reads(f"{web}/article#top", "It is green.")],
            "Its words": [
                uses("web_fetch", url=f"{web}/text"),
                Say(text="They "),
                Pause(name=mark),
                Say(text="stand."),
            ],
        },
        f'# What {name} may cite\n\n## Key points\n\n- It is green: "{pages.FACT}" [1]\n'
        f'- It has "plain words" [2], see [there]({web}/text/)\n- "Sentence 119 of the chapter Fog horn" [2]\n'
        f"- Searched only: [history]({found})\n- Of another turn: [handbook]({web}/handbook) and [3]",
    )
    await play.begin(gateway.model)
    await gateway.telegram.user_says(f"/research {play.question}", user=person)
    await press(gateway, await plan_of(gateway, person, "Its guide"), START, person)
    await gateway.model.wait_for_pause(mark)
    await gateway.telegram.user_says("/stop", user=person)
    await gateway.telegram.wait_for_text(person, "Stopped.")
    await gateway.model.release(mark)
    await gateway.telegram.user_says("/research resume", user=person)
    await summary_of(gateway, person)

    searched, *_ = [
        record.body["messages"][-1]["content"]
        for record in await asked_for(gateway.model, "<step>\nIts guide")
        if record.body["messages"][-1]["role"] == "tool"
    ]
    assert f"{web}/article" in searched, "the page was found by the search"
    assert found in searched
    (report,) = [text for text in reports(gateway) if f"What {name} may cite" in text]
    body, _, rest = report.partition("## Sources")
    listed, _, checked = rest.partition("## Check of the citations")
    assert f'It is green: "{pages.FACT}" [1]' in body
    assert 'It has "plain words" [2], see there [2]' in body
    assert '- "Sentence 119 of the chapter Fog horn" (no source)\n' in body
    assert "- Searched only: history (no source)\n" in body
    assert "- Of another turn: handbook (no source) and" in body
    assert [line[:3] for line in listed.strip().splitlines()] == ["1. ", "2. "]
    assert f"1. [The lighthouse](<{web}/article>), read " in listed
    assert f"(<{web}/text>), read " in listed
    assert "3 citation(s) of 2 source(s)" in checked
    assert "2 of 3 quotation(s) stand" in checked
    for address in (found, f"{web}/handbook"):
        assert f"`{address}` was not read in this research" in checked
    await gateway.telegram.user_says("/research status", user=person)
    status = await gateway.telegram.wait_for_text(person, "2 of 2 steps")
    assert "2 page(s) read" in status.text


@shared
async def test_a_plan_is_changed_and_stopped(gateway: World, person: Person) -> None:
    play = Play(
        f"What is new for {person.first_name}?",
        [[step("The old way"), step("The price")], [step("The new way"), step("The price")]],
    )
    await play.begin(gateway.model)
    await gateway.telegram.user_says(f"/research {play.question}", user=person)
    plan = await plan_of(gateway, person, "The old way")
    await press(gateway, plan, CHANGE, person)
    await gateway.telegram.wait_for_text(person, WORDS["ask_change"])
    await gateway.model.reset()
    await play.plan(gateway.model, 1, change="Look at the new way instead")
    await gateway.telegram.user_says("Look at the new way instead", user=person)
    changed = await plan_of(gateway, person, "The new way")
    assert "The new way · search and read · new" in changed.text
    assert "The price · search and read\n" in changed.text
    assert "No longer planned: The old way" in changed.text
    await press(gateway, changed, STOP, person)
    await gateway.telegram.wait_for_text(person, WORDS["stopped"])
    assert not await asked_for(gateway.model, "<step>")

    await gateway.telegram.user_says("!say back to normal", user=person)
    await gateway.telegram.wait_for_text(person, "back to normal")


@shared
async def test_a_chart_stands_in_the_report_and_comes_as_a_picture(gateway: World, person: Person, web: str) -> None:
    name = person.first_name
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    draw = f"echo {pixel} | base64 -d > /mnt/user-data/outputs/costs.png"
    paths = json.dumps({"paths": ["/mnt/user-data/outputs/costs.png"]})
    play = Play(
        f"What does {name} pay?",
        [[step("The prices"), step("A chart", "processing", 1)]],
        {
            "The prices": reads(f"{web}/article", "Green."),
            "A chart": [
                uses("bash", command=draw),
                Call(calls=(ToolUse(name="present_files", arguments=paths),)),
                Say(text="The chart is costs.png."),
            ],
        },
        f"# Paid by {name}\n\n## Key points\n\n- It is green [1].\n\n![The costs](costs.png)",
    )
    await play.begin(gateway.model)
    await gateway.telegram.user_says(f"/research --auto {play.question}", user=person)
    await gateway.telegram.wait_for_message(person, lambda seen: "photo" in seen.data)
    await summary_of(gateway, person)
    (written,) = await asked_for(gateway.model, f"{play.question}\n</topic>\n\nTitle of the plan")
    assert "<charts>\ncosts.png\n</charts>" in written.last_user_text
    (report,) = [text for text in reports(gateway) if f"Paid by {name}" in text]
    assert "![The costs](<costs.png>)" in report


@shared
async def test_collections_that_are_named_are_what_is_searched(gateway: World, person: Person) -> None:
    name = person.first_name
    rule, gossip = f"{name} travels by ferry in the second class.", f"{name} travels by ferry like a king."
    for collection, text in (("handbook", rule), ("gossip", gossip)):
        file = FileSpec(name=f"{collection}.txt", mime="text/plain", content=text.encode())
        await gateway.telegram.user_says(f"/knowledge add #{collection}", user=person, file=file)
        await gateway.telegram.wait_for_text(person, f"added to {collection}")
    play = Play(
        f"@Handbook, @nowhere: how does {name} travel?",
        [[step("The rule"), step("The talk", "research", 1)]],
        {
            "The rule": [uses("knowledge_search", query=f"{name} travels ferry"), Say(text=rule)],
            "The talk": [
                Call(
                    calls=(
                        ToolUse(
                            name="knowledge_search",
                            arguments=json.dumps({"query": f"{name} travels", "collections": ["gossip"]}),
                        ),
                    )
                ),
                Say(text=gossip),
            ],
        },
        f'# Travel of {name}\n\n## Key points\n\n- The rule is "{rule}" [1]',
    )
    await play.begin(gateway.model)
    await gateway.telegram.user_says(f"/research {play.question}", user=person)
    told = await gateway.telegram.wait_for_text(person, "There is no collection")
    assert "There is no collection @nowhere here. There are: @gossip, @handbook." in told.text
    plan = await plan_of(gateway, person, "The rule")
    assert "Searched first: @handbook\n" in plan.text
    await press(gateway, plan, START, person)
    await summary_of(gateway, person)

    async def found(title: str) -> str:
        asked = await asked_for(gateway.model, f"<step>\n{title}\n")
        return str(next(m for r in asked if (m := r.body["messages"][-1])["role"] == "tool")["content"])

    first, second = await found("The rule"), await found("The talk")
    assert (rule in first, gossip in first) == (True, False), "those that were named are searched"
    assert (rule in second, gossip in second) == (False, True), "others too, where the researcher names them"
    (report,) = [text for text in reports(gateway) if f"Travel of {name}" in text]
    assert f'The rule is "{rule}" [1]' in report
    assert "1. handbook.txt (`knowledge:handbook/handbook.txt`), read " in report


@shared
async def test_it_speaks_chinese(gateway: World, person: Person, web: str) -> None:
    person = replace(person, language_code="zh-hans")
    play = Play(
        f"灯塔{person.first_name}是什么颜色？",
        [[step("灯塔的颜色")]],
        {"灯塔的颜色": reads(f"{web}/article", "绿色。")},
        f"# {person.first_name}的灯塔\n\n## 要点\n\n- 灯塔是绿色的[1]。\n\n## 参考文献\n\n1. 编造的",
        locale="zh-CN",
    )
    await play.begin(gateway.model)
    await gateway.telegram.user_says(f"/research {play.question}", user=person)
    plan = await plan_of(gateway, person, "灯塔的颜色")
    assert ZH.research["plan_hint"] in plan.text
    await press(gateway, plan, ZH.research["start"], person)
    summary = await summary_of(gateway, person, ZH.research["summary_attached"])
    assert "灯塔是绿色的[1]" in summary.text
    assert ZH.research["summary_clean"] in summary.text
    (report,) = [text for text in reports(gateway) if person.first_name in text]
    assert "编造的" not in report
    assert f"## {ZH.research['check']}" in report


@shared
async def test_in_a_group_only_who_asked_decides(gateway: World, person: Person) -> None:
    other = Person(person.id + 100_000, "Other")
    play = Play(f"What does {person.first_name} want?", [[step("Their wish")]])
    await play.begin(gateway.model)
    await gateway.telegram.group_says(f"/research@antler_bot {play.question}", user=person)
    plan = await gateway.telegram.wait_for_message(TEAM, lambda seen: "Their wish" in seen.text and bool(seen.buttons))
    pressed = await gateway.telegram.press(plan.message_id, START, chat=TEAM, user=other)
    refused = await gateway.telegram.wait_answered(pressed.callback_id)
    assert refused["text"] == EN.approval_answers["not_yours"]
    pressed = await gateway.telegram.press(plan.message_id, STOP, chat=TEAM, user=person)
    await gateway.telegram.wait_for_text(TEAM, WORDS["stopped"])


@shared
async def test_stop_ends_it_in_the_middle_and_resume_goes_on(
    gateway: World, person: Person, web: str, mark: str
) -> None:
    play = Play(
        f"What takes {person.first_name} long?",
        [[step("Short work"), step("Long work", "analysis", 1)]],
        {
            "Short work": reads(f"{web}/article", f"Short for {person.first_name}."),
            "Long work": [Say(text="It "), Pause(name=mark), Say(text="is done.")],
        },
        "# T\n\n## Key points\n\n- All is done [1].",
    )
    await play.begin(gateway.model)
    await gateway.telegram.user_says(f"/research --auto {play.question}", user=person)
    await gateway.model.wait_for_pause(mark)
    await gateway.telegram.user_says("/stop", user=person)
    await gateway.telegram.wait_for_text(person, "Stopped.")
    await gateway.telegram.user_says("/research status", user=person)
    await gateway.telegram.wait_for_text(person, "1 of 2 steps")
    await gateway.model.release(mark)
    await gateway.telegram.user_says("/research resume", user=person)
    summary = await summary_of(gateway, person)
    assert "All is done [1]" in summary.text
    begun = [
        r for r in await asked_for(gateway.model, "<step>\nShort work") if r.body["messages"][-1]["role"] == "user"
    ]
    assert len(begun) == 1


@shared
async def test_retry_works_from_the_plan_again(gateway: World, person: Person, web: str) -> None:
    play = Play(
        f"What does {person.first_name} ask twice?",
        [[step("One thing")]],
        {"One thing": reads(f"{web}/article", "Green.")},
        "# T\n\n## Key points\n\n- It is green [1].",
    )
    await play.begin(gateway.model)
    await gateway.telegram.user_says(f"/research {play.question}", user=person)
    await press(gateway, await plan_of(gateway, person, "One thing"), START, person)
    first = await summary_of(gateway, person)
    await gateway.telegram.user_says("/retry", user=person)
    await gateway.telegram.wait_for_message(
        person, lambda seen: "It is green [1]" in seen.text and seen.message_id > first.message_id
    )
    begun = [r for r in await asked_for(gateway.model, "<step>\nOne thing") if r.body["messages"][-1]["role"] == "user"]
    assert len(begun) == 2
    await gateway.telegram.user_says("/research status", user=person)
    assert "(done)" in (await gateway.telegram.wait_for_text(person, "1 of 1 steps")).text


@shared
async def test_list_export_and_the_style_of_a_chat(gateway: World, person: Person, web: str) -> None:
    name = person.first_name
    await gateway.telegram.user_says("/research list", user=person)
    await gateway.telegram.wait_for_text(person, WORDS["none_at_all"])
    await gateway.telegram.user_says("/research style news", user=person)
    await gateway.telegram.wait_for_text(person, "in the style news from now on")
    play = Play(
        f"What does {name} keep?",
        [[step("One thing")]],
        {"One thing": reads(f"{web}/article", "Green.")},
        f'# Kept by {name}\n\n## Key points\n\n- It is green: "{pages.FACT}" [1].',
    )
    await play.begin(gateway.model)
    await gateway.telegram.user_says(f"/research --auto {play.question}", user=person)
    await summary_of(gateway, person)
    (written,) = await asked_for(gateway.model, f"{play.question}\n</topic>\n\nTitle of the plan")
    assert "Style: news." in written.last_user_text
    await gateway.telegram.user_says("/new", user=person)
    await gateway.telegram.user_says("/research list", user=person)
    listed = await gateway.telegram.wait_for_text(person, "Research of this chat")
    assert f"1. About {play.question} (done), 1 source(s)" in listed.text
    await gateway.telegram.user_says("/threads 2", user=person)
    await gateway.telegram.user_says("/research export", user=person)
    await gateway.telegram.wait_for_text(person, "the whole record with its sources")
    await gateway.telegram.wait_for_message(person, lambda seen: "record.json" in str(seen.data))
    await gateway.telegram.user_says("/research style epic", user=person)
    await gateway.telegram.wait_for_text(person, "There is no style epic")
    await gateway.telegram.user_says("/research style default", user=person)
    await gateway.telegram.wait_for_text(person, "in the style academic from now on")


@shared
async def test_small_talk_and_unreadable_plans_end_honestly(gateway: World, person: Person) -> None:
    hello = {"action": "answer", "topic": "", "text": f"Hello {person.first_name}!", "locale": "en"}
    await gateway.model.script("<question>\nHi there", [Say(text=json.dumps(hello))], "contains")
    await gateway.telegram.user_says("/research Hi there", user=person)
    await gateway.telegram.wait_for_text(person, f"Hello {person.first_name}!")

    await gateway.model.script("<question>\nA riddle", [Say(text="I say nothing.")], "contains")
    await gateway.model.script("A riddle\n</topic>", [Say(text="No plan from me.")], "contains")
    await gateway.telegram.user_says("/research A riddle", user=person)
    await gateway.telegram.wait_for_text(person, "gave no plan that I could read")
    repaired = [
        each
        for each in await asked_for(gateway.model, "A riddle\n</topic>")
        if "No plan from me." in each.last_user_text
    ]
    assert len(repaired) == 1, "the planner is asked once more, with what it said"


@shared
async def test_the_agent_offers_it_and_a_button_begins_it(gateway: World, person: Person) -> None:
    play = Play(f"What is offered to {person.first_name}?", [[step("An offer")]])
    await play.begin(gateway.model)
    offer = {"question": "Shall I research it?", "options": [f"/research {play.question}", "No"]}
    await gateway.telegram.user_says(call("ask_clarification", **offer), user=person)
    asked = await gateway.telegram.wait_for_message(person, lambda seen: len(seen.buttons) == 2)
    await press(gateway, asked, asked.buttons[0]["text"], person)
    plan = await plan_of(gateway, person, "An offer")
    await press(gateway, plan, STOP, person)
    await gateway.telegram.wait_for_text(person, WORDS["stopped"])


@shared
async def test_questions_about_it_are_answered_from_its_records(gateway: World, person: Person, web: str) -> None:
    play = Play(
        f"What can be asked by {person.first_name}?",
        [[step("Only this")]],
        {"Only this": reads(f"{web}/article", "Green.")},
        "# T\n\n## Key points\n\n- It is green [1].",
    )
    await play.begin(gateway.model)
    await gateway.telegram.user_says(f"/research --auto {play.question}", user=person)
    await gateway.telegram.wait_for_message(person, lambda seen: bool(seen.files))
    asked = call("research_record", what="finding 1")
    await gateway.telegram.user_says(f"{asked}\n!quote painted", user=person)
    answer = await gateway.telegram.wait_for_text(person, "I read: ")
    assert pages.FACT in answer.text


@shared
async def test_why_something_is_believed_is_answered_without_the_web(gateway: World, person: Person, web: str) -> None:
    name = person.first_name
    play = Play(
        f"What does {name} doubt?",
        [[step("Only this")]],
        {"Only this": reads(f"{web}/article", "Green.")},
        f'# T\n\n## Key points\n\n- {name} has it: "{pages.FACT}" [1].',
    )
    await play.begin(gateway.model)
    await gateway.telegram.user_says(f"/research --auto {play.question}", user=person)
    await gateway.telegram.wait_for_message(person, lambda seen: bool(seen.files))
    why, deeper = f"Why do you believe 1, {name}?", f"Go deeper on 1, {name}"
    searches, looks = uses("web_search", query=name), uses("research_record", what="finding 1")
    for asked in (why, deeper):
        await gateway.model.script(asked, [searches, looks, Say(text=f"Answered: {asked}")], "contains")
        await gateway.telegram.user_says(asked, user=person)
        await gateway.telegram.wait_for_text(person, f"Answered: {asked}")
    for asked, may_search in ((why, False), (deeper, True)):
        told = [record for record in await gateway.model.completions() if record.last_user_text.startswith(asked)]
        offered = {tool["function"]["name"] for tool in told[0].body["tools"]}
        assert "research_record" in offered
        assert ({"web_search", "web_fetch"} <= offered) is may_search
        messages = told[-1].body["messages"]
        turn = messages[max(place for place, each in enumerate(messages) if each["role"] == "user") :]
        assert (FROM_RECORD in str(turn)) is not may_search, "nor is one made that the model calls all the same"
        assert pages.FACT in str(turn[-1]), "the record has the page's words"


@shared
async def test_what_cannot_be_asked_for_is_explained(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says("/research --style epic What is it?", user=person)
    told = await gateway.telegram.wait_for_text(person, "There is no style epic")
    assert "strategic" in told.text
    await gateway.telegram.user_says("/research resume", user=person)
    await gateway.telegram.wait_for_text(person, WORDS["nothing_to_resume"])
    await gateway.telegram.user_says("/research", user=person)
    await gateway.telegram.wait_for_text(person, WORDS["none"])


async def until_kept(world: World, words: str, seconds: float = 20.0) -> None:
    """Until a checkpoint holds what a step wrote."""
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(_kept, world, words):
            pass


async def until_forgiven(world: World, seconds: float = 20.0) -> None:
    """Until no death of the process counts against a run."""
    async with asyncio.timeout(seconds):
        while await asyncio.to_thread(_deaths, world):
            pass


def _deaths(world: World) -> list[str]:
    with closing(sqlite3.connect(f"file:{world.data_dir / 'antler.db'}?mode=ro", uri=True)) as saved:
        return [deaths for (deaths,) in saved.execute("SELECT deaths FROM runs") if json.loads(deaths)]


def _kept(world: World, words: str) -> bool:
    with closing(sqlite3.connect(f"file:{world.data_dir / 'checkpoints.db'}?mode=ro", uri=True)) as saved:
        return any(words.encode() in bytes(value) for (value,) in saved.execute("SELECT value FROM writes"))
