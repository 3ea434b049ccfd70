"""Control routes that read, most of them long polls."""

from tests.simulators.slack import view
from tests.simulators.slack.assistant import STATUS_SECONDS
from tests.simulators.slack.people import ControlError
from tests.simulators.slack.routes import Action, Routes
from tests.simulators.slack.sockets import SocketServer
from tests.simulators.slack.state import Json
from tests.simulators.slack.world import World


class ReadingRoutes(Routes):
    """Routes that read, most of them long polls."""

    def __init__(self, world: World, sockets: SocketServer) -> None:
        super().__init__(world)
        self._sockets = sockets

    def actions(self) -> dict[str, Action]:
        return {
            "records": self.records,
            "chat": self.chat,
            "idle": self.idle,
            "connected": self.connected,
            "sockets": self.sockets,
            "envelopes": self.envelopes,
            "envelope": self.envelope,
            "file": self.file,
            "home-view": self.home_view,
            "view-by-id": self.view_by_id,
            "refusals": self.refusals,
            "showing": self.showing,
            "tally": self.tally,
            "problems": self.problems,
        }

    async def records(self, spec: Json) -> Json:
        """Records that are new or changed since a position."""
        position, records = await self._world.journal.since(int(spec["after"]), float(spec.get("wait", 0)))
        return {"position": position, "records": records}

    async def chat(self, spec: Json) -> Json:
        """The channel as seen now, once it is newer than `revision`."""
        channel = self.channel(spec)
        revision = int(spec.get("revision", -1))
        await view.wait_until(channel.changed, lambda: channel.revision > revision, float(spec.get("wait", 0)))
        now = self._world.clock.now()
        return view.channel_view(channel, history=bool(spec.get("history")), status_seconds=STATUS_SECONDS, now=now)

    async def idle(self, spec: Json) -> Json:
        """Wait until a channel, or the whole app, is idle."""
        party = self.app(spec) if spec.get("channel") is None else self.channel(spec)
        return {"idle": await view.wait_idle(party, float(spec["quiet"]), float(spec["wait"]))}

    async def connected(self, spec: Json) -> Json:
        """Wait until the app has exactly `count` open sockets; `more`: or more."""
        app, count = self.app(spec), int(spec["count"])

        def reached() -> bool:
            return app.delivery.links == count or (bool(spec.get("more")) and app.delivery.links > count)

        reached_it = await view.wait_until(app.changed, reached, float(spec["wait"]))
        return {"connected": reached_it, "links": app.delivery.links}

    async def sockets(self, spec: Json) -> Json:
        """All sockets that the app ever had, oldest first."""
        return {"sockets": [socket.view() for socket in self._sockets.of(self.app(spec), live=False)]}

    async def envelopes(self, spec: Json) -> Json:
        """The newest envelopes of the app."""
        return {"envelopes": [envelope.view() for envelope in self.app(spec).delivery.envelopes()]}

    async def envelope(self, spec: Json) -> Json:
        """Wait until the envelope (by its id or its event's) is over."""
        app = self.app(spec)
        found = app.delivery.find(spec["id"])
        if found is None:
            raise ControlError(f"unknown envelope {spec['id']}")
        await view.wait_until(app.changed, lambda: not found.open, float(spec["wait"]))
        return found.view()

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
        """How often rate limits refused each method, or would have."""
        return dict(self.install(spec).meter.refusals)

    async def showing(self, spec: Json) -> Json:
        """How many messages of apps in the workspace's DMs show a text."""
        channels = self.install(spec).workspace.channels.values()
        return {"count": view.count_showing((c for c in channels if c.kind == "im"), spec["text"])}

    async def tally(self, spec: Json) -> Json:
        """Finished requests of all apps: how many of each method with each outcome."""
        counts = self._world.journal.tally.items()
        return {"counts": [{"method": method, "outcome": outcome, "count": n} for (method, outcome), n in counts]}

    async def problems(self, spec: Json) -> Json:
        """What must fail the test, of this app or of nobody's (`app` absent: of all); taken away by being read."""
        mine = [p for p in self._world.problems if spec.get("app") is None or p[0] in (None, spec["app"])]
        self._world.problems[:] = [p for p in self._world.problems if p not in mine]
        return {"problems": [text for _, text in mine]}
