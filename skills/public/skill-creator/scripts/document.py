"""The rules for a SKILL.md, as Antler checks it when a skill is installed. Stands alone: no package is needed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from frontmatter import NotPlain, read

SKILL_FILE = "SKILL.md"
MARK = "[fill" + " in]"
"""What scaffold.py leaves to be written; in two parts, so that this skill itself has none."""
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
LONGEST_NAME, LONGEST_DESCRIPTION, LONGEST_VALUE = 64, 1024, 500
"""In characters."""
LARGEST_FILE, LARGEST_FRONT_MATTER = 256 * 1024, 16 * 1024
"""In bytes."""
MOST_LINES, MOST_TOOLS = 500, 100
TEXTS = ("name", "description", "license", "version", "author", "compatibility")
KEYS = (*TEXTS, "allowed-tools", "metadata")


@dataclass
class Document:
    """values: of the front matter. problems: for which it is refused."""

    values: dict[str, Any] = field(default_factory=dict)
    body: str = ""
    problems: list[str] = field(default_factory=list)

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        return " ".join(value.split()) if isinstance(value, str) else ""


def parse(raw: bytes, folder_name: str) -> Document:
    """folder_name: what `name` has to be."""
    document = Document()
    if len(raw) > LARGEST_FILE:
        document.problems.append(f"is larger than {LARGEST_FILE // 1024} KB; move parts into references/")
        return document
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        document.problems.append("is not UTF-8 text")
        return document
    lines = text.split("\n")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if lines[0].rstrip() != "---" or end is None:
        document.problems.append("has to begin with front matter between two lines of ---")
        return document
    front = "\n".join(lines[1:end]) + "\n"
    document.body = "\n".join(lines[end + 1 :]).strip("\n")
    if len(front.encode("utf-8", "surrogatepass")) > LARGEST_FRONT_MATTER:
        document.problems.append(f"has a front matter larger than {LARGEST_FRONT_MATTER // 1024} KB")
        return document
    try:
        document.values = read(front)
    except NotPlain as error:
        document.problems.append(str(error))
        return document
    document.problems += [*_texts(document), *_tools(document), *_shape(document, folder_name)]
    return document


def _texts(document: Document) -> list[str]:
    problems = []
    for key in TEXTS:
        value = document.values.get(key, "")
        longest = LONGEST_DESCRIPTION if key == "description" else LONGEST_VALUE
        if not isinstance(value, str):
            problems.append(f"{key} should be text")
        elif key in ("name", "description") and not value.split():
            problems.append(f"{key} is {'empty' if key in document.values else 'missing'}")
        elif len(document.text(key)) > longest:
            problems.append(f"{key} has {len(document.text(key))} characters, {longest} are the most")
    if not isinstance(document.values.get("metadata") or {}, dict):
        problems.append("metadata should be indented lines `key: value`")
    unknown = sorted(set(document.values) - set(KEYS))
    return problems + [f"{key} is not known; there are {', '.join(KEYS)}" for key in unknown]


def _tools(document: Document) -> list[str]:
    if "allowed-tools" not in document.values:
        return []
    value = document.values["allowed-tools"]
    names = value.replace(",", " ").split() if isinstance(value, str) else value
    if isinstance(value, str) and not names:
        return ["allowed-tools is empty; leave it out, or write [] for none"]
    if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
        return ["allowed-tools should be a list of tool names"]
    if len(names) > MOST_TOOLS or any(len(name) > LONGEST_VALUE for name in names):
        return [f"allowed-tools has more than {MOST_TOOLS} names, or too long ones"]
    return []


def _shape(document: Document, folder_name: str) -> list[str]:
    problems = []
    name = document.text("name")
    if name and (len(name) > LONGEST_NAME or NAME.fullmatch(name) is None):
        problems.append(f"name should be 1 to {LONGEST_NAME} of a-z, 0-9 and single hyphens between them")
    elif name and name != folder_name:
        problems.append(f"name is {name}, but the folder is called {folder_name}")
    lines = document.body.count("\n") + 1
    if not document.body.strip():
        problems.append("has no workflow below its front matter")
    elif lines >= MOST_LINES:
        problems.append(f"has a workflow of {lines} lines, and should have fewer than {MOST_LINES}: move parts out")
    return problems
