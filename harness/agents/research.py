"""The agents of a research: one kind of subagent per role, in a separate pool; and the report as a file."""

from __future__ import annotations

import asyncio
import logging
import shlex
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from harness.events import SubagentState
from harness.files.spool import NotTaken
from harness.graph.signals import teller
from harness.research.config import INHERIT
from harness.research.prompts import system_prompt
from harness.research.team import Done, Role
from harness.subagents.config import INHERIT as SAME_MODEL
from harness.subagents.kinds import SANDBOX_TOOLS, Kind
from harness.subagents.pool import Order
from harness.text.plain import one_line
from harness.tools.presenting import PRESENT
from sandbox.base import OUTPUTS, SKILLS, Problem, SandboxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from langgraph.runtime import Runtime

    from harness.config import ModelSettings
    from harness.events import ReadyFile
    from harness.files.spool import Spool
    from harness.graph.signals import RunScope
    from harness.research.config import Format, ResearchSettings
    from harness.research.team import DoneState, Task
    from harness.subagents.pool import Report, SubagentPool
    from sandbox.base import Sandbox

log = logging.getLogger(__name__)
LONGEST_SHOWN = 60
CONVERT = f"{SKILLS}/public/document-conversion/scripts/convert.py"
CONVERT_SECONDS = 120.0
MOST_LINKS, LINKS_SECONDS = 60, 45.0
SEARCH, FETCH, KNOWLEDGE = "web_search", "web_fetch", "knowledge_search"
READING = frozenset({"ls", "glob", "grep", "read_file"})
"""Tools of the sandbox with which a researcher reads the thread's files."""
TOOLS: Mapping[Role, frozenset[str]] = {
    Role.COORDINATOR: frozenset(),
    Role.BACKGROUND: frozenset({SEARCH}),
    Role.PLANNER: frozenset(),
    Role.RESEARCHER: frozenset({SEARCH, FETCH, KNOWLEDGE}) | READING,
    Role.ANALYST: frozenset(),
    Role.CODER: SANDBOX_TOOLS | {PRESENT},
    Role.REPORTER: frozenset(),
}
NEEDED: Mapping[Role, frozenset[str]] = {
    Role.BACKGROUND: frozenset({SEARCH}),
    Role.RESEARCHER: frozenset({SEARCH, FETCH, KNOWLEDGE}),
    Role.CODER: frozenset({"bash"}),
}
"""Tools of which a role needs at least one to be of any use."""
WITH_ENVIRONMENT = frozenset({Role.RESEARCHER, Role.ANALYST, Role.CODER})
"""Roles that carry out steps: their prompt describes their tools and files, like that of any subagent."""
TURNS: Mapping[Role, int] = {Role.BACKGROUND: 3}


ENDED: Mapping[SubagentState, DoneState] = {
    SubagentState.COMPLETED: "completed",
    SubagentState.FAILED: "failed",
    SubagentState.TIMED_OUT: "timed_out",
}


def research_kinds(
    settings: ResearchSettings,
    tools: Collection[str],
    given: Callable[[str], Collection[str]],
    *,
    only_known: bool = True,
) -> dict[str, Kind]:
    """A kind for each role, by its name. tools: of the lead agent. given: role -> the MCP servers' tools that the
    operator gives it with add_to_agents. only_known: web.fetch.only_known of the settings."""
    kinds = {}
    for role in Role:
        model = str(getattr(settings.models, role.value))
        further = [name for name in tools if any(fnmatchcase(name, each) for each in _further(settings, role))]
        kinds[role.value] = Kind(
            name=role.value,
            description=role.value,
            system_prompt=system_prompt(role, settings),
            tools=tuple(sorted(TOOLS[role].union(further, given(role.value)))),
            model=SAME_MODEL if model == INHERIT else model,
            max_turns=TURNS.get(role, settings.max_turns),
            timeout_seconds=settings.seconds_per_step,
            skills=(),
            whole=role not in WITH_ENVIRONMENT,
            only_known=only_known,
            cites_files=True,
        )
    return kinds


def _further(settings: ResearchSettings, role: Role) -> tuple[str, ...]:
    named: tuple[str, ...] = getattr(settings.tools, role.value, ())
    return named


class ResearchTeam:
    """See harness.research.team.Team. tools: of the lead agent. given: see research_kinds; the team has no other tools.
    model: the settings of a kind's model. spool: None: no file can be delivered. gone: (address, speaker id) -> why a
    page does not answer, None if it was not requested; itself None: this cannot be checked."""

    def __init__(
        self,
        pool: SubagentPool,
        tools: Collection[str],
        given: Callable[[str], Collection[str]],
        model: Callable[[Kind], ModelSettings],
        spool: Spool | None,
        gone: Callable[[str, str], Awaitable[str | None]] | None = None,
    ) -> None:
        self._pool = pool
        self._tools = frozenset(tools).union(*(given(role.value) for role in Role))
        self._model = model
        self._spool = spool
        self._gone = gone

    async def perform(self, task: Task, scope: RunScope, runtime: Runtime[RunScope]) -> Done:
        """Have a dedicated subagent do a task."""
        report = await self._pool.perform(
            Order(
                kind=self._pool.kinds[task.role.value],
                description=one_line(task.description, LONGEST_SHOWN),
                prompt=task.prompt,
                scope=scope,
                key=task.key,
                call_id=task.key,
                promoted=(),
                tell=teller(runtime),
            )
        )
        return _done(report)

    def can(self, role: Role) -> bool:
        """Whether at least one of the tools that the role needs is available."""
        needed = NEEDED.get(role)
        if needed is None:
            return True
        # Tools that the operator added count as useful too.
        own = needed | (set(self._pool.kinds[role.value].tools or ()) - TOOLS[role])
        return bool(own & self._tools)

    def model(self, role: Role) -> ModelSettings:
        """The settings of a role's model. Raises ModelFailure if it does not exist."""
        return self._model(self._pool.kinds[role.value])

    async def gone(self, addresses: Sequence[str], scope: RunScope) -> Mapping[str, str]:
        """Check all addresses concurrently, within the time limit."""
        if self._gone is None:
            return {}
        whose = scope.ctx.speaker.id
        found: dict[str, str] = {}
        asking: dict[str, asyncio.Future[str | None]] = {
            address: asyncio.ensure_future(self._gone(address, whose)) for address in addresses[:MOST_LINKS]
        }
        try:
            if asking:
                await asyncio.wait(asking.values(), timeout=LINKS_SECONDS)
        finally:
            for task in asking.values():
                task.cancel()
        for address, task in asking.items():
            if not task.done() or task.cancelled():
                continue
            if (error := task.exception()) is None:
                if (why := task.result()) is not None:
                    found[address] = why
            else:  # a defect there may cost a line of the check, but never the report
                log.error("asking for a page failed", exc_info=error)
        return found

    async def charts(self, run_ids: Sequence[str]) -> Sequence[str]:
        """The pictures among the files that these runs presented."""
        if self._spool is None:
            return ()
        files = [file for run_id in run_ids for file in await self._spool.files(run_id)]
        below = f"{OUTPUTS}/"
        pictures = (each.path for each in files if each.kind == "image" and each.path.startswith(below))
        return tuple(dict.fromkeys(path.removeprefix(below) for path in pictures))

    async def present(self, name: str, text: str, formats: Sequence[Format], scope: RunScope) -> Sequence[ReadyFile]:
        """Write the report to the thread's outputs and deliver it. A failing sandbox costs the files, never the
        report."""
        if self._spool is None or scope.sandbox is None:
            return ()
        whole = f"{OUTPUTS}/{name}.md"
        ready: list[ReadyFile] = []
        try:
            sandbox = await scope.sandbox.get()
            async with scope.sandbox.writing:
                if isinstance(problem := await sandbox.write_file(whole, text), Problem):
                    raise NotTaken(f"{problem.code} {problem.detail}")
                for ending in formats:
                    path = f"{OUTPUTS}/{name}.{ending}"
                    if ending == "md" or await _converted(sandbox, whole, path):
                        taken = await self._spool.take(scope.ctx.run_id, path, sandbox)
                        if isinstance(taken, Problem):
                            raise NotTaken(f"{taken.code} {taken.detail}")
                        ready.append(taken)
        except (SandboxError, NotTaken) as error:
            log.warning("run %s: report not attached as a file: %s", scope.ctx.run_id, error)
        return ready


async def _converted(sandbox: Sandbox, whole: str, path: str) -> bool:
    """Convert the Markdown file with the sandbox's own tools; returns whether that worked."""
    command = f"python3 {CONVERT} to {shlex.quote(whole)} {shlex.quote(path)}"
    result = await sandbox.execute_command(command, timeout=CONVERT_SECONDS)
    if result.exit_code != 0:
        last = result.output.strip().rpartition("\n")[2]
        log.warning("report not converted: %s, %s", result.ending, one_line(last))
    return result.exit_code == 0


def _done(report: Report) -> Done:
    return Done(
        state=ENDED.get(report.state, "cancelled"),
        text=report.text,
        detail=report.detail,
        seconds=report.seconds,
        calls=report.model_calls,
        cut=report.cut,
        failure=report.failure,
    )
