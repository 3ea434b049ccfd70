"""A research that was begun on Telegram, decided on, followed and read on the page."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from bot.texts.en import EN
from tests.flow.researching import Play, reads, step, web_settings
from tests.flow.sandboxed import require_bubblewrap
from tests.flow.test_page import browser, listening, sign_in
from tests.simulators.model.scripts import Pause, Say
from tests.simulators.process import SimulatorProcess
from tests.simulators.telegram.seen import ALICE
from tests.simulators.web import pages

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from tests.flow.gateway import World

require_bubblewrap()
SECONDS = 60.0


async def once(client: httpx.AsyncClient, thread: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The research as soon as it is as wanted."""
    async with asyncio.timeout(SECONDS):
        while True:
            told: dict[str, Any] = (await client.get(f"/api/research/{thread}")).json()
            if wanted(told):
                return told
            await asyncio.sleep(0.2)  # a caller has 600 requests a minute


async def test_a_research_of_telegram_is_started_seen_at_work_and_read_on_the_page(world: World) -> None:
    with SimulatorProcess("tests.simulators.web") as website:
        web = f"http://127.0.0.1:{website.port}"
        world.settings |= web_settings(web)
        listening(world)
        play = Play(
            "What is known of it?",
            [[step("Quick"), step("Slow")]],
            {
                "Quick": reads(f"{web}/article", "The quick finding."),
                "Slow": [Say(text="It "), Pause(name="slow"), Say(text="took long.")],
            },
            f'# All\n\n## Key points\n\n- It is known that "{pages.FACT}" [1]',
        )
        async with world, browser(world) as client:
            await play.begin(world.model)
            await sign_in(world, client)
            await world.telegram.user_says(f"/research {play.question}")
            await world.telegram.wait_for_message(ALICE, lambda seen: "Quick" in seen.text and len(seen.buttons) == 3)
            await world.telegram.wait_idle(ALICE)
            (listed,) = (await client.get("/api/research")).json()["researches"]
            assert (listed["phase"], listed["conversation"], listed["own"]) == ("review", f"telegram:{ALICE.id}", True)
            thread = listed["thread_id"]
            told = (await client.get(f"/api/research/{thread}")).json()
            assert told["actions"] == ["start", "change", "stop"]
            done = await client.post(f"/research/{thread}", data={"do": "start", "run_id": told["run_id"]})
            assert done.status_code == 204, done.text
            await world.model.wait_for_pause("slow")
            told = await once(client, thread, lambda told: told["steps"][0]["state"] == "completed")
            assert (told["steps"][1]["state"], told["research"]["busy"], told["actions"]) == ("working", True, ["stop"])
            assert (told["research"]["ended"], told["research"]["steps"]) == (1, 2)
            await world.model.release("slow")
            told = await once(client, thread, lambda told: told["research"]["phase"] == "done")
            assert [each["finding"] for each in told["steps"]] == ["The quick finding.", "It took long."]
            (source,) = told["sources"]
            assert (source["address"], source["quotes"], source["gone"]) == (f"{web}/article", [pages.FACT], "")
            page = (await client.get(f"/research/{thread}")).text
            assert f'href="{web}/article"' in page
            assert 'href="#source-1"' in page
            report = await client.get(f"/research/{thread}/files/report.md")
            assert pages.FACT in report.text
            summary = EN.research["summary_attached"].partition("{")[0]
            await world.telegram.wait_for_text(ALICE, summary)
            await world.telegram.wait_for_message(ALICE, lambda seen: bool(seen.files))
            plan = next(m for m in await world.telegram.bot_messages(ALICE) if "☑ Start" in m.text)
            assert not plan.buttons, "what was decided on the page stands in the chat's question"
