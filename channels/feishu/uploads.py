"""A file on this machine ready for the platform: what it is uploaded and shown as. Called by sending.py."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from channels.errors import Rejected
from channels.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

    from channels.feishu.outbound import FeishuFile

MAX_FILE = 30 * 1024 * 1024
MAX_IMAGE = 10 * 1024 * 1024
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp", "image/bmp"})
_FILE_TYPES = {
    "opus": "opus",
    "mp4": "mp4",
    "pdf": "pdf",
    "doc": "doc",
    "docx": "doc",
    "xls": "xls",
    "xlsx": "xls",
    "ppt": "ppt",
    "pptx": "ppt",
}
"""By the name's ending; everything else is a "stream"."""
_MESSAGE_TYPES = {"opus": "audio", "mp4": "media"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """path: below /open-apis. field: that the bytes go into. key: that the answer names the file by."""

    path: str
    field: str
    fields: Mapping[str, str]
    key: str
    msg_type: str
    name: str
    content: BinaryIO


@contextlib.contextmanager
def opened(file: FeishuFile) -> Iterator[Upload]:
    """Raises Rejected when it is no regular file, empty or too large, or not there."""
    with open_regular(file.path) as content:
        size = os.fstat(content.fileno()).st_size
        if size == 0:
            raise Rejected("the file is empty; Feishu takes no empty files")
        if size > MAX_FILE:
            raise Rejected(f"the file has {size} bytes; Feishu takes at most {MAX_FILE} from an app")
        if file.kind == "image" and file.mime_type in _IMAGE_TYPES and size <= MAX_IMAGE:
            yield Upload(
                path="im/v1/images",
                field="image",
                fields={"image_type": "message"},
                key="image_key",
                msg_type="image",
                name=file.name,
                content=content,
            )
            return
        kind = _FILE_TYPES.get(file.name.rpartition(".")[2].lower(), "stream")
        yield Upload(
            path="im/v1/files",
            field="file",
            fields={"file_type": kind, "file_name": file.name},
            key="file_key",
            msg_type=_MESSAGE_TYPES.get(kind, "file"),
            name=file.name,
            content=content,
        )
