"""The simulated model's answers in a research, for the flow tests of all platforms."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulators.model.scripts import Call, Say, ToolUse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.model.records import Record


def web_settings(web: str, **research: Any) -> dict[str, Any]:
    """Sections of the config: the simulated website as search engine and as allowed site. web: its address."""
    return {
        "web": {
            "search": {"provider": "searxng", "base_url": web},
            # The simulated model fetches the pages it is told to, without having found them.
            "fetch": {"enabled": True, "allow": [web.removeprefix("http://")], "only_known": False},
        },
        "research": {"background": False, "deliver": ["md"], **research},
    }


def step(title: str, kind: str = "research", *depends_on: int) -> dict[str, Any]:
    return {"title": title, "description": f"Find out: {title}", "step_type": kind, "depends_on": [*depends_on]}


@dataclass
class Play:
    """The simulated model's answers in one research, to each role according to its task.

    plans: in order, as the person changes them. steps: title -> the model's steps. report: the final one.
    """

    question: str
    plans: Sequence[Sequence[dict[str, Any]]]
    steps: dict[str, Sequence[Any]] = field(default_factory=dict)
    report: str = ""
    locale: str = "en-US"

    async def begin(self, model: ModelSimulator) -> None:
        coordinated = {"action": "research", "topic": self.question, "text": "", "locale": self.locale}
        await model.script(f"<question>\n{self.question}", [Say(text=json.dumps(coordinated))], "contains")
        for title, steps in self.steps.items():
            await model.script(f"<step>\n{title}\n", steps, "contains")
        if self.report:
            await model.script(f"{self.question}\n</topic>\n\nTitle of the plan", [Say(text=self.report)], "contains")
        await self.plan(model, 0)

    async def plan(self, model: ModelSimulator, number: int, change: str = "") -> None:
        """Let the planner answer with this plan from now on. change: only to a request for this change."""
        told = {
            "locale": self.locale,
            "title": f"About {self.question}",
            "thought": "In order.",
            "steps": self.plans[number],
        }
        text = f"<change>\n{change}\n</change>" if change else f"{self.question}\n</topic>"
        await model.script(text, [Say(text=json.dumps(told))], "contains")


def uses(tool: str, **arguments: str) -> Call:
    return Call(calls=(ToolUse(name=tool, arguments=json.dumps(arguments)),))


def reads(address: str, finding: str) -> list[Any]:
    return [uses("web_fetch", url=address), Say(text=finding)]


async def asked_for(model: ModelSimulator, part: str) -> list[Record]:
    """The requests whose last user message contains these words."""
    return [record for record in await model.completions() if part in record.last_user_text]
