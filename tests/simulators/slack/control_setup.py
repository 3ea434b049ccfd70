"""Control routes for the setup: workspaces, apps and their settings, limits."""

from dataclasses import asdict

from tests.simulators.control import Action, with_changes
from tests.simulators.slack import events
from tests.simulators.slack.routes import Routes
from tests.simulators.slack.state import Json


class SetupRoutes(Routes):
    """Workspaces, apps and their settings, limits."""

    def actions(self) -> dict[str, Action]:
        return {
            "workspaces": self.add_workspace,
            "apps": self.add_app,
            "installs": self.add_install,
            "configure": self.configure,
            "channels": self.add_channel,
            "users": self.add_user,
            "tokens": self.tokens,
            "limits": self.limits,
        }

    async def add_workspace(self, spec: Json) -> Json:
        """Add a workspace: team_id, name."""
        return {"team_id": self._world.add_workspace(spec["team_id"], spec["name"]).team_id}

    async def add_app(self, spec: Json) -> Json:
        """Add an app: app_id, name, app_token and settings as for `configure`."""
        app = self._world.add_app(spec["app_id"], spec["name"], spec["app_token"], **_settings(spec))
        return {"app_id": app.app_id}

    async def add_install(self, spec: Json) -> Json:
        """Install the app in a workspace with a bot token and the installing person's; returns the ids of its bot."""
        install = self._world.install(self.app(spec), self._world.workspaces[spec["team"]], spec["bot_token"])
        installer = self._world.add_user(install.workspace, spec["installer"])
        self._world.user_tokens[spec["user_token"]] = (install, installer["id"])
        return {"bot_user_id": install.bot_user_id, "bot_id": install.bot_id}

    async def configure(self, spec: Json) -> Json:
        """Change the app: events, commands, scopes (of the installation), socket_mode, messages_tab."""
        app = self.app(spec)
        for name, value in _settings(spec).items():
            setattr(app, name, value)
        if spec.get("scopes") is not None:
            self.install(spec).scopes = frozenset(spec["scopes"])
        return {}

    async def add_channel(self, spec: Json) -> Json:
        """Add a channel; `member`: whether the bot is in it; archived."""
        channel = self.channel(spec)
        bot = self.install(spec).bot_user_id
        if spec.get("member") is not None:
            channel.members = channel.members - {bot} | ({bot} if spec["member"] else set())
        for user in spec.get("people") or ():
            channel.members.add(self._world.add_user(self.install(spec).workspace, user)["id"])
        if spec.get("archived") is not None:
            channel.archived = bool(spec["archived"])
        return {"id": channel.id}

    async def add_user(self, spec: Json) -> Json:
        """Add a person."""
        return self._world.add_user(self.install(spec).workspace, spec["user"])

    async def tokens(self, spec: Json) -> Json:
        """Set the errors for the app's tokens: bot_error, app_error (None: valid). event: notify the app."""
        install = self.install(spec)
        if spec.get("event"):
            tokens = {"oauth": [], "bot": [install.bot_user_id]}
            events.deliver(self._world, install, {"type": spec["event"], "tokens": tokens})
        install.revoked = spec.get("bot_error")
        install.app.app_token_error = spec.get("app_error")
        return {}

    async def limits(self, spec: Json) -> Json:
        """Change rate limits of one installation; absent values stay."""
        meter = self.install(spec).meter
        meter.limits = with_changes(meter.limits, spec)
        return asdict(meter.limits)


def _settings(spec: Json) -> Json:
    sets = {
        name: frozenset(spec[name])
        for name in ("events", "commands", "scopes", "app_token_scopes")
        if spec.get(name) is not None
    }
    flags = {name: bool(spec[name]) for name in ("socket_mode", "messages_tab") if spec.get(name) is not None}
    return {**sets, **flags}
