"""The test client of the WeCom simulator: bots to test with, and waiting for what they do."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

from tests.simulators.process import SimulatorProcess
from tests.simulators.wecom.acting import ActingClient, SimulatorError, WaitTimeoutError, now
from tests.simulators.wecom.seen import Json, Place, Predicate, SeenFrame, SeenMessage, seen_message, transcript

MODULE = "tests.simulators.wecom"
DEFAULT_NAME = "Antler"
LONGEST_POLL = 30.0
# No read time-out: long polls end by themselves, and a simulator that dies closes its connections.
HTTP_TIMEOUT = httpx.Timeout(10.0, read=None)


@asynccontextmanager
async def running_wecom() -> AsyncIterator["WecomSimulator"]:
    """Start a simulator process and yield a client for a fresh bot."""
    async with SimulatorProcess(MODULE) as process, connect(process) as client:
        yield client


@asynccontextmanager
async def connect(process: SimulatorProcess) -> AsyncIterator["WecomSimulator"]:
    """A fresh bot of a simulator that already runs; `verify` runs at the end for all bots."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    async with httpx.AsyncClient(trust_env=False, timeout=HTTP_TIMEOUT, limits=limits, verify=False) as http:
        client = await _fresh(f"http://127.0.0.1:{process.port}", http, DEFAULT_NAME)
        yield client
        await client.verify(everybody=True)


async def _fresh(root: str, http: httpx.AsyncClient, name: str) -> "WecomSimulator":
    bot = {"bot": f"aib{uuid.uuid4().hex[:12]}", "secret": f"secret-{uuid.uuid4().hex}", "name": name}
    (await http.post(f"{root}/control/bots", json=bot)).raise_for_status()
    return WecomSimulator(root, http, bot)


class WecomSimulator(ActingClient):
    """One bot's view of the simulator."""

    def __init__(self, root: str, http: httpx.AsyncClient, bot: Json) -> None:
        super().__init__(root, http, bot)
        self._position = 0
        self._records: dict[int, SeenFrame] = {}

    async def fresh_bot(self, name: str = DEFAULT_NAME) -> "WecomSimulator":
        """Another bot, for which nothing has happened yet."""
        fresh = await _fresh(self.root, self._http, name)
        fresh._position = (await self.ask("records", after=0))["position"]
        return fresh

    async def verify(self, *, everybody: bool = False) -> None:
        """Raise SimulatorError for what the bot (or any) did that fails every test, such as an unknown command."""
        if problems := await self.problems(everybody=everybody):
            raise SimulatorError("; ".join(problems))

    async def problems(self, *, everybody: bool = False) -> list[str]:
        """The same as a list, for tests that provoke them; they are forgotten by being read."""
        answer = await self.ask("problems", **({"bot": None} if everybody else {}))
        return [str(problem) for problem in answer["problems"]]

    async def records(self, cmd: str | None = None, *, chat: Place | None = None) -> list[SeenFrame]:
        """All frames of this bot so far, in order of arrival; optionally of one command and conversation."""
        await self._read_records(self._position, 0.0)
        return [
            record
            for record in self._records.values()
            if cmd in (None, record.cmd) and (chat is None or record.chat == chat.id)
        ]

    async def wait_for_record(
        self, predicate: Callable[[SeenFrame], bool], timeout: float = 20.0, *, since: int = 0
    ) -> SeenFrame:
        """The first frame from index `since` on that fits; frames are looked at again when they change."""
        deadline = now() + timeout
        position = self._position
        candidates = [record for record in self._records.values() if record.index >= since]
        while True:
            for record in candidates:
                if predicate(record):
                    return record
            remaining = deadline - now()
            if remaining <= 0:
                frames = ", ".join(f"{r.cmd} ({r.outcome})" for r in list(self._records.values())[-20:])
                raise WaitTimeoutError(f"no such frame within {timeout} s; the latest: {frames}")
            position, fresh = await self._read_records(position, min(remaining, LONGEST_POLL))
            candidates = [record for record in fresh if record.index >= since]

    async def _read_records(self, position: int, wait: float) -> tuple[int, list[SeenFrame]]:
        answer = await self.ask("records", after=position, wait=wait)
        fresh = [SeenFrame(**record) for record in answer["records"]]
        mine = [record for record in fresh if record.bot_id == self.bot_id]
        for record in mine:
            known = self._records.get(record.index)
            # Two waits may overlap: an answer that was overtaken must not undo a newer state.
            if known is None or known.acked is None:
                self._records[record.index] = record
        self._position = max(self._position, answer["position"])
        return answer["position"], mine

    async def messages(self, place: Place) -> list[SeenMessage]:
        """Everything in a conversation with its whole history, oldest first."""
        view = await self.ask("chat", chat=place.id, kind=place.kind)
        return [seen_message(bubble) for bubble in view["bubbles"]]

    async def bot_messages(self, place: Place) -> list[SeenMessage]:
        """The bot's messages in a conversation."""
        return [message for message in await self.messages(place) if not message.author]

    async def texts(self, place: Place) -> list[str]:
        """What the bot's messages in a conversation show now."""
        return [message.text for message in await self.bot_messages(place)]

    async def wait_for_message(
        self, place: Place, predicate: Predicate = lambda message: True, timeout: float = 20.0
    ) -> SeenMessage:
        """The first message of the bot in a conversation that fits, as soon as it does."""
        deadline = now() + timeout
        revision, wait = -1, 0.0
        while True:
            view = await self.ask("chat", chat=place.id, kind=place.kind, revision=revision, wait=wait)
            revision = view["revision"]
            messages = [seen_message(bubble) for bubble in view["bubbles"]]
            for message in messages:
                if not message.author and predicate(message):
                    return message
            wait = min(deadline - now(), LONGEST_POLL)
            if wait <= 0:
                raise WaitTimeoutError(f"no such message within {timeout} s; the chat:\n{transcript(messages)}")

    async def wait_for_text(self, place: Place, text: str, timeout: float = 20.0) -> SeenMessage:
        """The first message of the bot that shows a text."""
        return await self.wait_for_message(place, lambda message: text in message.text, timeout)

    async def wait_finished(self, place: Place, text: str, timeout: float = 20.0) -> SeenMessage:
        """The first message with a text that will not change any more: a finished stream, or no stream at all."""
        return await self.wait_for_message(
            place, lambda message: text in message.text and message.state in ("", "finished"), timeout
        )

    async def wait_idle(
        self, place: Place | None = None, *, quiet: float = 0.3, timeout: float = 20.0, streams: bool = False
    ) -> None:
        """Until nothing happened in a conversation (or any) for `quiet` seconds and no stream is open (`streams`:
        open ones do not count)."""
        chat = None if place is None else place.id
        if not (await self.ask("idle", chat=chat, quiet=quiet, wait=timeout, streams=streams))["idle"]:
            raise WaitTimeoutError(f"not idle within {timeout} s")

    async def count_showing(self, text: str) -> int:
        """How many messages of the bot show exactly this text; cheap for the simulator."""
        return int((await self.ask("count", text=text))["count"])

    async def keep_lean(self, lean: bool = True) -> None:
        """Do not record frames, so that hours of traffic fit into memory."""
        await self.ask("lean", lean=lean)
