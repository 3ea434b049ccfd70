"""The base of the groups of control routes: how a request names its app and its chat."""

from tests.simulators.control import ControlError
from tests.simulators.feishu import people
from tests.simulators.feishu.state import App, Chat, Json
from tests.simulators.feishu.world import World


class Routes:
    """The base of all groups of routes."""

    def __init__(self, world: World) -> None:
        self._world = world

    def app(self, spec: Json) -> App:
        app = self._world.apps.get(spec["app"])
        if app is None:
            raise ControlError(f"unknown app {spec['app']}")
        return app

    def chat(self, spec: Json) -> Chat:
        return people.place(self._world, self.app(spec), spec["chat"])

    def place(self, spec: Json) -> str | None:
        """The id of the chat that the request names, if it names one."""
        return None if spec.get("chat") is None else self.chat(spec).chat_id
