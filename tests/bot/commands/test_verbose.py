"""/verbose: how much a chat shows of the work, from the next answer on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bot.texts.en import EN
from harness.events import ToolStarted
from tests.bot.core import ANN, BOB, core

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller


async def test_it_is_shown_changed_and_taken_back(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        for text in ("/verbose", "/verbose full", "hello", "/verbose loud", "/verbose default", "hello again"):
            await c.say(text)
            await c.answered()
        told = [text for text in c.texts() if not text.startswith("echo")]
        assert EN.verbose["short"] in told[0]
        assert EN.verbose["full"] in told[1]
        assert told[2] == EN.verbose["unknown"]
        assert EN.verbose["short"] in told[3]
        assert [start.ctx.progress for start in c.harness.starts] == ["full", "short"]


async def test_it_counts_for_what_the_chat_shows_also_of_an_answer_that_is_made_again(tmp_path: Path) -> None:
    async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        yield tell(ToolStarted, call_id="1", tool="bash", summary="make test")
        if len(c.harness.starts) < 3:
            await asyncio.Event().wait()
        yield tell.answer("done")

    async with core(tmp_path) as c:
        c.harness.scripts["q"] = script
        await c.say("q")
        await c.clock.advance(5)
        assert c.texts()[0] == EN.tool_labels["bash"]
        await c.say("/stop")
        await c.say("/verbose full")
        await c.say("/retry")
        await c.clock.advance(5)
        assert "bash: make test" in c.texts()
        await c.say("/stop")
        await c.answered()


async def test_in_a_group_it_is_for_those_who_control_it(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("/verbose off", BOB, chat="g")
        await c.say("hello", BOB, chat="g")
        await c.say("/verbose off", ANN, chat="g")
        await c.say("hello", BOB, chat="g")
        await c.answered()
        assert [start.ctx.progress for start in c.harness.starts] == ["short", "off"]
