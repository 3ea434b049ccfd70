"""The test client of the Telegram simulator: acts for people, sets faults, waits for what the bot does."""

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.simulators.client import WaitTimeoutError as WaitTimeoutError  # raised by all waiting methods here
from tests.simulators.client import control_connection
from tests.simulators.process import SimulatorProcess
from tests.simulators.telegram.acting import ActingClient, chat_id
from tests.simulators.telegram.faults import Fault
from tests.simulators.telegram.seen import (
    Delivery,
    Json,
    Person,
    RecordedCall,
    Room,
    SeenMessage,
    render_transcript,
    seen_message,
)
from tests.simulators.watching import ChatWatcher

Place = Room | Person | int
MODULE = "tests.simulators.telegram"
_BOT_IDS = itertools.count(7_100_000_001)


@asynccontextmanager
async def running_telegram() -> AsyncIterator["TelegramSimulator"]:
    """Start a simulator process and yield a client for its default bot."""
    async with SimulatorProcess(MODULE) as process, connect(process) as client:
        yield client


@asynccontextmanager
async def connect(process: SimulatorProcess, ca_file: Path | None = None) -> AsyncIterator["TelegramSimulator"]:
    """A client for a running simulator (a fixture of a wider scope may own the process).

    ca_file: the authority that signed the simulator's certificate, None for plain HTTP.
    """
    scheme = "https" if ca_file else "http"
    async with control_connection(ca_file) as http:
        yield TelegramSimulator(f"{scheme}://127.0.0.1:{process.port}", str(process.ready["token"]), http)


class TelegramSimulator(ActingClient, ChatWatcher[Place, SeenMessage]):
    """One bot's view of the simulator; `add_bot` gives the client of another bot."""

    @property
    def base_url(self) -> str:
        """The value for telegram.Bot(base_url=...); the token is appended to it."""
        return f"{self.root}/bot"

    @property
    def file_url(self) -> str:
        """The value for telegram.Bot(base_file_url=...)."""
        return f"{self.root}/file/bot"

    async def fail(
        self, method: str, fault: Fault, times: int = 1, *, chat: Place | None = None, skip: int = 0
    ) -> None:
        """Apply this fault to the next `times` calls of a method ("*": any, "file": download), after `skip` calls."""
        place = None if chat is None else chat_id(chat)
        await self._ask("faults", method=method.lower(), fault=fault.to_json(), times=times, skip=skip, chat_id=place)

    async def fresh_bot(self, **profile: Any) -> "TelegramSimulator":
        """Forget all groups and register a new bot: for tests that share one simulator, one after another."""
        await self._ask("forget")
        return await self.add_bot(f"{next(_BOT_IDS)}:FRESH-bot-token-{'0' * 25}", **profile)

    async def play_dead(self, dead: bool = True) -> None:
        """Accept polls and never answer them; False ends it and breaks the connections of the stuck polls."""
        await self._ask("dead", dead=dead)

    async def set_limits(self, **limits: Any) -> None:
        """Change rate limits (limits.Limits); `enforce=True` makes the simulator answer 429."""
        await self._ask("limits", **limits)

    async def refusals(self) -> dict[str, int]:
        """Number of calls that the rules "chat", "group" and "bot" refused, or would have refused if enforced."""
        return {name: int(count) for name, count in (await self._ask("refusals")).items()}

    async def commands(self) -> list[Json]:
        """All command lists: {scope (JSON text), language, commands}."""
        lists: list[Json] = (await self._ask("commands"))["lists"]
        return lists

    async def file(self, file_id: str) -> Json:
        """Counters of a file: declared_size, stream_size, sent (bytes that sockets took), downloads."""
        return await self._ask("file", file_id=file_id)

    async def records(self, method: str | None = None, *, chat: Place | None = None) -> list[RecordedCall]:
        """All requests to this bot so far, in order of arrival; optionally of one method and chat."""
        wanted = None if method is None else method.lower()
        place = None if chat is None else chat_id(chat)
        return [
            record
            for record in await self._all_records()
            if (wanted is None or record.method.lower() == wanted) and (place is None or record.chat_id == place)
        ]

    async def messages(self, chat: Place) -> list[SeenMessage]:
        """All messages of a chat with their full edit history, deleted ones included."""
        view = await self.chat_view(chat, history=True)
        return [seen_message(message) for message in view["messages"]]

    async def bot_messages(self, chat: Place) -> list[SeenMessage]:
        """The bot's messages that still exist, with history."""
        return list(self.own_messages(await self.chat_view(chat, history=True)))

    def own_messages(self, view: Json) -> Iterator[SeenMessage]:
        shown = map(seen_message, view["messages"])
        return (message for message in shown if message.from_bot and not message.deleted)

    def shown_text(self, message: SeenMessage) -> str:
        return message.text

    async def chat_view(self, chat: Place, *, history: bool = False, revision: int = -1, wait: float = 0.0) -> Json:
        """The raw view: revision, chat, messages, draft, actions, with history also drafts (see view.chat_view)."""
        return await self._ask("chat", chat_id=chat_id(chat), history=history, revision=revision, wait=wait)

    async def deliveries(self) -> list[Delivery]:
        """All updates so far, in the order of queueing."""
        return [Delivery(**update) for update in (await self._ask("deliveries"))["updates"]]

    async def transcript(self, chat: Place) -> str:
        return render_transcript(await self.messages(chat))

    async def wait_idle(self, chat: Place | None = None, *, quiet: float = 0.3, timeout: float = 40.0) -> None:
        """Wait until, for `quiet` seconds, all updates of the chat (or bot) are confirmed and no call runs."""
        place = None if chat is None else chat_id(chat)
        answer = await self._ask("idle", chat_id=place, quiet=quiet, wait=timeout)
        if not answer["idle"]:
            raise WaitTimeoutError(f"not idle within {timeout} s")

    async def wait_polled(self, timeout: float = 40.0) -> None:
        """Wait until the bot holds a poll open: it is up and has confirmed what it received."""
        if not (await self._ask("polled", wait=timeout))["polled"]:
            raise WaitTimeoutError(f"no poll within {timeout} s")

    async def open_connections(self) -> int:
        """Number of open connections that made calls for this bot."""
        return int((await self._ask("connections"))["open"])

    async def wait_answered(self, callback_id: str, timeout: float = 40.0) -> Json:
        """The answer to a button press: text, show_alert."""
        answer = (await self._ask("callback", callback_id=callback_id, wait=timeout))["answer"]
        if answer is None:
            raise WaitTimeoutError(f"callback {callback_id} was not answered within {timeout} s")
        result: Json = answer
        return result
