"""Files in and out: downloads up to a limit, and uploads, which can be found again if their last step was not answered.

Slack shares an uploaded file some time after the call, and its answer does not contain a message. So the id of a file
part is the file's own (F...), by which the place where it is shared can be looked up.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, BinaryIO

from cachetools import LRUCache

from channels.adapter import capped, open_regular
from channels.errors import AttachmentFailed, OutcomeUnknown, Rejected, Temporary
from channels.slack.reading import file_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from channels.base import Sink
    from channels.message import Address, Attachment, OutboundFile
    from channels.slack.api import SlackApi

MAX_UPLOAD = 1024**3
"""Maximum size of one file in bytes (files.getUploadURLExternal)."""
_REMEMBERED = 1000


def is_file(message_id: str) -> bool:
    """Whether a message id is a file's."""
    return message_id.startswith("F")


async def fetch(api: SlackApi, attachment: Attachment, sink: Sink, most: int) -> None:
    """Stream the file into `sink`, at most `most` bytes. Raises AttachmentFailed, Temporary."""
    taken = capped(sink, most, attachment.size)
    file_id, url = file_of(attachment)
    if url is None:
        url = await _looked_up(api, file_id)
    await api.download(url, taken, html=attachment.mime_type == "text/html")


async def _looked_up(api: SlackApi, file_id: str) -> str:
    """The URL of a Slack Connect file, which its message does not contain (file_access "check_file_info")."""
    match await api.call("files.info", {"file": file_id}):
        case {"file": {"mode": "external"}}:
            raise AttachmentFailed("the file is not stored by Slack", "gone")
        case {"file": {"url_private_download": str(url)} | {"url_private": str(url)}}:
            return url
    raise AttachmentFailed("Slack returned no URL for the file", "gone")


class Uploads:
    """Uploads of one account. A lost upload that was forgotten is found by its name."""

    def __init__(self, api: SlackApi) -> None:
        self._api = api
        self._lost: LRUCache[str, str] = LRUCache(_REMEMBERED)
        self._known: LRUCache[str, None] = LRUCache(_REMEMBERED)

    def see(self, file_id: str) -> None:
        """Note a file that is recorded as sent, so that it is not mistaken for a lost one."""
        self._known[file_id] = None

    async def send(self, address: Address, file: OutboundFile, idem_key: str) -> str:
        """Upload and share a file; returns its id. Raises Rejected, Temporary, OutcomeUnknown."""
        with opened(file) as (content, size):
            answer = await self._api.call("files.getUploadURLExternal", {"filename": file.name, "length": str(size)})
            match answer:
                case {"upload_url": str(url), "file_id": str(file_id)}:
                    await self._api.upload(url, content)
                case _:
                    raise Temporary("files.getUploadURLExternal returned no URL")
        try:
            await self._api.call("files.completeUploadExternal", _share(address, file, file_id), repeatable=False)
        except OutcomeUnknown:
            self._lost[idem_key] = file_id
            raise
        self._lost.pop(idem_key, None)
        self.see(file_id)
        return file_id

    async def find_lost(self, address: Address, idem_key: str) -> str | None:
        """The id of a file whose upload was not answered; None if it is not (yet) shared in the chat."""
        file_id = self._lost.get(idem_key)
        if file_id is None or not await self.shared_as(address, file_id):
            return None
        self.see(file_id)
        return file_id

    def lost(self, idem_key: str) -> bool:
        """Whether this process sent the upload, so that its id is known."""
        return idem_key in self._lost

    def adopt(self, message: Mapping[str, Any], file: OutboundFile) -> str | None:
        """The id of a file of that name in a message of the bot, if no recorded part is that file."""
        files = message.get("files")
        for found in files if isinstance(files, list) else ():
            match found:
                case {"id": str(file_id), "name": str(name)} if name == file.name and file_id not in self._known:
                    self.see(file_id)
                    return file_id
        return None

    async def shared_as(self, address: Address, file_id: str) -> str | None:
        """The id of the message that shows a file in this chat, None if none does."""
        try:
            answer = await self._api.call("files.info", {"file": file_id})
        except AttachmentFailed:
            return None
        match answer:
            case {"file": {"shares": dict(shares)}}:
                for by_channel in shares.values():
                    for place in by_channel.get(address.chat, ()) if isinstance(by_channel, dict) else ():
                        match place:
                            case {"ts": str(ts)}:
                                return ts
        return None


@contextlib.contextmanager
def opened(file: OutboundFile) -> Iterator[tuple[BinaryIO, int]]:
    """Open the file; yields content and size. Raises Rejected if it is missing, not regular, empty or too large."""
    with open_regular(file.path) as content:
        size = os.fstat(content.fileno()).st_size
        if size > MAX_UPLOAD:
            raise Rejected(f"the file has {size} bytes; Slack accepts at most {MAX_UPLOAD}")
        if size == 0:
            raise Rejected("the file is empty; Slack does not accept empty files")
        yield content, size


def _share(address: Address, file: OutboundFile, file_id: str) -> dict[str, str]:
    params = {"files": json.dumps([{"id": file_id, "title": file.name}]), "channel_id": address.chat}
    return params if address.topic is None else {**params, "thread_ts": address.topic}
