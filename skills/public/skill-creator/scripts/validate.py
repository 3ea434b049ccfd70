"""Checks a skill's folder before it is packed: python3 validate.py FOLDER. Exit code 1 when it would be refused."""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path

from document import MARK, SKILL_FILE, Document, parse
from folder import files_of

SEEN = 160
"""Characters of a description that the agent always sees, about."""
SHORT, LONG = 60, 250
_PATHS = re.compile(r"(?<![\w./-])((?:references|scripts|assets|templates)/[\w./-]*\w)")
_WHEN = re.compile(r"\b(?:use|when|for|if)\b|用于|适用|当|时使用|wenn|für|quand|cuando", re.IGNORECASE)
_FORBIDDEN_HOME = re.compile(r"(?<![\w/])(?:/home/|/Users/|/root/|[A-Z]:\\)\w")


def problems_of(skill: Path) -> tuple[list[str], list[str]]:
    """For which the skill is refused, and what to look at."""
    if not (skill / SKILL_FILE).is_file():
        return [f"{skill} has no {SKILL_FILE}"], []
    files, errors = files_of(skill)
    document = parse((skill / SKILL_FILE).read_bytes(), skill.resolve().name)
    errors = [*(f"{SKILL_FILE}: {problem}" for problem in document.problems), *errors]
    texts = {name: path.read_text(encoding="utf-8", errors="replace") for name, path in files.items() if _is_text(path)}
    for name, text in texts.items():
        errors += [f"{name}: line {number} still says {MARK}" for number in _unfilled(text)]
        if name.endswith(".py"):
            errors += _syntax(name, text)
    errors += _missing(texts, files)
    return errors, [*_advice(document), *_unused(texts, files), *_homes(texts)]


def _is_text(path: Path) -> bool:
    return path.suffix.lower() in (
        ".md",
        ".txt",
        ".py",
        ".sh",
        ".json",
        ".csv",
        ".yaml",
        ".yml",
        ".html",
        ".css",
        ".js",
    )


def _unfilled(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), 1) if MARK in line]


def _syntax(name: str, text: str) -> list[str]:
    try:
        ast.parse(text)
    except SyntaxError as error:
        return [f"{name}: line {error.lineno} is no Python: {error.msg}"]
    return []


def _missing(texts: dict[str, str], files: dict[str, Path]) -> list[str]:
    """What the workflow tells to read or run and is not there."""
    named = {path for name, text in texts.items() if name.endswith(".md") for path in _PATHS.findall(text)}
    known = {*files, *(str(Path(each).parent) for each in files)}
    return [f"{SKILL_FILE}: {path} is named and not there" for path in sorted(named - known) if "." in path]


def _unused(texts: dict[str, str], files: dict[str, Path]) -> list[str]:
    """Files that nothing leads to: nobody will ever read them."""
    workflow = texts.get(SKILL_FILE, "") + "".join(
        text for name, text in texts.items() if name.startswith("references/")
    )
    modules = "".join(text for name, text in texts.items() if name.endswith(".py"))
    found = []
    for name in files:
        stem = Path(name).stem
        imported = name.endswith(".py") and re.search(rf"\b(?:from|import) {re.escape(stem)}\b", modules)
        if name != SKILL_FILE and Path(name).name not in workflow and not imported:
            found.append(f"{name}: no workflow names it")
    return found


def _homes(texts: dict[str, str]) -> list[str]:
    return [f"{name}: has a path of one machine" for name, text in texts.items() if _FORBIDDEN_HOME.search(text)]


def _advice(document: Document) -> list[str]:
    advice = []
    description = document.text("description")
    if len(description) < SHORT:
        advice.append(
            f"description: {len(description)} characters do not tell when to use it; say what comes out, and when"
        )
    elif not _WHEN.search(description):
        advice.append("description: does not say when to use it; add the words with which people ask for it")
    if len(description) > 2.5 * SEEN:
        advice.append(f"description: only about {SEEN} characters of it are always seen; begin with what matters")
    lines = document.body.count("\n") + 1
    if lines > LONG:
        advice.append(f"workflow: {lines} lines are read each time; move details into references/")
    if not re.search(r"^#{1,3} ", document.body, re.MULTILINE):
        advice.append("workflow: has no headings; number its steps")
    if not document.values.get("license"):
        advice.append("license: is missing; MIT, or what its owner wants")
    return advice


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks a skill: what would be refused, and what could be better.")
    parser.add_argument("folder", type=Path, help="with the SKILL.md in it")
    options = parser.parse_args()
    errors, advice = problems_of(options.folder)
    for error in errors:
        print(f"error: {error}")
    for each in advice:
        print(f"advice: {each}")
    print(f"{options.folder.name}: {len(errors)} errors, {len(advice)} pieces of advice.")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
