"""A record as the test clients of all platforms see it, and the request form of a person's file."""

import base64
from dataclasses import dataclass
from typing import Any, Protocol

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SeenRecord:
    """A request or frame that the simulator received; journal.Record, the server's side, documents the fields."""

    index: int
    arrived: float
    outcome: str
    applied: bool

    @property
    def title(self) -> str:
        """The name of what it requested."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class SeenCall(SeenRecord):
    """An HTTP request; journal.Call, the server's side, documents the fields."""

    method: str
    http_method: str
    path: str
    headers: dict[str, str]
    params: Json
    finished: float | None
    status: int | None

    @property
    def title(self) -> str:
        return self.method


class File(Protocol):
    """A file that a person sends; without `content`, the simulator generates it."""

    @property
    def content(self) -> bytes | None: ...


def file_json(file: File) -> Json:
    """The file as the control side takes it."""
    spec = {name: value for name, value in vars(file).items() if name != "content" and value is not None}
    if file.content is not None:
        spec["base64"] = base64.b64encode(file.content).decode("ascii")
    return spec
