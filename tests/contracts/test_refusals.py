"""No refusal reaches further than it is meant: one file, message, topic or chat never silences another, or an account.

Every platform's own table of refusals (`bench_<platform>.py`), with delivery in front of its adapter.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, cast

import pytest

from bot.clock import SystemClock
from bot.delivery import Delivery
from bot.redaction import Redactor
from bot.store.store import Store
from bot.texts.en import EN
from channels.message import Button, OutboundFile, OutboundMessage
from tests.contracts.bench import Simulators
from tests.contracts.channel_benches import BENCHES, REFUSALS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bot.delivery import Reply
    from tests.contracts.bench import Refusal, Stage, Staged

FASTER = 15.0
ANSWER = "An answer of a few words"
INSTEAD = "The file was not sent"
SAID = EN.platform_refused
BUTTONS = ((Button(label="Yes", data="p:0"), Button(label="No", data="p:1")),)
CASES = [(name, refusal) for name, table in REFUSALS.items() for refusal in table]


class FastClock(SystemClock):
    """Minutes of waiting in seconds."""

    def monotonic(self) -> float:
        return time.monotonic() * FASTER

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / FASTER)


@pytest.fixture(scope="module")
def simulators() -> Iterator[Simulators]:
    with Simulators() as running:
        yield running


@pytest.mark.parametrize(("name", "refusal"), CASES, ids=[f"{name}: {refusal.name}" for name, refusal in CASES])
async def test_a_refusal_reaches_no_further_than_it_is_meant(
    name: str, refusal: Refusal[object], tmp_path: Path, simulators: Simulators
) -> None:
    clock, may_send = FastClock(), False
    store = await Store.open(f"sqlite:///{tmp_path}/antler.db", clock=clock)
    delivery = Delivery(store, clock, Redactor([]), lambda: may_send)
    async with BENCHES[name](tmp_path, simulators) as made, asyncio.timeout(50):
        bench = cast("Staged", made)
        stage = await bench.stage()
        delivery.register(bench.channel)
        await delivery.start()
        may_send = True
        if refusal.step in ("edit", "file") and bench.channel.capabilities.edits:
            draft = await delivery.open("affected", stage.affected, stage.reply_to)
            draft.show(OutboundMessage(text="An ans"))
            while not draft.message_ids:
                await clock.sleep(0.2)
        may_send = refusal.first
        await refusal.inject(bench.platform)
        affected = await delivery.say("affected", stage.affected, stage.reply_to, _answer(refusal, tmp_path))
        if refusal.first:
            await affected.delivered()
        others = await _others(delivery, stage)
        may_send = True
        await affected.delivered()
        await asyncio.gather(*(reply.delivered() for reply in others))
        await delivery.drained()
        await _check(bench, stage, refusal)
        await delivery.close(0)
    await store.close()


def _answer(refusal: Refusal[object], folder: Path) -> OutboundMessage:
    if refusal.step == "buttons":
        return OutboundMessage(text=ANSWER, buttons=BUTTONS, final=True)
    if refusal.step != "file":
        return OutboundMessage(text=ANSWER, final=True)
    path = folder / "report.txt"
    path.write_text("figures")
    file = OutboundFile(path=path, name="report.txt", mime_type="text/plain", instead=INSTEAD)
    return OutboundMessage(text=ANSWER, files=(file,), final=True)


async def _others(delivery: Delivery, stage: Stage) -> list[Reply]:
    """Two answers that wait in every other place of the account."""
    return [
        await delivery.say(f"other {number} {turn}", place, None, OutboundMessage(text=f"Other {turn}", final=True))
        for turn in (1, 2)
        for number, place in enumerate(stage.others)
    ]


async def _check(bench: Staged, stage: Stage, refusal: Refusal[object]) -> None:
    for place in stage.others:
        if refusal.told == "nothing" and place.chat == stage.affected.chat:
            continue
        shown = await bench.shown(place)
        assert [text for text in shown if text.startswith("Other")] == ["Other 1", "Other 2"]
    shown = [text for text in await bench.shown(stage.affected) if text and not text.startswith("Other")]
    match refusal.told:
        case "all":
            assert shown.count(ANSWER) == 1
        case "no file":
            assert [text for text in shown if text in (ANSWER, INSTEAD)] == [ANSWER, INSTEAD]
        case "no words":
            assert shown == [SAID["answer"]]
        case "outside":
            assert SAID["topic"] in shown
            assert ANSWER not in shown
        case "numbers":
            (text,) = [text for text in shown if "Yes" in text]
            assert text.split() == [*ANSWER.split(), "1.", "Yes", "2.", "No", *SAID["buttons"].split()]
        case "nothing":
            assert shown == []
