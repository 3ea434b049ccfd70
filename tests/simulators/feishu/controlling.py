"""What the groups of control routes share: how a request names its app and its chat."""

from collections.abc import Awaitable, Callable
from typing import Any

from tests.simulators.feishu import people
from tests.simulators.feishu.people import ControlError
from tests.simulators.feishu.state import App, Chat, Json
from tests.simulators.feishu.world import World

Action = Callable[[Json], Awaitable[Any]]


class Routes:
    """What all groups of routes share."""

    def __init__(self, world: World) -> None:
        self._world = world

    def actions(self) -> dict[str, Action]:
        """The routes of the group by their names."""
        raise NotImplementedError

    def app(self, spec: Json) -> App:
        app = self._world.apps.get(spec["app"])
        if app is None:
            raise ControlError(f"unknown app {spec['app']}")
        return app

    def chat(self, spec: Json) -> Chat:
        return people.place(self._world, self.app(spec), spec["chat"])
