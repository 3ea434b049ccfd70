"""A person's files: as references, and back to bytes (fetched, decrypted). Called by inbound.py and channel.py.

A reference holds the file's URL and its one-time key; neither is ever logged.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

from channels.base import NamedSink
from channels.errors import AttachmentFailed, Temporary
from channels.files import capped
from channels.message import Attachment, AttachmentKind
from channels.wecom.crypto import Decryptor, media_key

if TYPE_CHECKING:
    from channels.base import Sink
    from channels.wecom.network import Network
    from channels.wecom.schema import RawMedia

DOWNLOAD_SECONDS = 180.0
PIECE = 256 * 1024
_KINDS: dict[str, tuple[AttachmentKind, str | None]] = {
    "image": ("image", "image/jpeg"),
    "video": ("video", "video/mp4"),
}


def attachment(media: RawMedia, msgtype: str) -> Attachment:
    """The reference to a file of a message."""
    kind, mime_type = _KINDS.get(msgtype, ("file", None))
    ref = json.dumps({"url": media.url, "aeskey": media.aeskey})
    return Attachment(ref=ref, kind=kind, name=media.filename, mime_type=mime_type)


class Downloads:
    """For one account. most: bytes that are taken. plain: unencrypted URLs are followed, as on a test server."""

    def __init__(self, network: Network, most: int, *, plain: bool) -> None:
        self._network = network
        self._most = most
        self._schemes = ("https", "http") if plain else ("https",)

    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        """Stream the decrypted bytes into `sink`. Raises AttachmentFailed, Temporary and what the sink raises."""
        url, key = self._source(attachment)
        try:
            async with (
                asyncio.timeout(DOWNLOAD_SECONDS),
                self._network.session(url) as session,
                session.get(url, headers={"Accept-Encoding": "identity"}, allow_redirects=False) as response,
            ):
                _check(response.status)
                disposition = response.content_disposition
                if isinstance(sink, NamedSink) and disposition is not None and disposition.filename:
                    sink.called(disposition.filename)
                await _decrypt(response, Decryptor(key), capped(sink, self._most))
        except TimeoutError:
            raise Temporary(f"a file was not complete after {DOWNLOAD_SECONDS:.0f} s") from None
        except aiohttp.ClientError as error:
            # By its name: the text holds the URL, which is all that the file server asks for.
            raise Temporary(f"a file cannot be fetched ({type(error).__name__})") from None

    def _source(self, attachment: Attachment) -> tuple[str, bytes]:
        try:
            found = json.loads(attachment.ref)
            url, key = found["url"], found["aeskey"]
        except (ValueError, TypeError, KeyError):
            raise AttachmentFailed("the attachment's reference is not one of WeCom's", "gone") from None
        if not isinstance(url, str) or not isinstance(key, str) or urlsplit(url).scheme not in self._schemes:
            raise AttachmentFailed("the attachment's reference is not one of WeCom's", "gone")
        return url, media_key(key)


async def _decrypt(response: aiohttp.ClientResponse, decryptor: Decryptor, sink: Sink) -> None:
    async for piece in response.content.iter_chunked(PIECE):
        if plain := decryptor.update(piece):
            await sink.write(plain)
    if rest := decryptor.finish():
        await sink.write(rest)


def _check(status: int) -> None:
    if status in (401, 403, 404, 410):
        raise AttachmentFailed(f"WeCom keeps the file no longer ({status})", "gone")
    if status >= 500 or status == 429:
        raise Temporary(f"the file server answered {status}")
    if status != 200:
        raise AttachmentFailed(f"the file server answered {status}", "gone")
