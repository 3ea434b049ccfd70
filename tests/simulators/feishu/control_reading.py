"""Control routes that read, most of them long polls."""

from tests.simulators.control import Action, ControlError
from tests.simulators.feishu import view
from tests.simulators.feishu.controlling import Routes
from tests.simulators.feishu.state import Json
from tests.simulators.signals import wait_idle, wait_until


class ReadingRoutes(Routes):
    """Routes that read, most of them long polls."""

    def actions(self) -> dict[str, Action]:
        return {
            "chat": self.read_chat,
            "idle": self.idle,
            "upload": self.upload,
            "card": self.card,
            "refusals": self.refusals,
            "showing": self.showing,
        }

    async def read_chat(self, spec: Json) -> Json:
        """The chat as seen now, once it is newer than `revision`."""
        chat = self.chat(spec)
        revision = int(spec.get("revision", -1))
        await wait_until(chat.changed, lambda: chat.revision > revision, float(spec.get("wait", 0)))
        return view.chat_view(chat, history=bool(spec.get("history")), now=self._world.clock.now())

    async def idle(self, spec: Json) -> Json:
        """Wait until a chat, or the whole app, is idle."""
        party = self.app(spec) if spec.get("chat") is None else self.chat(spec)
        return {"idle": await wait_idle(party, float(spec["quiet"]), float(spec["wait"]))}

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
        """Return how often rate limits refused each kind of call, or would have."""
        return dict(self.app(spec).meter.refusals)

    async def showing(self, spec: Json) -> Json:
        """Count the messages of apps in the tenant's direct chats that show exactly a text."""
        chats = [chat for chat in self.app(spec).tenant.chats.values() if chat.mode == "p2p"]
        shown = [m.versions[-1] for chat in chats for m in chat.messages if m.sender_type == "app"]
        return {"count": sum(not v["deleted"] and v["text"].strip() == spec["text"] for v in shown)}
