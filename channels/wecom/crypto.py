"""Undoes the encryption of media: AES-256-CBC, the key's first 16 bytes as IV, PKCS#7 padding to 32 bytes. Pure.

Called by media.py while a file comes in. Source: developer docs 100719.
"""

from __future__ import annotations

import base64
import binascii

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from channels.errors import AttachmentFailed

BLOCK = 32
"""To which the text is padded; the cipher's own blocks are half as long."""


def media_key(text: str) -> bytes:
    """The 32 bytes of an `aeskey`, which comes as base64 with or without its "=". Raises AttachmentFailed."""
    try:
        key = base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise AttachmentFailed("the file's key is none of AES-256", "gone")
    return key


class Decryptor:
    """Takes the file in pieces of any size, gives its plain bytes; holds back what may be padding."""

    def __init__(self, key: bytes) -> None:
        self._decryptor = Cipher(algorithms.AES(key), modes.CBC(key[:16])).decryptor()
        self._held = b""

    def update(self, piece: bytes) -> bytes:
        """The plain bytes that are certain by now."""
        plain = self._held + self._decryptor.update(piece)
        keep = min(len(plain), BLOCK)
        self._held = plain[len(plain) - keep :]
        return plain[: len(plain) - keep]

    def finish(self) -> bytes:
        """The last bytes without the padding. Raises AttachmentFailed when the file is cut or was not made for us."""
        try:
            plain = self._held + self._decryptor.finalize()
        except ValueError:
            raise AttachmentFailed("the encrypted file is incomplete", "gone") from None
        count = plain[-1] if plain else 0
        if not 1 <= count <= min(BLOCK, len(plain)) or plain[-count:] != bytes([count]) * count:
            raise AttachmentFailed("the decrypted file has no valid padding", "gone")
        return plain[:-count]
