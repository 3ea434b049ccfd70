"""The platform's files: encrypts what people send (AES-256-CBC, PKCS#7 to 32 bytes) and serves it for five minutes."""

from urllib.parse import quote

from aiohttp import web
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tests.simulators.wecom.limits import MEDIA_URL_SECONDS
from tests.simulators.wecom.world import World

BLOCK = 32


def encrypt(content: bytes, key: bytes, broken: str = "") -> bytes:
    """The file as it is served; broken: with an invalid padding byte, or cut in the middle of a block."""
    rest = BLOCK - len(content) % BLOCK
    padding = bytes([rest]) * rest if broken != "padding" else bytes([BLOCK + 1]) * rest
    encryptor = Cipher(algorithms.AES(key), modes.CBC(key[:16])).encryptor()
    encrypted = encryptor.update(content + padding) + encryptor.finalize()
    return encrypted[:-7] if broken == "truncated" else encrypted


class MediaServer:
    """GET /media/<key>; no authentication, as on the platform."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def get(self, request: web.Request) -> web.Response:
        served = self._world.served.get(request.match_info["key"])
        if served is None:
            return web.Response(status=404)
        served.hits += 1
        if self._world.clock.now() - served.at > MEDIA_URL_SECONDS:
            return web.Response(status=403, text="expired")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(served.name)}"} if served.name else {}
        body = encrypt(served.content, served.aes_key, served.broken)
        return web.Response(body=body, content_type="application/octet-stream", headers=headers)
