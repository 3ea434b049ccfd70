"""What the test clients of all platforms see of a record, and how a person's file is asked for."""

import base64
from dataclasses import dataclass
from typing import Any, Protocol

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SeenRecord:
    """A request or frame that the simulator received (journal.Record in server terms); see there for the fields."""

    index: int
    arrived: float
    outcome: str
    applied: bool

    @property
    def title(self) -> str:
        """What it asked for."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class SeenCall(SeenRecord):
    """An HTTP request (journal.Call in server terms); see there for the fields."""

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
    """A file that a person sends; the simulator makes up what its `content` does not say."""

    @property
    def content(self) -> bytes | None: ...


def file_json(file: File) -> Json:
    """The control surface's file."""
    spec = {name: value for name, value in vars(file).items() if name != "content" and value is not None}
    if file.content is not None:
        spec["base64"] = base64.b64encode(file.content).decode("ascii")
    return spec
