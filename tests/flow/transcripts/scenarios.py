"""The scenes: what people write and what the model answers, at which pace; each is played on every platform."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.tools import tool

from tests.flow.transcripts.eyes import ANN, BOB, TEAM
from tests.simulators.model.scripts import Call, Reason, Reset, Say, Status, ToolUse, Wait

if TYPE_CHECKING:
    from tests.flow.platforms.base import Place
    from tests.flow.transcripts.stage import Stage
    from tests.simulators.model.scripts import Step

FIRST_TOKEN = 0.73
"""Seconds until a model answers. Uneven, as all times here: nothing must fall on the same moment as an edit that comes
every second, because which of the two is first would hang on a rounding."""
PIECE, PACE_MS = 12, 57.0
"""Characters of one piece of an answer, and milliseconds between two of them: some 200 characters a second."""
Act = Callable[["Stage"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scene:
    """One play. tells: what it shows, for readers. settings: merged over the usual ones."""

    name: str
    tells: str
    act: Act
    place: Place = ANN
    settings: Mapping[str, Any] = field(default_factory=dict)
    not_on: tuple[str, ...] = ()


SCENES: dict[str, Scene] = {}


def scene(tells: str, **more: Any) -> Callable[[Act], Act]:
    """Make a scene of a function, under the function's name."""

    def add(act: Act) -> Act:
        name = act.__name__.replace("_", "-")
        SCENES[name] = Scene(name, tells, act, **more)
        return act

    return add


def says(text: str, after: float = FIRST_TOKEN) -> tuple[Step, ...]:
    """An answer at the usual pace."""
    return (Wait(seconds=after), Say(text=text, pieces=-(-len(text) // PIECE), delay_ms=PACE_MS))


def uses(tool: str, **arguments: Any) -> Call:
    return Call(calls=(ToolUse(name=tool, arguments=json.dumps(arguments)),))


@scene("A short question and its answer.")
async def short_question(stage: Stage) -> None:
    await stage.models(*says("Canberra. It was chosen in 1908, between Sydney and Melbourne."), to="capital")
    await stage.say("What is the capital of Australia?")
    await stage.answered()


TABLE = """\
Here is how the three plans compare:

| Plan | Price | Storage |
|---|---|---|
| Basic | 4.00 EUR | 50 GB |
| Team | 12.50 EUR | 500 GB |
| Firm | 40.00 EUR | 5 TB |

This computes what you pay in a year:

```python
def per_year(month: float, people: int) -> float:
    return round(month * 12 * people, 2)
```

**Team** is the cheapest for five people: 750.00 EUR a year. It also keeps deleted files for 90 days, which _Basic_ does
not, and it can be cancelled every month."""


@scene("A longer answer with a table and code.")
async def long_answer(stage: Stage) -> None:
    await stage.models(*says(TABLE), to="Compare the plans")
    await stage.say("Compare the plans for five people, please.")
    await stage.answered()


@scene("Words before a tool call, and an answer behind it.")
async def words_before_a_tool(stage: Stage) -> None:
    await stage.models(
        *says("The total is 4,318.20 EUR; I will save the list for you."),
        uses(
            "bash", command="sleep 3.6; echo saved > /mnt/user-data/workspace/list.txt", description="saving the list"
        ),
        *says("Done: the list is saved as list.txt."),
        to="add up",
    )
    await stage.say("Please add up the invoices and save the list.")
    await stage.answered()


CSV = b"month,revenue\nJanuary,1200\nFebruary,1350\nMarch,990\n"
CHART = "/mnt/user-data/outputs/revenue.svg"


@scene("A file becomes a chart: it is read, drawn in several seconds, and sent.", not_on=("console",))
async def csv_to_chart(stage: Stage) -> None:
    draw = f"sleep 5.6; echo '<svg><path/></svg>' > {CHART}"
    await stage.models(
        *says("I will look at the file first."),
        uses("read_file", path="/mnt/user-data/uploads/sales.csv"),
        Wait(seconds=0.9),
        uses("bash", command=draw, description="drawing the chart"),
        Wait(seconds=0.9),
        uses("present_files", paths=[CHART]),
        *says("Here is the chart. February was the best month with 1,350 EUR."),
        to="Make a chart",
    )
    await stage.models(*says("Thanks, I have the file. What shall I do with it?"), to="sales.csv")
    await stage.send_file("sales.csv", CSV, "Make a chart of the revenue, please.")
    await stage.answered()


STEPS = ("Compare the prices", "Read the reports", "Ask for delivery times")


def plan(*states: str) -> Call:
    return uses(
        "write_todos",
        todos=[{"content": step, "status": state} for step, state in zip(STEPS, states, strict=True)],
    )


@scene("A plan of three steps, each of which a subagent does.")
async def plan_with_three_subagents(stage: Stage) -> None:
    for index, step in enumerate(STEPS):
        await stage.models(*says(f"{step}: done.", after=5.3 + 6.1 * index), to=f"Do this: {step}")
    tasks = [{"description": step, "prompt": f"Do this: {step}", "subagent_type": "general-purpose"} for step in STEPS]
    await stage.models(
        *says("I will do this in three steps."),
        plan("in_progress", "in_progress", "in_progress"),
        Wait(seconds=0.9),
        Call(calls=tuple(ToolUse(name="task", arguments=json.dumps(task)) for task in tasks)),
        Wait(seconds=0.9),
        plan("completed", "completed", "completed"),
        *says("Buy from Nordholz: cheapest by 12 %, good reports, and it delivers within a week."),
        to="Which supplier",
    )
    await stage.say("Which supplier shall we take?")
    await stage.answered()


@tool
async def book_table(restaurant: str, time: str) -> str:
    """Book a table, which binds."""
    return f"a table at {restaurant} is booked for {time}"


book_table.metadata = {"foreign": False}
BOOKING: Mapping[str, Any] = {
    "tools": [{"use": f"{__name__}:book_table"}],
    "guardrails": {"rules": [{"tool": "book_table", "decision": "ask", "reason": "A booking binds."}]},
}
ASKS = "Book a table at Lindenhof for eight, please."


async def booking(stage: Stage, *after: Step) -> None:
    await stage.models(
        *says("I will book it."),
        uses("book_table", restaurant="Lindenhof", time="20:00"),
        *after,
        to="Book a table",
    )


@scene("A tool call needs a decision, and it is allowed.", settings=BOOKING)
async def approval_allowed(stage: Stage) -> None:
    await booking(stage, *says("Done: Lindenhof, tonight at eight."))
    await stage.say(ASKS)
    await stage.wait(5)
    await stage.choose("Allow once" if stage.eye.buttons else "1")
    await stage.answered()


@scene("A tool call needs a decision, and it is denied with a reason.", settings=BOOKING)
async def approval_denied_with_a_reason(stage: Stage) -> None:
    await booking(stage, *says("All right, I leave it. Shall I look for another place?"))
    await stage.say(ASKS)
    await stage.wait(5)
    await stage.choose("Deny, and say why" if stage.eye.buttons else "4")
    await stage.wait(6)
    await stage.say("They are closed on Mondays.")
    await stage.answered()


@scene(
    "A tool call needs a decision in a group, where somebody else writes meanwhile.",
    settings=BOOKING,
    place=TEAM,
    not_on=("console",),
)
async def approval_in_a_group(stage: Stage) -> None:
    await stage.models(*says("About 20 minutes by bus."), to="How far")
    await booking(stage, *says("Done: Lindenhof, tonight at eight."))
    await stage.say(ASKS)
    await stage.wait(5)
    await stage.say("Is there parking?", BOB, mention=False)
    await stage.wait(2)
    await stage.say("How far is it?", BOB)
    await stage.wait(5)
    await stage.choose("Allow once")
    await stage.answered()


@scene("The agent asks back, and a choice is made.")
async def clarification(stage: Stage) -> None:
    await stage.models(*says("The report of 2025 says: revenue grew by 8 %."), to="2025")
    asks = {"question": "Which year?", "options": ["2024", "2025"], "context": "There are two reports."}
    await stage.models(Wait(seconds=FIRST_TOKEN), uses("ask_clarification", **asks), to="the report")
    await stage.say("What does the report say?")
    await stage.wait(5)
    await stage.choose("2025")
    await stage.answered()


STORY = " ".join(f"{number}. The boat went past buoy number {number}, and nobody spoke." for number in range(1, 41))


@scene("An answer is stopped in its middle; then it goes on.")
async def stop_and_go_on(stage: Stage) -> None:
    await stage.models(*says("7. The boat went past buoy number 7, and then it was home."), to="go on")
    await stage.models(*says(STORY), to="a story")
    await stage.say("Tell me a story.")
    await stage.wait(4)
    await stage.say("stop")
    await stage.wait(4)
    await stage.say("go on from where you stopped")
    await stage.answered()


@scene("One thought in four short messages.")
async def four_short_messages(stage: Stage) -> None:
    lines = ("hi", "I need a train", "to Vienna", "tomorrow morning")
    answers = ("Hello! What can I do?", "Where to?", "When?", "There is one at 7:10 and one at 8:40.")
    for line, answer in reversed(tuple(zip(lines, answers, strict=True))):
        await stage.models(*says(answer, after=2.45), to=line)
    for line in lines:
        await stage.say(line)
        await stage.wait(0.9)
    await stage.answered()


@scene("Somebody changes their mind while the answer is being made.", settings={"conversations": {"busy": "steer"}})
async def steer(stage: Stage) -> None:
    await stage.models(*says("In dollars the trip costs about 870 USD."), to="in dollars")
    await stage.models(
        *says("I will look the prices up."),
        uses("bash", command="sleep 7.4; echo 800", description="looking prices up"),
        *says("The trip costs about 800 EUR."),
        to="trip",
    )
    await stage.say("What does the trip cost?")
    await stage.wait(4)
    await stage.say("Tell me in dollars, please.")
    await stage.answered()


@scene("Two people in a group ask at once, and a third line is not for the bot.", place=TEAM, not_on=("console",))
async def two_people_in_a_group(stage: Stage) -> None:
    await stage.models(*says("The meeting is at ten, in the large room. Bring last month's figures."), to="meeting")
    await stage.models(*says("Sunny, 24 degrees, with some wind in the evening."), to="weather")
    await stage.say("When is the meeting?")
    await stage.wait(0.5)
    await stage.say("How is the weather?", BOB)
    await stage.wait(1)
    await stage.say("See you there!", BOB, mention=False)
    await stage.answered()


@scene("A reminder in half an hour.")
async def reminder(stage: Stage) -> None:
    await stage.models(
        Wait(seconds=FIRST_TOKEN),
        uses("schedule", action="create", text="take the bread out of the oven", in_minutes=30),
        *says("I will remind you at 9:46."),
        to="Remind me",
    )
    await stage.models(*says("Time to take the bread out of the oven!"), to="take the bread out")
    await stage.say("Remind me of the bread in half an hour.")
    await stage.answered()
    await stage.wait(30 * 60)
    await stage.answered()


@scene("A voice message where no service hears voices.", not_on=("console",))
async def voice_without_a_service(stage: Stage) -> None:
    await stage.models(*says("The meeting is at ten."), to="")
    await stage.eye.platform.send_voice("When is the meeting?", ANN)
    await stage.loop.settle()
    await stage.answered()


@scene("A photo for a model that sees no pictures.", not_on=("console",))
async def photo_without_vision(stage: Stage) -> None:
    await stage.models(*says("I cannot see pictures here. Tell me what it shows, and I will help."), to="")
    await stage.eye.send_photo()
    await stage.loop.settle()
    await stage.answered()


@scene("The provider is busy for 40 seconds.")
async def provider_busy_for_40_s(stage: Stage) -> None:
    await stage.models(Wait(seconds=0.3), Status(status=429), to="capital")
    await stage.say("What is the capital of Australia?")
    await stage.wait(39.7)
    await stage.models(*says("Canberra."), to="capital")
    await stage.answered()


@scene("The provider is busy while a subagent works.")
async def subagent_behind_a_busy_provider(stage: Stage) -> None:
    prompt = f"Do this: {STEPS[0]}"
    await stage.models(Wait(seconds=0.3), Status(status=429), to=prompt)
    await stage.models(
        *says("I will compare the prices."),
        uses("task", description=STEPS[0], prompt=prompt, subagent_type="general-purpose"),
        *says("Nordholz is the cheapest, by 12 %."),
        to="the cheapest",
    )
    await stage.say("Who is the cheapest?")
    await stage.wait(14.7)
    await stage.models(*says("Nordholz: 12 % below the others."), to=prompt)
    await stage.answered()


@scene("The provider's connection is cut in the middle of an answer.")
async def provider_cut(stage: Stage) -> None:
    half, rest = STORY[:600], STORY[600:900]
    await stage.models(*says(half), Reset(times=1), *says(rest, after=0.05), to="a story")
    await stage.say("Tell me a story.")
    await stage.answered()


@scene("The provider refuses the key.")
async def provider_refused(stage: Stage) -> None:
    await stage.models(Wait(seconds=0.3), Status(status=401), to="capital")
    await stage.say("What is the capital of Australia?")
    await stage.answered()


@scene("The model thinks for a minute before it answers.")
async def a_minute_of_thinking(stage: Stage) -> None:
    thoughts = [step for _ in range(12) for step in (Reason(text="Let me think about that. "), Wait(seconds=5.1))]
    await stage.models(*thoughts, *says("It has 42 solutions.", after=0.05), to="How many solutions")
    await stage.say("How many solutions has it?")
    await stage.answered()


@scene(
    "A thread has become long: its older part is summarised.",
    settings={"summarization": {"max_messages": 6, "keep": 2}},
)
async def summary_of_a_long_thread(stage: Stage) -> None:
    await stage.models(*says("They spoke about a trip to Vienna.", after=19.3), to="Messages to summarize:")
    for number in range(1, 5):
        await stage.models(*says(f"That is answer {number}."), to=f"question {number}")
    for number in range(1, 5):
        await stage.say(f"Now question {number}, please.")
        await stage.answered()


@scene("The gateway is killed in the middle of an answer, and starts again five seconds later.", not_on=("console",))
async def killed_in_mid_answer(stage: Stage) -> None:
    await stage.models(*says(STORY[:1800]), to="a story")
    await stage.say("Tell me a story.")
    await stage.wait(5)
    stage.note("(the gateway is killed)")
    await stage.kill()
    await stage.wait(5)
    stage.note("(it starts again)")
    await stage.start()
    await stage.answered()


LONG = "\n\n".join(
    f"{number}. " + " ".join(f"Sentence {part} of paragraph {number} says a little more." for part in range(1, 11))
    for number in range(1, 49)
)


@scene("An answer of 24 kB.")
async def answer_of_24_kb(stage: Stage) -> None:
    await stage.models(Wait(seconds=FIRST_TOKEN), Say(text=LONG, pieces=240, delay_ms=490.0), to="everything")
    await stage.say("Tell me everything.")
    await stage.answered()


@scene("Somebody sends where they are.", not_on=("console", "slack", "wecom"))
async def location(stage: Stage) -> None:
    await stage.models(*says("You are by the lake in Lucerne."), to="")
    await stage.eye.send_location()
    await stage.loop.settle()
    await stage.answered()
