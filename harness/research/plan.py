"""The plan of a research: parsed from a model's answer, its steps ordered by their dependencies, and its estimated
cost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

from harness.memory.repair import Unreadable, read_object
from harness.text.plain import clean_text, short_line

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from harness.config import PriceSettings

StepType = Literal["research", "analysis", "processing"]
LONGEST_TITLE = 120
LONGEST_DESCRIPTION = 1500
_NUMBER = re.compile(r"\d+")
_TYPES: Mapping[str, StepType] = {
    **{name: name for name in get_args(StepType)},
    "search": "research",
    "researcher": "research",
    "analyst": "analysis",
    "analyse": "analysis",
    "analyze": "analysis",
    "coder": "processing",
    "coding": "processing",
    "code": "processing",
}
"""Models' names for the types."""


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Step(Frozen):
    """One step. id: its number among all steps of the research, from "1". depends_on: ids of earlier steps."""

    id: str
    title: str
    description: str
    type: StepType
    depends_on: tuple[str, ...] = ()


class Plan(Frozen):
    """enough: the planner needs no (further) steps. locale: the report's language, as the planner determined it."""

    title: str
    thought: str = ""
    locale: str = ""
    enough: bool = False
    steps: tuple[Step, ...] = ()

    def step(self, step_id: str) -> Step:
        """The step with this id. Raises StopIteration for an unknown id."""
        return next(step for step in self.steps if step.id == step_id)

    def ready(self, done: Container[str]) -> list[Step]:
        """The steps that can begin: not done, with all their dependencies done."""
        return [step for step in self.steps if step.id not in done and all(each in done for each in step.depends_on)]

    def waves(self) -> list[list[Step]]:
        """The steps in executable order: those of one wave can run concurrently."""
        done: set[str] = set()
        waves = []
        while wave := self.ready(done):
            waves.append(wave)
            done |= {step.id for step in wave}
        return waves


def read_plan(text: str, *, most: int, before: Sequence[Step] = ()) -> Plan:
    """The plan in a planner's answer, preceded by the steps of earlier plans. most: limit of new steps.

    Slight errors of weak models are corrected: other names of types, dependencies given as numbers, as "step 2" or on
    later steps. Raises Unreadable, whose text tells the model what is wrong.
    """
    found = read_object(text)
    title, enough = _line(found.get("title"), LONGEST_TITLE), found.get("has_enough_context") is True
    given = found.get("steps")
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise Unreadable('it has no list "steps" of objects')
    steps = [*before]
    for number, each in enumerate(given[:most], len(before) + 1):
        steps.append(_step(each, number, first=len(before)))
    if not enough and len(steps) == len(before):
        raise Unreadable('"steps" is empty although "has_enough_context" is not true')
    if not title:
        raise Unreadable('it has no "title"')
    return Plan(
        title=title,
        thought=_line(found.get("thought"), LONGEST_DESCRIPTION),
        locale=_line(found.get("locale"), 20),
        enough=enough,
        steps=tuple(steps),
    )


def _step(given: Mapping[str, Any], number: int, *, first: int) -> Step:
    """A step. first: number of steps before those of this plan, whose numbers start again at 1 for the model."""
    title = _line(given.get("title"), LONGEST_TITLE)
    description = _line(given.get("description"), LONGEST_DESCRIPTION)
    if not (title or description):
        raise Unreadable(f"step {number - first} has neither title nor description")
    named = str(given.get("step_type") or given.get("type") or "").strip().lower()
    kind = _TYPES.get(named, "research" if given.get("need_search", True) else "analysis")
    return Step(
        id=str(number),
        title=title or description[:LONGEST_TITLE],
        description=description or title,
        type=kind,
        depends_on=tuple(str(first + place) for place in _places(given.get("depends_on")) if first + place < number),
    )


def _places(given: object) -> list[int]:
    listed = given if isinstance(given, list) else [given]
    numbers = (_NUMBER.search(str(each)) for each in listed if isinstance(each, str | int) and each is not True)
    return sorted({int(found.group()) for found in numbers if found is not None and 0 < int(found.group()) <= 1000})


def _line(value: object, most: int) -> str:
    return short_line(clean_text(value), most) if isinstance(value, str) else ""


class Estimate(Frozen):
    """Rough cost of a plan: (least, most) model calls, minutes, and money if the model has a price."""

    calls: tuple[int, int]
    minutes: tuple[int, int]
    money: tuple[float, float] | None = None
    currency: str = ""


CALLS: Mapping[StepType, tuple[int, int]] = {"research": (3, 10), "analysis": (1, 1), "processing": (2, 8)}
"""Calls of one step; its limit is far above, this is what steps usually take."""
REPORT_CALLS = 1
CALL_SECONDS = (4.0, 15.0)
CALL_INPUT, CALL_OUTPUT = (3_000, 12_000), (300, 1_200)
"""Tokens of one call: pages that were read are part of all later requests of their step."""


def estimate(plan: Plan, *, at_once: int, price: PriceSettings | None) -> Estimate:
    """Estimate the cost of the plan's steps and the report."""
    least = REPORT_CALLS + sum(CALLS[step.type][0] for step in plan.steps)
    most = REPORT_CALLS + sum(CALLS[step.type][1] for step in plan.steps)
    minutes = [_minutes(plan, at_once, which) for which in (0, 1)]
    money = None
    if price is not None:
        amounts = [
            calls * (tokens_in * price.input + tokens_out * price.output) / 1_000_000
            for calls, tokens_in, tokens_out in zip((least, most), CALL_INPUT, CALL_OUTPUT, strict=True)
        ]
        money = (amounts[0], amounts[1])
    return Estimate(
        calls=(least, most),
        minutes=(minutes[0], minutes[1]),
        money=money,
        currency=price.currency if price is not None else "",
    )


def _minutes(plan: Plan, at_once: int, which: int) -> int:
    """Minutes for the longest steps of each wave, one after the other, and for the report, which is one long call."""
    calls = 3 * REPORT_CALLS
    for wave in plan.waves():
        lengths = sorted((CALLS[step.type][which] for step in wave), reverse=True)
        calls += sum(lengths[::at_once])
    return max(1, round(calls * CALL_SECONDS[which] / 60))
