"""Files of the simulated platform: those that people share, those that bots upload, and the bytes of both."""

import base64
import hashlib
import mimetypes
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.files import StreamedFile
from tests.simulators.slack.ids import numbered

KEPT_UPLOAD_BYTES = 8 * 1024 * 1024
SHOWN_FIELDS = ("id", "name", "size", "sha256", "sent", "downloads", "declared_size", "stream_size", "login_pages")


@dataclass(kw_only=True)
class StoredFile(StreamedFile):
    """A file of the platform; shares: channel -> message ts.

    uploaded: its bytes have arrived. completed: files.completeUploadExternal named it.
    access: "visible", or "check_file_info" for files whose message does not describe them.
    """

    id: str
    team_id: str
    mode: str = "hosted"
    subtype: str | None = None
    access: str = "visible"
    user: str = ""
    title: str = ""
    filetype: str = ""
    external_url: str | None = None
    sha256: str = ""
    uploaded: bool = True
    completed: bool = True
    shares: dict[str, list[str]] = field(default_factory=dict)
    login_pages: int = 0

    def to_json(self, origin: str) -> dict[str, Any]:
        """The platform's file object, as a message or files.info shows it."""
        url = self.external_url or f"{origin}/files-pri/{self.team_id}-{self.id}/{self.name}"
        file: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "title": self.title or self.name,
            "mimetype": self.mime,
            "filetype": self.filetype or suffix_of(self.name),
            "size": self.declared_size,
            "user": self.user,
            "mode": self.mode,
            "is_external": self.mode == "external",
            "file_access": "visible",
            "url_private": url,
        }
        if self.mode != "external":
            file["url_private_download"] = url.replace("/files-pri/", "/files-pri/download/", 1)
        if self.subtype:
            file["subtype"] = self.subtype
        return file

    def in_message(self, origin: str) -> dict[str, Any]:
        """The file as part of a message: whole, or as a stub that refers the reader to files.info."""
        if self.access == "check_file_info":
            return {"id": self.id, "file_access": "check_file_info", "created": 0}
        return self.to_json(origin)

    def summary(self) -> dict[str, Any]:
        """Sizes, counters and hash, for tests."""
        return {name: getattr(self, name) for name in SHOWN_FIELDS if hasattr(self, name)} | {"shares": self.shares}


@dataclass
class FileStore:
    """All files by id."""

    files: dict[str, StoredFile] = field(default_factory=dict)

    def get(self, file_id: str, team_id: str) -> StoredFile | None:
        """A file of a workspace, or None."""
        stored = self.files.get(file_id)
        return stored if stored is not None and stored.team_id == team_id else None

    def add_spec(self, team_id: str, user: str, spec: dict[str, Any]) -> StoredFile:
        """A person's file from a control request: content as `base64`, or generated up to `stream_size`."""
        content = base64.b64decode(spec["base64"]) if spec.get("base64") is not None else None
        stream_size = int(spec["stream_size"]) if spec.get("stream_size") is not None else len(content or b"")
        declared = int(spec["declared_size"]) if spec.get("declared_size") is not None else stream_size
        optional = ("mode", "subtype", "access", "title", "filetype", "external_url")
        more = {name: spec[name] for name in optional if spec.get(name) is not None}
        stored = StoredFile(
            id=numbered("F"),
            team_id=team_id,
            name=spec["name"],
            mime=spec["mime"],
            declared_size=declared,
            stream_size=stream_size,
            content=content,
            user=user,
            **more,
        )
        self.files[stored.id] = stored
        return stored

    def reserve(self, team_id: str, user: str, name: str, length: int) -> StoredFile:
        """Add a file that a bot announced; its bytes follow later."""
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
        stored = StoredFile(
            id=numbered("F"),
            team_id=team_id,
            name=name,
            mime=mime,
            declared_size=length,
            stream_size=length,
            user=user,
            uploaded=False,
            completed=False,
        )
        self.files[stored.id] = stored
        return stored

    def fill(self, stored: StoredFile, content: bytes) -> None:
        """Store the bytes of an announced file; content is kept only up to KEPT_UPLOAD_BYTES."""
        stored.sha256 = hashlib.sha256(content).hexdigest()
        stored.stream_size = len(content)
        stored.content = content if len(content) <= KEPT_UPLOAD_BYTES else None
        stored.uploaded = True


def suffix_of(name: str) -> str:
    """The platform's filetype, approximately: the name's suffix."""
    return name.rpartition(".")[2].lower() if "." in name else "text"
