"""What a skill would hold after a change that the agent proposes; for managing.py. Pure."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from harness.skills.document import SKILL_FILE, parse_bytes
from harness.skills.errors import SkillError

if TYPE_CHECKING:
    from harness.skills.files import Files

LARGEST_TEXT = 100_000
"""Characters of one file that is written."""
TOO_LONG = f"The file would be too long: at most {LARGEST_TEXT} characters."
FOLDERS = ("references", "scripts", "assets")
"""Where the files of a skill are, besides its workflow."""

Change = Literal["create", "edit", "patch", "delete", "write_file", "remove_file", "rollback"]


class BadChange(Exception):
    """A change that cannot be. The text says why, and what to do, for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the agent asks for. file: relative to the skill's folder, "" for its workflow. version: of a rollback."""

    action: Change
    name: str
    content: str = ""
    file: str = ""
    old: str = ""
    new: str = ""
    replace_all: bool = False
    version: int = 0
    reason: str = ""


def changed(request: Request, files: Files | None) -> Files:
    """The files after any change but `delete` and `rollback`. files: None: there is no such skill. Raises BadChange."""
    if request.action == "create" and files is not None:
        raise BadChange(f"There is a skill {request.name} already. Use edit or patch to change it, or another name.")
    if request.action != "create" and files is None:
        raise BadChange(f"There is no skill {request.name} here. Look with ls, or use create.")
    after = dict(files or {})
    match request.action:
        case "create" | "edit":
            after[SKILL_FILE] = _text(request.content)
        case "patch":
            path = _path(request.file or SKILL_FILE, after)
            after[path] = _patched(request, path, after)
        case "write_file":
            after[_path(request.file)] = _text(request.content)
        case "remove_file":
            _remove(_path(request.file, after), after)
    if after == (files or {}):
        raise BadChange("Nothing would be different.")
    check(request.name, after)
    return after


def check(name: str, files: Files) -> None:
    """Raises BadChange for what would be no skill."""
    try:
        parse_bytes(files[SKILL_FILE], name, strict=True)
    except SkillError as error:
        raise BadChange(f"That would be no valid skill: {error}. Nothing was changed.") from error


def _text(content: str) -> bytes:
    if not content.strip():
        raise BadChange("Give the content: the whole text of the file.")
    if len(content) > LARGEST_TEXT:
        raise BadChange(TOO_LONG)
    return (content if content.endswith("\n") else f"{content}\n").encode("utf-8", "replace")


def _path(file: str, known: Files | None = None) -> str:
    """known: files that are there already, wherever they are."""
    path = posixpath.normpath(file.strip()) if file.strip() else ""
    if path == SKILL_FILE or path in (known or {}) or path.startswith(tuple(f"{folder}/" for folder in FOLDERS)):
        return path
    raise BadChange(f"Give the file's path within the skill: {SKILL_FILE}, or one below {', '.join(FOLDERS)}.")


def _patched(request: Request, path: str, files: Files) -> bytes:
    try:
        text = files[path].decode("utf-8")
    except KeyError:
        raise BadChange(f"There is no {path} in this skill.") from None
    except UnicodeDecodeError:
        raise BadChange(f"{path} is no text.") from None
    count = text.count(request.old) if request.old else 0
    if count == 0:
        raise BadChange(f"The text `old` is not in {path}. Copy it exactly, with all spaces.")
    if count > 1 and not request.replace_all:
        raise BadChange(f"The text `old` is in {path} {count} times. Give more of it, or set replace_all.")
    if len(text) + count * (len(request.new) - len(request.old)) > LARGEST_TEXT:
        raise BadChange(TOO_LONG)
    return _text(text.replace(request.old, request.new))


def _remove(path: str, files: dict[str, bytes]) -> None:
    if path == SKILL_FILE:
        raise BadChange("A skill cannot be without its SKILL.md. Use delete for the whole skill.")
    if files.pop(path, None) is None:
        raise BadChange(f"There is no {path} in this skill.")
