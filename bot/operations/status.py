"""The content of /status in a chat and of `antler status` on the machine, from the same live facts."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bot.operations.health import Part
from bot.operations.outages import outage_text
from bot.store import conversations, inbox, runs, usage
from bot.texts.markdown import plain
from channels.base import ConnectionState
from harness.agents.profiles import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from bot.conversations.actor import Conversation
    from bot.files.sandboxes import SandboxFacts
    from bot.operations.health import Condition, Connection, HealthService
    from bot.operations.reload import Outcome
    from bot.operations.workers import WorkerSeen
    from bot.runs.manager import RunManager
    from bot.store.retrying import RetryingStore
    from bot.store.rows import ConversationRow
    from bot.texts.catalogue import Texts
    from bot.usage.budgets import BudgetAccount
    from harness.mcp.pool import ServerFacts


STORE_SECONDS = 2.0
"""Seconds that the status waits for what only the store knows; after that, the rest is shown without it."""


LEADS, LOST = "leads", "has lost the lead"


@dataclass(frozen=True, slots=True)
class LeadFacts:
    """The lead among processes. role: the command by which the process was started. state: LEADS, or LOST while it may
    not act. leader: per the database, as `host:pid`. standing_by: processes waiting for the lead, oldest first."""

    role: str
    state: str
    leader: str
    standing_by: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the status queries from other parts.

    waiting: messages that wait for their turn. workers: none where the gateway itself works. unreadable: events.
    pairings: people who wait for access. budgets: of everybody together, for today. errors: the newest error lines of
    the log. read_by_admins: whether administrators read everybody's threads here. has_page: whether there is a page.
    """

    waiting: Callable[[], int]
    sandbox: Callable[[], SandboxFacts]
    servers: Callable[[], Sequence[ServerFacts]]
    workers: Callable[[], Sequence[WorkerSeen]]
    config: Callable[[], Outcome | None]
    unreadable: Callable[[], int]
    pairings: Callable[[], int]
    budgets: Callable[[], Awaitable[Sequence[BudgetAccount]]]
    errors: Callable[[], Sequence[str]]
    read_by_admins: Callable[[], bool]
    has_page: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """What only the store knows. queue_age: seconds since the oldest message arrived that no run has begun to answer, 0
    for none. budgets: as `Asked.budgets`. lead: None on SQLite, which a single process has."""

    queue_age: float
    budgets: Sequence[BudgetAccount]
    lead: LeadFacts | None


class StatusPage:
    def __init__(
        self, *, version: str, store: RetryingStore, runs: RunManager, health: HealthService, asked: Asked
    ) -> None:
        self.version = version
        self.role = "run"
        """The command by which the process was started."""
        self._store = store
        self._runs = runs
        self.health = health
        self.asked = asked
        self._clock = clock = store.clock
        self._began = clock.monotonic()

    async def machine(self) -> dict[str, Any]:
        """The whole process, as JSON types, for the control socket."""
        asked, stored = self.asked, await self.stored()
        return {
            "version": self.version,
            "uptime": round(self._clock.monotonic() - self._began, 1),
            "lead": asdict(stored.lead) if stored is not None and stored.lead is not None else None,
            "running": len(self._runs.active),
            "waiting": asked.waiting(),
            "queue_age": None if stored is None else round(stored.queue_age, 1),
            "approvals": self.approvals,
            "pairings": asked.pairings(),
            "unreadable": asked.unreadable(),
            **self.health.machine(),
            "sandbox": str(asked.sandbox()),
            "workers": [each.machine() for each in asked.workers()],
            "mcp": [asdict(facts) | {"text": str(facts)} for facts in asked.servers()],
            "budgets": [{"key": each.key, "share": round(each.share, 3)} for each in stored.budgets] if stored else [],
            "config": self._config_told(),
            "errors": list(asked.errors()),
        }

    @property
    def approvals(self) -> int:
        """Tool calls that wait for a person's decision."""
        return sum(len(active.asking) for active in self._runs.active.values())

    async def stored(self) -> StoredFacts | None:
        """What only the store knows; None where it does not answer now."""
        try:
            async with asyncio.timeout(STORE_SECONDS):
                oldest = await self._store.read(lambda tx: (inbox.oldest_new(tx), runs.oldest_pending(tx)))
                budgets = await self.asked.budgets()
                lead = await self._lead()
        except TimeoutError:
            return None
        came = min(filter(None, oldest), default=None)
        age = 0.0 if came is None else (self._clock.now() - came).total_seconds()
        return StoredFacts(max(0.0, age), budgets, lead)

    def _config_told(self) -> str:
        """What of the config on disk is not in force here, "" for nothing."""
        outcome = self.asked.config()
        return "" if outcome is None else outcome.pending

    async def for_chat(
        self,
        conversation: Conversation,
        row: ConversationRow,
        model: str,
        texts: Texts,
        *,
        is_admin: bool,
        agent: str = DEFAULT,
    ) -> str:
        """Markdown for one conversation: its own connection, its model, its thread. For admins also the provider's name
        for the model, why something does not work, the other connections in a word each, and what the sandbox lacks on
        this machine."""
        say = texts.status
        uptime = texts.duration(self._clock.monotonic() - self._began)
        lines = [say["title"].format(version=self.version, uptime=uptime)]
        connections, ill = self.health.connections(), [each for each in self.health.conditions() if each.problem]
        own = next((c for c in connections if c.account == row.account), None)
        if own is not None:
            lines.append(self._connection_line(own, texts, in_full=is_admin))
        if any(each.key == (Part.SENDING, row.account) for each in ill):
            lines.append(say["not_sending"])
        lines += [say["agent"].format(agent=agent)] if agent != DEFAULT else []
        works = all(each.key != (Part.MODEL, model) for each in ill)
        named = self.health.full_name(model) if is_admin else model
        lines.append(say["model" if works else "model_down"].format(model=named))
        lines.append(await self._thread_line(row, texts))
        lines.append(self._run_line(conversation, texts))
        lines.append(say["queue"].format(count=conversation.load))
        lines += [texts.read_by_admins] if self.asked.read_by_admins() else []
        lines += self._sandbox_lines(texts, in_full=is_admin)
        lines += self._server_lines(texts, in_full=is_admin)
        if is_admin:
            others = [_in_a_word(c, texts) for c in connections if c.account != row.account]
            lines += [say["others"].format(states=", ".join(others))] if others else []
            lines += await self._lead_lines(texts)
            lines += self._worker_lines(texts)
            lines += self._trouble_lines(ill, texts)
        return "\n".join([lines[0], "", *map(_item, lines[1:])])

    async def _lead(self) -> LeadFacts | None:
        found = await self._store.processes()
        return None if found is None else LeadFacts(self.role, LEADS if self._store.lease_valid() else LOST, *found)

    async def _lead_lines(self, texts: Texts) -> list[str]:
        if (stored := await self.stored()) is None or (lead := stored.lead) is None:
            return []
        say, names = texts.status, ", ".join(map(plain, lead.standing_by))
        line = say["lead"].format(role=lead.role, leader=plain(lead.leader))
        return [line, say["standing_by"].format(names=names) if names else say["alone"]]

    def _worker_lines(self, texts: Texts) -> list[str]:
        """A line for each worker, and what does not work there; outages of models are listed with the others."""
        lines = []
        for each in self.asked.workers():
            state = texts.status["worker"].format(
                name=plain(each.name),
                process=plain(each.process),
                version=plain(each.version),
                running=each.facts.running,
                age=texts.duration(each.silence),
            )
            lines += [
                state,
                *(f"  {plain(trouble)}" for trouble in (*each.facts.troubles, each.facts.config) if trouble),
            ]
        return lines

    def _trouble_lines(self, ill: Sequence[Condition], texts: Texts) -> list[str]:
        """The ongoing outages that administrators were told of; connections have lines of their own."""
        now = self._clock.monotonic()
        return [outage_text(each, now - each.since, texts) for each in ill if each.part is not Part.RECEIVING]

    def _connection_line(self, own: Connection, texts: Texts, *, in_full: bool) -> str:
        state = texts.status[own.state]
        if own.silence is None:
            line = texts.status["connection_never"].format(state=state)
        else:
            line = texts.status["connection"].format(state=state, age=texts.duration(own.silence))
        return line + (f" ({plain(own.detail)})" if own.detail and in_full else "")

    def _sandbox_lines(self, texts: Texts, *, in_full: bool) -> list[str]:
        facts = self.asked.sandbox()
        line = texts.status["sandbox"].format(provider=facts.provider, state=texts.sandbox_state[facts.state])
        return [line, *(f"  {plain(each)}" for each in (*facts.troubles, *facts.shortfalls) if in_full)]

    def _server_lines(self, texts: Texts, *, in_full: bool) -> list[str]:
        """The MCP servers in one line; for admins also why one is not ready, or what of it was refused."""
        servers = self.asked.servers()
        if not servers:
            return []
        words = [f"{facts.name} {texts.server_state[facts.state]}" for facts in servers]
        tools = sum(facts.tools for facts in servers)
        line = texts.status["servers"].format(states=", ".join(words), tools=tools)
        details = [f"  {plain(f'{facts.name}: {facts.detail}')}" for facts in servers if in_full and facts.detail]
        return [line, *details]

    async def _thread_line(self, row: ConversationRow, texts: Texts) -> str:
        totals, title = await self._store.read(
            lambda tx: (usage.thread_totals(tx, row.thread_id), conversations.title_of(tx, row.thread_id))
        )
        tokens = texts.status["tokens"].format(input=totals.input, output=totals.output) if totals.calls else ""
        title = plain(title) or texts.status["untitled"]
        return texts.status["thread"].format(title=f"{title} (`{row.thread_id[:8]}`)", tokens=tokens)

    def _run_line(self, conversation: Conversation, texts: Texts) -> str:
        active = self._runs.active.get(conversation.active.run_id) if conversation.active else None
        if active is None:
            return texts.status["idle"]
        calls = active.view.model_calls + 1
        step = active.view.status or texts.status["step"].format(calls=calls)
        age = texts.duration(self._clock.monotonic() - active.began)
        return texts.status["running"].format(age=age, step=step)


def _in_a_word(connection: Connection, texts: Texts) -> str:
    word = f"{connection.account} {texts.status[connection.state]}"
    return f"{word} ({plain(connection.detail)})" if connection.state == ConnectionState.STOPPED else word


def _item(line: str) -> str:
    """The line as a list item; an indented one belongs to the item above it."""
    return f"{'  ' if line.startswith('  ') else ''}- {line.strip()}"
