"""The scenes: what people write and what the model answers, at which pace; each is played on every platform."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.flow.transcripts.eyes import ANN
from tests.simulators.model.scripts import Call, Say, ToolUse, Wait

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.flow.platforms.base import Place
    from tests.flow.transcripts.stage import Stage
    from tests.simulators.model.scripts import Step

FIRST_TOKEN = 0.7
"""Seconds until a model answers."""
PIECE, PACE_MS = 12, 60.0
"""Characters of one piece of an answer, and milliseconds between two of them: 200 characters a second."""
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
        uses("bash", command="sleep 4; echo saved > /mnt/user-data/workspace/list.txt", description="saving the list"),
        *says("Done: the list is saved as list.txt."),
        to="add up",
    )
    await stage.say("Please add up the invoices and save the list.")
    await stage.answered()
