"""What there is to document in a folder of code: inventory.py FOLDER -o inventory.md. Reads, and runs nothing."""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tree import LANGUAGES, files_of, read

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXPORTS = {
    "JavaScript": re.compile(
        r"^export\s+(?:default\s+)?(?:async\s+)?(?:function\*?|class|const|interface|type|enum)\s+(\w+)", re.M
    ),
    "Go": re.compile(r"^func\s+(?:\([^)]*\)\s*)?([A-Z]\w*)|^type\s+([A-Z]\w*)", re.M),
    "Rust": re.compile(r"^\s*pub\s+(?:async\s+)?(?:fn|struct|enum|trait)\s+(\w+)", re.M),
    "Java": re.compile(
        r"^\s*public\s+(?:static\s+|final\s+|abstract\s+)*(?:class|interface|enum|record)\s+(\w+)", re.M
    ),
}
_ENVIRONMENT = re.compile(r"(?:environ(?:\.get)?[\[(]|getenv\(|process\.env\.)[\"']?([A-Z][A-Z0-9_]+)")
LONGEST_SIGNATURE = 110


@dataclass
class Inventory:
    """public: lines of (file, what, signature, has a docstring)."""

    root: Path
    lines: Counter[str] = field(default_factory=Counter)
    public: list[tuple[str, str, str, bool]] = field(default_factory=list)
    exported: dict[str, list[str]] = field(default_factory=dict)
    entries: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    modules: list[tuple[str, str]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def taken(root: Path) -> Inventory:
    """Of every file that is source."""
    found = Inventory(root)
    for path in files_of(root):
        name = path.relative_to(root).as_posix()
        language = LANGUAGES.get(path.suffix.lower(), "")
        text = read(path)
        found.lines[language] += text.count("\n") + 1 if language else 0
        for variable in _ENVIRONMENT.findall(text) if language else ():
            found.variables.setdefault(variable, name)
        if language == "Python":
            _python(found, name, text)
        elif language.split("/")[0] in _EXPORTS:
            names = [
                next(filter(None, each if isinstance(each, tuple) else (each,)))
                for each in _EXPORTS[language.split("/")[0]].findall(text)
            ]
            found.exported.update({name: names} if names else {})
        found.entries += _entries(path, name, text)
    return found


def _python(found: Inventory, name: str, text: str) -> None:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        found.broken.append(f"{name}: line {error.lineno}: {error.msg}")
        return
    told = ast.get_docstring(tree)
    found.modules.append((name, told.splitlines()[0] if told else ""))
    if re.search(r"^if __name__ == .__main__.:", text, re.M):
        found.entries.append(f"{name}: runs as a program")
    if re.search(r"(?:^|/)(?:tests?/|test_|conftest)", name):
        return
    for node in tree.body:
        found.public += [(name, *each) for each in _definitions(node, "")]


def _definitions(node: ast.stmt, owner: str) -> Iterator[tuple[str, str, bool]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
        returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
        signature = f"{owner}{node.name}({ast.unparse(node.args)}){returns}"
        yield "function" if not owner else "method", signature, ast.get_docstring(node) is not None
    elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        yield (
            "class",
            f"{owner}{node.name}({bases})" if bases else owner + node.name,
            ast.get_docstring(node) is not None,
        )
        for child in node.body:
            yield from _definitions(child, f"{owner}{node.name}.")


def _entries(path: Path, name: str, text: str) -> list[str]:
    """Ways in: what people type."""
    if path.name == "pyproject.toml":
        block = re.search(r"^\[project\.scripts\]\n((?:[^\[\n].*\n?)*)", text, re.M)
        return [f"{name}: command {each}" for each in re.findall(r"^([\w-]+)\s*=", block[1], re.M)] if block else []
    if path.name == "package.json":
        try:
            scripts = json.loads(text).get("scripts", {})
        except (json.JSONDecodeError, AttributeError):
            return [f"{name}: is no JSON"]
        return [f"{name}: npm run {each}" for each in scripts]
    if path.name == "Makefile":
        return [f"{name}: make {each}" for each in re.findall(r"^([a-z][\w-]*):", text, re.M)]
    return [f"{name}: a container"] if path.name == "Dockerfile" else []


def report(found: Inventory) -> list[str]:
    """As Markdown."""
    documented = sum(told for *_, told in found.public)
    share = f"{documented} of {len(found.public)} public ({100 * documented // max(1, len(found.public))} %)"
    lines = [f"# Inventory of {found.root.resolve().name}", ""]
    lines += [f"- {language}: {count} lines" for language, count in found.lines.most_common() if language]
    lines += [f"- with a docstring: {share}"] if found.public else []
    lines += ["", "## Ways in", "", *(f"- {each}" for each in found.entries or ["none found"])]
    if found.variables:
        lines += ["", "## Environment", "", *(f"- `{key}` ({name})" for key, name in sorted(found.variables.items()))]
    lines += ["", "## Modules", "", *(f"- {name}: {told or 'says nothing of itself'}" for name, told in found.modules)]
    last = ""
    for name, what, signature, told in found.public:
        if name != last:
            lines += ["", f"## {name}", ""]
            last = name
        cut = signature if len(signature) <= LONGEST_SIGNATURE else signature[: LONGEST_SIGNATURE - 3] + "..."
        lines.append(f"- {what} `{cut}`" + ("" if told else ": **no docstring**"))
    for name, names in found.exported.items():
        lines += ["", f"## {name}", "", f"- exports {', '.join(f'`{each}`' for each in names)}"]
    return [*lines, *([""] if found.broken else []), *(f"BROKEN: {each}" for each in found.broken)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Lists modules, public names, ways in, environment; runs nothing.")
    parser.add_argument("folder", type=Path, help="the code")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a .md in the workspace")
    options = parser.parse_args()
    if not options.folder.is_dir():
        print(f"{options.folder} is no folder; unpack an archive first", file=sys.stderr)
        return 1
    found = taken(options.folder)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text("\n".join(report(found)) + "\n", encoding="utf-8")
    print(f"{options.output}: {len(found.modules)} modules, {len(found.public)} names, {len(found.entries)} ways in")
    return 0


if __name__ == "__main__":
    sys.exit(main())
