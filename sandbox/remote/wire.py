"""The protocol between client and server; openapi.yaml describes it for people and for other servers.

All is JSON in ASCII, because a path may contain half a character, which UTF-8 cannot represent. Streams are JSON lines.
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
LONGEST_ANSWER = 16 << 20
"""In bytes, or the longest line of a stream; a command's result, with all of its retained output, is one line."""
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
    """The places of a sandbox's skills, each with the digest of its files (`digest_of`)."""

    places: dict[Annotated[str, Field(pattern=f"^{PLACE}$")], Annotated[str, Field(pattern=f"^{SKILLS_DIGEST}$")]]


class SkillFileBody(Body):
    path: str = Field(description="Relative to the place")
    content: str = Field(description="In base64")
    executable: bool = False


class SkillFilesBody(Body):
    files: list[SkillFileBody]


class Wanted(BaseModel):
    """The digests of files that the server does not have."""

    wanted: list[str]


class Welcome(BaseModel):
    """A server's description. skills: whether it accepts them. kept: whether it reports which sandboxes have files."""

    version: int
    report: Report
    skills: bool = False
    kept: bool = False


class Keeps(BaseModel):
    """Whether a server has files of a sandbox, open or not."""

    kept: bool


class Kept(BaseModel):
    """The ids of all sandboxes whose files a server has, open or not."""

    sandboxes: list[str]


class Error(BaseModel):
    """An error. text and hint: see SandboxError, without host paths and secrets."""

    code: str
    text: str
    hint: str = ""


class Event(BaseModel):
    """One line of a stream; the one with a result, a problem or an error is the last. An empty one is a sign of life.
    output: of a command. data: of a file, in base64."""

    output: str | None = None
    data: str | None = None
    result: dict[str, Any] | None = None
    problem: Problem | None = None
    error: Error | None = None


class Failed(BaseModel):
    """The body of every answer with a status of 400 or more."""

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
    """Received data violates the contract. The text quotes nothing of it."""


def dumped(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def parsed(data: bytes | str) -> Any:
    """Parse JSON. Raises Malformed."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise Malformed("it is not JSON") from None


def understood(kind: TypeAdapter[T], value: object) -> T:
    """Validate a value. Raises Malformed."""
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        places = {".".join(map(str, each["loc"])) for each in error.errors(include_input=False, include_url=False)}
        named = ", ".join(place[:_LONGEST_NAME] or "the whole" for place in sorted(places)[:_MOST_NAMED])
        raise Malformed(f"wrong or missing: {named}") from None
