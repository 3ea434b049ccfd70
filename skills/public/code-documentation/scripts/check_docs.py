"""Holds documentation against the code: check_docs.py DOCS --code FOLDER. Exit code 1 when it says what is not so."""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tree import LANGUAGES, files_of, read

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(<?([^)\s>]+)>?\)")
_FENCE = re.compile(r"^(\s*)(```+|~~~+)[ ]*([\w+-]*)[^\n]*\n(.*?)^\1\2\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_NAME = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\((?:[^()]*)\)$")
_PATH = re.compile(r"(?:\./)?[\w.-]+(?:/[\w.-]+)+/?|[\w-]+\.(?:py|md|toml|ya?ml|json|ts|js|go|rs|sh|cfg|ini)")
_OPTION = re.compile(r"(?<![\w-])(--[a-z][\w-]+)")
_MAKE = re.compile(r"(?:^|[;&|$])[ ]*make[ ]+([a-z][\w-]*)", re.MULTILINE)
_WORDS = re.compile(r"\w+")
BUILT_IN = {"print", "len", "str", "int", "list", "dict", "set", "open", "range", "type", "isinstance", "super", "main"}
SHELLS = ("bash", "sh", "shell", "console")


class Code:
    """What the code has: words, paths, targets of make."""

    def __init__(self, root: Path) -> None:
        self.root = root
        files = files_of(root)
        self.paths = {path.relative_to(root).as_posix() for path in files}
        self.folders = {parent.as_posix() for path in self.paths for parent in Path(path).parents}
        source = [
            path for path in files if path.suffix.lower() in LANGUAGES or path.suffix in (".toml", ".json", ".yaml")
        ]
        self.text = "\n".join(read(path) for path in source)
        self.words = set(_WORDS.findall(self.text))
        makefile = root / "Makefile"
        self.targets = set(re.findall(r"^([a-z][\w-]*):", read(makefile), re.M)) if makefile.is_file() else None

    def has_path(self, path: str) -> bool:
        path = path.removeprefix("./").rstrip("/")
        return path in self.paths or path in self.folders or any(each.endswith("/" + path) for each in self.paths)


def findings(document: Path, code: Code) -> Iterator[str]:
    """What is not so in one document."""
    text = read(document)
    prose = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
    for number, line in enumerate(prose.splitlines(), 1):
        for target in (one or other for one, other in _LINK.findall(line)):
            problem = _link(target, document)
            if problem:
                yield f"line {number}: {problem}"
        for piece in _CODE.findall(line):
            yield from (f"line {number}: {problem}" for problem in _piece(piece.strip(), document, code))
    for fence in _FENCE.finditer(text):
        number = text[: fence.start()].count("\n") + 1
        yield from (f"line {number}: {problem}" for problem in _block(fence[3].lower(), fence[4], code))


def _link(target: str, document: Path) -> str:
    if re.match(r"[a-z][\w+.-]*:", target):
        return ""
    name, _, anchor = unquote(target).partition("#")
    path = (document.parent / name) if name else document
    if not path.exists():
        return f"the link {target} leads nowhere"
    if anchor and path.suffix == ".md" and anchor.lower() not in _anchors(read(path)):
        return f"the link {target}: there is no heading #{anchor}"
    return ""


def _anchors(text: str) -> set[str]:
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6}\s+(.*?)\s*#*$", _FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 1
        while anchor in found and f"{anchor}-{number}" in found:
            number += 1
        found.add(f"{anchor}-{number}" if anchor in found else anchor)
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def _piece(piece: str, document: Path, code: Code) -> Iterator[str]:
    called = _NAME.fullmatch(piece)
    if called is not None:
        last = called[1].split(".")[-1]
        if last not in code.words and last not in BUILT_IN:
            yield f"`{piece}`: nothing in the code is called {last}"
    elif _PATH.fullmatch(piece) and not piece.startswith(("/", "http")) and not re.search(r"[A-Z]{3,}|\.\.\.", piece):
        if not code.has_path(piece) and not (document.parent / piece).exists() and piece not in code.text:
            yield f"`{piece}`: there is no such file"
    else:
        yield from _options(piece, code)


def _options(text: str, code: Code) -> Iterator[str]:
    for option in _OPTION.findall(text):
        stem = option[2:].replace("-", "_")
        if option not in code.text and stem not in code.words and f'"{option[2:]}"' not in code.text:
            yield f"{option}: the code does not have this option"
    for target in _MAKE.findall(text):
        if code.targets is not None and target not in code.targets:
            yield f"make {target}: the Makefile does not have it"


def _block(language: str, text: str, code: Code) -> Iterator[str]:
    if language in ("python", "py") and ">>>" not in text and "..." not in text:
        try:
            ast.parse(text)
        except SyntaxError as error:
            yield f"the example is no Python: {error.msg} (its line {error.lineno})"
    elif language == "json" and "..." not in text:
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            yield f"the example is no JSON: {error.msg} (its line {error.lineno})"
    elif language in SHELLS:
        own = [
            line
            for line in text.splitlines()
            if not re.match(r"\s*(?:#|\$?\s*(?:pip|apt|brew|docker|git|curl|npm)\b)", line)
        ]
        yield from _options("\n".join(own), code)


def main() -> int:
    parser = argparse.ArgumentParser(description="Finds links, names, paths, options and examples that are not so.")
    parser.add_argument("docs", type=Path, nargs="+", help="Markdown files, or folders of them")
    parser.add_argument("--code", type=Path, required=True, help="the folder of the code")
    options = parser.parse_args()
    for path in (*options.docs, options.code):
        if not path.exists():
            print(f"{path} does not exist", file=sys.stderr)
            return 2
    code = Code(options.code)
    documents = [
        each for path in options.docs for each in ([path] if path.is_file() else files_of(path)) if each.suffix == ".md"
    ]
    count = 0
    for document in documents:
        for problem in findings(document, code):
            print(f"{document}: {problem}")
            count += 1
    print(f"{len(documents)} documents, {count} findings.")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
