"""What /status in a chat and `antler status` on the machine tell, from the same live facts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bot.markdown import plain
from bot.store import conversations, usage
from channels.base import ConnectionState
from harness.souls import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bot.conversations.actor import Conversation
    from bot.patience import PatientStore
    from bot.reload import Outcome
    from bot.runs.manager import RunManager
    from bot.sandboxes import SandboxFacts
    from bot.store.rows import ConversationRow
    from bot.texts.catalogue import Texts
    from channels.base import Clock, Health
    from harness.mcp.pool import ServerFacts

DEAF_AFTER = 90.0
"""Seconds without a sign of life after which a connection that calls itself connected is not believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One account's connection. silence: seconds since the last sign of life on the wire, None before the first."""

    account: str
    state: str
    silence: float | None
    detail: str
    reconnects: int

    @property
    def healthy(self) -> bool:
        return self.state == ConnectionState.CONNECTED


def _none() -> None:
    """Nothing watches the config."""


class StatusPage:
    def __init__(
        self,
        *,
        version: str,
        store: PatientStore,
        runs: RunManager,
        health: Callable[[], Mapping[str, Health]],
        clock: Clock,
        waiting: Callable[[], int],
        sandbox: Callable[[], SandboxFacts],
        servers: Callable[[], Sequence[ServerFacts]] = tuple,
        config: Callable[[], Outcome | None] = _none,
        unreadable: Callable[[], int] = lambda: 0,
    ) -> None:
        self._version = version
        self._store = store
        self._runs = runs
        self._health = health
        self._clock = clock
        self._waiting = waiting
        self._sandbox = sandbox
        self._servers = servers
        self._config = config
        self._unreadable = unreadable
        self._began = clock.monotonic()

    def connections(self) -> list[Connection]:
        return [self._connection(account, health) for account, health in self._health().items()]

    def _connection(self, account: str, health: Health) -> Connection:
        age = None if health.last_sign is None else self._clock.monotonic() - health.last_sign
        silence = None if age is None else max(0.0, round(age, 1))
        state = health.state
        if state is ConnectionState.CONNECTED and (silence is None or silence > DEAF_AFTER):
            state = ConnectionState.RETRYING
        return Connection(
            account=account, state=str(state), silence=silence, detail=health.detail, reconnects=health.reconnects
        )

    def machine(self) -> dict[str, Any]:
        """The whole process, as JSON types, for the control socket."""
        connections = self.connections()
        return {
            "version": self._version,
            "uptime": round(self._clock.monotonic() - self._began, 1),
            "healthy": all(connection.healthy for connection in connections),
            "running": len(self._runs.active),
            "waiting": self._waiting(),
            "unreadable": self._unreadable(),
            "connections": [asdict(connection) for connection in connections],
            "sandbox": str(self._sandbox()),
            "mcp": [asdict(facts) | {"text": str(facts)} for facts in self._servers()],
            "config": self._config_told(),
        }

    def _config_told(self) -> str:
        """What of the config on disk does not hold here, "" when all does."""
        outcome = self._config()
        return str(outcome) if outcome is not None and (outcome.problems or outcome.restart) else ""

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
        """Markdown for one conversation: its own connection in full, the others in a word each, why one is stopped; for
        admins also what the sandbox lacks on this machine."""
        say = texts.status
        uptime = texts.duration(self._clock.monotonic() - self._began)
        lines = [say["title"].format(version=self._version, uptime=uptime)]
        connections = self.connections()
        own = next((c for c in connections if c.account == row.account), None)
        if own is not None:
            lines += self._connection_lines(own, texts)
        others = [_in_a_word(c, texts) for c in connections if c.account != row.account]
        lines += [say["agent"].format(agent=agent)] if agent != DEFAULT else []
        lines.append(say["model"].format(model=model))
        lines.append(await self._thread_line(row, texts))
        lines.append(self._run_line(conversation, texts))
        lines.append(say["queue"].format(count=conversation.load))
        lines += self._sandbox_lines(texts, in_full=is_admin)
        lines += self._server_lines(texts, in_full=is_admin)
        if others:
            lines.append(say["others"].format(states=", ".join(others)))
        return "\n".join([lines[0], "", *(f"- {line}" for line in lines[1:])])

    def _connection_lines(self, own: Connection, texts: Texts) -> list[str]:
        state = texts.status[own.state]
        if own.silence is None:
            line = texts.status["connection_never"].format(state=state)
        else:
            line = texts.status["connection"].format(state=state, age=texts.duration(own.silence))
        return [line + (f" ({own.detail})" if own.detail else "")]

    def _sandbox_lines(self, texts: Texts, *, in_full: bool) -> list[str]:
        facts = self._sandbox()
        line = texts.status["sandbox"].format(provider=facts.provider, state=texts.sandbox_state[facts.state])
        return [line, *(f"  {plain(shortfall)}" for shortfall in facts.shortfalls if in_full)]

    def _server_lines(self, texts: Texts, *, in_full: bool) -> list[str]:
        """The MCP servers in one line; for admins also why one is not ready, or what of it was refused."""
        servers = self._servers()
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
