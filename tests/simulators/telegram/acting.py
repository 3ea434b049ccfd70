"""The part of the test client that acts for people, who write, edit, press, add and block the bot."""

from collections.abc import Sequence
from typing import Any, Self

import httpx

from tests.simulators.client import SimulatorClient
from tests.simulators.telegram.seen import ALICE, NEWS, TEAM, FileSpec, Json, Person, Press, RecordedCall, Room, Said

ANONYMOUS_ORIGIN = "Somebody"


class ActingClient(SimulatorClient[RecordedCall]):
    """Injects events for one bot; every method returns once the event waits in the bot's update queue."""

    def __init__(self, root: str, token: str, http: httpx.AsyncClient) -> None:
        self.token = token
        self.bot_id = int(token.split(":", 1)[0])
        super().__init__(root, http, {"bot": self.bot_id}, RecordedCall)

    def owns(self, record: RecordedCall) -> bool:
        return record.bot_id in (None, self.bot_id)

    async def add_bot(self, token: str, **profile: Any) -> Self:
        """Register another bot and return a client for it (profile: username, first_name, ...). It only sees
        requests from now on, not those of earlier tests with unknown tokens."""
        await self._ask("bots", token=token, profile=profile)
        bot = type(self)(self.root, token, self._http)
        await bot._skip_records()
        return bot

    async def add_chat(self, chat: Room, *, threads: Sequence[int] = (), members: Sequence[Json] = ()) -> None:
        """Add a chat without any update. `members`: ChatMember objects of people or of the bot."""
        await self._ask("chats", chat=chat.to_json(), threads=list(threads), members=list(members))

    async def user_says(
        self,
        text: str | None = None,
        *,
        user: Person = ALICE,
        chat: Room | None = None,
        reply_to: int | None = None,
        thread: int | None = None,
        file: FileSpec | None = None,
        entities: list[Json] | None = None,
        extra: Json | None = None,
        update_id: int | None = None,
    ) -> Said:
        """A person writes, by default in their private chat. Mentions and commands are detected unless entities given.

        With a file, `text` is its caption. `thread` makes it a topic message. `extra` sets any other Message fields.
        update_id: one of `reserve_update_ids`, for updates that arrive out of order.
        """
        room = chat or user.dm()
        return await self._say(
            {"chat": room.to_json(), "user": user.to_json(), "reply_to": reply_to, "thread": thread},
            text=text,
            entities=entities,
            media=file.to_json() if file else None,
            extra=extra,
            update_id=update_id,
        )

    async def group_says(self, text: str, *, chat: Room = TEAM, user: Person = ALICE, **more: Any) -> Said:
        """A person writes in a group; write "@antler_bot" into the text to mention the bot."""
        return await self.user_says(text, user=user, chat=chat, **more)

    async def album(
        self, files: list[FileSpec], *, caption: str | None = None, user: Person = ALICE, chat: Room | None = None
    ) -> list[Said]:
        """Several files at once: one message each with a shared media_group_id, the caption on the first."""
        first = await self._ask("reserve", count=0)
        group = {"media_group_id": f"album-{first['first']}"}
        return [
            await self.user_says(caption if number == 0 else None, user=user, chat=chat, file=file, extra=group)
            for number, file in enumerate(files)
        ]

    async def forwards(self, text: str, *, user: Person = ALICE, chat: Room | None = None) -> Said:
        """A person forwards another person's message."""
        origin = {"type": "hidden_user", "sender_user_name": ANONYMOUS_ORIGIN, "date": 1_700_000_000}
        return await self.user_says(text, user=user, chat=chat, extra={"forward_origin": origin})

    async def anonymous_admin_says(self, text: str, *, chat: Room = TEAM) -> Said:
        """An anonymous administrator writes under the group's name."""
        return await self._say({"chat": chat.to_json(), "anonymous": True}, text=text)

    async def channel_posts(self, text: str, *, chat: Room = NEWS) -> Said:
        """A post in a channel that the bot is in."""
        return await self._say({"chat": chat.to_json(), "kind": "channel_post"}, text=text)

    async def edits(self, message_id: int, text: str, *, chat: Room | int = ALICE.id) -> Said:
        """A person edits an earlier message of theirs."""
        return _said(await self._ask("edit", chat_id=chat_id(chat), message_id=message_id, text=text))

    async def press(
        self,
        message_id: int,
        button: str,
        *,
        chat: Room | int = ALICE.id,
        user: Person = ALICE,
        expired: bool = False,
        inaccessible: bool = False,
    ) -> Press:
        """Press a real button, by its callback data or its label; an expired press can no longer be answered."""
        result = await self._ask(
            "press",
            chat_id=chat_id(chat),
            message_id=message_id,
            button=button,
            user=user.to_json(),
            expired=expired,
            inaccessible=inaccessible,
        )
        return Press(**result)

    async def membership(
        self, status: str, *, chat: Room | None = None, user: Person = ALICE, rights: Json | None = None
    ) -> Said:
        """The bot is added, promoted, restricted, removed ("left", "kicked") or blocked ("kicked" in a DM)."""
        room = chat or user.dm()
        return _said(
            await self._ask("membership", chat=room.to_json(), user=user.to_json(), status=status, rights=rights)
        )

    async def migrate(self, chat: Room | int, new_chat_id: int, *, user: Person = ALICE) -> list[Said]:
        """A group becomes a supergroup; returns both service messages."""
        result = await self._ask("migrate", chat_id=chat_id(chat), new_chat_id=new_chat_id, user=user.to_json())
        return [_said(said) for said in result["said"]]

    async def inject(self, *updates: Json, filtered: bool = False) -> list[int | None]:
        """Deliver raw updates unmodified; one with its own update_id is delivered regardless of the offset."""
        result = await self._ask("updates", updates=list(updates), filtered=filtered)
        ids: list[int | None] = result["update_ids"]
        return ids

    async def reserve_update_ids(self, count: int) -> list[int]:
        """Ids to use later in `inject`, in any order."""
        first = int((await self._ask("reserve", count=count))["first"])
        return list(range(first, first + count))

    async def redeliver(self, update_id: int) -> None:
        """Deliver an earlier update again, as after a lost confirmation."""
        await self._ask("redeliver", update_id=update_id)

    async def _say(self, spec: Json, **more: Any) -> Said:
        return _said(await self._ask("say", **spec, **more))


def chat_id(chat: Room | Person | int) -> int:
    """The id of a chat, however a test names it (a person means their private chat)."""
    return chat if isinstance(chat, int) else chat.id


def _said(result: Json) -> Said:
    message: Json = result["message"]
    return Said(result["update_id"], int(message.get("message_id", 0)), message)
