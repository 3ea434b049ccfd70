"""The base of the groups of control routes: how a request names its app, its installation and its channel."""

from tests.simulators.control import ControlError
from tests.simulators.slack import people
from tests.simulators.slack.state import App, Channel, Installation, Json
from tests.simulators.slack.world import World


class Routes:
    """The base of all groups of routes."""

    def __init__(self, world: World) -> None:
        self._world = world

    def app(self, spec: Json) -> App:
        app = self._world.apps.get(spec["app"])
        if app is None:
            raise ControlError(f"unknown app {spec['app']}")
        return app

    def install(self, spec: Json) -> Installation:
        install = self.app(spec).installs.get(spec["team"])
        if install is None:
            raise ControlError(f"{spec['app']} is not installed in {spec['team']}")
        return install

    def channel(self, spec: Json) -> Channel:
        return people.place(self._world, self.install(spec), spec["channel"])

    def place(self, spec: Json) -> str | None:
        """The id of the channel that the request names, if it names one."""
        return None if spec.get("channel") is None else self.channel(spec).id
