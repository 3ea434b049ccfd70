"""The control side, /control/...: acting for people, the connection, reading. See simulators/control.py."""

import asyncio
import time

from aiohttp import web

from tests.simulators import control
from tests.simulators.control import Action, ControlError, FaultRoutes, JournalRoutes, StageRoutes
from tests.simulators.signals import wait_until
from tests.simulators.wecom import people
from tests.simulators.wecom.faults import Fault
from tests.simulators.wecom.state import Bot, Chat, Json
from tests.simulators.wecom.view import chat_view
from tests.simulators.wecom.world import World


def add_routes(app: web.Application, world: World) -> None:
    """Add all control routes to the application."""
    control.add_routes(
        app,
        Acting(world),
        Reading(world),
        JournalRoutes(world.journal),
        FaultRoutes(world.faults, Fault, world.released, lambda spec: world.bot(str(spec["bot"])).bot_id),
        StageRoutes(world.clock, world.problems, "bot"),
    )


class Acting:
    """Routes that change something."""

    def __init__(self, world: World) -> None:
        self._world = world

    def actions(self) -> dict[str, Action]:
        return {
            "bots": self._register,
            "say": self._say,
            "enter": lambda spec: people.enter(self._world, self._bot(spec), spec),
            "press": lambda spec: people.press(self._world, self._bot(spec), spec),
            "judge": lambda spec: people.judge(self._world, self._bot(spec), spec),
            "redeliver": self._redeliver,
            "frame": self._frame,
            "configure": self._configure,
            "close": self._close,
            "kick": self._kick,
            "remove": self._remove,
        }

    def _bot(self, spec: Json) -> Bot:
        return self._world.bot(str(spec["bot"]))

    async def _register(self, spec: Json) -> Json:
        self._world.bots[spec["bot"]] = Bot(spec["bot"], spec["secret"], spec["name"])
        return {}

    async def _say(self, spec: Json) -> Json:
        return await people.say(self._world, self._bot(spec), spec)

    async def _redeliver(self, spec: Json) -> Json:
        """Send the callback of a message again, under its old req_id or (fresh) a new one."""
        bot = self._bot(spec)
        found = [request for request in bot.requests.values() if request.msgid == spec["msgid"]]
        if not found:
            raise ControlError(f"no message {spec['msgid']}")
        request = found[0]
        if spec.get("fresh"):
            frame = request.frame
            return await people.deliver(
                self._world, bot, request.chat, frame["cmd"], frame["body"], request.kind, request.user
            )
        delivered = bot.socket is not None and await bot.socket.send(request.frame)
        return {"delivered": delivered}

    async def _frame(self, spec: Json) -> Json:
        """Send raw text to the bot's connection."""
        socket = self._bot(spec).socket
        if socket is None:
            raise ControlError("not connected")
        await socket.ws.send_str(spec["text"])
        return {}

    async def _configure(self, spec: Json) -> Json:
        bot = self._bot(spec)
        for name, value in spec["settings"].items():
            if name == "limits":
                bot.limits = bot.limits.changed(value)
            elif hasattr(bot, name):
                setattr(bot, name, value)
            else:
                raise ControlError(f"unknown setting {name}")
        return {}

    async def _close(self, spec: Json) -> Json:
        """Close the bot's connection with a code; 0 resets it."""
        socket = self._bot(spec).socket
        if socket is None:
            raise ControlError("not connected")
        await socket.close(int(spec["code"]))
        return {}

    async def _kick(self, spec: Json) -> Json:
        """Act as if another program had subscribed with this bot."""
        socket = self._bot(spec).socket
        if socket is None:
            raise ControlError("not connected")
        await socket.kick()
        return {}

    async def _remove(self, spec: Json) -> Json:
        """Remove the bot from a group, or make it invisible to a person."""
        bot = self._bot(spec)
        bot.chats[spec["chat"]].member = False
        return {}


class Reading:
    """Routes that only read or wait."""

    def __init__(self, world: World) -> None:
        self._world = world

    def actions(self) -> dict[str, Action]:
        return {
            "chat": self._chat,
            "connected": self._connected,
            "status": self._status,
            "media": self._media,
            "idle": self._idle,
            "showing": self._count,
        }

    async def _chat(self, spec: Json) -> Json:
        """A conversation, once its revision differs from the known one or the time is over."""
        bot = self._world.bot(str(spec["bot"]))
        chat = bot.chat(spec["chat"], spec["kind"])
        if chat.revision == spec.get("revision") and spec.get("wait"):
            await chat.changed.wait(float(spec["wait"]))
        return chat_view(chat)

    async def _connected(self, spec: Json) -> Json:
        """Wait until the bot has subscribed at least `times` times and is (or is not) connected."""
        bot, wanted, times = self._world.bot(str(spec["bot"])), bool(spec["connected"]), int(spec["times"])

        def reached() -> bool:
            return (bot.socket is not None) is wanted and bot.subscriptions >= times

        await wait_until(bot.changed, reached, float(spec["wait"]))
        return await self._status(spec)

    async def _status(self, spec: Json) -> Json:
        bot = self._world.bot(str(spec["bot"]))
        return {
            "connected": bot.socket is not None,
            "subscriptions": bot.subscriptions,
            "kicks": bot.kicks,
            "closed_codes": bot.closed_codes,
            "sockets": sum(socket.bot is bot for socket in self._world.sockets),
            "refused": sum(chat.meter.refused for chat in bot.chats.values()),
        }

    async def _media(self, spec: Json) -> Json:
        """Count the downloads of the served files with that name."""
        return {"hits": sum(file.hits for file in self._world.served.values() if file.name == spec["name"])}

    async def _idle(self, spec: Json) -> Json:
        """Wait until nothing happened in the bot's conversations (or in one) for `quiet` seconds."""
        bot, deadline = self._world.bot(str(spec["bot"])), time.monotonic() + float(spec["wait"])
        quiet = float(spec["quiet"])
        while True:
            chats: list[Chat] = list(bot.chats.values())
            last = max((c.last_activity for c in chats if spec.get("chat") in (None, c.id)), default=0.0)
            busy = any(bubble.state == "streaming" for c in chats for bubble in c.bubbles) and not spec.get("streams")
            rest = last + quiet - time.monotonic()
            if rest <= 0 and not busy:
                return {"idle": True}
            if time.monotonic() >= deadline:
                return {"idle": False}
            await asyncio.sleep(max(rest, 0.02))

    async def _count(self, spec: Json) -> Json:
        """Count the bot's messages that show exactly this text; cheap."""
        bot = self._world.bot(str(spec["bot"]))
        bubbles = (bubble for chat in bot.chats.values() for bubble in chat.bubbles)
        return {"count": sum(not bubble.author and bubble.text == spec["text"] for bubble in bubbles)}
