"""Control routes for the setup: apps and their settings, chats, people, tokens, limits."""

from dataclasses import asdict

from tests.simulators.control import Action, with_changes
from tests.simulators.feishu.controlling import Routes
from tests.simulators.feishu.state import Json

SETTINGS = ("token_seconds", "group_messages", "config_in_pong", "pongs", "ws_pongs", "bot_active", "name")


class SetupRoutes(Routes):
    """Apps and their settings, chats, people, tokens, limits."""

    def actions(self) -> dict[str, Action]:
        return {
            "apps": self.add_app,
            "configure": self.configure,
            "chats": self.add_chat,
            "people": self.add_person,
            "tokens": self.expire_tokens,
            "limits": self.limits,
            "registration": self.register,
        }

    async def add_app(self, spec: Json) -> Json:
        """Add an app: app_id, app_secret, name, tenant_key and settings as for `configure`."""
        app = self._world.add_app(spec["app_id"], spec["app_secret"], spec["name"], spec["tenant_key"])
        await self.configure({**spec, "app": app.app_id})
        return {"app_id": app.app_id}

    async def configure(self, spec: Json) -> Json:
        """Change the app: SETTINGS, app_secret, events and scopes (lists), client_config (its members one by one)."""
        app = self.app(spec)
        for name in (*SETTINGS, "app_secret"):
            if spec.get(name) is not None:
                setattr(app, name, spec[name])
        if spec.get("events") is not None:
            app.events = frozenset(spec["events"])
        if spec.get("scopes") is not None:
            app.scopes = frozenset(spec["scopes"])
        app.client_config |= spec.get("client_config") or {}
        return {}

    async def register(self, spec: Json) -> Json:
        """Set the answer to polls for a scanned code from now on: outcome."""
        self._world.registration.outcome = spec["outcome"]
        return {}

    async def add_chat(self, spec: Json) -> Json:
        """Add a chat; member: whether the bot is in it; disbanded."""
        chat = self.chat(spec)
        if spec.get("member") is not None:
            (chat.bots.add if spec["member"] else chat.bots.discard)(spec["app"])
        if spec.get("disbanded") is not None:
            chat.disbanded = bool(spec["disbanded"])
        return {"chat_id": chat.chat_id}

    async def add_person(self, spec: Json) -> Json:
        """Add or change a person; unavailable: the bot may not write to them."""
        tenant = self.app(spec).tenant
        person = self._world.person(tenant, spec["person"])
        tenant.people[person] |= spec["person"]
        return {}

    async def expire_tokens(self, spec: Json) -> Json:
        """Stop accepting the app's current tokens."""
        app = self.app(spec)
        mine = [text for text, token in self._world.tokens.items() if token.app is app]
        for text in mine:
            self._world.tokens[text].expires = 0.0
        return {"expired": len(mine)}

    async def limits(self, spec: Json) -> Json:
        """Change rate limits of one app; absent values stay."""
        meter = self.app(spec).meter
        meter.rates = with_changes(meter.rates, spec)
        return asdict(meter.rates)
