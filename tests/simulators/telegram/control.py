"""The control side, /control/...: tests inject events, queue faults, and read chats. See simulators/control.py."""

from dataclasses import asdict

from aiohttp import web

from tests.simulators import control
from tests.simulators.control import Action, ControlError, FaultRoutes, JournalRoutes, with_changes
from tests.simulators.signals import wait_idle, wait_until
from tests.simulators.telegram import people, view
from tests.simulators.telegram.faults import Fault
from tests.simulators.telegram.state import Bot, Chat, Json, World


def add_routes(app: web.Application, world: World) -> None:
    """Add all control routes to the application."""
    routes = ControlRoutes(world)
    faults = FaultRoutes(
        world.faults, Fault, world.released, lambda spec: routes.bot(spec).id, lambda spec: spec.get("chat_id")
    )
    control.add_routes(app, routes, JournalRoutes(world.journal), faults)


class ControlRoutes:
    """One method per route; each takes the request's JSON object, with the bot's id as `bot`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def actions(self) -> dict[str, Action]:
        return {
            "bots": self.add_bot,
            "chats": self.add_chat,
            "say": self.say,
            "edit": self.edit,
            "press": self.press,
            "membership": self.membership,
            "migrate": self.migrate,
            "updates": self.updates,
            "reserve": self.reserve,
            "redeliver": self.redeliver,
            "dead": self.dead,
            "limits": self.limits,
            "forget": self.forget,
            "chat": self.chat,
            "idle": self.idle,
            "polled": self.polled,
            "connections": self.connections,
            "callback": self.callback,
            "file": self.file,
            "refusals": self.refusals,
            "commands": self.commands,
            "deliveries": self.deliveries,
            "showing": self.showing,
        }

    def bot(self, spec: Json) -> Bot:
        bot = self._world.bots_by_id.get(int(spec["bot"]))
        if bot is None:
            raise ControlError(f"unknown bot {spec['bot']}")
        return bot

    def _chat(self, spec: Json) -> Chat:
        bot = self.bot(spec)
        chat = self._world.chat(bot, int(spec["chat_id"]))
        if chat is None:
            raise ControlError(f"unknown chat {spec['chat_id']}")
        return chat

    async def add_bot(self, spec: Json) -> Json:
        """Register a token with an optional profile."""
        return self._world.add_bot(spec["token"], **spec.get("profile", {})).profile

    async def add_chat(self, spec: Json) -> Json:
        """Add a chat without an update: chat, threads, members."""
        chat = self._world.ensure_chat(self.bot(spec), spec["chat"])
        chat.threads.update(spec.get("threads", []))
        for member in spec.get("members", []):
            chat.members[int(member["user"]["id"])] = member
        return chat.data

    async def say(self, spec: Json) -> Json:
        """people.say"""
        return asdict(people.say(self._world, self.bot(spec), spec))

    async def edit(self, spec: Json) -> Json:
        """people.edit"""
        return asdict(people.edit(self._world, self.bot(spec), spec))

    async def press(self, spec: Json) -> Json:
        """people.press"""
        return people.press(self._world, self.bot(spec), spec)

    async def membership(self, spec: Json) -> Json:
        """people.change_membership"""
        return asdict(people.change_membership(self._world, self.bot(spec), spec))

    async def migrate(self, spec: Json) -> Json:
        """people.migrate"""
        return {"said": [asdict(said) for said in people.migrate(self._world, self.bot(spec), spec)]}

    async def updates(self, spec: Json) -> Json:
        """people.inject; `filtered` applies the bot's allowed_updates."""
        filtered = bool(spec.get("filtered", False))
        return {"update_ids": people.inject(self._world, self.bot(spec), spec["updates"], filtered=filtered)}

    async def reserve(self, spec: Json) -> Json:
        """Leave a gap of `count` update ids, for later use in any order."""
        return {"first": self.bot(spec).queue.reserve_ids(int(spec["count"]))}

    async def redeliver(self, spec: Json) -> Json:
        """Deliver an earlier update again, as after a lost confirmation."""
        bot = self.bot(spec)
        pending = bot.queue.known(int(spec["update_id"]))
        if pending is None:
            raise ControlError(f"unknown update {spec['update_id']}")
        chat = self._world.chats.get(pending.chat) if pending.chat else None
        return {"update_id": self._world.queue_update(bot, pending.update, chat, filtered=False)}

    async def dead(self, spec: Json) -> Json:
        """Start or stop accepting polls without answering them."""
        queue = self.bot(spec).queue
        if spec["dead"]:
            queue.play_dead()
        else:
            queue.revive()
        return {}

    async def limits(self, spec: Json) -> Json:
        """Change rate limits of one bot; absent values stay."""
        bot = self.bot(spec)
        bot.meter.limits = with_changes(bot.meter.limits, spec)
        return asdict(bot.meter.limits)

    async def forget(self, spec: Json) -> Json:
        """Forget all shared chats; bots with their private chats, files and records stay."""
        for key in [key for key in self._world.chats if key[0] == 0]:
            del self._world.chats[key]
        return {}

    async def chat(self, spec: Json) -> Json:
        """The chat as seen now, once it is newer than `revision`."""
        chat = self._chat(spec)
        revision = int(spec.get("revision", -1))
        await wait_until(chat.changed, lambda: chat.revision > revision, float(spec.get("wait", 0)))
        return view.chat_view(chat, history=bool(spec.get("history")))

    async def idle(self, spec: Json) -> Json:
        """Wait until a chat, or the whole bot, is idle."""
        party = self.bot(spec) if spec.get("chat_id") is None else self._chat(spec)
        return {"idle": await wait_idle(party, float(spec["quiet"]), float(spec["wait"]))}

    async def polled(self, spec: Json) -> Json:
        """Wait until the bot holds a poll open."""
        bot = self.bot(spec)
        return {"polled": await wait_until(bot.changed, lambda: bot.queue.polled, float(spec["wait"]))}

    async def connections(self, spec: Json) -> Json:
        """Count the open connections that made calls for this bot."""
        return {"open": self.bot(spec).connections.count}

    async def callback(self, spec: Json) -> Json:
        """Wait for the answer to a button press."""
        callback = self._world.callbacks.get(spec["callback_id"])
        if callback is None:
            raise ControlError(f"unknown callback {spec['callback_id']}")
        await wait_until(callback.answered, lambda: callback.answer is not None, float(spec["wait"]))
        return {"answer": callback.answer}

    async def file(self, spec: Json) -> Json:
        """Sizes and counters of one file."""
        stored = self._world.files.get(spec["file_id"])
        if stored is None:
            raise ControlError(f"unknown file {spec['file_id']}")
        return {name: value for name, value in asdict(stored).items() if name != "content"}

    async def refusals(self, spec: Json) -> Json:
        """Return how often each rate limit refused a call, or would have."""
        return asdict(self.bot(spec).meter.refusals)

    async def commands(self, spec: Json) -> Json:
        """All command lists of a bot."""
        lists = self.bot(spec).commands.items()
        return {"lists": [{"scope": scope, "language": language, "commands": c} for (scope, language), c in lists]}

    async def deliveries(self, spec: Json) -> Json:
        """Return when each update was queued and first delivered, in the order of queueing."""
        remembered = self.bot(spec).queue.remembered()
        return {
            "updates": [
                {
                    "update_id": pending.update_id,
                    "chat_id": pending.chat[1] if pending.chat else None,
                    "queued_at": pending.queued_at,
                    "delivered_at": pending.delivered_at,
                }
                for pending in remembered
            ]
        }

    async def showing(self, spec: Json) -> Json:
        """Count the messages in this bot's private chats that show a text."""
        bot = self.bot(spec)
        mine = (chat for chat in self._world.chats.values() if chat.key[0] == bot.id)
        return {"count": view.count_showing(mine, spec["text"])}
