"""The part of the test client that acts for people, who write, send files, press, react, add the bot."""

from collections.abc import Sequence
from typing import Any

import httpx

from tests.simulators.disturbing import SocketClient
from tests.simulators.feishu import ids
from tests.simulators.feishu.seen import (
    ALICE,
    PNG,
    TEAM,
    FileSpec,
    Group,
    Json,
    Person,
    Place,
    Pressed,
    RecordedCall,
    Said,
)


class ActingClient(SocketClient[RecordedCall]):
    """Injects events for one app; a method returns once its events are queued."""

    def __init__(self, root: str, http: httpx.AsyncClient, app: Json) -> None:
        self.app_id = str(app["app_id"])
        self.app_secret = str(app["app_secret"])
        self.name = str(app["name"])
        self.tenant_key = str(app["tenant_key"])
        super().__init__(root, http, {"app": self.app_id}, RecordedCall)

    def owns(self, record: RecordedCall) -> bool:
        return record.app_id == self.app_id

    @property
    def domain(self) -> str:
        """The value for lark.Client.builder().domain(...) and lark.ws.Client(domain=...)."""
        return self.root

    @property
    def bot_open_id(self) -> str:
        """The bot as its own app sees it: in GET bot/v3/info and in mentions."""
        return ids.open_id(self.app_id, self.app_id)

    def open_id(self, person: Person) -> str:
        """The id of a person for this app."""
        return ids.open_id(self.app_id, person.id)

    def chat_id(self, place: Place) -> str:
        """The id of a place, however a test names it (a person means their direct chat with the bot)."""
        if isinstance(place, str):
            return place
        return ids.direct_chat(self.app_id, place.id) if isinstance(place, Person) else place.id

    async def user_says(
        self,
        text: str | None = None,
        *,
        user: Person = ALICE,
        chat: Place | None = None,
        reply_to: str | None = None,
        in_thread: bool = False,
        at: float | None = None,
        silent: bool = False,
        **more: Any,
    ) -> Said:
        """A person writes a text, by default in their direct chat with the bot. @name and @all become mentions.

        reply_to: a message id; in_thread: the answer opens (or continues) a topic there. at: unix time of the past;
        silent: no event, so that only the history has it. The other methods that speak take the same arguments.
        """
        spec = {"type": "text", "text": text, **more}
        return Said(
            **await self._ask(
                "say",
                user=user.to_json(),
                chat=place_json(chat or user),
                reply_to=reply_to,
                in_thread=in_thread,
                at=at,
                silent=silent,
                **spec,
            )
        )

    async def group_says(self, text: str, *, chat: Group | str = TEAM, user: Person = ALICE, **more: Any) -> Said:
        """A person writes in a group; write "@antler" into the text to mention the bot."""
        return await self.user_says(text, user=user, chat=chat, **more)

    async def posts(
        self,
        rows: Sequence[Sequence[Json]],
        *,
        title: str = "",
        mentions: Sequence[str] = (),
        files: Sequence[FileSpec] = (),
        **more: Any,
    ) -> Said:
        """A person sends a post: rows of nodes {tag, text, ...}; an image's key is that of its file.

        mentions: "bot" or ids of people, in the order of their keys; name them in nodes as {tag: at, user_id: id}.
        """
        content = {"title": title, "content": [list(row) for row in rows]}
        return await self.user_says(
            type="post",
            content=content,
            mentions=list(mentions),
            files=[file.to_json() for file in files],
            **more,
        )

    async def sends(self, file: FileSpec, **more: Any) -> Said:
        """A person sends a file of any kind: image, file, audio or media; Said.keys has its key."""
        return await self.user_says(type=file.kind, files=[file.to_json()], **more)

    async def sends_image(self, content: bytes = PNG, **more: Any) -> Said:
        """A person sends a picture."""
        return await self.sends(FileSpec("image.png", "image/png", content, kind="image"), **more)

    async def sends_video(self, file: FileSpec, cover: bytes = PNG, **more: Any) -> Said:
        """A person sends a video with its cover picture; Said.keys has both keys, the video's first."""
        picture = FileSpec("cover.png", "image/png", cover, kind="image")
        return await self.user_says(type="media", files=[file.to_json(), picture.to_json()], **more)

    async def sends_raw(self, msg_type: str, content: Json, *, mentions: Sequence[str] = (), **more: Any) -> Said:
        """A person sends a message of any type (sticker, share_chat, location, ...) with unmodified content."""
        return await self.user_says(type=msg_type, content=content, mentions=list(mentions), **more)

    async def forwards(self, message_ids: Sequence[str], **more: Any) -> Said:
        """A person forwards messages as one bundle; GET on it returns the children too."""
        return await self.user_says(type="merge_forward", forwarded=list(message_ids), **more)

    async def other_bot_says(self, text: str, *, chat: Group | str = TEAM, bot: str = "cli_other", **more: Any) -> Said:
        """Another app's bot writes in a group, for tenants where bots hear bots."""
        return await self.user_says(text, chat=chat, bot=bot, **more)

    async def repeats(self, message_id: str) -> str:
        """Deliver the same message again under another event id, which is returned."""
        return str((await self._ask("repeat", message_id=message_id))["event_id"])

    async def recalls(self, message_id: str) -> None:
        """A person recalls a message: im.message.recalled_v1."""
        await self._ask("recall", message_id=message_id)

    async def reacts(
        self, message_id: str, emoji: str = "THUMBSUP", *, user: Person = ALICE, remove: bool = False
    ) -> None:
        """A person adds or removes a reaction."""
        await self._ask("react", message_id=message_id, emoji=emoji, user=user.to_json(), remove=remove)

    async def press(self, message_id: str, element: str | int, *, user: Person = ALICE, **action: Any) -> Pressed:
        """Press a real element of a card, by its text, name, element_id or position; see the answer by `wait_event`.

        action: option, options, input_value, form_value or checked of other elements than buttons.
        """
        spec = {"message_id": message_id, "element": element, "user": user.to_json(), **action}
        return Pressed(**await self._ask("press", **spec))

    async def bot_joins(self, chat: Group, *, by: Person = ALICE) -> None:
        """The bot is added to a group: im.chat.member.bot.added_v1."""
        await self._ask("membership", chat=chat.to_json(), joined=True, user=by.to_json())

    async def bot_leaves(self, chat: Group, *, by: Person = ALICE) -> None:
        """The bot is removed from a group."""
        await self._ask("membership", chat=chat.to_json(), joined=False, user=by.to_json())

    async def enters_chat(self, *, user: Person = ALICE) -> None:
        """A person opens the direct chat: im.chat.access_event.bot_p2p_chat_entered_v1."""
        await self._ask("enter", user=user.to_json())

    async def inject(self, event_type: str, event: Json, **header: Any) -> str:
        """Send a raw event, regardless of subscriptions; header overrides members of its header. Returns its id."""
        return str((await self._ask("event", type=event_type, event=event, header=header))["event_id"])

    async def add_chat(self, chat: Place, *, member: bool = True, disbanded: bool | None = None) -> None:
        """Add a group, or a person's direct chat, without any event; before that bots cannot write there."""
        await self._ask("chats", chat=place_json(chat), member=member, disbanded=disbanded)

    async def add_person(self, person: Person, **known: Any) -> None:
        """Add a person without any event; unavailable=True: the bot may not write to them (230013)."""
        await self._ask("people", person={**person.to_json(), **known})


def place_json(place: Place) -> Json | str:
    if isinstance(place, str):
        return place
    return {"person": place.to_json()} if isinstance(place, Person) else place.to_json()
