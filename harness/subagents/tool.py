"""task: delegates a part of the work to a subagent and waits for its report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from langchain_core.tools import tool

from harness.events import SubagentState as State
from harness.graph.calls import TASK, asking_message
from harness.graph.results import Answer, Runtime, done, failed
from harness.graph.signals import scope_of, teller
from harness.graph.state import PROMOTED
from harness.skills.followed import limits_of
from harness.subagents.pool import Order
from harness.text.plain import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.tools import BaseTool

    from harness.subagents.kinds import Kind
    from harness.subagents.pool import Report, SubagentPool

LONGEST_SHOWN = 60
LONGEST_PROMPT = 50_000
DESCRIPTION = """\
Hand a part of the work to a subagent and wait for its report. It works alone, with the same files, and knows only what
`prompt` says. Types of subagents: """
NO_RECURSION = "A subagent cannot delegate. Do the work yourself, or report what is left to do."

ENDED = {
    State.COMPLETED: "The task was completed.",
    State.FAILED: "The task failed: {detail}. It is not done.",
    State.CANCELLED: "The task was cancelled before it was done.",
    State.TIMED_OUT: "The task was stopped at its time limit of {limit:g} seconds. It is not done; ask for less in one "
    "task, or do it yourself.",
}
CUT = "It used up its steps and had to report early: read what it says is left to do."
PARTIAL = "Files that it changed stay changed. What it had said so far, which may be unfinished and wrong:"
NOTHING = "Files that it changed stay changed. It had said nothing yet."


def task_tool(pool: SubagentPool) -> BaseTool:
    @tool(TASK, description=DESCRIPTION.replace("\n", " ") + _listed(pool.kinds.values()))
    async def task(
        description: Annotated[str, "The task in three to eight words, for the person who watches"],
        prompt: Annotated[str, "The whole task: goal, everything it needs to know, and what to report"],
        subagent_type: Annotated[str, "Which type of subagent"],
        runtime: Runtime,
    ) -> Answer:
        scope = scope_of(runtime)
        if scope.depth > 0:
            return failed(runtime, TASK, NO_RECURSION)
        kind = pool.kinds.get(subagent_type)
        if kind is None:
            return failed(runtime, TASK, f"There is no such type. Use one of: {', '.join(pool.kinds)}.")
        if not prompt.strip() or len(prompt) > LONGEST_PROMPT:
            return failed(runtime, TASK, f"prompt needs between 1 and {LONGEST_PROMPT} characters. Use files for more.")
        call_id = runtime.tool_call_id or ""
        order = Order(
            kind=kind,
            description=one_line(description or prompt, LONGEST_SHOWN),
            prompt=prompt,
            scope=replace(scope, skill_limits=limits_of(runtime.state, scope.skills)),
            key=f"{asking_message(runtime.state['messages'], call_id)}/{call_id}",
            call_id=call_id,
            promoted=runtime.state.get(PROMOTED) or (),
            tell=teller(runtime),
        )
        report = await pool.perform(order)
        return _told(runtime, report, kind)

    return task


def _listed(kinds: Iterable[Kind]) -> str:
    return "; ".join(f"{kind.name} ({kind.description.rstrip('.')})" for kind in kinds) + "."


def _told(runtime: Runtime, report: Report, kind: Kind) -> Answer:
    head = ENDED[report.state].format(detail=report.detail, limit=kind.timeout_seconds)
    facts = f"[{kind.name}: {report.state.value}, {report.model_calls} model calls, {report.seconds} s]"
    if report.state is State.COMPLETED:
        parts = [facts, head, *([CUT] if report.cut else []), "Its report:", report.text]
        return done(runtime, TASK, "\n".join(parts), delegated=report.state.value)
    parts = [facts, head, *([PARTIAL, report.text] if report.text else [NOTHING])]
    return failed(runtime, TASK, "\n".join(parts))
