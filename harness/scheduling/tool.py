"""schedule: the agent defers something for the person, in the chat of the conversation and nowhere else."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

from langchain_core.tools import tool

from harness.graph.calls import IDEMPOTENT, place_of
from harness.graph.results import Answer, Runtime, done, failed
from harness.graph.signals import scope_of
from harness.memory.taint import LASTS
from harness.scheduling.schedules import TooMany
from harness.scheduling.when import BadTime, When, at_time, in_minutes, local, local_day, repeated
from harness.text.plain import clean_text

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from harness.ports import Clock
    from harness.scheduling.schedules import Schedule, Scheduling

SCHEDULE = "schedule"
LONGEST_TEXT = 1000
TIMES_TOLD = 3
NOT_BY_ITSELF = (
    "This turn was not started by a person, and such a turn makes no schedules. Tell the person what you would have "
    "scheduled; they can ask for it."
)
NOT_A_PERSON = "Only a person can have schedules, and this message was sent anonymously or in the name of a chat."
DESCRIPTION = """\
Remind the person later, or do something for them later, once or repeatedly. When it is due, a turn like this one
starts in this chat with `text`, on behalf of the current speaker. Times without an offset are in the time
zone of the message's date.
- create: text, and exactly one of at, in_minutes, cron
- list: what is scheduled for this person in this chat
- cancel: id, as create and list return it"""

Action = Literal["create", "list", "cancel"]


def schedule_tool(scheduling: Scheduling, clock: Clock) -> BaseTool:
    """The tool. A schedule is identified by the call that made it, so a call may be repeated."""

    @tool(SCHEDULE, description=DESCRIPTION)
    async def schedule(
        action: Action,
        runtime: Runtime,
        text: Annotated[str, "What to remind of or to do, addressed to yourself, complete without this chat"] = "",
        at: Annotated[str, "Once: an ISO time such as 2026-12-24T18:00"] = "",
        in_minutes: Annotated[float | None, "Once: so many minutes from now"] = None,
        cron: Annotated[str, "Repeated: minute hour day-of-month month day-of-week, as in 0 9 * * MON-FRI"] = "",
        id: Annotated[str, "Id of the one to cancel"] = "",
    ) -> Answer:
        if action == "list":
            return await _list(runtime, scheduling)
        if action == "cancel":
            return await _cancel(runtime, scheduling, id.strip())
        try:
            zone = scope_of(runtime).ctx.timezone
            when = _when(scheduling, clock, zone, at.strip(), in_minutes, cron.strip())
            return await _create(runtime, scheduling, clock, _text(text), when)
        except BadTime as error:
            return failed(runtime, SCHEDULE, f"Nothing was scheduled. {error}")

    schedule.metadata = {IDEMPOTENT: True, LASTS: "text"}
    return schedule


async def _list(runtime: Runtime, scheduling: Scheduling) -> Answer:
    own = await scheduling.schedules.own(scope_of(runtime).ctx)
    return done(runtime, SCHEDULE, "\n".join(map(_line, own)) or "Nothing is scheduled here for this person.")


async def _cancel(runtime: Runtime, scheduling: Scheduling, schedule_id: str) -> Answer:
    cancelled = await scheduling.schedules.cancel(scope_of(runtime).ctx, schedule_id)
    if cancelled is None:
        return failed(runtime, SCHEDULE, f"This person has nothing here with the id {schedule_id[:40]!r}; see list.")
    return done(runtime, SCHEDULE, f"{cancelled.id} is cancelled: {cancelled.text}")


async def _create(runtime: Runtime, scheduling: Scheduling, clock: Clock, text: str, when: When) -> Answer:
    ctx = scope_of(runtime).ctx
    if ctx.schedule or not ctx.speaker.is_person:
        return failed(runtime, SCHEDULE, NOT_BY_ITSELF if ctx.schedule else NOT_A_PERSON)
    try:
        made = await scheduling.schedules.create(ctx, place_of(runtime), text, when)
    except TooMany as error:
        return failed(runtime, SCHEDULE, f"Nothing was scheduled. {_too_many(error)}")
    now = local_day(clock.now(), ctx.timezone)
    return done(runtime, SCHEDULE, f"Scheduled as {made.id}. {_times(made)} Now it is {now}.")


def _text(text: str) -> str:
    """The text of a schedule, checked. Raises BadTime."""
    text = clean_text(text).strip()
    if not text:
        raise BadTime("Give the text: what to remind of, or to do.")
    if len(text) > LONGEST_TEXT:
        raise BadTime(f"The text is too long: at most {LONGEST_TEXT} characters.")
    return text


def _when(scheduling: Scheduling, clock: Clock, zone: str, at: str, minutes: float | None, cron: str) -> When:
    """The time that the arguments give. Raises BadTime."""
    if (bool(at), minutes is not None, bool(cron)).count(True) != 1:
        raise BadTime("Give exactly one of at, in_minutes and cron.")
    if at:
        return at_time(at, zone, clock.now())
    if minutes is not None:
        return in_minutes(minutes, zone, clock.now())
    return repeated(cron, zone, clock.now(), scheduling.shortest)


def _too_many(error: TooMany) -> str:
    whose = "This person has" if error.whose == "person" else "This chat has"
    return f"{whose} {error.limit} scheduled already, which is the maximum. One has to be cancelled first."


def _times(made: Schedule) -> str:
    if made.next_at is None:
        return "It is already over."
    zone = made.when.timezone
    if made.when.kind == "once":
        return f"It is due on {local_day(made.next_at, zone)}."
    later = islice(made.when.after(made.next_at), TIMES_TOLD - 1)
    return f"It is due on {', '.join(local_day(at, zone) for at in (made.next_at, *later))}, and so on."


def _line(schedule: Schedule) -> str:
    assert schedule.next_at is not None
    again = f", cron {schedule.when.spec}" if schedule.when.kind == "cron" else ""
    return f"{schedule.id}: {local(schedule.next_at, schedule.when.timezone)}{again}: {' '.join(schedule.text.split())}"
