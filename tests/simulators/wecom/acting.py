"""The part of the test client that acts: people write and press, tests disturb the connection and the answers."""

from collections.abc import Sequence
from typing import Any

import httpx

from tests.simulators.client import StagedClient, WaitTimeoutError
from tests.simulators.wecom.faults import ABORT, Fault
from tests.simulators.wecom.seen import ALICE, FileSpec, Json, Person, Place, Room, Said, SeenFrame, Status

Part = str | FileSpec


class ActingClient(StagedClient[SeenFrame]):
    """One bot's view of the simulator, without reading."""

    def __init__(self, root: str, http: httpx.AsyncClient, bot: Json) -> None:
        self.bot_id: str = bot["bot"]
        self.secret: str = bot["secret"]
        self.name: str = bot["name"]
        super().__init__(root, http, {"bot": self.bot_id}, SeenFrame)

    def owns(self, record: SeenFrame) -> bool:
        return record.bot_id == self.bot_id

    @property
    def url(self) -> str:
        """The address to which bots connect."""
        return self.root.replace("http://", "ws://", 1)

    async def ask(self, action: str, **spec: Any) -> Json:
        """A request to the control side for this bot. Raises SimulatorError."""
        return await self._ask(action, **spec)

    async def says(
        self,
        text: str,
        user: Person = ALICE,
        room: Room | None = None,
        *,
        quote: Part | None = None,
        mention: bool = True,
        **more: Any,
    ) -> Said:
        """A person writes; in a group after the bot's name, without which nothing would be delivered.

        more: msgid, corpid, extra (fields that are merged into the body).
        """
        written = f"@{self.name} {text}" if room is not None and mention else text
        return await self._say("text", written, user, room, quote=quote, **more)

    async def sends(self, kind: str, file: FileSpec, user: Person = ALICE) -> Said:
        """A person sends an image, a file or a video."""
        return await self._say(kind, file.to_json(), user, None)

    async def speaks(self, transcript: str, user: Person = ALICE) -> Said:
        """A person sends a voice message, of which bots only get the transcript."""
        return await self._say("voice", transcript, user, None)

    async def mixes(
        self, parts: Sequence[Part], user: Person = ALICE, room: Room | None = None, *, quote: Part | None = None
    ) -> Said:
        """A person writes text with pictures in it."""
        return await self._say("mixed", [_part(part) for part in parts], user, room, quote=quote)

    async def _say(
        self, kind: str, content: Any, user: Person, room: Room | None, *, quote: Part | None = None, **more: Any
    ) -> Said:
        spec: Json = {"kind": kind, "content": content, "user": user.id, "room": _room(room), **more}
        if quote is not None:
            spec["quote"] = _part(quote)
        return Said(**await self.ask("say", **spec))

    async def enters(self, user: Person = ALICE) -> Said:
        """A person opens the conversation for the first time today."""
        return Said(**await self.ask("enter", user=user.id))

    async def presses(self, label: str, user: Person = ALICE, room: Room | None = None) -> Said:
        """A person presses the newest button with this label."""
        return Said(**await self.ask("press", label=label, user=user.id, room=_room(room)))

    async def judges(self, verdict: int, user: Person = ALICE, room: Room | None = None) -> Said:
        """A person gives feedback: 1 good, 2 bad, 3 withdrawn."""
        return Said(**await self.ask("judge", type=verdict, user=user.id, room=_room(room)))

    async def redeliver(self, msgid: str, *, fresh: bool = False) -> None:
        """Send a message's callback again, under its old req_id or a fresh one."""
        await self.ask("redeliver", msgid=msgid, fresh=fresh)

    async def send_frame(self, text: str) -> None:
        """Send a raw text frame to the bot."""
        await self.ask("frame", text=text)

    async def fail(self, command: str, fault: Fault, times: int = 1, *, skip: int = 0) -> None:
        """Apply this fault to the next `times` frames of a command ("*": any), after `skip` of them."""
        await self.ask("faults", method=command, fault=fault.to_json(), times=times, skip=skip)

    async def configure(self, **settings: Any) -> None:
        """Change the bot: silent, mute_pings, forget_req_ids, stream_seconds, secret, limits={...}."""
        await self.ask("configure", settings=settings)

    async def close(self, code: int = ABORT) -> None:
        """Close the bot's connection with a code, or reset it."""
        await self.ask("close", code=code)

    async def kick(self) -> None:
        """Act as if another program had connected with this bot."""
        await self.ask("kick")

    async def throw_out(self, place: Place) -> None:
        """Remove the bot: it may no longer write there."""
        await self.ask("remove", chat=place.id)

    async def status(self) -> Status:
        """The status of the bot's connection."""
        return _status(await self.ask("status"))

    async def wait_connected(self, *, times: int = 1, timeout: float = 40.0) -> Status:
        """Wait until the bot has a connection and has subscribed at least `times` times."""
        status = _status(await self.ask("connected", connected=True, times=times, wait=timeout))
        if not status.connected or status.subscriptions < times:
            raise WaitTimeoutError(f"not connected after {timeout} s: {status}")
        return status

    async def wait_disconnected(self, timeout: float = 40.0) -> Status:
        """Wait until the bot has no connection."""
        status = _status(await self.ask("connected", connected=False, times=0, wait=timeout))
        if status.connected:
            raise WaitTimeoutError(f"still connected after {timeout} s")
        return status

    async def open_connections(self) -> int:
        """Number of open websockets of the bot."""
        return (await self.status()).sockets

    async def downloads(self, name: str) -> int:
        """Number of downloads of the files with this name."""
        return int((await self.ask("media", name=name))["hits"])


def _status(answer: Json) -> Status:
    return Status(**{**answer, "closed_codes": tuple(answer["closed_codes"])})


def _room(room: Room | None) -> Json | None:
    return None if room is None else {"id": room.id, "name": room.name}


def _part(part: Part) -> Json:
    if isinstance(part, str):
        return {"kind": "text", "content": part}
    return {"kind": "image", "content": part.to_json()}
