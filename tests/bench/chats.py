"""Scenarios `chats-N`: N chats that write at once, in one case under the platform's real limits; `first-words`: one
chat that writes occasionally."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.bench.figures import Figure, Outcome, Target, busiest_window, mean, percentile, spread
from tests.bench.gauge import watching
from tests.bench.stage import LIFTED, LONG, SHORT, stage
from tests.bench.timeline import POLL, VISIBLE, Timing, busy_seconds, calls, label, notifies, requests, timings
from tests.simulators.telegram.seen import TEAM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.gauge import Meter, Watch
    from tests.bench.stage import Question, Stage
    from tests.simulators.telegram.seen import Person, RecordedCall, Room

WARM_UP = 50
ROUND_SECONDS = 90.0
RSS_TARGET = Target(160)
FIRST_WORDS_DM, FIRST_WORDS_GROUP, ONE_PUSH = Target(0.75), Target(1.0), Target(1)
PAUSE_DM, PAUSE_GROUP = 3.0, 20.0
"""Seconds before a message of a single person: until then the chat's rate limit has recovered."""


@dataclass(frozen=True)
class Load:
    """The number of concurrent chats, and of rounds."""

    chats: int
    rounds: int
    question: Question = SHORT


async def chats_at_once(load: Load) -> Outcome:
    """Measure capacity and cost of the gateway without the account's rate limits."""
    async with stage(max(load.chats, WARM_UP), LIFTED) as scene, scene.world:
        crowd = scene.people[: load.chats]
        await warm_up(scene)
        began = await _last_update(scene)
        meter = scene.meter()
        async with watching(scene.pid) as watch:
            meter.begin()
            for number in range(load.rounds):
                await play_round(scene, crowd, number + 1, load.question)
            meter.end()
        found, problems, records = await _evidence(scene, began, load.question)
        figures = _figures(load, found, meter, watch, records)
        details = {"messages": load.chats * load.rounds, "foreign_cpu_share": round(meter.foreign_share, 3)}
        return Outcome(
            figures, {**details, "calls_per_message": _per_message(records, load.chats * load.rounds)}, problems
        )


async def warm_up(scene: Stage) -> None:
    """Send one message from each of the first chats, so that everything loaded at first use is loaded."""
    people = scene.people[:WARM_UP]
    await scene.say_at_once(people, lambda person: f"{SHORT.text} warm")
    if not await scene.until_shown(SHORT.answer, len(people), ROUND_SECONDS):
        raise RuntimeError(f"the warm-up was not answered; the gateway's log:\n{scene.world.log[-4000:]}")
    await scene.until_quiet()


async def play_round(scene: Stage, crowd: Sequence[Person], number: int, question: Question = SHORT) -> None:
    """Let all write at once; return once all is answered and idle, or when that took too long."""
    before = await scene.telegram.count_showing(question.answer)
    await scene.say_at_once(crowd, lambda person: f"{question.text} {label(person.id, number)}")
    await scene.until_shown(question.answer, before + len(crowd), ROUND_SECONDS)
    await scene.until_quiet()


async def _last_update(scene: Stage) -> int:
    return max((update.update_id for update in await scene.telegram.deliveries()), default=0)


async def _evidence(scene: Stage, after: int, question: Question) -> tuple[list[Timing], list[str], list[RecordedCall]]:
    """The timings of all updates after this one, the problems, and the requests to the platform in that time."""
    updates = [update for update in await scene.telegram.deliveries() if update.update_id > after]
    since = min(update.queued_at for update in updates)
    records = [record for record in await scene.telegram.records() if record.arrived >= since]
    asked = [record for record in await scene.model.completions() if record.started >= since]
    found, problems = timings(updates, requests(asked), calls(records), question.answer)
    return found, problems, records


def _figures(
    load: Load, found: Sequence[Timing], meter: Meter, watch: Watch, records: Sequence[RecordedCall]
) -> list[Figure]:
    many, one = load == Load(50, load.rounds), load.chats == 1
    sent = load.chats * load.rounds
    visible = sum(record.method.lower() in VISIBLE for record in records)
    speed = len(found) / busy_seconds(found, load.chats) if found else None
    return [
        Figure("msgs_per_s", speed, "/s", Target(60, at_least=True) if many else None),
        Figure("cpu_per_msg", meter.cpu * 1000 / sent, "ms", Target(15) if many else None),
        Figure("calls_per_msg", visible / sent, "calls"),
        Figure("all_calls_per_msg", sum(record.method != POLL for record in records) / sent, "calls"),
        Figure("pushes_per_msg", sum(map(notifies, records)) / sent, "pushes"),
        *spread("inbound", [t.inbound_ms for t in found], "ms", {50: Target(15)} if one else None),
        *spread("first_text", [t.first_text_ms for t in found], "ms"),
        *spread("final", [t.final_ms for t in found], "ms"),
        *spread("whole", [t.whole_seconds for t in found], "s"),
        Figure("rss", watch.highest.rss, "MB", RSS_TARGET if many else None),
        Figure("pss", watch.highest.pss, "MB"),
    ]


def _per_message(records: Sequence[RecordedCall], messages: int) -> dict[str, float]:
    counted = Counter(record.method for record in records)
    return {method: round(count / messages, 3) for method, count in sorted(counted.items())}


async def default_rate(rounds: int) -> Outcome:
    """Measure how the governor shares the platform's limits, enforced by the simulator, among 50 chats."""
    outcome = Outcome()
    for name, question in (("short", SHORT), ("long", LONG)):
        async with stage(50, {}) as scene, scene.world:
            await scene.telegram.set_limits(enforce=True)
            await warm_up(scene)
            began = await _last_update(scene)
            for number in range(rounds):
                await play_round(scene, scene.people, number + 1, question)
            found, problems, records = await _evidence(scene, began, question)
            outcome.figures += _shares(name, found, records)
            outcome.problems += problems
            outcome.details[name] = {"calls_in_each_second": _calls_in_each_second(records)}
    return outcome


def _shares(name: str, found: Sequence[Timing], records: Sequence[RecordedCall]) -> list[Figure]:
    moments = [record.arrived for record in records if record.method.lower() in VISIBLE]
    refused = sum(record.status == 429 for record in records)
    whole = [timing.whole_seconds for timing in found]
    edits = _edits_by_chat(found)
    return [
        # On a busy machine, calls sent in time may arrive together; over ten seconds that evens out.
        Figure(f"{name}_most_calls_in_1s", busiest_window(moments, 1.0), "calls"),
        Figure(f"{name}_most_calls_in_10s", busiest_window(moments, 10.0), "calls", Target(300)),
        Figure(f"{name}_refused_429", refused, "calls", Target(0)),
        *spread(f"{name}_first_text", [timing.first_text_ms for timing in found], "ms"),
        *spread(f"{name}_whole", whole, "s"),
        Figure(f"{name}_whole_max", percentile(whole, 100) if whole else None, "s"),
        Figure(f"{name}_edits_per_answer_mean", mean(edits) if edits else None, "edits"),
        Figure(f"{name}_edits_per_answer_least", min(edits, default=None), "edits"),
        Figure(f"{name}_edits_per_answer_most", max(edits, default=None), "edits"),
    ]


def _edits_by_chat(found: Sequence[Timing]) -> list[float]:
    """The mean number of edits of an answer, chat by chat."""
    by_chat: dict[int, list[float]] = {}
    for timing in found:
        by_chat.setdefault(timing.chat_id, []).append(timing.edits)
    return [mean(edits) for edits in by_chat.values()]


async def first_words(rounds: int) -> Outcome:
    """Measure the experience of a single person at the default rates: time to the first words, notifications, and the
    share of the platform's limits per answer. One message at a time, in a private chat and in a group."""
    outcome = Outcome()
    async with stage(1, {}) as scene, scene.world:
        await scene.telegram.set_limits(enforce=True)
        await warm_up(scene)
        for place, room in (("dm", scene.people[0].dm()), ("group", TEAM)):
            for name, question in (("short", SHORT), ("long", LONG)):
                began = await _last_update(scene)
                for number in range(rounds):
                    await _ask_alone(scene, room, question, number + 1)
                found, problems, records = await _evidence(scene, began, question)
                outcome.figures += _felt(f"{place}_{name}", found, records, rounds)
                outcome.problems += problems
                outcome.details[f"{place}_{name}"] = {"calls_per_message": _per_message(records, rounds)}
    return outcome


async def _ask_alone(scene: Stage, room: Room, question: Question, number: int) -> None:
    """Send one message and wait for its answer, slowly enough that the chat's limits cause no wait."""
    await asyncio.sleep(PAUSE_DM if room.type == "private" else PAUSE_GROUP)
    called = "" if room.type == "private" else "@antler_bot "
    text = f"{called}{question.text} {label(room.id, number)}"
    said = await scene.telegram.user_says(text, user=scene.people[0], chat=room)
    await scene.telegram.wait_for_message(
        room, lambda message: message.message_id > said.message_id and message.text == question.answer, ROUND_SECONDS
    )
    await scene.until_quiet()


def _felt(name: str, found: Sequence[Timing], records: Sequence[RecordedCall], answers: int) -> list[Figure]:
    """Figures of what a person notices. records: of the platform, for this many answers."""
    made = sum(record.method != POLL for record in records)
    visible = sum(record.method.lower() in VISIBLE for record in records)
    rang = sum(map(notifies, records)) / answers
    first = [timing.first_text_ms / 1000 for timing in found]
    aim = FIRST_WORDS_DM if name.startswith("dm") else FIRST_WORDS_GROUP
    return [
        *spread(f"{name}_first_words", first, "s", {50: aim}),
        Figure(f"{name}_pushes_per_answer", rang, "pushes", ONE_PUSH if name.endswith("short") else None),
        Figure(f"{name}_calls_per_answer", visible / answers, "calls"),
        Figure(f"{name}_all_calls_per_answer", made / answers, "calls"),
    ]


def _calls_in_each_second(records: Sequence[RecordedCall]) -> list[int]:
    moments = [record.arrived for record in records if record.method.lower() in VISIBLE]
    if not moments:
        return []
    began = min(moments)
    counted: Counter[Any] = Counter(int(moment - began) for moment in moments)
    return [counted[second] for second in range(max(counted) + 1)]
