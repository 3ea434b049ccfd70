"""Folds what a run tells of its subagents into one line of its status; used by render.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.events import SubagentEnded, SubagentProgress, SubagentStarted, SubagentState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.texts.catalogue import Texts

OPEN = (SubagentState.RUNNING, SubagentState.PENDING)


@dataclass(slots=True)
class DelegatedTask:
    """line: what its subagent did last."""

    description: str
    state: SubagentState = SubagentState.PENDING
    seconds: int = 0
    line: str = ""


@dataclass(slots=True)
class DelegatedTasks:
    """Those that were delegated together, by call; forgotten once all of them have ended."""

    by_call: dict[str, DelegatedTask] = field(default_factory=dict)

    def apply(self, event: SubagentStarted | SubagentProgress | SubagentEnded) -> None:
        if isinstance(event, SubagentStarted):
            self.by_call[event.call_id] = DelegatedTask(event.description)
        elif (task := self.by_call.get(event.call_id)) is not None:
            task.seconds = event.seconds
            if isinstance(event, SubagentEnded):
                task.state = event.state
            else:
                task.state, task.line = SubagentState.RUNNING, event.line
        if not any(task.state in OPEN for task in self.by_call.values()):
            self.by_call.clear()

    def told(self, texts: Texts) -> str:
        """Such as "3 tasks: 1 done, 2 running: compare prices (12 s), read the report (9 s)"; "" when there are none.

        Of a task that runs alone it is also told what it does.
        """
        tasks, words = self.by_call.values(), texts.tasks
        if not tasks:
            return ""
        running = [task for task in tasks if task.state is SubagentState.RUNNING]
        waiting = [task.description for task in tasks if task.state is SubagentState.PENDING]
        done = sum(task.state is SubagentState.COMPLETED for task in tasks)
        parts = [
            _counted(words["done"], done),
            _counted(words["failed"], len(tasks) - done - len(running) - len(waiting)),
            _counted(words["running"], len(running), words["and"].join(_ages(running, texts))),
            _counted(words["waiting"], len(waiting), words["and"].join(waiting)),
        ]
        head = words["one" if len(tasks) == 1 else "many"].format(count=len(tasks))
        line = f" · {running[0].line}" if len(running) == 1 and running[0].line else ""
        return head + words["and"].join(part for part in parts if part) + line


def _counted(words: str, count: int, tasks: str = "") -> str:
    return words.format(count=count, tasks=tasks) if count else ""


def _ages(tasks: Iterable[DelegatedTask], texts: Texts) -> list[str]:
    return [
        texts.tasks["age"].format(task=task.description, age=texts.duration(task.seconds))
        if task.seconds
        else task.description
        for task in tasks
    ]
