"""A person's files: creates references to them, and downloads and decrypts them.

A reference contains the file's URL and its one-time key; neither is ever logged. The encryption is AES-256-CBC, with
the key's first 16 bytes as IV and PKCS#7 padding to 32 bytes (developer docs 100719).
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from channels.adapter import capped
from channels.base import NamedSink
from channels.errors import AttachmentFailed, Temporary
from channels.message import Attachment, AttachmentKind
from channels.network import download, pour

if TYPE_CHECKING:
    from channels.base import Sink
    from channels.wecom.connection import Network
    from channels.wecom.frames import RawMedia

BLOCK = 32
"""The plaintext is padded to a multiple of this length; the cipher's own blocks are half as long."""
_KINDS: dict[str, tuple[AttachmentKind, str | None]] = {
    "image": ("image", "image/jpeg"),
    "video": ("video", "video/mp4"),
}


def media_key(text: str) -> bytes:
    """The 32 bytes of an `aeskey`, which is base64 with or without its "=" padding. Raises AttachmentFailed."""
    try:
        key = base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise AttachmentFailed("the file's key is not an AES-256 key", "gone")
    return key


class Decryptor:
    """Decrypts a file in pieces of any size; holds back bytes that may be padding."""

    def __init__(self, key: bytes) -> None:
        self._decryptor = Cipher(algorithms.AES(key), modes.CBC(key[:16])).decryptor()
        self._held = b""

    def update(self, piece: bytes) -> bytes:
        """The decrypted bytes that are certain so far."""
        plain = self._held + self._decryptor.update(piece)
        keep = min(len(plain), BLOCK)
        self._held = plain[len(plain) - keep :]
        return plain[: len(plain) - keep]

    def finish(self) -> bytes:
        """The last bytes without the padding. Raises AttachmentFailed if the file is truncated or the key is wrong."""
        try:
            plain = self._held + self._decryptor.finalize()
        except ValueError:
            raise AttachmentFailed("the encrypted file is incomplete", "gone") from None
        count = plain[-1] if plain else 0
        if not 1 <= count <= min(BLOCK, len(plain)) or plain[-count:] != bytes([count]) * count:
            raise AttachmentFailed("the decrypted file has no valid padding", "gone")
        return plain[:-count]


def attachment(media: RawMedia, msgtype: str) -> Attachment:
    """The reference to a file of a message."""
    kind, mime_type = _KINDS.get(msgtype, ("file", None))
    ref = json.dumps({"url": media.url, "aeskey": media.aeskey})
    return Attachment(ref=ref, kind=kind, name=media.filename, mime_type=mime_type)


class Downloads:
    """Downloads of one account.

    most: maximum number of bytes. plain: unencrypted URLs are allowed, as on a test server.
    """

    def __init__(self, network: Network, most: int, *, plain: bool) -> None:
        self._network = network
        self._most = most
        self._schemes = ("https", "http") if plain else ("https",)

    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        """Stream the decrypted bytes into `sink`. Raises AttachmentFailed, Temporary and what the sink raises."""
        url, key = self._source(attachment)
        async with self._network.session(url) as session, download(session, url) as response:
            _check(response.status)
            disposition = response.content_disposition
            if isinstance(sink, NamedSink) and disposition is not None and disposition.filename:
                sink.called(disposition.filename)
            decrypting = _Decrypting(Decryptor(key), capped(sink, self._most))
            await pour(response, decrypting)
            await decrypting.finish()

    def _source(self, attachment: Attachment) -> tuple[str, bytes]:
        try:
            found = json.loads(attachment.ref)
            url, key = found["url"], found["aeskey"]
        except (ValueError, TypeError, KeyError):
            raise AttachmentFailed("the attachment's reference is not from WeCom", "gone") from None
        if not isinstance(url, str) or not isinstance(key, str) or urlsplit(url).scheme not in self._schemes:
            raise AttachmentFailed("the attachment's reference is not from WeCom", "gone")
        return url, media_key(key)


class _Decrypting:
    """A sink for encrypted bytes that passes the decrypted ones to `sink`."""

    def __init__(self, decryptor: Decryptor, sink: Sink) -> None:
        self._decryptor = decryptor
        self._sink = sink

    async def write(self, chunk: bytes) -> None:
        if plain := self._decryptor.update(chunk):
            await self._sink.write(plain)

    async def finish(self) -> None:
        if rest := self._decryptor.finish():
            await self._sink.write(rest)


def _check(status: int) -> None:
    if status in (401, 403, 404, 410):
        raise AttachmentFailed(f"WeCom no longer keeps the file ({status})", "gone")
    if status >= 500 or status == 429:
        raise Temporary(f"the file server returned {status}")
    if status != 200:
        raise AttachmentFailed(f"the file server returned {status}", "gone")
