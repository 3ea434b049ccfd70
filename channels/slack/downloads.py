"""Files in: where a file's bytes are, and no more of them than is wanted. Called by channel.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.errors import AttachmentFailed
from channels.slack.reading import file_of

if TYPE_CHECKING:
    from channels.base import Sink
    from channels.message import Attachment
    from channels.slack.api import SlackApi


async def fetch(api: SlackApi, attachment: Attachment, sink: Sink, most: int) -> None:
    """Stream the file into `sink`, at most so many bytes. Raises AttachmentFailed, Temporary."""
    if attachment.size is not None and attachment.size > most:
        raise AttachmentFailed(f"declared {attachment.size} bytes, at most {most} are taken", "too_large")
    file_id, url = file_of(attachment)
    if url is None:
        url = await _looked_up(api, file_id)
    await api.download(url, _Capped(sink, most), html=attachment.mime_type == "text/html")


async def _looked_up(api: SlackApi, file_id: str) -> str:
    """Where a file of Slack Connect is, of which its message tells nothing (file_access "check_file_info")."""
    match await api.call("files.info", {"file": file_id}):
        case {"file": {"mode": "external"}}:
            raise AttachmentFailed("the file is not kept by Slack", "gone")
        case {"file": {"url_private_download": str(url)} | {"url_private": str(url)}}:
            return url
    raise AttachmentFailed("Slack names no address for the file", "gone")


class _Capped:
    """Passes bytes on until there are too many, for the declared size is only a claim."""

    def __init__(self, sink: Sink, most: int) -> None:
        self._sink = sink
        self._left = most

    async def write(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        if self._left < 0:
            raise AttachmentFailed("the file is longer than declared and over the cap", "too_large")
        await self._sink.write(chunk)
