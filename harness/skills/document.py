"""SKILL.md: its front matter and workflow, and errors that say what is wrong with one.

The front matter is YAML with only text, lists and mappings: no tags, anchors or aliases, so nothing in it can be
executed or expand, and `version: 1.10` stays as written.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from harness.errors import HarnessError
from sandbox.files.paths import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SKILL_FILE = "SKILL.md"
LONGEST_NAME = 64
"""Characters of a name."""
MOST_NAME_BYTES = 200
"""File systems allow 255, and names get extensions."""
NAME_RULE = (
    f"should be 1 to {LONGEST_NAME} of a-z, 0-9 and single hyphens between them, or of another script's small letters"
)
_EASTERN = frozenset({"CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"})
"""Scripts that are mixed with each other and with a-z; none of their letters looks like one of those."""
_DIGITS = frozenset("0123456789")
LONGEST_DESCRIPTION = 1024
"""Characters of a description."""
LONGEST_VALUE = 500
"""Characters of any other text of the front matter."""
LARGEST_FILE = 256 * 1024
"""Bytes of a SKILL.md."""
LARGEST_FRONT_MATTER = 16 * 1024
MOST_LINES = 500
"""Recommended maximum of lines in a workflow; longer material belongs in references/."""
MOST_TOOLS = 100
DEEPEST = 8
KEYS = frozenset({"name", "description", "license", "allowed-tools", "version", "author", "compatibility", "metadata"})
FENCE = "---"
LISTED = re.compile(r"[^\s,(]+(?:\([^()]*\))?")
"""A name in a list written as text, as in other agents' skills: `Read, Bash(git add:*)`."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a skill. file: relative to the skill's folder. key: of the front matter, "" for the whole."""

    file: str
    key: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.key, self.message) if part)


class SkillError(HarnessError):
    """A skill cannot be used. problems: every fault found, at least one."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDocument:
    """A valid SKILL.md.

    allowed_tools: tools that may be used while the skill is followed; None: any.
    body: the workflow, in Markdown.
    unknown_keys: keys of the front matter without a meaning here.
    """

    name: str
    description: str
    license: str = ""
    allowed_tools: tuple[str, ...] | None = None
    version: str = ""
    author: str = ""
    compatibility: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""
    unknown_keys: tuple[str, ...] = ()


_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Invisible letters and marks (Unicode's Default_Ignorable_Code_Point)."""


def valid_name(name: str) -> bool:
    """Whether a skill may have this name: hyphen-case, so it is safe as a folder name and as a command.

    Any script is allowed, but only one spelling (NFKC, lower case), and no letters that look like another script's:
    `pdf` with a Cyrillic letter in it is invalid.
    """
    if not 0 < len(name) <= LONGEST_NAME or len(name.encode("utf-8", "surrogatepass")) > MOST_NAME_BYTES:
        return False
    if name != unicodedata.normalize("NFKC", name) or name != name.lower():
        return False
    if not all(word and all(map(_counts, word)) and _counts(word[0], first=True) for word in name.split("-")):
        return False
    scripts = {unicodedata.name(each, "").split(" ")[0] for each in name if unicodedata.category(each)[0] == "L"}
    if scripts & _EASTERN:
        return scripts - _EASTERN <= {"LATIN"}
    return len(scripts) <= 1


def _counts(character: str, *, first: bool = False) -> bool:
    """Whether a name may contain it: a letter, one of ten digits, or a mark, which needs a letter before it."""
    if _UNSEEN.match(character):
        return False
    kind = unicodedata.category(character)[0]
    return kind == "L" or character in _DIGITS or (kind == "M" and not first)


def parse_bytes(raw: bytes, folder_name: str, *, strict: bool = False) -> SkillDocument:
    """Parse a SKILL.md. strict: refuse unknown keys. Raises SkillError, which names every problem."""
    if len(raw) > LARGEST_FILE:
        raise _broken(f"is larger than {LARGEST_FILE // 1024} KB")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _broken("is not UTF-8 text") from None
    front, body = _split(text.replace("\r\n", "\n").replace("\r", "\n"))
    values = _values(front)
    reader = _Reader(values)
    document = _document(reader, body)
    problems = [*reader.problems, *_faults(document, folder_name)]
    if strict:
        problems += [Problem(SKILL_FILE, key, "unknown key") for key in document.unknown_keys]
    if problems:
        raise SkillError(problems)
    return document


def _broken(message: str) -> SkillError:
    return SkillError([Problem(SKILL_FILE, "", message)])


def _split(text: str) -> tuple[str, str]:
    """Front matter and workflow. Raises SkillError."""
    lines = text.split("\n")
    if lines[0].rstrip() != FENCE:
        raise _broken(f"should begin with front matter between two lines of {FENCE}")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if end is None:
        raise _broken(f"has no {FENCE} at the end of its front matter")
    front = "\n".join(lines[1:end]) + "\n"
    if len(front.encode("utf-8", "surrogatepass")) > LARGEST_FRONT_MATTER:
        raise _broken(f"has front matter larger than {LARGEST_FRONT_MATTER // 1024} KB")
    return front, "\n".join(lines[end + 1 :]).strip("\n")


def _values(front: str) -> dict[str, Any]:
    """Keys and values of the front matter: text, lists, mappings. Raises SkillError."""
    try:
        _check_events(front)
        loader = yaml.BaseLoader(front)
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise _broken("has front matter that is not a list of `key: value`")
        twice = _twice(node)
        if twice:
            raise SkillError(Problem(SKILL_FILE, key, "occurs twice") for key in twice)
        values: dict[str, Any] = loader.construct_document(node)
        return values
    except yaml.YAMLError as error:
        raise _broken(f"has front matter that is not valid YAML: {shown(_line(str(error)))}") from error


def _check_events(front: str) -> None:
    """Refuse YAML that is more than plain data, before anything is built from it. Raises SkillError, YAMLError."""
    depth = 0
    for event in yaml.parse(front, Loader=yaml.BaseLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _broken(f"has a YAML anchor or alias{_place(event)}; write out the value")
        if isinstance(event, yaml.ScalarEvent) and _line(event.value) != shown(_line(event.value)):
            raise _broken(f"has a control character{_place(event)}")
        if getattr(event, "tag", None) is not None:
            raise _broken(f"has a YAML tag{_place(event)}; write the plain value")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise _broken(f"has front matter nested deeper than {DEEPEST} levels")


def _line(text: str) -> str:
    return " ".join(text.split())


def _place(event: yaml.Event) -> str:
    return f" in line {event.start_mark.line + 2}" if event.start_mark is not None else ""


def _twice(mapping: yaml.MappingNode) -> list[str]:
    keys = Counter(str(key.value) for key, _ in mapping.value)
    return [key for key, count in keys.items() if count > 1]


def _document(reader: _Reader, body: str) -> SkillDocument:
    return SkillDocument(
        name=reader.text("name", required=True),
        description=reader.text("description", required=True, longest=LONGEST_DESCRIPTION),
        license=reader.text("license"),
        allowed_tools=reader.tools("allowed-tools"),
        version=reader.text("version"),
        author=reader.text("author"),
        compatibility=reader.text("compatibility"),
        metadata=reader.mapping("metadata"),
        body=body,
        unknown_keys=reader.unknown(),
    )


def _faults(document: SkillDocument, folder_name: str) -> Iterator[Problem]:
    if document.name and not valid_name(document.name):
        yield Problem(SKILL_FILE, "name", NAME_RULE)
    elif document.name and document.name != folder_name:
        folder = shown(folder_name[:LONGEST_NAME])
        yield Problem(SKILL_FILE, "name", f"is {document.name}, but the folder is called {folder}")
    lines = document.body.count("\n") + 1
    if not document.body.strip():
        yield Problem(SKILL_FILE, "", "has no workflow below its front matter")
    elif lines >= MOST_LINES:
        yield Problem(SKILL_FILE, "", f"has a workflow of {lines} lines; fewer than {MOST_LINES} are allowed")


class _Reader:
    """Reads values of the front matter and collects their faults."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.problems: list[Problem] = []

    def text(self, key: str, *, required: bool = False, longest: int = LONGEST_VALUE) -> str:
        """A text on one line; "" if it is missing or invalid."""
        value = self._values.get(key, "")
        if not isinstance(value, str):
            return self._wrong(key, "should be text")
        value = _line(value)
        if required and not value:
            return self._wrong(key, "is missing" if key not in self._values else "is empty")
        if len(value) > longest:
            return self._wrong(key, f"is longer than {longest} characters")
        return value

    def tools(self, key: str) -> tuple[str, ...] | None:
        """Names of tools, from a list or from text with commas or spaces; None without such a key."""
        if key not in self._values:
            return None
        value = self._values[key]
        names = LISTED.findall(value) if isinstance(value, str) else value
        if isinstance(value, str) and not names:
            self._wrong(key, "is empty; leave it out, or write [] for none")
        elif not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
            self._wrong(key, "should be a list of tool names")
        elif len(names) > MOST_TOOLS or any(len(name) > LONGEST_VALUE for name in names):
            self._wrong(key, f"has more than {MOST_TOOLS} names, or too long ones")
        else:
            return tuple(dict.fromkeys(name.strip() for name in names))
        return ()

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self._values.get(key) or {}
        if not isinstance(value, dict):
            self._wrong(key, "should be a mapping")
            return {}
        return value

    def unknown(self) -> tuple[str, ...]:
        return tuple(sorted(str(key)[:LONGEST_NAME] for key in self._values if key not in KEYS))

    def _wrong(self, key: str, message: str) -> str:
        self.problems.append(Problem(SKILL_FILE, key, message))
        return ""
