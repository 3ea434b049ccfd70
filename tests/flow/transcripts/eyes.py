"""What people see of a chat over time, read from what the simulated platforms kept of it; one eye for each platform."""

from __future__ import annotations

import asyncio
import html
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from channels.console.frames import Removed, Shown, Typing
from channels.console.transcript import Entry
from tests.flow.platforms.base import Group, Person, Place
from tests.flow.platforms.feishu import Feishu
from tests.flow.platforms.slack import Slack
from tests.flow.platforms.telegram import Telegram
from tests.flow.platforms.wecom import Wecom
from tests.simulators.feishu import client as feishu_client
from tests.simulators.feishu import server as feishu_server
from tests.simulators.feishu.ids import direct_chat
from tests.simulators.feishu.seen import PNG
from tests.simulators.feishu.seen import Person as FeishuPerson
from tests.simulators.feishu.world import World as FeishuWorld
from tests.simulators.slack import client as slack_client
from tests.simulators.slack import server as slack_server
from tests.simulators.slack.ids import dm_id
from tests.simulators.slack.seen import FileSpec as SlackFile
from tests.simulators.slack.seen import Person as SlackPerson
from tests.simulators.slack.view import shown_text as slack_text
from tests.simulators.slack.world import World as SlackWorld
from tests.simulators.telegram import client as telegram_client
from tests.simulators.telegram import server as telegram_server
from tests.simulators.telegram.seen import FileSpec as TelegramFile
from tests.simulators.telegram.seen import Person as TelegramPerson
from tests.simulators.telegram.state import World as TelegramWorld
from tests.simulators.wecom import client as wecom_client
from tests.simulators.wecom import server as wecom_server
from tests.simulators.wecom.seen import FileSpec as WecomFile
from tests.simulators.wecom.seen import Person as WecomPerson
from tests.simulators.wecom.world import World as WecomWorld

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from channels.console.link import TerminalLink
    from tests.flow.transcripts.stage import Stage
    from tests.simulators.feishu.state import App as FeishuApp
    from tests.simulators.slack.state import Channel as SlackChannel
    from tests.simulators.telegram.state import Chat as TelegramChat
    from tests.simulators.telegram.state import StoredMessage as TelegramMessage

HERE = {"latitude": 47.0502, "longitude": 8.3093}
PHOTO = "garden.png"
TYPING_SECONDS = 2.0
"""Between two messages of one person."""
ANN, BOB = Person(1, "Ann"), Person(2, "Bob")
TEAM = Group(1)


@dataclass(frozen=True, slots=True)
class Look:
    """How a message looks from a moment on. buttons, files: their labels and names."""

    at: float
    text: str
    buttons: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bubble:
    """A message. who: "" for the bot. rings: a phone tells of it. gone: when it was deleted."""

    who: str
    looks: tuple[Look, ...]
    rings: bool = True
    gone: float | None = None


@dataclass(frozen=True, slots=True)
class Sign:
    """Something that is seen for a moment, such as typing. who: "" for the bot."""

    at: float
    text: str
    who: str = ""


class Eye:
    """Looks at one place. platform: its driver, by which people act there."""

    name = ""
    platform: Any

    buttons = True

    def __init__(self, place: Place) -> None:
        self.place = place
        self.noted: list[Sign] = []
        """What people did that the platform does not keep."""

    @property
    def account(self) -> str:
        return str(self.platform.account)

    @property
    def settings(self) -> dict[str, Any]:
        """The account's section of the config, at the platform's own pace."""
        return {name: value for name, value in self.platform.settings.items() if name not in ("rate", "poll_timeout")}

    @property
    def access(self) -> dict[str, Any]:
        people = [self.platform.id(ANN), self.platform.id(BOB)]
        return {"allow": people, "admins": people[:1], "groups": {"allow": [self.platform.id(TEAM)]}}

    @property
    def variables(self) -> Mapping[str, str]:
        return dict(self.platform.variables)

    async def open(self, stage: Stage) -> None:
        """Serve the platform."""
        raise NotImplementedError

    async def connected(self) -> None:
        await self.platform.connected()

    async def verify(self) -> None:
        """Raise for what fails every test on this platform."""

    def attach(self, terminal: TerminalLink) -> None:
        """The gateway has a terminal for the person."""

    def wrote(self, text: str) -> None:
        """A person is about to write a text; for a platform that does not keep what people write."""

    async def send_file(self, name: str, content: bytes, text: str) -> None:
        """Ann sends a file and says something about it, in a message of its own where files have no text."""
        await self.platform.send_file(name, content, ANN)
        await asyncio.sleep(TYPING_SECONDS)
        await self.platform.say(text, ANN)

    async def send_photo(self) -> None:
        """Ann sends a photo."""
        raise NotImplementedError

    async def send_location(self) -> None:
        """Ann sends where she is."""
        raise NotImplementedError

    def bubbles(self) -> Iterator[Bubble]:
        """All messages of the place, in their order."""
        raise NotImplementedError

    def signs(self) -> Iterator[Sign]:
        """Everything else that is seen there."""
        yield from ()


class TelegramEye(Eye):
    name = "telegram"
    platform: Telegram

    async def open(self, stage: Stage) -> None:
        self._world = TelegramWorld()
        process = await stage.serve(telegram_server.build_app(self._world))
        token = "7000000001:SIMULATOR-default-bot-token-0000000"
        self._bot = self._world.add_bot(token)
        process.ready["token"] = token
        self.platform = Telegram(await stage.stack.enter_async_context(telegram_client.connect(process)))

    async def send_file(self, name: str, content: bytes, text: str) -> None:
        file = TelegramFile(name=name, content=content)
        await self.platform.simulator.user_says(text, user=self._ann, file=file)

    async def send_photo(self) -> None:
        file = TelegramFile("photo", name=PHOTO, content=PNG, mime="image/png")
        await self.platform.simulator.user_says(user=self._ann, file=file)

    async def send_location(self) -> None:
        await self.platform.simulator.user_says(user=self._ann, extra={"location": HERE})

    @property
    def _ann(self) -> TelegramPerson:
        return TelegramPerson(int(self.platform.id(ANN).partition(":")[2]), ANN.name)

    @property
    def _chat(self) -> TelegramChat | None:
        return self._world.chat(self._bot, int(self.platform.id(self.place).partition(":")[2]))

    def bubbles(self) -> Iterator[Bubble]:
        silent = {
            record.message_id
            for record in self._records
            if record.method.startswith("send") and record.params.get("disable_notification") in (True, "true", "True")
        }
        for message in self._chat.messages.values() if self._chat is not None else ():
            person = message.author_bot is None
            yield Bubble(
                who=str(message.data["from"]["first_name"]) if person else "",
                looks=tuple(_telegram_look(message, version) for version in message.versions),
                rings=message.message_id not in silent,
                gone=message.deleted_at,
            )

    def signs(self) -> Iterator[Sign]:
        chat = self._chat
        for action in chat.actions if chat is not None else ():
            yield Sign(action["at"], str(action["action"]).replace("_", " "))
        for record in self._records:
            if record.method == "answerCallbackQuery" and record.params.get("text"):
                yield Sign(record.arrived, f"answers the press: {record.params['text']}")
            elif record.method == "setMessageReaction":
                yield Sign(record.arrived, f"reaction: {record.params.get('reaction')}")

    @property
    def _records(self) -> list[Any]:
        return [record for record in self._world.journal.records if record.applied]


def _telegram_look(message: TelegramMessage, version: Mapping[str, Any]) -> Look:
    markup = version.get("reply_markup") or {}
    rows = [*markup.get("inline_keyboard", ()), *markup.get("keyboard", ())]
    files = [str(file["name"]) for file in message.files]
    for kind in ("voice", "photo", "document", "location", "contact"):
        if kind in message.data and not files:
            files.append(str(message.data[kind].get("file_name", kind)) if kind == "document" else kind)
    return Look(
        at=version["at"],
        text=str(version.get("text", version.get("caption", ""))),
        buttons=tuple(str(button["text"]) for row in rows for button in row),
        files=tuple(files),
    )


class SlackEye(Eye):
    """Messages of threads among the others, as the app's own tab shows them; a status is the thread's own line."""

    name = "slack"
    platform: Slack

    async def open(self, stage: Stage) -> None:
        self._world = SlackWorld()
        process = await stage.serve(slack_server.build_app(self._world), self._serves_at)
        self.platform = Slack(await stage.stack.enter_async_context(slack_client.connect(process)))

    def _serves_at(self, origin: str) -> None:
        self._world.origin = origin

    async def send_file(self, name: str, content: bytes, text: str) -> None:
        await self.platform.simulator.user_says(text, user=self._ann, files=[SlackFile(name, content=content)])

    async def send_photo(self) -> None:
        picture = SlackFile(PHOTO, content=PNG, mime="image/png")
        await self.platform.simulator.user_says(user=self._ann, files=[picture])

    @property
    def _ann(self) -> SlackPerson:
        return SlackPerson(self.platform.id(ANN).rpartition("/")[2], ANN.name)

    @property
    def _channel(self) -> SlackChannel | None:
        simulator = self.platform.simulator
        (workspace,) = self._world.workspaces.values()
        native = self.platform.id(self.place).partition(":")[2].rpartition("/")[2]
        known = workspace.channels.get(native)
        return known or workspace.channels.get(dm_id(simulator.bot_user_id, native))

    def bubbles(self) -> Iterator[Bubble]:
        (workspace,) = self._world.workspaces.values()
        for message in self._channel.messages.values() if self._channel is not None else ():
            person = "" if message.author_app is not None else str(message.data.get("user"))
            looks = tuple(self._look(version) for version in message.versions)
            if message.ephemeral_to is not None:
                only = f"[only {workspace.users[message.ephemeral_to]['real_name']} sees this] "
                looks = tuple(replace(look, text=only + look.text) for look in looks)
            who = str(workspace.users[person]["real_name"]) if person else ""
            yield Bubble(who, looks, rings=message.ephemeral_to is None, gone=message.deleted_at)

    def _look(self, version: Mapping[str, Any]) -> Look:
        text = slack_text(dict(version)).replace(f"<@{self.platform.simulator.bot_user_id}>", "@Antler")
        labels = [
            str(element["text"]["text"])
            for block in version.get("blocks") or ()
            if block.get("type") == "actions"
            for element in block["elements"]
            if "text" in element
        ]
        files = tuple(str(file["name"]) for file in version.get("files") or ())
        return Look(version["at"], text, tuple(labels), files)

    def signs(self) -> Iterator[Sign]:
        channel = self._channel
        for thread in channel.threads.values() if channel is not None else ():
            for status in thread.statuses:
                yield Sign(status["at"], f"status: {status['status']}" if status["status"] else "no status any more")
        for record in self._world.journal.records:
            if record.applied and record.method.startswith("reactions."):
                yield Sign(record.arrived, f"{record.method}: {record.params.get('name')}")


class FeishuEye(Eye):
    """What a card shows; its line in the list of chats is not shown."""

    name = "feishu"
    platform: Feishu

    async def open(self, stage: Stage) -> None:
        self._world = FeishuWorld()
        process = await stage.serve(feishu_server.build_app(self._world), self._serves_at)
        self.platform = Feishu(await stage.stack.enter_async_context(feishu_client.connect(process)))

    def _serves_at(self, origin: str) -> None:
        self._world.origin = origin

    async def send_photo(self) -> None:
        await self.platform.simulator.sends_image(PNG, user=_FEISHU_ANN)

    async def send_location(self) -> None:
        fields = {"name": "Lake", "latitude": str(HERE["latitude"]), "longitude": str(HERE["longitude"])}
        await self.platform.simulator.sends_raw("location", fields, user=_FEISHU_ANN)

    @property
    def _app(self) -> FeishuApp:
        (app,) = self._world.apps.values()
        return app

    def bubbles(self) -> Iterator[Bubble]:
        app, place = self._app, self.place
        native = f"oc_{place.number}" if isinstance(place, Group) else direct_chat(app.app_id, f"u_{place.number}")
        chat = app.tenant.chats.get(native)
        for message in chat.messages if chat is not None else ():
            person = "" if message.sender_type == "app" else str(app.tenant.people[message.sender]["name"])
            files = tuple(file.name for file in message.resources.values())
            looks = [version for version in message.versions if not version["deleted"]]
            gone = [version["at"] for version in message.versions if version["deleted"]]
            yield Bubble(
                who=person,
                looks=tuple(_feishu_look(version, files) for version in looks),
                gone=gone[0] if gone else None,
            )

    def signs(self) -> Iterator[Sign]:
        for record in self._world.journal.records:
            if record.applied and "reactions" in record.path:
                yield Sign(record.arrived, "reaction" if record.http_method == "POST" else "no reaction any more")
        for envelope in self._app.delivery.envelopes():
            toast = ((envelope.reply or {}).get("toast") or {}).get("content")
            if toast:
                yield Sign(envelope.acks[0]["at"], f"answers the press: {toast}")


_FEISHU_ANN = FeishuPerson(f"u_{ANN.number}", ANN.name)


def _feishu_look(version: Mapping[str, Any], files: tuple[str, ...]) -> Look:
    labels = tuple(str(button["text"]) for button in version["buttons"])
    text = "" if files else html.unescape(str(version["text"]))  # Feishu shows entities as what they stand for
    return Look(version["at"], text.replace("@_user_1", "@Antler").replace("\u200b", "").strip("\n"), labels, files)


class WecomEye(Eye):
    name = "wecom"
    platform: Wecom

    async def open(self, stage: Stage) -> None:
        self._world = WecomWorld()
        process = await stage.serve(wecom_server.build_app(self._world), self._serves_at)
        self.platform = Wecom(await stage.stack.enter_async_context(wecom_client.connect(process)))

    def _serves_at(self, origin: str) -> None:
        self._world.origin = origin

    async def send_photo(self) -> None:
        await self.platform.simulator.sends("image", WecomFile(PNG, PHOTO), WecomPerson(f"person{ANN.number}"))

    def bubbles(self) -> Iterator[Bubble]:
        (bot,) = self._world.bots.values()
        names = {f"person{person.number}": person.name for person in (ANN, BOB)}
        chat = bot.chats.get(self.platform.id(self.place).partition(":")[2])
        for bubble in chat.bubbles if chat is not None else ():
            files = (str(bubble.file["name"] or bubble.kind),) if bubble.file else ()
            yield Bubble(
                who=names[bubble.author] if bubble.author else "",
                looks=tuple(
                    Look(version["at"], version["text"], tuple(version["buttons"]), files)
                    for version in bubble.versions
                ),
            )


class Terminal:
    """The driver of a terminal's person; there are no others, no groups, files and buttons."""

    account = "console"
    settings: Mapping[str, Any] = {"type": "console"}
    variables: Mapping[str, str] = {}
    entry: Entry

    async def connected(self) -> None:
        """It is attached before the gateway begins."""

    async def say(self, text: str, person: Person, group: Group | None = None, *, mention: bool = True) -> None:
        await self.entry.send(text)


class ConsoleEye(Eye):
    """The frames that the gateway sends to a terminal."""

    name = "console"
    buttons = False

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.platform = Terminal()
        self._written: list[Bubble] = []
        self._looks: dict[str, list[Look]] = {}
        self._gone: dict[str, float] = {}
        self._typing: list[Sign] = []

    @property
    def access(self) -> dict[str, Any]:
        return {}

    async def open(self, stage: Stage) -> None:
        """A terminal is attached when the gateway starts."""

    def attach(self, terminal: TerminalLink) -> None:
        self.platform.entry = Entry(terminal)
        self._watching = asyncio.ensure_future(self._watch(terminal))

    async def _watch(self, terminal: TerminalLink) -> None:
        while (frame := await terminal.receive()) is not None:
            now = asyncio.get_running_loop().time()
            match frame:
                case Shown(message_id=message_id, text=text, status=status, file=file):
                    files = (Path(file).name,) if file else ()
                    shown = "\n".join(part for part in (text, status) if part)
                    self._looks.setdefault(message_id, []).append(Look(now, shown, (), files))
                case Removed(message_id=message_id):
                    self._gone[message_id] = now
                case Typing():
                    self._typing.append(Sign(now, "typing"))

    def wrote(self, text: str) -> None:
        """The person entered a line."""
        self._written.append(Bubble(ANN.name, (Look(asyncio.get_running_loop().time(), text),)))

    def bubbles(self) -> Iterator[Bubble]:
        yield from self._written
        for message_id, looks in self._looks.items():
            yield Bubble("", tuple(looks), gone=self._gone.get(message_id))

    def signs(self) -> Iterator[Sign]:
        yield from self._typing


EYES: dict[str, type[Eye]] = {eye.name: eye for eye in (TelegramEye, SlackEye, FeishuEye, WecomEye, ConsoleEye)}
