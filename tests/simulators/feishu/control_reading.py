"""Control routes that read, most of them long polls."""

from tests.simulators.feishu import view
from tests.simulators.feishu.controlling import Action, Routes
from tests.simulators.feishu.envelopes import Envelope
from tests.simulators.feishu.people import ControlError
from tests.simulators.feishu.sockets import SocketServer
from tests.simulators.feishu.state import Json
from tests.simulators.feishu.world import World


class ReadingRoutes(Routes):
    """Routes that read, most of them long polls."""

    def __init__(self, world: World, sockets: SocketServer) -> None:
        super().__init__(world)
        self._sockets = sockets

    def actions(self) -> dict[str, Action]:
        return {
            "records": self.records,
            "chat": self.read_chat,
            "idle": self.idle,
            "connected": self.connected,
            "connections": self.connections,
            "events": self.events,
            "delivery": self.delivery,
            "upload": self.upload,
            "card": self.card,
            "refusals": self.refusals,
            "showing": self.showing,
            "tally": self.tally,
            "problems": self.problems,
        }

    async def records(self, spec: Json) -> Json:
        """Records that are new or changed since a position."""
        position, records = await self._world.journal.since(int(spec["after"]), float(spec.get("wait", 0)))
        return {"position": position, "records": records}

    async def read_chat(self, spec: Json) -> Json:
        """The chat as seen now, once it is newer than `revision`."""
        chat = self.chat(spec)
        revision = int(spec.get("revision", -1))
        await view.wait_until(chat.changed, lambda: chat.revision > revision, float(spec.get("wait", 0)))
        return view.chat_view(chat, history=bool(spec.get("history")), now=self._world.clock.now())

    async def idle(self, spec: Json) -> Json:
        """Wait until a chat, or the whole app, is idle."""
        party = self.app(spec) if spec.get("chat") is None else self.chat(spec)
        return {"idle": await view.wait_idle(party, float(spec["quiet"]), float(spec["wait"]))}

    async def connected(self, spec: Json) -> Json:
        """Wait until the app has exactly `count` open connections; `more`: or more. pings: that many of them seen."""
        app, count = self.app(spec), int(spec["count"])

        def reached() -> bool:
            enough = app.delivery.links == count or (bool(spec.get("more")) and app.delivery.links > count)
            pings = sum(connection.pings for connection in self._sockets.of(app))
            return enough and pings >= int(spec.get("pings", 0))

        reached_it = await view.wait_until(app.changed, reached, float(spec["wait"]))
        return {"connected": reached_it, "links": app.delivery.links}

    async def connections(self, spec: Json) -> Json:
        """All connections that the app ever had, oldest first."""
        return {"connections": [connection.view() for connection in self._sockets.of(self.app(spec), live=False)]}

    async def events(self, spec: Json) -> Json:
        """The newest events of the app."""
        return {"events": [envelope.view() for envelope in self.app(spec).delivery.envelopes()]}

    async def delivery(self, spec: Json) -> Json:
        """Wait until the event (by its id, or by an index) is over: acked, given up or lost."""
        app = self.app(spec)
        found = self._find(app.delivery.envelopes(), spec["event"])
        await view.wait_until(app.changed, lambda: not found.open, float(spec["wait"]))
        return found.view()

    def _find(self, envelopes: list[Envelope], key: str | int) -> Envelope:
        for envelope in envelopes:
            if key in (envelope.event_id, envelope.index):
                return envelope
        raise ControlError(f"unknown event {key}")

    async def upload(self, spec: Json) -> Json:
        """What an app uploaded under a key, or a person sent: {name, mime, kind, size, hex, downloads, sent}."""
        tenant = self.app(spec).tenant
        sent = {key: file for message in tenant.messages.values() for key, file in message.resources.items()}
        stored = {**sent, **tenant.images, **tenant.files}.get(spec["key"])
        if stored is None:
            raise ControlError(f"unknown key {spec['key']}")
        names = ("name", "mime", "kind", "size", "duration", "downloads", "sent")
        content = None if stored.content is None else stored.content.hex()
        return {name: getattr(stored, name) for name in names} | {"hex": content}

    async def card(self, spec: Json) -> Json:
        """A card entity: {data, sequence, streaming, message_id}."""
        card = self.app(spec).tenant.cards.get(spec["card_id"])
        if card is None:
            raise ControlError(f"unknown card {spec['card_id']}")
        return {
            "data": card.data,
            "sequence": card.sequence,
            "streaming": card.streaming(self._world.clock.now()),
            "message_id": card.message.message_id if card.message else None,
        }

    async def refusals(self, spec: Json) -> Json:
        """How often rate limits refused each kind of call, or would have."""
        return dict(self.app(spec).meter.refusals)

    async def showing(self, spec: Json) -> Json:
        """How many messages of apps in the tenant's direct chats show exactly a text."""
        chats = [chat for chat in self.app(spec).tenant.chats.values() if chat.mode == "p2p"]
        shown = [m.versions[-1] for chat in chats for m in chat.messages if m.sender_type == "app"]
        return {"count": sum(not v["deleted"] and v["text"].strip() == spec["text"] for v in shown)}

    async def tally(self, spec: Json) -> Json:
        """Finished requests of all apps: how many of each method with each outcome."""
        counts = self._world.journal.tally.items()
        return {"counts": [{"method": method, "outcome": outcome, "count": n} for (method, outcome), n in counts]}

    async def problems(self, spec: Json) -> Json:
        """What must fail the test, of this app or of nobody's (`app` absent: of all); taken away by being read."""
        mine = [p for p in self._world.problems if spec.get("app") is None or p[0] in (None, spec["app"])]
        self._world.problems[:] = [p for p in self._world.problems if p not in mine]
        return {"problems": [text for _, text in mine]}
