"""The part of the test client that acts for people, who write, edit, press, react, add the bot."""

from collections.abc import Sequence
from typing import Any

import httpx

from tests.simulators.disturbing import SocketClient
from tests.simulators.slack.ids import dm_id
from tests.simulators.slack.seen import ALICE, TEAM, FileSpec, Json, Person, Place, RecordedCall, Room, Said, Sent


class ActingClient(SocketClient[RecordedCall]):
    """Injects events for one installation; a method returns once its envelopes are queued."""

    def __init__(self, root: str, http: httpx.AsyncClient, installation: Json) -> None:
        self.app_id = str(installation["app_id"])
        self.team_id = str(installation["team_id"])
        self.app_token = str(installation["app_token"])
        self.bot_token = str(installation["bot_token"])
        self.user_token = str(installation["user_token"])
        self.bot_user_id = str(installation["bot_user_id"])
        self.bot_id = str(installation["bot_id"])
        self.name = str(installation["name"])
        super().__init__(root, http, {"app": self.app_id, "team": self.team_id}, RecordedCall)

    def owns(self, record: RecordedCall) -> bool:
        return record.app_id == self.app_id and record.team_id in (None, self.team_id)

    @property
    def mention(self) -> str:
        """The bot's mention on the wire; people type @ and its name."""
        return f"<@{self.bot_user_id}>"

    def channel_id(self, place: Place) -> str:
        """The id of a place, however a test names it (a person means their DM with the bot)."""
        if isinstance(place, str):
            return place
        if isinstance(place, Person):
            return dm_id(self.bot_user_id, place.id)
        return dm_id(self.bot_user_id, place.user or "") if place.kind == "im" else place.id

    async def user_says(
        self,
        text: str | None = None,
        *,
        user: Person = ALICE,
        chat: Room | str | None = None,
        thread: str | None = None,
        broadcast: bool = False,
        files: Sequence[FileSpec] = (),
        wire_text: str | None = None,
        blocks: Sequence[Json] = (),
        at: float | None = None,
        silent: bool = False,
        mention_first: bool = False,
        extra: Json | None = None,
    ) -> Said:
        """A person writes, by default in their DM with the bot. @name, #room, links and code are composed.

        thread: the root's ts. wire_text with blocks: an unmodified message, nothing composed. at: unix time of the
        past; silent: no event, so that only the history has it. mention_first: app_mention before message. extra:
        any other members of the message.
        """
        return Said(
            **await self._ask(
                "say",
                text=text,
                user=user.to_json(),
                channel=place_json(chat or user.dm()),
                thread=thread,
                broadcast=broadcast,
                files=[file.to_json() for file in files],
                wire_text=wire_text,
                blocks=list(blocks),
                at=at,
                silent=silent,
                mention_first=mention_first,
                extra=extra,
            )
        )

    async def channel_says(self, text: str, *, chat: Room | str = TEAM, user: Person = ALICE, **more: Any) -> Said:
        """A person writes in a channel; write "@antler" into the text to mention the bot."""
        return await self.user_says(text, user=user, chat=chat, **more)

    async def other_bot_says(self, text: str, *, chat: Room = TEAM, **more: Any) -> Said:
        """An integration without a user posts (subtype bot_message)."""
        extra = {"subtype": "bot_message", "bot_id": "B0OTHER", "username": "Builds"}
        beeper = Person("U0BUILDS", "Builds", is_bot=True)
        return await self.user_says(text, user=beeper, chat=chat, extra=extra, **more)

    async def edits(self, ts: str, text: str, *, chat: Place = ALICE) -> None:
        """A person edits an earlier message of theirs: message_changed."""
        await self._ask("edit", channel=place_json(chat), ts=ts, text=text)

    async def unfurls(self, ts: str, url: str, *, chat: Place = ALICE) -> None:
        """The platform adds a link preview: message_changed with the same text."""
        await self._ask("edit", channel=place_json(chat), ts=ts, unfurl=url)

    async def deletes(self, ts: str, *, chat: Place = ALICE) -> None:
        """A message is deleted: message_deleted."""
        await self._ask("delete", channel=place_json(chat), ts=ts)

    async def reacts(
        self, ts: str, name: str, *, chat: Place = ALICE, user: Person = ALICE, remove: bool = False
    ) -> None:
        """A person adds or removes a reaction."""
        await self._ask("react", channel=place_json(chat), ts=ts, name=name, user=user.to_json(), remove=remove)

    async def press(
        self, ts: str, element: str, *, chat: Place = ALICE, user: Person = ALICE, choice: str | None = None
    ) -> Sent:
        """Press a real element of a message, named by action_id, value or label; choice: an option of a menu."""
        return Sent(
            **await self._ask(
                "press", channel=place_json(chat), ts=ts, element=element, user=user.to_json(), choice=choice
            )
        )

    async def command(self, text: str, *, chat: Place | None = None, user: Person = ALICE) -> Sent:
        """Type a slash command such as "/new now"; the app must have registered it (`configure`)."""
        place = place_json(chat or user.dm())
        return Sent(**await self._ask("command", channel=place, text=text, user=user.to_json()))

    async def shortcut(
        self, callback_id: str, *, ts: str | None = None, chat: Place = ALICE, user: Person = ALICE
    ) -> Sent:
        """Use a global shortcut, or with ts one on a message."""
        return Sent(
            **await self._ask("shortcut", channel=place_json(chat), ts=ts, callback_id=callback_id, user=user.to_json())
        )

    async def submit_view(self, view_id: str, values: Json | None = None, *, closed: bool = False) -> Sent:
        """Send an open modal with values (block_id -> action_id -> state), or close it."""
        return Sent(**await self._ask("view", view_id=view_id, values=values, closed=closed))

    async def opens_assistant(self, *, user: Person = ALICE, context: str | None = None) -> Said:
        """A person opens a new assistant thread; its ts is the thread. context: the channel they are viewing."""
        return Said(**await self._ask("assistant", user=user.to_json(), context=context))

    async def switches_context(self, thread: str, context: str, *, user: Person = ALICE) -> None:
        """The person views another channel: assistant_thread_context_changed."""
        await self._ask("assistant-context", user=user.to_json(), ts=thread, context=context)

    async def opens_home(self, *, user: Person = ALICE, tab: str = "messages") -> None:
        """A person opens the app's tab: app_home_opened."""
        await self._ask("home", user=user.to_json(), tab=tab)

    async def stops_stream(self, ts: str, *, chat: Place = ALICE) -> None:
        """A person stops a streaming message."""
        await self._ask("stop-stream", channel=place_json(chat), ts=ts)

    async def bot_joins(self, chat: Room, *, by: Person = ALICE) -> None:
        """The bot is invited to a channel."""
        await self._ask("membership", channel=place_json(chat), joined=True, by=by.id)

    async def bot_leaves(self, chat: Room, *, by: Person = ALICE) -> None:
        """The bot is removed from a channel."""
        await self._ask("membership", channel=place_json(chat), joined=False, by=by.id)

    async def inject(self, event: Json, **payload: Any) -> str:
        """Send a raw event, regardless of subscriptions; payload overrides the members around it. Returns its id."""
        return str((await self._ask("event", event=event, payload=payload))["event_id"])

    async def add_chat(
        self, chat: Room, *, member: bool = True, people: Sequence[Person] = (), archived: bool | None = None
    ) -> None:
        """Add a channel without any event."""
        everybody = [person.to_json() for person in people]
        await self._ask("channels", channel=chat.to_json(), member=member, people=everybody, archived=archived)

    async def add_person(self, person: Person) -> Json:
        """Add a person without any event."""
        return await self._ask("users", user=person.to_json())


def place_json(place: Place) -> Json | str:
    if isinstance(place, str):
        return place
    return (place.dm() if isinstance(place, Person) else place).to_json()
