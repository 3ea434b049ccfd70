"""Folds a run's events into what the chat shows: the state of the reply and an explicit ending."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from markdown_it import MarkdownIt

from bot.delivery.buttons import LABEL
from bot.texts.markdown import plain
from channels.message import OutboundMessage
from harness.events import (
    ApprovalRequested,
    Failed,
    FailureKind,
    Finished,
    ModelRetrying,
    Notice,
    Outcome,
    Question,
    ReasoningDelta,
    Resumed,
    SubagentEnded,
    SubagentProgress,
    SubagentStarted,
    SubagentState,
    TextDelta,
    TextReset,
    TodosChanged,
    TodoStatus,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bot.texts.catalogue import Texts
    from harness.context import Progress
    from harness.events import AnyRunEvent

    Calls = ToolStarted | SubagentProgress

STILL = 15.0
"""Seconds after which an unchanged draft shows its age."""
MAX_THOUGHT = 120
"""Most characters of the model's reasoning that are shown."""
SOON = 3.0
"""Seconds of retrying after which the status shows how long it has lasted."""
FILE_TOOLS = frozenset({"read_file", "write_file", "str_replace", "view_image"})
"""Tools of which people see the file's name without its folders."""
TOLD_OTHERWISE = frozenset({"write_todos", "task", "ask_clarification"})
"""Tools whose calls are visible to people through their results."""
MOST_DONE = 20
_MARKDOWN = MarkdownIt("commonmark", {"html": False})
OPEN = (SubagentState.RUNNING, SubagentState.PENDING)
TELLING = (TextDelta, ToolStarted, SubagentStarted, TodosChanged, ApprovalRequested, Question, Finished, Failed)
"""Events after which a run cannot start over unseen: text of its answer, its actions, its end."""


@dataclass(slots=True)
class Said:
    """One message of the agent. held: the text that people had seen before the message was restarted; it stays until
    the new text is at least as long, or complete."""

    text: str = ""
    held: str = ""
    whole: bool = False

    @property
    def shown(self) -> str:
        return self.text if len(self.text) >= len(self.held) else self.held

    def end(self) -> None:
        """Mark the message as complete, if it has any text."""
        if self.text:
            self.text, self.held, self.whole = _closed(self.text), "", True


def told_call(call: Calls, texts: Texts, progress: Progress) -> str:
    """One line about a call: the raw call ("full"), its own description, or else a label."""
    tool, summary = call.tool, call.summary
    if progress == "full":
        return f"{tool}: {summary}" if summary else tool
    if call.description:
        return call.description
    if tool == "read_file" and summary.endswith("/SKILL.md"):
        tool, what = "skill", summary.split("/")[-2]
    elif tool == "web_fetch":
        what = summary.partition("://")[2].partition("/")[0] or summary
    elif tool in texts.tool_labels:
        what = summary.rpartition("/")[2] if tool in FILE_TOOLS else summary
    else:
        tool, what = "other", tool.replace("_", " ")
    return texts.tool_labels[tool].format(what=what).rstrip(" :：")


@dataclass(slots=True)
class RunningTool:
    """A tool call in progress. seconds: how long it has run; None until it has reported that."""

    call: Calls
    seconds: int | None = None

    def told(self, texts: Texts, progress: Progress) -> str:
        call = told_call(self.call, texts, progress)
        return call if self.seconds is None else texts.standing.format(status=call, age=texts.age(self.seconds))


@dataclass(slots=True)
class DelegatedTask:
    """A task delegated to a subagent. progress: the subagent's last report, None before the first."""

    description: str
    state: SubagentState = SubagentState.PENDING
    seconds: int = 0
    progress: SubagentProgress | None = None

    def waits(self, texts: Texts) -> str:
        """Why its model call is being retried; "" while it is not."""
        last = self.progress
        return _retrying(last.trouble, last.delay, last.waited, texts) if last is not None and last.trouble else ""


@dataclass(slots=True)
class DelegatedTasks:
    """Tasks that were delegated together, by call, as one line of the status; forgotten once all have ended."""

    by_call: dict[str, DelegatedTask] = field(default_factory=dict)

    def apply(self, event: SubagentStarted | SubagentProgress | SubagentEnded) -> None:
        if isinstance(event, SubagentStarted):
            self.by_call[event.call_id] = DelegatedTask(event.description)
        elif (task := self.by_call.get(event.call_id)) is not None:
            task.seconds = event.seconds
            if isinstance(event, SubagentEnded):
                task.state = event.state
            else:
                task.state, task.progress = SubagentState.RUNNING, event
        if not any(task.state in OPEN for task in self.by_call.values()):
            self.by_call.clear()

    def told(self, texts: Texts, progress: Progress) -> str:
        """A line like "3 tasks: 1 done, 2 running: compare prices (12 s), read the report (9 s)"; "" without tasks.

        It also names the model that keeps a task waiting, and the current call of a task that runs alone.
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
        line = _waits(running, texts)
        if not line and len(running) == 1 and (call := running[0].progress) is not None and call.tool:
            line = told_call(call, texts, progress)
        return " · ".join(part for part in (head + words["and"].join(part for part in parts if part), line) if part)


def _waits(running: Sequence[DelegatedTask], texts: Texts) -> str:
    """Why tasks whose model has failed have no result yet, with the duration for the first of them."""
    waiting = [(task.description, why) for task in running if (why := task.waits(texts))]
    if not waiting:
        return ""
    first, why = waiting[0]
    return why if len(waiting) == len(running) else texts.tasks["waits"].format(task=first, why=why)


def _counted(words: str, count: int, tasks: str = "") -> str:
    return words.format(count=count, tasks=tasks) if count else ""


def _ages(tasks: Iterable[DelegatedTask], texts: Texts) -> list[str]:
    return [
        texts.tasks["age"].format(task=task.description, age=texts.age(task.seconds))
        if task.seconds
        else task.description
        for task in tasks
    ]


@dataclass(slots=True)
class RunView:
    """What the chat shows of a run, folded from its events. intermediate: which messages to show; said: them, by id."""

    intermediate: Literal["all", "last"] = "all"
    progress: Progress = "short"
    said: dict[str, Said] = field(default_factory=dict)
    status: str = ""
    notices: list[str] = field(default_factory=list)
    model_calls: int = 0
    tools: dict[str, RunningTool] = field(default_factory=dict)
    tasks: DelegatedTasks = field(default_factory=DelegatedTasks)
    question: Question | None = None
    plan: tuple[tuple[str, TodoStatus], ...] = ()
    calls: dict[str, int] = field(default_factory=dict)
    """Actions in their displayed wording, each with its count, in the order in which they were started."""
    seen: bool = False
    """Whether text of the answer may have been seen, or something was done; a passing status counts as neither."""
    _thought: str = ""
    _passing: str = ""
    """A status that ends as soon as the model is called again, for which no event exists."""
    _stands: tuple[str, str] | None = None
    _stands_since: float = 0.0

    @property
    def text(self) -> str:
        return _joined(said.text for said in self._wanted)

    @property
    def visible_text(self) -> str:
        return _joined(said.shown for said in self._wanted)

    @property
    def _wanted(self) -> list[Said]:
        return list(self.said.values())[-1 if self.intermediate == "last" else 0 :]

    @property
    def unfinished(self) -> tuple[str, str]:
        """The unfinished message: its id, and the text that people have seen of it; both "" when there is none."""
        message_id, said = next(reversed(self.said.items()), ("", Said()))
        return message_id, "" if said.whole else said.shown

    def apply(self, event: AnyRunEvent, texts: Texts) -> None:
        self.seen = self.seen or isinstance(event, TELLING)
        match event:
            case TextDelta():
                self._add(event)
            case ReasoningDelta():
                self._think(event, texts)
            case TextReset():
                self._reset(event)
            case ToolStarted():
                self._end_messages()
                self.tools[event.call_id] = RunningTool(event)
                if event.tool not in TOLD_OTHERWISE:
                    self._did(told_call(event, texts, self.progress))
                self._show_tools(texts)
            case ToolProgress() if event.call_id in self.tools:
                self.tools[event.call_id].seconds = event.seconds
                self._show_tools(texts)
            case ToolEnded():
                self.tools.pop(event.call_id, None)
                self._show_tools(texts)
            case SubagentStarted() | SubagentProgress() | SubagentEnded():
                self.tools.pop(event.call_id, None)  # the task is more informative than its call
                task = self.tasks.by_call.get(event.call_id)
                self.tasks.apply(event)
                if isinstance(event, SubagentEnded) and task is not None:
                    ended = texts.done["ok" if event.state is SubagentState.COMPLETED else "failed"]
                    self._did(ended.format(what=task.description))
                self._show_tools(texts)
            case TodosChanged():
                self.plan = event.todos
                self._show_tools(texts)
            case ApprovalRequested():
                self._end_messages()
            case Question():
                self.question = event
            case ModelRetrying():
                self.status = self._passing = _retrying(event.kind, event.delay, event.waited, texts)
            case Resumed():
                self.status = self._passing = texts.resumed
            case Notice(kind="summarizing"):
                self.status = texts.condensing
            case Notice(kind="summarized" | "not_summarized"):
                self._show_tools(texts)
            case Usage():
                self.model_calls += 1
            case Notice(kind="images_not_seen"):
                self.notices.append(texts.images_not_seen.format(model=event.model))
            case Notice(kind="fallback"):
                self.notices.append(texts.fell_back.format(model=event.model, instead_of=event.instead_of))
            case _:
                pass

    def _add(self, event: TextDelta) -> None:
        self._end_messages(but=event.message_id)
        if event.message_id not in self.said:
            # An unfinished message that is sent again under another id keeps its place.
            before = self.said.popitem()[1] if self.unfinished[1] else Said()
            self.said[event.message_id] = Said(held=before.held)
        self.said[event.message_id].text += event.text
        self.status = ""

    def _reset(self, event: TextReset) -> None:
        self._thought = ""
        self._end_messages(but=event.message_id)
        if (said := self.said.get(event.message_id)) is not None:
            self.said[event.message_id] = Said(held=said.shown)

    def _end_messages(self, but: str = "") -> None:
        """Mark the earlier messages as complete, since the model has moved on."""
        for message_id, said in self.said.items():
            if message_id != but and not said.whole:
                said.end()

    def go_on_from(self, told: Iterable[AnyRunEvent], texts: Texts) -> None:
        """Take over what was said before a restart. told: the stored events of the run. The unfinished message will be
        sent again."""
        before = RunView(said=self.said, calls=self.calls, progress=self.progress)
        for event in told:
            before.apply(event, texts)
        self.plan = before.plan
        for said in self.said.values():
            if not said.whole:
                said.text, said.held = "", said.shown

    def _did(self, what: str) -> None:
        self.calls[what] = self.calls.get(what, 0) + 1

    @property
    def _shows_plan(self) -> bool:
        return bool(self.plan) and self.progress != "off"

    def _checklist(self, texts: Texts) -> list[str]:
        return [f"{texts.plan_marks[status]} {step}" for step, status in self.plan] if self._shows_plan else []

    def done(self, texts: Texts) -> tuple[str, ...]:
        """The collapsed part below the answer: the plan and the completed actions; () when there is nothing."""
        if self.progress == "off" or not (self.plan or self.calls):
            return ()
        times, planned = texts.done["times"], {texts.done["ok"].format(what=step) for step, _ in self.plan}
        lines = [
            what if count == 1 else times.format(what=what, count=count)
            for what, count in self.calls.items()
            if what not in planned  # a subagent's task that the plan shows as a separate step
        ]
        more = [texts.done["more"].format(count=len(lines) - MOST_DONE)] if len(lines) > MOST_DONE else []
        return (texts.done["head"], *self._checklist(texts), *lines[:MOST_DONE], *more)

    def _think(self, event: ReasoningDelta, texts: Texts) -> None:
        """Show the latest line of the reasoning as the status; none of it is kept."""
        self._thought = (self._thought + event.text)[-MAX_THOUGHT:]
        _, broken, line = self._thought.strip().rpartition("\n")
        if line and not self.said.get(event.message_id, Said()).text:
            cut = not broken and len(self._thought) == MAX_THOUGHT
            self.status = self._passing = texts.thinking.format(line=("…" if cut else "") + " ".join(line.split()))

    def _show_tools(self, texts: Texts) -> None:
        if self.progress == "off":
            self.status = ""
            return
        tools = (tool.told(texts, self.progress) for tool in self.tools.values())
        told = [_step(self.plan, texts), self.tasks.told(texts, self.progress), *tools]
        self.status = " · ".join(each for each in told if each)

    def draft(self, texts: Texts, now: float = 0.0) -> OutboundMessage:
        """What the chat shows while the run continues. now: monotonic time; a draft that has not changed for a while
        shows for how long."""
        text, status = self.visible_text, self.status
        if (text, status) != self._stands:
            self._stands, self._stands_since = (text, status), now
        stood = now - self._stands_since
        if stood >= STILL:
            age = texts.age(stood)
            thinks = status in ("", self._passing)
            status = texts.thinking_for.format(age=age) if thinks else texts.standing.format(status=status, age=age)
        elif not status and self._shows_plan:
            status = _step(self.plan, texts)
        lines = [*self._checklist(texts), *([status] if status else [])]
        return OutboundMessage(text=text, status="\n".join(lines))

    def ended(self, sentence: str, texts: Texts) -> OutboundMessage:
        """The final state of a run without an answer: the text so far, what happened, and a note that the text is
        unfinished."""
        text = self.visible_text
        partial = [texts.partial] if text.strip() else []
        whole = _paragraphs(text, sentence, *partial, *self.notices)
        return OutboundMessage(text=whole, done=self.done(texts), final=True)

    def answer(self, event: Finished, texts: Texts) -> OutboundMessage:
        limited = [_limit(event, texts)] if event.outcome is Outcome.LIMITED and event.budget is None else []
        options = _long_options(self.question) if self.question is not None else []
        whole = _paragraphs(self._answer(event), *options, *limited, *self.notices)
        return OutboundMessage(text=whole, done=self.done(texts), final=True)

    def _answer(self, event: Finished) -> str:
        """The last message as stored, below the earlier ones; a question is placed below its own message."""
        if self.intermediate == "last":
            return event.text
        own = self.said.get(event.message_id, Said()).text if self.question is not None else ""
        before = [said.text for message_id, said in self.said.items() if message_id != event.message_id]
        return _joined([*map(_closed, before), own, "" if event.text.strip() in own else event.text])

    def failure(self, event: Failed, texts: Texts) -> OutboundMessage:
        wait = texts.retry_in.format(duration=texts.duration(event.retry_after)) if event.retry_after else ""
        return self.ended(texts.failures[event.kind].format(model=event.model, wait=wait), texts)


def below(heading: str, message: OutboundMessage) -> OutboundMessage:
    """A state of an answer, below a heading in the same message."""
    return replace(message, text=_paragraphs(heading, message.text)) if heading else message


def _retrying(kind: FailureKind, delay: float, waited: float, texts: Texts) -> str:
    """Why there is no answer yet, and how long retries have lasted."""
    trouble = texts.troubles.get(kind, texts.troubles[FailureKind.UNAVAILABLE])
    if waited < SOON:
        return texts.retrying.format(trouble=trouble, seconds=max(1, round(delay)))
    return texts.retrying_for.format(trouble=trouble, age=texts.duration(waited))


def _step(plan: tuple[tuple[str, TodoStatus], ...], texts: Texts) -> str:
    """The current step of the agent's plan; "" without a plan, and when it is finished."""
    left = [step for step, status in plan if status is not TodoStatus.COMPLETED]
    if not left:
        return ""
    begun = next((step for step, status in plan if status is TodoStatus.IN_PROGRESS), left[0])
    return texts.plan_step.format(number=len(plan) - len(left) + 1, count=len(plan), step=begun)


def _long_options(question: Question) -> list[str]:
    """All options of a question as a list, if one of them does not fit on its button."""
    if all(len(option) <= LABEL for option in question.options):
        return []
    return ["\n".join(f"{number}. {plain(option)}" for number, option in enumerate(question.options, 1))]


def _limit(event: Finished, texts: Texts) -> str:
    if event.repeated is not None:
        return texts.looped.format(count=event.repeated)
    return texts.cut_short if event.calls is None else texts.calls_used_up.format(limit=event.calls)


def _paragraphs(text: str, *rest: str) -> str:
    above = _closed(text) if rest and text.strip() else text.strip()
    return "\n\n".join(part for part in (above, *rest) if part)


def _joined(messages: Iterable[str]) -> str:
    """The texts of messages as separate paragraphs; only the last may leave a code block open."""
    said = [text for text in messages if text.strip()]
    return "\n\n".join([*(text.rstrip() for text in said[:-1]), *said[-1:]])


def _closed(text: str) -> str:
    """The text, with a code block that is open at its end closed, so that it does not swallow what follows."""
    if not ("```" in text or "~~~" in text):
        return text
    last = _MARKDOWN.parse(f"{text}\n\n.")[-1]
    return f"{text}\n{last.markup}" if last.type == "fence" else text
