"""Files that people send: their bytes, given by the test or generated while streaming, and their download."""

from collections.abc import Iterator
from dataclasses import dataclass

from aiohttp import web

CHUNK_SIZE = 256 * 1024
FILLER = bytes(range(256)) * (CHUNK_SIZE // 256)


@dataclass(kw_only=True)
class StreamedFile:
    """A file. It may declare one size and stream another; `sent` counts bytes handed to sockets."""

    name: str
    mime: str
    declared_size: int
    stream_size: int
    content: bytes | None = None
    sent: int = 0
    downloads: int = 0

    @property
    def honest(self) -> bool:
        return self.declared_size == self.stream_size

    def chunks(self) -> Iterator[bytes]:
        """The content, or a repeated filler if none was given; never more than one chunk in memory."""
        if self.content is not None and self.stream_size == len(self.content):
            yield self.content
            return
        left = self.stream_size
        while left > 0:
            yield FILLER if left >= CHUNK_SIZE else FILLER[:left]
            left -= CHUNK_SIZE

    async def stream(self, request: web.Request, content_type: str) -> tuple[web.StreamResponse, bool]:
        """Answer a download, counting the bytes sent; also returns whether the client stayed until the end."""
        response = web.StreamResponse(headers={"Content-Type": content_type})
        if self.honest:
            response.content_length = self.stream_size
        self.downloads += 1
        await response.prepare(request)
        try:
            for chunk in self.chunks():
                await response.write(chunk)
                self.sent += len(chunk)
            await response.write_eof()
        except ConnectionError:
            return response, False
        return response, True
