"""The graph of a research, with the same state, checkpoints and scope as every other turn of a thread.

    START -> coordinator -> background -> planner -> review -> team -> (step, at once) -> team -> ... -> planner again
    where iterations are left -> reporter -> deliver -> END

A turn ends when a person has to respond (to a question, to the plan); the next one continues from the thread's record
(record.py). Each node is a checkpoint and each step writes its finding once, so a restart continues between any two.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from cachetools import LRUCache
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

from harness.errors import ModelFailure
from harness.events import FailureKind, FileReady, StepsEnded, TodosChanged, TodoStatus
from harness.graph.calls import ASK
from harness.graph.signals import CallEnded, RunScope, Told, scope_of, tell
from harness.graph.state import RESEARCH, ThreadState
from harness.memory.repair import Unreadable, read_object
from harness.research import prompts, telling
from harness.research.citations import check, dead_pages
from harness.research.plan import Plan, estimate, read_plan
from harness.research.record import CLOSING, Cited, Finding, Phase, Research, research_of
from harness.research.team import ROLE_OF, Done, Role, Task
from harness.tools.asking import WAS_ASKED
from harness.web.known import keys_in, remember
from harness.web.sources import pages_read, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.messages import AnyMessage
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from harness.graph.state import Graph
    from harness.research.citations import Checked
    from harness.research.config import ResearchParts
    from harness.research.plan import Step
    from harness.research.team import Team
    from harness.web.sources import ReadPage, Sources

log = logging.getLogger(__name__)
MOST_RUNS = 256
"""Number of runs whose checklists are remembered."""
LONGEST_REPAIRED = 8000
"""Characters of an unreadable answer that its agent is shown to correct it."""
WATCH_SECONDS = 1.0
UNNAMED = "research"

T = TypeVar("T")
Scope = Runtime[RunScope]
State = Any
"""The thread's, as a mapping; for a step, what was sent to it. LangGraph makes an input schema of any other type."""
Update = dict[str, Any]


def make_research(team: Team, parts: ResearchParts, sources: Sources, saver: BaseCheckpointSaver[Any]) -> Graph:
    """The compiled graph. sources: where its agents' tools store what they read."""
    nodes = _Nodes(team, parts, sources, saver)
    graph = StateGraph(ThreadState, context_schema=RunScope)
    for node in (
        nodes.coordinator,
        nodes.background,
        nodes.planner,
        nodes.review,
        nodes.team,
        nodes.step,
        nodes.reporter,
    ):
        graph.add_node(node.__name__, node)
    graph.add_node(CLOSING, nodes.deliver)
    entries = ["coordinator", "planner", "review", "team", CLOSING]
    graph.add_conditional_edges(START, _entry, entries)
    graph.add_conditional_edges("coordinator", nodes.after_coordinator, ["background", "planner", END])
    graph.add_edge("background", "planner")
    graph.add_conditional_edges("planner", _after_planner, ["review", "reporter", END])
    graph.add_conditional_edges("review", _after_review, ["team", END])
    graph.add_conditional_edges("team", nodes.after_team, ["step", "planner", "reporter", CLOSING])
    graph.add_edge("step", "team")
    graph.add_edge("reporter", CLOSING)
    graph.add_edge(CLOSING, END)
    return graph.compile(checkpointer=saver)


def _entry(state: State) -> str:
    """The node where a turn begins."""
    research = _research(state)
    if research.choice == "changed":
        return "planner"
    match research.phase:
        case Phase.BEGUN:
            return "coordinator"
        case Phase.PLANNING:
            return "planner"
        case Phase.REVIEW:
            return "review"
        case Phase.WORKING:
            return "team"
        case _:
            return CLOSING


def _after_planner(state: State) -> str:
    research = _research(state)
    if research.phase is Phase.FAILED or research.plan is None:
        return END
    return "reporter" if research.plan.enough else "review"


def _after_review(state: State) -> str:
    return "team" if _research(state).phase is Phase.WORKING else END


def _research(state: State) -> Research:
    research = research_of(state)
    if research is None:
        raise RuntimeError("a research turn in a thread without readable research")
    return research


class _Nodes:
    """The nodes of the graph, named like the methods."""

    def __init__(self, team: Team, parts: ResearchParts, sources: Sources, saver: BaseCheckpointSaver[Any]) -> None:
        self._team = team
        self._parts = parts
        self._settings = parts.settings
        self._sources = sources
        self._saver = saver
        self._ended: LRUCache[str, set[str]] = LRUCache(MOST_RUNS)
        """Run -> its ended steps, for the checklist while others of the same wave continue."""
        self._entered: LRUCache[str, None] = LRUCache(MOST_RUNS)
        """Runs that have executed a node in this process."""

    # Before the plan is accepted.

    async def coordinator(self, state: State, runtime: Scope) -> Update:
        """Answer what needs no research, ask back, or accept the question."""
        research = _research(state)
        self._enter(research, runtime)
        task = prompts.coordinator_task(research)
        said = await self._readable(Role.COORDINATOR, task, research, runtime, read_object) or {}
        action, text = str(said.get("action", "")), str(said.get("text") or "").strip()
        locale = str(said.get("locale") or "")[:20]
        if action == "answer" and text:
            return {**self._final(text, runtime), **research.write(phase=Phase.DONE, locale=locale)}
        may_ask = self._settings.clarification and len(research.clarified) < self._settings.max_clarification_rounds
        if action == "ask" and text and may_ask:
            return {**self._question(text, (), runtime), **research.write(phase=Phase.ASKED, asked=text, locale=locale)}
        topic = str(said.get("topic") or "").strip() or research.question
        return research.write(phase=Phase.PLANNING, topic=topic, locale=locale)

    def after_coordinator(self, state: State) -> str:
        if _research(state).phase is not Phase.PLANNING:
            return END
        return "background" if self._settings.background and self._team.can(Role.BACKGROUND) else "planner"

    async def background(self, state: State, runtime: Scope) -> Update:
        """Take a quick look at the topic. If that fails, the plan is made without it."""
        research = _research(state)
        self._enter(research, runtime)
        task = prompts.background_task(research, self._settings.max_search_results)
        done = await self._perform(Role.BACKGROUND, "background", task, research, runtime)
        return research.write(background=done.text if done.state == "completed" else "")

    async def planner(self, state: State, runtime: Scope) -> Update:
        """Make a plan, or change it as the person wants, or add further steps after the completed ones."""
        research = _research(state)
        self._enter(research, runtime)
        before = research.steps if research.findings else ()
        window, computes = self._team.model(Role.PLANNER).context_window, self._team.can(Role.CODER)
        task = prompts.planner_task(research, most=self._settings.max_steps, window=window, computes=computes)
        plan = await self._plan(task, before, research, runtime)
        if plan is None and research.findings and research.plan is not None:
            # Further steps would have helped; without them the report uses what there is.
            plan = research.plan.model_copy(update={"enough": True})
        if plan is None:
            text = self._words(runtime)["unreadable"]
            return {**self._final(text, runtime), **research.write(phase=Phase.FAILED, choice="")}
        known = tuple(step.title for step in research.steps) if research.choice == "changed" else None
        return research.write(
            plan=plan,
            plans=research.plans + (research.choice != "changed"),
            known=known,
            phase=Phase.PLANNING,
            choice="",
            locale=plan.locale or research.locale,
        )

    async def _plan(self, task: str, before: Sequence[Step], research: Research, runtime: Scope) -> Plan | None:
        read = partial(read_plan, most=self._settings.max_steps, before=before)
        return await self._readable(Role.PLANNER, task, research, runtime, read)

    async def review(self, state: State, runtime: Scope) -> Update:
        """Show the plan and wait, or carry out the person's decision."""
        research, words = _research(state), self._words(runtime)
        match research.choice:
            case "start":
                return research.write(phase=Phase.WORKING, choice="")
            case "stop":
                return {**self._final(words["stopped"], runtime), **research.write(phase=Phase.STOPPED, choice="")}
            case "change":
                question = self._question(words["ask_change"], (), runtime)
                return {**question, **research.write(phase=Phase.REVIEW, choice="")}
        if research.auto or self._settings.auto_accept:
            return research.write(phase=Phase.WORKING)
        assert research.plan is not None
        left = Plan(title="", steps=tuple(step for step in research.steps if step.id not in research.ended_steps))
        rough = estimate(left, at_once=self._settings.at_once, price=self._team.model(Role.RESEARCHER).price)
        options = (words["start"], words["change"], words["stop"])
        question = self._question(telling.plan_text(research, rough, words), options, runtime)
        return {**question, **research.write(phase=Phase.REVIEW)}

    # The steps.

    async def team(self, state: State, runtime: Scope) -> Update:
        """Show the progress, between two waves of steps."""
        research, run_id = _research(state), scope_of(runtime).ctx.run_id
        ended = self._ended[run_id] = set(research.ended_steps)
        self._enter(research, runtime)
        self._show(research, ended, runtime)
        return {}

    def after_team(self, state: State) -> str | list[Send]:
        research = _research(state)
        ended = research.ended_steps
        ready = research.plan.ready(ended) if research.plan is not None else []
        if ready:
            return [Send("step", {RESEARCH: _share(state[RESEARCH], step), "step": step.id}) for step in ready]
        if not any(finding.text for finding in ended.values()) and research.steps:
            return CLOSING  # no findings to make a report from
        if research.plans < self._settings.max_plan_iterations and not (research.plan and research.plan.enough):
            return "planner"
        return "reporter"

    async def step(self, state: State, runtime: Scope) -> Update:
        """Do one step with a suitable agent. state: what `after_team` sent."""
        research = _research(state)
        assert research.plan is not None
        step, scope = research.plan.step(state["step"]), scope_of(runtime)
        await remember(self._sources, scope.ctx.thread_id, keys_in(research.said, bare=True))
        self._entered[scope.ctx.run_id] = None
        ended = self._ended.setdefault(scope.ctx.run_id, set(research.ended_steps))
        watching = asyncio.create_task(self._watch(ended, research, runtime), name=f"research-watch-{step.id}")
        try:
            done = await self._carried_out(step, research, runtime)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
            if not watching.cancelled():  # a failure only means that a crash counts in full
                log.warning("the steps of a research task could not be watched", exc_info=watching.exception())
        ended.add(step.id)
        self._show(research, ended, runtime)
        finding = Finding(
            state=done.state,
            text=done.text,
            detail=done.detail,
            seconds=done.seconds,
            calls=done.calls,
            cut=done.cut,
        )
        return research.found(step.id, finding)

    async def _watch(self, ended: set[str], research: Research, runtime: Scope) -> None:
        """While a step runs, report the other steps of its wave that ended in this process, once they are stored:
        during one long wave many processes may die, each after some progress."""
        config: Any = {"configurable": {"thread_id": scope_of(runtime).ctx.thread_id, "checkpoint_ns": ""}}
        told = set(research.ended_steps)
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if ended <= told:
                continue
            saved = await self._saver.aget_tuple(config)
            kept = {
                each
                for _, channel, value in (saved.pending_writes or () if saved is not None else ())
                if channel == RESEARCH
                for each in value.get("findings", ())
            }
            if fresh := (ended & kept) - told:
                told |= fresh
                tell(runtime, Told(partial(StepsEnded, count=len(told))))

    async def _carried_out(self, step: Step, research: Research, runtime: Scope) -> Done:
        """A step without tools for computing is reasoned about; one without search tools fails: nothing may be
        invented."""
        role = ROLE_OF[step.type]
        if role is Role.CODER and not self._team.can(role):
            role = Role.ANALYST
        if not self._team.can(role):
            return Done(state="failed", text="", detail=self._words(runtime)["no_tools"])
        task = prompts.step_task(research, step, self._team.model(role).context_window)
        return await self._perform(role, step.title, task, research, runtime, research.collections)

    def _show(self, research: Research, ended: set[str], runtime: Scope) -> None:
        ready = {step.id for step in research.plan.ready(research.ended_steps)} if research.plan is not None else set()
        lines = telling.checklist(research.steps, self._words(runtime)["report_step"])
        todos = tuple((line, _status(each, ended, ready, len(research.steps))) for each, line in lines)
        tell(runtime, Told(partial(TodosChanged, todos=todos)))

    # The report.

    async def reporter(self, state: State, runtime: Scope) -> Update:
        """Have the report written in the model's own words; no model is involved in the check and the delivery."""
        research = _research(state)
        self._enter(research, runtime)
        pages = await self._pages(research, runtime)
        window = self._team.model(Role.REPORTER).context_window
        charts = await self._team.charts(research.runs)
        task = prompts.reporter_task(research, pages, self._settings.length, window, charts)
        return research.write(report=await self._asked(Role.REPORTER, task, research, runtime))

    async def deliver(self, state: State, runtime: Scope) -> Update:
        """Check the citations, deliver the file, sum up in the chat. Idempotent."""
        research, scope, words = _research(state), scope_of(runtime), self._words(runtime)
        self._enter(research, runtime)
        if research.phase is not Phase.WORKING and not research.report:
            return self._final(words["nothing_open"], runtime)
        if not research.report:
            failed = telling.failed_lines(research, words)
            text = "\n\n".join([words["nothing_found"], "\n".join(failed), words["resume_hint"]])
            return {**self._final(text, runtime), **research.write(phase=Phase.FAILED)}
        pages = await self._pages(research, runtime)
        checked, gone = await self._check(research.report, pages, runtime)
        cited = tuple(_cited(number, page, checked, gone) for number, page in enumerate(checked.cited, 1))
        text = telling.with_charts(checked.text, await self._team.charts(research.runs), words)
        checked = replace(checked, text=text)
        whole = telling.report_text(research, checked, cited, words)
        wanted = self._settings.deliver
        # Formats requested only by default are not mentioned if the sandbox cannot make them.
        asked = wanted if "deliver" in self._settings.model_fields_set else ()
        ready = await self._team.present(telling.file_name(research.title or UNNAMED), whole, wanted, scope)
        for file in ready:
            tell(runtime, Told(partial(FileReady, call_id=f"research-{research.id}", file=file)))
        # Without any files, the report is the message.
        text = telling.summary_text(research, checked, cited, words, ready, asked) if ready else whole
        done = research.write(
            phase=Phase.DONE,
            delivered=checked.text,
            whole=whole,
            cited=cited,
            file=ready[0].path if ready else "",
            check={
                "citations": checked.citations,
                "unknown": checked.unknown,
                "foreign": len(checked.foreign),
                "quotes": checked.quotes,
                "misquoted": len(checked.misquoted),
                "gone": sum(bool(each.gone) for each in cited),
                "dead": len(checked.dead),
                "unsourced": checked.unsourced,
                "merged": checked.merged,
            },
        )
        self._show_done(research, runtime)
        return {**self._final(text, runtime), **done}

    async def _check(self, report: str, pages: Sequence[ReadPage], runtime: Scope) -> tuple[Checked, Mapping[str, str]]:
        """The checked report, without dead sources; and the responses of those that were requested."""
        # In a thread: searching long pages for words takes a while.
        texts, mark = await texts_of(self._sources, pages), self._words(runtime)["unsourced"]
        checking = partial(check, report, pages, texts, mark=mark)
        checked = await asyncio.to_thread(checking)
        contents = {page.sha256 for page in checked.cited}
        same = (page for page in pages if page.sha256 in contents)  # one of them may replace another that is dead
        asked = dict.fromkeys(page.first.address for page in (*checked.cited, *same))
        gone = await self._team.gone([each for each in asked if telling.is_online(each)], scope_of(runtime))
        if dead := dead_pages(gone):
            checked = await asyncio.to_thread(checking, dead=dead)
        return checked, gone

    def _show_done(self, research: Research, runtime: Scope) -> None:
        lines = telling.checklist(research.steps, self._words(runtime)["report_step"])
        todos = tuple((line, TodoStatus.COMPLETED) for _, line in lines)
        tell(runtime, Told(partial(TodosChanged, todos=todos)))
        self._ended.pop(scope_of(runtime).ctx.run_id, None)

    # Shared by the nodes.

    def _enter(self, research: Research, runtime: Scope) -> None:
        """Note that a node begins. Everything before it in this process is stored by now; the first one may be a
        repeat, during which a process may have died more than once."""
        run_id = scope_of(runtime).ctx.run_id
        if run_id in self._entered:
            tell(runtime, Told(partial(StepsEnded, count=len(research.ended_steps))))
        self._entered[run_id] = None

    def _words(self, runtime: Scope) -> Mapping[str, str]:
        return self._parts.words(scope_of(runtime).ctx.locale)

    async def _pages(self, research: Research, runtime: Scope) -> Sequence[ReadPage]:
        """The pages read in this research, in the order of the numbers that the reporter receives."""
        return await pages_read(self._sources, scope_of(runtime).ctx.thread_id, research.runs)

    async def _perform(
        self, role: Role, about: str, prompt: str, research: Research, runtime: Scope, named: tuple[str, ...] = ()
    ) -> Done:
        """Have a task done. about: the title of a step, else the key of a description. named: collections."""
        description = self._words(runtime).get(f"doing_{about}", about)
        # A separate key for each attempt: what an earlier one began is neither trusted nor mistaken for this one's.
        task = Task(role=role, key=f"research-{secrets.token_hex(6)}", description=description, prompt=prompt)
        scope = replace(scope_of(runtime), collections=named, sent=research.sent)
        return await self._team.perform(task, scope, runtime)

    async def _asked(self, role: Role, prompt: str, research: Research, runtime: Scope) -> str:
        """The answer of an agent that the research depends on. Raises ModelFailure."""
        done = await self._perform(role, role, prompt, research, runtime)
        if done.failure is not None:
            raise done.failure
        if done.state == "timed_out":
            raise ModelFailure(
                FailureKind.TIMEOUT, model=scope_of(runtime).ctx.model, detail=f"the {role} took too long"
            )
        if done.state != "completed" or not done.text.strip():
            detail = f"the {role} returned nothing ({done.detail or done.state})"
            raise ModelFailure(FailureKind.EMPTY, model=scope_of(runtime).ctx.model, detail=detail)
        return done.text

    async def _readable(
        self, role: Role, task: str, research: Research, runtime: Scope, read: Callable[[str], T]
    ) -> T | None:
        """An agent's answer as `read` returns it, requested once more if that raises Unreadable; None if it does so
        again."""
        said = await self._asked(role, task, research, runtime)
        try:
            return read(said)
        except Unreadable as error:
            repair = prompts.REPAIR.format(problem=error, answer=prompts.block("answer", said[:LONGEST_REPAIRED]))
        said = await self._asked(role, f"{task}\n\n{repair}", research, runtime)
        try:
            return read(said)
        except Unreadable:
            return None

    def _final(self, text: str, runtime: Scope) -> Update:
        return self._said([AIMessage(text, id=_message_id(runtime))], runtime)

    def _question(self, text: str, options: Sequence[str], runtime: Scope) -> Update:
        """End the turn with a question, like one of the lead agent's."""
        message_id = _message_id(runtime)
        call = {"name": ASK, "args": {"question": text, "options": list(options) or None}, "id": f"{message_id}-ask"}
        asking = AIMessage("", id=message_id, tool_calls=[{**call, "type": "tool_call"}])
        asked = ToolMessage(WAS_ASKED, tool_call_id=call["id"], name=ASK, id=f"{message_id}-asked")
        return self._said([asking, asked], runtime)

    def _said(self, messages: list[AnyMessage], runtime: Scope) -> Update:
        tell(runtime, CallEnded(messages[0]))  # type: ignore[arg-type]  # the first one is the assistant's
        return {"messages": messages}


def _message_id(runtime: Scope) -> str:
    """The id of the single message of a research turn, the same for every attempt at it."""
    return f"{scope_of(runtime).ctx.run_id}-1"


def _share(record: Mapping[str, Any], step: Step) -> dict[str, Any]:
    """A step's share of the record: full findings only of the steps that it depends on. The checkpoint stores it for
    each step of a wave."""
    findings = {
        each: found if each in step.depends_on else {"state": found["state"]}
        for each, found in record.get("findings", {}).items()
    }
    return {**record, "findings": findings, "report": "", "background": ""}


def _status(step: str, ended: set[str], ready: set[str], count: int) -> TodoStatus:
    if step in ended:
        return TodoStatus.COMPLETED
    working = step in ready if step else len(ended) == count
    return TodoStatus.IN_PROGRESS if working else TodoStatus.PENDING


def _cited(number: int, page: ReadPage, checked: Checked, gone: Mapping[str, str]) -> Cited:
    first = page.first
    return Cited(
        number=number,
        address=first.address,
        title=first.title,
        fetched_at=first.fetched_at.isoformat(),
        sha256=page.sha256,
        quotes=checked.quoted[number - 1],
        gone=gone.get(first.address),
    )
