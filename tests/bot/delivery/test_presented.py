"""Files that a run presents: sent with the answer or named in it, and their copies gone once nobody needs them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bot.delivery.presented import Presented
from bot.tasks import Tasks
from bot.texts.en import EN
from channels.errors import Fatal
from harness.events import Finished, Outcome, ReadyFile
from tests.bot.core import Core, core
from tests.memory_channel import FULL

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller

CAPS = replace(FULL.capabilities, smallest_file=1, largest_file=2 * 1024**2)


def ready(name: str, size: int = 5, run_id: str = "r") -> ReadyFile:
    return ReadyFile(
        name=name,
        path=f"/mnt/user-data/outputs/{name}",
        mime_type="text/plain",
        size=size,
        kind="file",
        spooled=f"{run_id}/{name}",
    )


def presented(folder: Path) -> Presented:
    return Presented(folder, Tasks("test"), lambda account: CAPS if account == "memory" else None)


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        (2 * 1024**2, ""),
        (2 * 1024**2 + 1, "⚠️ a\\.txt (2.1 MiB) was not sent: this platform accepts files of at most 2 MiB from a bot."),
        (0, "⚠️ a\\.txt was not sent: it is empty, or too small for this platform."),
    ],
)
def test_what_the_platform_would_refuse_is_named_with_its_limit(tmp_path: Path, size: int, sentence: str) -> None:
    outgoing = presented(tmp_path).outgoing([ready("a.txt", size), ready("b.txt")], "memory", EN)
    assert outgoing.sentences == ((sentence,) if sentence else ())
    assert [file.name for file in outgoing.files] == (["b.txt"] if sentence else ["a.txt", "b.txt"])


def test_a_file_is_sent_from_the_spool_under_a_harmless_name(tmp_path: Path) -> None:
    (file,) = presented(tmp_path).outgoing([ready("..\u202egpj.*exe*")], "elsewhere", EN).files
    assert file.path.parent == tmp_path / "r"
    assert file.name == "gpj._exe"
    assert "`" not in file.instead


class Presenting:
    """An agent that presents a file with every answer."""

    def __init__(self, core: Core) -> None:
        self.spool = core.folder / "spool"
        core.harness.scripts["q"] = self._answer

    async def _answer(self, tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        folder = self.spool / tell.ctx.run_id
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("figures")
        files = (ready("a.txt", run_id=tell.ctx.run_id),)
        yield tell(Finished, outcome=Outcome.SUCCESS, text="done", message_id="a", files=files)

    @property
    def left(self) -> list[Path]:
        return list(self.spool.iterdir())


async def test_a_file_is_delivered_with_the_answer_and_its_copy_goes(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        agent = Presenting(c)
        await c.say("q")
        await c.answered()
        await c.clock.until(c.delivery.drained())
        clearing = [task for task in asyncio.all_tasks() if "spool of" in task.get_name()]
        if clearing:  # in a thread, which the turned clock knows nothing of
            await asyncio.wait(clearing, timeout=10)
        assert c.texts() == ["done", "a.txt"]
        assert agent.left == []


async def test_what_a_crash_left_is_cleared_but_not_what_is_still_to_be_delivered(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        agent = Presenting(c)
        c.channel.fail("send", *[Fatal("401", "a new token")] * 2)
        await c.say("q")
        await c.clock.advance(30)
        (waiting,) = agent.left
        lost = agent.spool / "lost"
        lost.mkdir()
        await Presented(agent.spool, Tasks("test"), lambda account: None).clear_left(c.store)
        assert agent.left == [waiting]
