"""What /status in a chat and `antler status` on the machine tell, from the same live facts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bot.operations.health import Part
from bot.operations.outages import outage_text
from bot.store import conversations, usage
from bot.texts.markdown import plain
from channels.base import ConnectionState
from harness.agents.profiles import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bot.conversations.actor import Conversation
    from bot.files.sandboxes import SandboxFacts
    from bot.operations.health import Condition, Connection, HealthService
    from bot.operations.reload import Outcome
    from bot.runs.manager import RunManager
    from bot.store.retrying import RetryingStore
    from bot.store.rows import ConversationRow
    from bot.texts.catalogue import Texts
    from harness.mcp.pool import ServerFacts


class StatusPage:
    def __init__(
        self,
        *,
        version: str,
        store: RetryingStore,
        runs: RunManager,
        health: HealthService,
        waiting: Callable[[], int],
        sandbox: Callable[[], SandboxFacts],
        servers: Callable[[], Sequence[ServerFacts]],
        config: Callable[[], Outcome | None],
        unreadable: Callable[[], int],
    ) -> None:
        self._version = version
        self._store = store
        self._runs = runs
        self._health = health
        self._clock = clock = store.clock
        self._waiting = waiting
        self._sandbox = sandbox
        self._servers = servers
        self._config = config
        self._unreadable = unreadable
        self._began = clock.monotonic()

    def machine(self) -> dict[str, Any]:
        """The whole process, as JSON types, for the control socket."""
        return {
            "version": self._version,
            "uptime": round(self._clock.monotonic() - self._began, 1),
            "running": len(self._runs.active),
            "waiting": self._waiting(),
            "unreadable": self._unreadable(),
            **self._health.machine(),
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
        """Markdown for one conversation: its own connection, its model, its thread. For admins also the provider's name
        of the model, why something does not work, the other connections in a word each, and what the sandbox lacks on
        this machine."""
        say = texts.status
        uptime = texts.duration(self._clock.monotonic() - self._began)
        lines = [say["title"].format(version=self._version, uptime=uptime)]
        connections, ill = self._health.connections(), [each for each in self._health.conditions() if each.problem]
        own = next((c for c in connections if c.account == row.account), None)
        if own is not None:
            lines.append(self._connection_line(own, texts, in_full=is_admin))
        if any(each.key == (Part.SENDING, row.account) for each in ill):
            lines.append(say["not_sending"])
        lines += [say["agent"].format(agent=agent)] if agent != DEFAULT else []
        works = all(each.key != (Part.MODEL, model) for each in ill)
        named = self._health.full_name(model) if is_admin else model
        lines.append(say["model" if works else "model_down"].format(model=named))
        lines.append(await self._thread_line(row, texts))
        lines.append(self._run_line(conversation, texts))
        lines.append(say["queue"].format(count=conversation.load))
        lines += self._sandbox_lines(texts, in_full=is_admin)
        lines += self._server_lines(texts, in_full=is_admin)
        if is_admin:
            others = [_in_a_word(c, texts) for c in connections if c.account != row.account]
            lines += [say["others"].format(states=", ".join(others))] if others else []
            lines += self._trouble_lines(ill, texts)
        return "\n".join([lines[0], "", *(f"- {line}" for line in lines[1:])])

    def _trouble_lines(self, ill: Sequence[Condition], texts: Texts) -> list[str]:
        """What the administrators were told of and is not over; connections have lines of their own."""
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
