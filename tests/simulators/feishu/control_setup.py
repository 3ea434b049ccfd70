"""Control routes that set the stage: apps and their settings, chats, people, tokens, faults, limits, the clock."""

from dataclasses import asdict, fields, replace

from tests.simulators.feishu.controlling import Action, Routes
from tests.simulators.feishu.faults import Fault
from tests.simulators.feishu.limits import Rates
from tests.simulators.feishu.state import Json

SETTINGS = ("token_seconds", "group_messages", "config_in_pong", "pongs", "ws_pongs", "bot_active", "name")


class SetupRoutes(Routes):
    """Apps and their settings, chats, people, tokens, faults, limits, the clock."""

    def actions(self) -> dict[str, Action]:
        return {
            "apps": self.add_app,
            "configure": self.configure,
            "chats": self.add_chat,
            "people": self.add_person,
            "tokens": self.expire_tokens,
            "faults": self.add_fault,
            "clear-faults": self.clear_faults,
            "release": self.release,
            "limits": self.limits,
            "clock": self.clock,
            "lean": self.lean,
        }

    async def add_app(self, spec: Json) -> Json:
        """app_id, app_secret, name, tenant_key and settings as for `configure`."""
        app = self._world.add_app(spec["app_id"], spec["app_secret"], spec["name"], spec["tenant_key"])
        await self.configure({**spec, "app": app.app_id})
        return {"app_id": app.app_id}

    async def configure(self, spec: Json) -> Json:
        """Change the app: SETTINGS, app_secret, events (a list), client_config (members replaced one by one)."""
        app = self.app(spec)
        for name in (*SETTINGS, "app_secret"):
            if spec.get(name) is not None:
                setattr(app, name, spec[name])
        if spec.get("events") is not None:
            app.events = frozenset(spec["events"])
        app.client_config |= spec.get("client_config") or {}
        return {}

    async def add_chat(self, spec: Json) -> Json:
        """Make a chat known; member: whether the bot is in it; disbanded."""
        chat = self.chat(spec)
        if spec.get("member") is not None:
            (chat.bots.add if spec["member"] else chat.bots.discard)(spec["app"])
        if spec.get("disbanded") is not None:
            chat.disbanded = bool(spec["disbanded"])
        return {"chat_id": chat.chat_id}

    async def add_person(self, spec: Json) -> Json:
        """Make a person known, or change what is known; unavailable: the bot may not write to them."""
        tenant = self.app(spec).tenant
        person = self._world.person(tenant, spec["person"])
        tenant.people[person] |= spec["person"]
        return {}

    async def expire_tokens(self, spec: Json) -> Json:
        """The tokens that the app has are not accepted any more."""
        app = self.app(spec)
        mine = [text for text, token in self._world.tokens.items() if token.app is app]
        for text in mine:
            self._world.tokens[text].expires = 0.0
        return {"expired": len(mine)}

    async def add_fault(self, spec: Json) -> Json:
        """Queue a fault for a method (or a family "cardkit.*", or "*") and optionally one chat."""
        known = {field.name for field in fields(Fault)}
        fault = Fault(**{name: value for name, value in spec["fault"].items() if name in known})
        times, skip = int(spec.get("times", 1)), int(spec.get("skip", 0))
        place = self.chat(spec).chat_id if spec.get("chat") is not None else None
        self._world.faults.add(self.app(spec).app_id, spec["method"], place, fault, times=times, skip=skip)
        return {}

    async def clear_faults(self, spec: Json) -> Json:
        """Forget all queued faults of the app."""
        self._world.faults.clear(self.app(spec).app_id)
        return {}

    async def release(self, spec: Json) -> Json:
        """Let all held calls go on."""
        self._world.released.fire()
        return {}

    async def limits(self, spec: Json) -> Json:
        """Change rate limits of one app; absent values stay."""
        meter = self.app(spec).meter
        known = {field.name for field in fields(Rates)}
        meter.rates = replace(meter.rates, **{name: value for name, value in spec.items() if name in known})
        return asdict(meter.rates)

    async def clock(self, spec: Json) -> Json:
        """Turn the platform's clock forward."""
        self._world.clock.advance(float(spec["seconds"]))
        return {"now": self._world.clock.now()}

    async def lean(self, spec: Json) -> Json:
        """From now on (or no longer) requests are counted and not recorded."""
        self._world.journal.lean = bool(spec["lean"])
        return {}
