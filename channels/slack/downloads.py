"""Files in: where a file's bytes are, and no more of them than is wanted. Called by channel.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.errors import AttachmentFailed
from channels.files import capped
from channels.slack.reading import file_of

if TYPE_CHECKING:
    from channels.base import Sink
    from channels.message import Attachment
    from channels.slack.api import SlackApi


async def fetch(api: SlackApi, attachment: Attachment, sink: Sink, most: int) -> None:
    """Stream the file into `sink`, at most so many bytes. Raises AttachmentFailed, Temporary."""
    taken = capped(sink, most, attachment.size)
    file_id, url = file_of(attachment)
    if url is None:
        url = await _looked_up(api, file_id)
    await api.download(url, taken, html=attachment.mime_type == "text/html")


async def _looked_up(api: SlackApi, file_id: str) -> str:
    """Where a file of Slack Connect is, of which its message tells nothing (file_access "check_file_info")."""
    match await api.call("files.info", {"file": file_id}):
        case {"file": {"mode": "external"}}:
            raise AttachmentFailed("the file is not kept by Slack", "gone")
        case {"file": {"url_private_download": str(url)} | {"url_private": str(url)}}:
            return url
    raise AttachmentFailed("Slack names no address for the file", "gone")
