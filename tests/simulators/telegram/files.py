"""Files of the simulated platform: uploads are hashed and downloads generated while streaming."""

import base64
import hashlib
import itertools
from dataclasses import dataclass
from typing import Any

from tests.simulators.files import StreamedFile

KEPT_UPLOAD_BYTES = 8 * 1024 * 1024
MAX_UPLOAD_BYTES = 50 * 1024 * 1024
MAX_DOWNLOAD_BYTES = 20 * 1024 * 1024


@dataclass(kw_only=True)
class StoredFile(StreamedFile):
    """A file that getFile finds."""

    file_id: str
    bot_id: int
    path: str


@dataclass(frozen=True)
class Upload:
    """A file part of a multipart request; `content` only up to KEPT_UPLOAD_BYTES."""

    field: str
    name: str
    mime: str
    size: int
    sha256: str
    content: bytes | None

    def summary(self) -> dict[str, Any]:
        """The summary in the record and the chat view."""
        return {"field": self.field, "name": self.name, "mime": self.mime, "size": self.size, "sha256": self.sha256}


class UploadReader:
    """Collects one upload chunk by chunk."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._kept = bytearray()
        self.size = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next chunk."""
        self.size += len(chunk)
        self._hash.update(chunk)
        if self.size <= KEPT_UPLOAD_BYTES:
            self._kept += chunk

    def finish(self, field: str, name: str, mime: str) -> Upload:
        """The complete upload."""
        content = bytes(self._kept) if self.size <= KEPT_UPLOAD_BYTES else None
        return Upload(field, name, mime, self.size, self._hash.hexdigest(), content)


class FileStore:
    """All files by id, and by (bot, path) for downloads."""

    def __init__(self) -> None:
        self._by_id: dict[str, StoredFile] = {}
        self._by_path: dict[tuple[int, str], StoredFile] = {}
        self._numbers = itertools.count(1)

    def get(self, file_id: str) -> StoredFile | None:
        """The file of an id, or None."""
        return self._by_id.get(file_id)

    def at_path(self, bot_id: int, path: str) -> StoredFile | None:
        """The file behind a download path of one bot, or None."""
        return self._by_path.get((bot_id, path))

    def add_upload(self, bot_id: int, upload: Upload) -> StoredFile:
        """Store a bot's upload, so that it can be sent again by id and downloaded."""
        return self._add(bot_id, "documents", upload.name, upload.mime, upload.size, upload.size, upload.content)

    def add_spec(self, bot_id: int, kind: str, spec: dict[str, Any]) -> StoredFile:
        """A person's file from a control request: content as `text` or `base64`, or generated up to `stream_size`."""
        content: bytes | None = None
        if spec.get("base64") is not None:
            content = base64.b64decode(spec["base64"])
        size = spec.get("stream_size")
        stream_size = len(content or b"") if size is None else int(size)
        declared = spec.get("declared_size")
        declared_size = stream_size if declared is None else int(declared)
        mime = spec.get("mime") or "application/octet-stream"
        return self._add(bot_id, kind, spec.get("name") or "file.bin", mime, declared_size, stream_size, content)

    def _add(
        self, bot_id: int, folder: str, name: str, mime: str, declared: int, stream: int, content: bytes | None
    ) -> StoredFile:
        number = next(self._numbers)
        suffix = name.rpartition(".")[2] if "." in name else "bin"
        suffix = suffix if suffix.isalnum() else "bin"
        path = f"{folder}/file_{number}.{suffix}"
        stored = StoredFile(
            file_id=f"FILE{number:08d}",
            bot_id=bot_id,
            path=path,
            name=name,
            mime=mime,
            declared_size=declared,
            stream_size=stream,
            content=content,
        )
        self._by_id[stored.file_id] = stored
        self._by_path[bot_id, path] = stored
        return stored
