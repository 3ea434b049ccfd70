"""write_todos: the plan of a longer task, kept in the thread and shown to the person during the work."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.tools import tool
from langgraph.types import Command
from pydantic import BaseModel, Field

from harness.events import TodosChanged, TodoStatus
from harness.graph.calls import IDEMPOTENT
from harness.graph.results import Answer, Runtime, done, failed
from harness.graph.signals import Told, tell
from harness.graph.state import TODOS
from harness.text.plain import one_line

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

WRITE_TODOS = "write_todos"
MOST_TODOS = 30
LONGEST_TODO = 200
MARKS = {TodoStatus.PENDING: "[ ]", TodoStatus.IN_PROGRESS: "[>]", TodoStatus.COMPLETED: "[x]"}

Planning = Command[Any]
"""Looked up in this module when the tool's schema is built."""


class TodoItem(BaseModel):
    """One step. The schema is what the model reads."""

    content: str = Field(description="The step, in a few words and in the person's language", min_length=1)
    status: TodoStatus = TodoStatus.PENDING


@cache  # as file_tools: it depends on no agent
def planning_tool() -> BaseTool:
    """The tool. Writing the same plan again changes nothing, so it is idempotent."""

    @tool(WRITE_TODOS)
    async def write_todos(
        todos: Annotated[list[TodoItem], "The whole plan, in order; it replaces the earlier one"], runtime: Runtime
    ) -> Answer | Planning:
        """Write down the plan of work that takes three or more steps, before it begins, and again whenever a step
        begins or is done. The person sees it. One step at a time is in_progress; a step is completed only when it
        really is. Not for questions and small things."""
        if len(todos) > MOST_TODOS:
            return failed(runtime, WRITE_TODOS, f"A plan has at most {MOST_TODOS} steps: combine small ones.")
        steps = tuple((one_line(item.content, LONGEST_TODO), item.status) for item in todos)
        tell(runtime, Told(partial(TodosChanged, todos=steps)))
        plan = [{"content": text, "status": status.value} for text, status in steps]
        return Command(update={TODOS: plan, "messages": [done(runtime, WRITE_TODOS, shown(plan))]})

    write_todos.metadata = {IDEMPOTENT: True}
    return write_todos


def shown(plan: list[dict[str, str]]) -> str:
    """The plan as the model sees it."""
    if not plan:
        return "The plan is empty."
    return "\n".join(f"{MARKS[TodoStatus(step['status'])]} {step['content']}" for step in plan)
