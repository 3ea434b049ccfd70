"""A compressed body, unpacked piece by piece and never beyond a limit: a bomb costs no more than that. For fetch.py."""

from __future__ import annotations

import zlib

ACCEPTED = "gzip, deflate"
SLACK = 64 * 1024
"""More bytes than it unpacks to has only a body that wants to keep us busy."""
HEADER = 2
"""Bytes by which a header is known."""
_PLAIN = frozenset({"", "identity"})
_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
_ANY_HEADER = zlib.MAX_WBITS | 32
_NO_HEADER = -zlib.MAX_WBITS


class BadEncoding(Exception):
    """The body is packed in a way that was not asked for, or is broken."""


class Body:
    """Takes the bytes off the wire. limit: of the bytes that are kept. full: there are more, which are left out."""

    def __init__(self, encoding: str, limit: int) -> None:
        """Raises BadEncoding."""
        if encoding not in _PLAIN | _PACKED:
            raise BadEncoding(encoding)
        self.kept = bytearray()
        self.full = False
        self._limit = limit
        self._packed = encoding in _PACKED
        self._taken = 0
        self._begun = False
        self._headless = False
        self._held = b""
        self._unpacker = zlib.decompressobj(_ANY_HEADER)

    def feed(self, data: bytes) -> None:
        """Raises BadEncoding."""
        self._taken += len(data)
        if self._packed and self._taken > self._limit + SLACK:
            raise BadEncoding("packed larger than unpacked")
        if self._packed and not self._begun:
            data = self._held + data
            self._begun = len(data) >= HEADER
            if not self._begun:
                self._held = data
                return
        while data and not self.full:
            # One byte more than is kept, so that a body of just the limit is not called cut.
            room = self._limit - len(self.kept) + 1
            if self._packed:
                found, data = self._unpacked(data, room)
            else:
                found, data = data[:room], b""
            self.kept += found
            if len(self.kept) > self._limit:
                del self.kept[self._limit :]
                self.full = True

    def _unpacked(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        """What was found, and what is left of the data: a next part, since a packed body may have several."""
        if self._unpacker.eof:
            self._unpacker = zlib.decompressobj(_NO_HEADER if self._headless else _ANY_HEADER)
        try:
            return self._unpacker.decompress(data, room), self._unpacker.unused_data
        except zlib.error as error:
            if self.kept or self._headless:
                raise BadEncoding("broken") from error
        # Some servers send deflate without its header.
        self._headless, self._unpacker = True, zlib.decompressobj(_NO_HEADER)
        return self._unpacked(data, room)
