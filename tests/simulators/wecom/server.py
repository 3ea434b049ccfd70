"""The application: the websocket at any path, the files of people, and the control side."""

from aiohttp import web

from tests.simulators.wecom import control
from tests.simulators.wecom.media import MediaServer
from tests.simulators.wecom.sockets import SocketServer
from tests.simulators.wecom.world import World


def build_app(world: World) -> web.Application:
    """The application with all sides."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    control.add_routes(app, world)
    app.router.add_get("/media/{key}", MediaServer(world).get)
    app.router.add_get("/{path:.*}", SocketServer(world).link)

    async def close_sockets(_: web.Application) -> None:
        for socket in list(world.sockets):
            await socket.ws.close(code=1001)

    app.on_shutdown.append(close_sockets)
    return app
