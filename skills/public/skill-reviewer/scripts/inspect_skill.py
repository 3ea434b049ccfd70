"""What is in somebody's skill, without running any of it: inspect_skill.py NAME.skill -o FOLDER, or a folder."""

from __future__ import annotations

import argparse
import ast
import re
import sys
import unicodedata
import zipfile
from pathlib import Path, PurePosixPath

MOST_BYTES, MOST_FILES = 20_000_000, 300
CHUNK = 1 << 16
HARMLESS = frozenset(
    [
        "__future__",
        "argparse",
        "ast",
        "base64",
        "bisect",
        "calendar",
        "collections",
        "colorsys",
        "contextlib",
        "copy",
        "csv",
        "dataclasses",
        "datetime",
        "decimal",
        "difflib",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "html",
        "io",
        "itertools",
        "json",
        "locale",
        "logging",
        "math",
        "operator",
        "pathlib",
        "random",
        "re",
        "shutil",
        "statistics",
        "string",
        "struct",
        "sys",
        "tempfile",
        "textwrap",
        "time",
        "traceback",
        "types",
        "typing",
        "unicodedata",
        "uuid",
        "warnings",
        "xml",
        "zipfile",
        "zlib",
        "zoneinfo",
        "PIL",
        "bs4",
        "dateutil",
        "docx",
        "fontTools",
        "lxml",
        "mammoth",
        "markdownify",
        "markitdown",
        "matplotlib",
        "numpy",
        "openpyxl",
        "pandas",
        "pdfplumber",
        "pptx",
        "pypdf",
        "pypdfium2",
        "tabulate",
        "xlrd",
        "xlsxwriter",
    ]
)
"""Modules for texts, figures and documents. What else a script imports may reach further, and is named."""
CALLS = {"eval", "exec", "compile", "__import__", "system", "popen", "environ", "getenv"}
TEXTS = (".md", ".txt", ".py", ".sh", ".json", ".yaml", ".yml", ".html", ".js", ".css", ".csv", ".toml")
_ADDRESS = re.compile(r"https?://([\w.-]+)")
_LONG = re.compile(r"[A-Za-z0-9+/=_-]{120,}")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


class Refused(Exception):
    """The text says why it is not opened."""


def unpacked(archive: Path, folder: Path) -> Path:
    """The skill's folder, within `folder`; links and lies about sizes are refused. Raises Refused."""
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            tops = {PurePosixPath(entry.filename).parts[0] for entry in entries if entry.filename.strip("/")}
            if len(entries) > MOST_FILES or len(tops) != 1:
                raise Refused(f"it holds {len(entries)} entries in {len(tops)} folders; a skill is one folder")
            left = MOST_BYTES
            for entry in entries:
                left -= _written(opened, entry, folder, left)
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
        raise Refused(f"it cannot be unpacked: {error}") from None
    return folder / tops.pop()


def _written(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path, left: int) -> int:
    parts = PurePosixPath(entry.filename).parts
    kind = entry.external_attr >> 28
    if entry.filename.startswith("/") or ".." in parts or "\\" in entry.filename or kind not in (0, 4, 8):
        raise Refused(f"{entry.filename!r} leads out of its folder, or is a link")
    target = folder.joinpath(*parts)
    if entry.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    with opened.open(entry) as source, target.open("wb") as file:
        while data := source.read(CHUNK):
            size += len(data)
            if size > left:
                raise Refused(f"it holds more than {MOST_BYTES // 1_000_000} MB")
            file.write(data)
    return size


def inspected(skill: Path) -> list[str]:
    """Lines for the reviewer: files, what scripts reach, what stands hidden."""
    files = sorted(path for path in skill.rglob("*") if path.is_file() or path.is_symlink())
    lines = [f"{skill.name}: {len(files)} files"]
    domains: set[str] = set()
    looks: list[str] = []
    for path in files:
        name = path.relative_to(skill).as_posix()
        if path.is_symlink():
            looks.append(f"{name}: is a link to {path.readlink()}")
            continue
        data = path.read_bytes()
        text = data.decode("utf-8", "replace") if path.suffix.lower() in TEXTS else ""
        counted = f", {len(text.splitlines())} lines" if text else ""
        lines.append(f"- {name}: {len(data)} bytes{counted}")
        domains.update(_ADDRESS.findall(text))
        looks += [f"{name}: {look}" for look in _looks(path, data, text)]
    lines.append("addresses in it: " + (", ".join(sorted(domains)) or "none"))
    return [*lines, "to be looked at:", *(f"- {look}" for look in looks or ["nothing that stands out"])]


def _looks(path: Path, data: bytes, text: str) -> list[str]:
    if not text:
        return [] if not data or path.suffix.lower() in (".png", ".jpg", ".jpeg", ".gif", ".webp") else ["is no text"]
    found = []
    hidden = sorted(
        {f"U+{ord(char):04X}" for char in text if unicodedata.category(char) in ("Cf", "Co") and char != "\ufeff"}
    )
    if hidden:
        found.append(f"has signs that nobody sees: {', '.join(hidden[:6])}")
    if _LONG.search(text):
        found.append("has a very long piece without blanks: encoded content?")
    if path.suffix == ".md":
        found += [f"has a comment that is not shown: {each[:80]!r}" for each in _COMMENT.findall(text)]
    if path.suffix == ".py":
        found += _python(text, {each.stem for each in path.parent.glob("*.py")})
    elif path.suffix in (".sh", ".js"):
        found.append("is a script that has to be read line by line")
    return found


def _python(text: str, own: set[str]) -> list[str]:
    """own: the modules that lie beside it."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return [f"line {error.lineno}: is no Python: {error.msg}"]
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            for name in names:
                if name.split(".")[0] not in HARMLESS | own:
                    found.setdefault(f"imports {name}: what for?", node.lineno)
        elif isinstance(node, ast.Name) and node.id in CALLS:
            found.setdefault(f"uses {node.id}", node.lineno)
        elif isinstance(node, ast.Attribute) and node.attr in CALLS - {"compile"}:
            found.setdefault(f"uses {node.attr}", node.lineno)
    return [f"line {line}: {what}" for what, line in found.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description="Lists what is in a skill and what needs a look; runs none of it.")
    parser.add_argument("skill", type=Path, help="a .skill file, or a folder with a SKILL.md")
    parser.add_argument("-o", "--output", type=Path, help="a folder in the workspace, to unpack a .skill into")
    options = parser.parse_args()
    try:
        if options.skill.is_dir():
            skill = options.skill
        elif options.output is None:
            raise Refused("say with -o where it shall be unpacked")
        elif not options.skill.is_file():
            raise Refused(f"{options.skill} does not exist")
        else:
            skill = unpacked(options.skill, options.output)
    except Refused as error:
        print(f"Not opened: {error}", file=sys.stderr)
        return 1
    print("\n".join(inspected(skill)))
    print(f"folder: {skill}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
