"""What the tests of schedules share: a conversation in which something is put off, on the gateway's core."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from bot.store import schedules
from harness.scheduling.when import When, in_minutes, repeated
from tests.bot.core import ANN

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from bot.store.schedules import ScheduleRow, ScheduleState
    from harness.context import RunContext
    from harness.events import AnyRunEvent
    from harness.scheduling.schedules import Schedule
    from tests.bot.core import Core
    from tests.bot.scripted_harness import Teller

BERLIN = "Europe/Berlin"
DAILY = "0 9 * * *"
"""At eight o'clock UTC in winter, when the core's clock starts at midnight UTC."""
HOUR = 3600.0
REMINDED, ANSWERED = "⏰ stretch", "⏰ stretch\n\necho: stretch"
MINUTES = timedelta(minutes=15)


def once(c: Core, minutes: float = 10) -> When:
    return in_minutes(minutes, BERLIN, c.clock.now())


def daily(c: Core) -> When:
    return repeated(DAILY, BERLIN, c.clock.now(), MINUTES)


async def schedule(
    c: Core, when: When, text: str = "stretch", person: str = ANN, chat: str | None = None, **more: Any
) -> Schedule:
    """Somebody asks, and the agent makes it by a call of its tool; nothing else of that stays in the chat's texts."""
    made: list[Schedule] = []

    async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        made.append(await c.schedules.create(tell.ctx, "call", text, when))
        yield tell.answer("Scheduled.")

    c.harness.scripts["put it off"] = script
    await c.say("put it off", person, chat, **more)
    await c.answered()
    return made[0]


def later(c: Core, chat: str = ANN) -> list[str]:
    """What came after the schedules were made."""
    return [text for text in c.texts(chat) if text != "Scheduled."]


async def state_of(c: Core, made: Schedule) -> ScheduleState:
    row: ScheduleRow | None = await c.store.read(lambda tx: schedules.load(tx, made.id))
    assert row is not None
    return row.state


def last_context(c: Core) -> RunContext:
    return c.harness.starts[-1].ctx
