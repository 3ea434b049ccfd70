"""Control routes that read, most of them long polls."""

from tests.simulators.control import Action, ControlError
from tests.simulators.signals import wait_idle, wait_until
from tests.simulators.slack import view
from tests.simulators.slack.assistant import STATUS_SECONDS
from tests.simulators.slack.routes import Routes
from tests.simulators.slack.state import Json


class ReadingRoutes(Routes):
    """Routes that read, most of them long polls."""

    def actions(self) -> dict[str, Action]:
        return {
            "chat": self.chat,
            "idle": self.idle,
            "file": self.file,
            "home-view": self.home_view,
            "view-by-id": self.view_by_id,
            "refusals": self.refusals,
            "showing": self.showing,
        }

    async def chat(self, spec: Json) -> Json:
        """The channel as seen now, once it is newer than `revision`."""
        channel = self.channel(spec)
        revision = int(spec.get("revision", -1))
        await wait_until(channel.changed, lambda: channel.revision > revision, float(spec.get("wait", 0)))
        now = self._world.clock.now()
        return view.channel_view(channel, history=bool(spec.get("history")), status_seconds=STATUS_SECONDS, now=now)

    async def idle(self, spec: Json) -> Json:
        """Wait until a channel, or the whole app, is idle."""
        party = self.app(spec) if spec.get("channel") is None else self.channel(spec)
        return {"idle": await wait_idle(party, float(spec["quiet"]), float(spec["wait"]))}

    async def file(self, spec: Json) -> Json:
        """Sizes, hash and counters of one file."""
        stored = self._world.files.get(spec["file_id"], spec["team"])
        if stored is None:
            raise ControlError(f"unknown file {spec['file_id']}")
        return stored.summary()

    async def home_view(self, spec: Json) -> Json:
        """The App Home of a person, None before views.publish."""
        return {"view": self._world.homes.get((self.app(spec).app_id, spec["user"]))}

    async def view_by_id(self, spec: Json) -> Json:
        """The newest modal of a person."""
        shown = [v for v in self._world.views.values() if v["shown_to"] == spec["user"] and v["type"] == "modal"]
        return {"view": shown[-1] if shown else None}

    async def refusals(self, spec: Json) -> Json:
        """Return how often rate limits refused each method, or would have."""
        return dict(self.install(spec).meter.refusals)

    async def showing(self, spec: Json) -> Json:
        """Count the messages of apps in the workspace's DMs that show a text."""
        channels = self.install(spec).workspace.channels.values()
        return {"count": view.count_showing((c for c in channels if c.kind == "im"), spec["text"])}
