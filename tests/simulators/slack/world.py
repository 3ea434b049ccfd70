"""The whole simulated platform, one per process: the owners of tokens, the channels, the issued URLs and triggers."""

from dataclasses import dataclass, field
from typing import Any

from tests.simulators.faults import FaultQueue
from tests.simulators.journal import CallJournal
from tests.simulators.problems import Problems
from tests.simulators.signals import Signal
from tests.simulators.slack.clock import Clock
from tests.simulators.slack.delivery import Delivery
from tests.simulators.slack.errors import SlackError
from tests.simulators.slack.faults import Fault
from tests.simulators.slack.files import FileStore
from tests.simulators.slack.ids import derived, dm_id, numbered
from tests.simulators.slack.journal import Record
from tests.simulators.slack.state import App, Channel, Installation, Json, Workspace

TICKET_SECONDS = 30.0
TRIGGER_SECONDS = 3.0
RESPONSE_URL_SECONDS = 1800.0
RESPONSE_URL_USES = 5
DIRECT = ("im", "mpim")


@dataclass
class Trigger:
    """A trigger_id: valid for one view, for three seconds."""

    app_id: str
    user: str
    made: float
    used: bool = False


@dataclass
class ResponseUrl:
    """A response_url: the target of its answers and its number of uses. message_ts: the message that was pressed."""

    install: Installation
    channel: Channel
    user: str
    made: float
    message_ts: str | None = None
    uses: int = 0


@dataclass
class World:
    """All state. origin: the simulator's own address, for the URLs that it issues."""

    origin: str = ""
    clock: Clock = field(default_factory=Clock)
    journal: CallJournal[Record] = field(default_factory=CallJournal)
    faults: FaultQueue[Fault] = field(default_factory=FaultQueue)
    files: FileStore = field(default_factory=FileStore)
    released: Signal = field(default_factory=Signal)
    workspaces: dict[str, Workspace] = field(default_factory=dict)
    apps: dict[str, App] = field(default_factory=dict)
    installs: dict[str, Installation] = field(default_factory=dict)
    app_tokens: dict[str, App] = field(default_factory=dict)
    user_tokens: dict[str, tuple[Installation, str]] = field(default_factory=dict)
    tickets: dict[str, tuple[App, float]] = field(default_factory=dict)
    triggers: dict[str, Trigger] = field(default_factory=dict)
    response_urls: dict[str, ResponseUrl] = field(default_factory=dict)
    views: dict[str, Json] = field(default_factory=dict)
    homes: dict[tuple[str, str], Json] = field(default_factory=dict)
    problems: Problems = field(default_factory=Problems)

    def add_workspace(self, team_id: str, name: str) -> Workspace:
        """Add a workspace."""
        workspace = self.workspaces[team_id] = Workspace(team_id, name, name.lower().replace(" ", "-"))
        return workspace

    def add_app(self, app_id: str, name: str, app_token: str, **settings: Any) -> App:
        """Register an app with its app-level token. settings: fields of App."""
        delivery = Delivery(app_id, self.problems.add)
        app = App(app_id, name, app_token, delivery, **settings)
        delivery.on_change = app.touch
        self.apps[app_id] = self.app_tokens[app_token] = app
        return app

    def install(self, app: App, workspace: Workspace, bot_token: str) -> Installation:
        """Install an app; its bot becomes a user of the workspace."""
        bot_user = derived("U", app.app_id, workspace.team_id)
        bot_id = derived("B", app.app_id, workspace.team_id)
        install = Installation(app, workspace, bot_token, bot_user, bot_id, app.scopes)
        self.add_user(workspace, {"id": bot_user, "name": app.name, "is_bot": True})
        workspace.users[bot_user]["profile"].update({"bot_id": bot_id, "api_app_id": app.app_id})
        self.installs[bot_token] = app.installs[workspace.team_id] = install
        return install

    def add_user(self, workspace: Workspace, spec: Json) -> Json:
        """A person or bot, created on first use; spec: id, name, and optionally team_id, locale, tz, is_bot."""
        known = workspace.users.get(spec["id"])
        if known is not None:
            return known
        name = str(spec.get("name") or spec["id"])
        team_id = spec.get("team_id") or workspace.team_id
        user: Json = {
            "id": spec["id"],
            "team_id": team_id,
            "name": name.lower().replace(" ", "."),
            "real_name": name,
            "deleted": False,
            "is_bot": bool(spec.get("is_bot")),
            "is_app_user": False,
            "tz": spec.get("tz") or "Europe/Berlin",
            "locale": spec.get("locale") or "en-US",
            "profile": {"real_name": name, "display_name": name, "team": team_id},
        }
        if team_id != workspace.team_id:
            user["is_stranger"] = True
        workspace.users[spec["id"]] = user
        return user

    def bot_install(self, token: str) -> Installation:
        """The installation of a bot token; raises SlackError as the real server does."""
        if not token:
            raise SlackError("not_authed")
        if token in self.app_tokens:
            raise SlackError("not_allowed_token_type")
        if token in self.user_tokens:
            # The real server would act in the person's name, which is never intended here.
            self.problems.add(self.user_tokens[token][0].app.app_id, "a method was called with a person's token")
            raise SlackError("not_allowed_token_type")
        install = self.installs.get(token)
        if install is None:
            raise SlackError("invalid_auth")
        if install.revoked is not None:
            raise SlackError(install.revoked)
        return install

    def app_of_token(self, token: str) -> App:
        """The app of an app-level token; raises SlackError."""
        if not token:
            raise SlackError("missing_args")
        if token in self.installs:
            raise SlackError("not_allowed_token_type")
        app = self.app_tokens.get(token)
        if app is None:
            raise SlackError("invalid_auth")
        if app.app_token_error is not None:
            raise SlackError(app.app_token_error)
        return app

    def channel(self, install: Installation, channel_id: str) -> Channel:
        """A channel as this bot may name it; raises SlackError channel_not_found for those it cannot see."""
        channel = install.workspace.channels.get(channel_id)
        if channel is None or not _sees(install, channel):
            raise SlackError("channel_not_found")
        return channel

    def dm(self, install: Installation, user_id: str) -> Channel:
        """The DM of the bot and a person, opened on first use; raises SlackError user_not_found."""
        if user_id not in install.workspace.users:
            raise SlackError("user_not_found")
        channel_id = dm_id(install.bot_user_id, user_id)
        channel = install.workspace.channels.get(channel_id)
        if channel is None:
            channel = Channel(channel_id, install.workspace.team_id, "im", user=user_id, bot_user=install.bot_user_id)
            channel.members |= {user_id, install.bot_user_id}
            install.workspace.channels[channel_id] = channel
        return channel

    def bots_in(self, channel: Channel) -> list[Installation]:
        """All apps whose bots are members of a channel."""
        return [
            install
            for app in self.apps.values()
            for install in app.installs.values()
            if install.workspace.team_id == channel.team_id
            and install.bot_user_id in channel.members
            and install.revoked is None
        ]

    def new_trigger(self, app_id: str, user: str) -> str:
        """A trigger_id for a view."""
        trigger_id = numbered("13345224609.738474920.")
        self.triggers[trigger_id] = Trigger(app_id, user, self.clock.now())
        return trigger_id

    def use_trigger(self, app_id: str, trigger_id: str) -> Trigger:
        """Redeem a trigger_id; raises SlackError."""
        trigger = self.triggers.get(trigger_id)
        if trigger is None or trigger.app_id != app_id:
            raise SlackError("invalid_trigger_id")
        if trigger.used:
            raise SlackError("exchanged_trigger_id")
        if self.clock.now() - trigger.made > TRIGGER_SECONDS:
            raise SlackError("expired_trigger_id")
        trigger.used = True
        return trigger

    def new_response_url(self, url: ResponseUrl) -> str:
        """A response_url of this simulator."""
        key = numbered("R")
        self.response_urls[key] = url
        return f"{self.origin}/response/{key}"


def _sees(install: Installation, channel: Channel) -> bool:
    if channel.kind == "im":
        return channel.bot_user == install.bot_user_id
    return channel.kind == "channel" or install.bot_user_id in channel.members
