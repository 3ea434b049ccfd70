"""What client and server say to each other; openapi.yaml is the same for people and for other servers.

All is JSON in ASCII, because a path may hold half a character, which has no UTF-8. Streams are lines of JSON.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sandbox.base import WORKSPACE, CommandResult, Entries, FileInfo, FileText, Hits, Problem, Report, Updated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.files.skills import SkillFile

T = TypeVar("T")

VERSION = 1
PREFIX = f"/v{VERSION}"
SANDBOX_ID = r"[0-9a-f]{16}"
COMMAND_ID = r"[0-9a-f]{32}"
SKILLS_DIGEST = r"[0-9a-f]{64}"
PLACE = r"[a-z][a-z0-9-]{0,31}"
LINES = "application/x-ndjson"
LONGEST_LINE = 16 << 20
"""In bytes; a command's result, with all of its output that is kept, is one line."""
MOST_SECONDS = 86_400
_MOST_NAMED, _LONGEST_NAME = 10, 100

NOT_FOUND, NO_SUCH_SANDBOX, UNAUTHORIZED, TOO_LARGE = "not_found", "no_such_sandbox", "unauthorized", "too_large"
BUSY, STOPPING, BAD_REQUEST, USED, CANCELLED, FAILED = "busy", "stopping", "bad_request", "used", "cancelled", "failed"
"""The codes of errors. FAILED: the sandbox itself does not work."""


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CommandBody(Body):
    command: str
    timeout: float = Field(gt=0, le=MOST_SECONDS, description="Seconds after which the server ends it")


class ReadBody(Body):
    path: str
    first_line: int = 1
    last_line: int | None = None
    max_bytes: int = Field(default=200_000, ge=0)


class FetchBody(Body):
    path: str
    max_bytes: int = Field(ge=0)


class WriteBody(Body):
    path: str
    content: str = Field(description="In base64")
    append: bool = False
    expected: str | None = None


class UpdateBody(Body):
    path: str
    old: str
    new: str
    replace_all: bool = False
    expected: str | None = None


class ListBody(Body):
    path: str
    depth: int = 2
    most: int = 1000


class GlobBody(Body):
    pattern: str
    path: str = WORKSPACE
    most: int = 200


class GrepBody(Body):
    pattern: str
    path: str = WORKSPACE
    glob: str = ""
    ignore_case: bool = False
    most: int = 100


class SkillsBody(Body):
    """The places of skills that a sandbox has, each with the digest of its files (`digest_of`)."""

    places: dict[Annotated[str, Field(pattern=f"^{PLACE}$")], Annotated[str, Field(pattern=f"^{SKILLS_DIGEST}$")]]


class SkillFileBody(Body):
    path: str = Field(description="Below the place")
    content: str = Field(description="In base64")
    executable: bool = False


class SkillFilesBody(Body):
    files: list[SkillFileBody]


class Wanted(BaseModel):
    """The digests whose files the server does not have."""

    wanted: list[str]


class Welcome(BaseModel):
    """What a server says of itself. skills: whether it takes them. kept: whether it tells what it keeps files of."""

    version: int
    report: Report
    skills: bool = False
    kept: bool = False


class Keeps(BaseModel):
    """Whether a server has files of a sandbox, open or not."""

    kept: bool


class Kept(BaseModel):
    """The ids of all sandboxes that a server has files of, open or not."""

    sandboxes: list[str]


class Error(BaseModel):
    """text and hint: as SandboxError's, without host paths and secrets."""

    code: str
    text: str
    hint: str = ""


class Event(BaseModel):
    """One line of a stream; the one with a result, a problem or an error is the last. One with nothing is a sign of
    life. output: of a command. data: of a file, in base64."""

    output: str | None = None
    data: str | None = None
    result: dict[str, Any] | None = None
    problem: Problem | None = None
    error: Error | None = None


class Failed(BaseModel):
    """The body of every answer from status 400 on."""

    error: Error


RESULT = TypeAdapter(CommandResult)
FILE_TEXT = TypeAdapter(FileText)
FILE_INFO = TypeAdapter(FileInfo)
UPDATED = TypeAdapter(Updated)
ENTRIES = TypeAdapter(Entries)
HITS = TypeAdapter(Hits)
PROBLEM = TypeAdapter(Problem)


def digest_of(files: Mapping[str, SkillFile]) -> str:
    """SHA-256 over the sorted paths, each with its kind and the SHA-256 of its content."""
    whole = hashlib.sha256()
    for path, file in sorted(files.items()):
        kind = "x" if file.executable else "-"
        whole.update(f"{hashlib.sha256(file.data).hexdigest()} {kind} {json.dumps(path)}\n".encode())
    return whole.hexdigest()


class Malformed(ValueError):
    """What came is not what the contract says. The text quotes nothing of it."""


def dumped(value: object) -> bytes:
    """Dump values that JSON knows."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def parsed(data: bytes | str) -> Any:
    """Raises Malformed."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise Malformed("it is no JSON") from None


def understood(kind: TypeAdapter[T], value: object) -> T:
    """Raises Malformed."""
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        places = {".".join(map(str, each["loc"])) for each in error.errors(include_input=False, include_url=False)}
        named = ", ".join(place[:_LONGEST_NAME] or "the whole" for place in sorted(places)[:_MOST_NAMED])
        raise Malformed(f"wrong or missing: {named}") from None
