"""Control routes that act for people."""

from dataclasses import asdict

from tests.simulators.control import Action
from tests.simulators.slack import events, interactions, people
from tests.simulators.slack.routes import Routes
from tests.simulators.slack.state import Json


class ActingRoutes(Routes):
    """Routes for actions of people."""

    def actions(self) -> dict[str, Action]:
        return {
            "say": self.say,
            "edit": self.edit,
            "delete": self.delete,
            "react": self.react,
            "membership": self.membership,
            "assistant": self.assistant,
            "assistant-context": self.assistant_context,
            "home": self.home,
            "stop-stream": self.stop_stream,
            "press": self.press,
            "command": self.command,
            "shortcut": self.shortcut,
            "view": self.submit_view,
            "event": self.event,
        }

    async def say(self, spec: Json) -> Json:
        """people.say"""
        return asdict(people.say(self._world, self.install(spec), spec))

    async def edit(self, spec: Json) -> Json:
        """people.edit"""
        people.edit(self._world, self.install(spec), spec)
        return {}

    async def delete(self, spec: Json) -> Json:
        """people.delete"""
        people.delete(self._world, self.install(spec), spec)
        return {}

    async def react(self, spec: Json) -> Json:
        """people.react"""
        people.react(self._world, self.install(spec), spec)
        return {}

    async def membership(self, spec: Json) -> Json:
        """people.membership"""
        people.membership(self._world, self.install(spec), spec)
        return {}

    async def assistant(self, spec: Json) -> Json:
        """people.open_assistant"""
        return asdict(people.open_assistant(self._world, self.install(spec), spec))

    async def assistant_context(self, spec: Json) -> Json:
        """The person views another channel while the assistant thread is open."""
        people.assistant_event(self._world, self.install(spec), spec, "assistant_thread_context_changed")
        return {}

    async def home(self, spec: Json) -> Json:
        """people.open_home"""
        people.open_home(self._world, self.install(spec), spec)
        return {}

    async def stop_stream(self, spec: Json) -> Json:
        """people.stop_stream"""
        people.stop_stream(self._world, self.install(spec), spec)
        return {}

    async def press(self, spec: Json) -> Json:
        """interactions.press"""
        return interactions.press(self._world, self.install(spec), spec)

    async def command(self, spec: Json) -> Json:
        """interactions.command"""
        return interactions.command(self._world, self.install(spec), spec)

    async def shortcut(self, spec: Json) -> Json:
        """interactions.shortcut"""
        return interactions.shortcut(self._world, self.install(spec), spec)

    async def submit_view(self, spec: Json) -> Json:
        """interactions.submit_view"""
        return interactions.submit_view(self._world, self.install(spec), spec)

    async def event(self, spec: Json) -> Json:
        """Send a raw event, regardless of subscriptions; `payload` overrides members around it."""
        install = self.install(spec)
        body = events.payload(self._world, install, spec["event"], None) | (spec.get("payload") or {})
        return {"event_id": install.app.delivery.post("events_api", body).event_id}
