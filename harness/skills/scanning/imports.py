"""Modules that a skill's Python imports, in scripts, shell and notebooks, and which of them are harmless. Pure."""

from __future__ import annotations

import posixpath
import re
import sys
from itertools import groupby
from typing import TYPE_CHECKING

from harness.skills.scanning.kinds import NOTEBOOK, extension
from harness.skills.scanning.texts import Place
from sandbox.shell.reader import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.skills.scanning.texts import Text

DOUBTFUL = names(
    "_asyncio _ctypes _imp _multiprocessing _posixshmem _posixsubprocess _socket _ssl _testcapi _thread _winapi "
    "_xxsubinterpreters antigravity asynchat asyncio asyncore builtins cgi code codeop ctypes ensurepip ftplib http "
    "idlelib imaplib imp lib2to3 mailbox marshal mmap multiprocessing nntplib pdb pickle pip poplib posix pty runpy "
    "select selectors site smtpd smtplib socket socketserver ssl sysconfig telnetlib test turtledemo venv webbrowser "
    "wsgiref xmlrpc zipapp zipimport"
)
"""Standard modules that access the network, run unseen code, or work below the interpreter."""
RUNTIME = names(
    "beautifulsoup4 certifi charset-normalizer click cobble contourpy cryptography cycler defusedxml et_xmlfile "
    "flatbuffers fonttools idna kiwisolver lxml magika mammoth markdown-it-py markdownify markitdown matplotlib mdurl "
    "numpy olefile onnxruntime openpyxl packaging pandas pdfminer.six pdfplumber pillow protobuf pycparser pyparsing "
    "pypdf pypdfium2 python-dateutil python-docx python-dotenv python-pptx six soupsieve tabulate typing_extensions "
    "tzdata xlrd xlsxwriter"
)
"""Packages of the sandbox's runtime (constraints-sandbox.txt) that are harmless."""
_IMPORTED_AS = {
    "beautifulsoup4": "bs4",
    "fonttools": "fontTools",
    "markdown-it-py": "markdown_it",
    "matplotlib": "matplotlib mpl_toolkits pylab",
    "pdfminer.six": "pdfminer",
    "pillow": "PIL",
    "protobuf": "google",
    "pypdfium2": "pypdfium2 pypdfium2_raw",
    "python-dateutil": "dateutil",
    "python-docx": "docx",
    "python-dotenv": "dotenv",
    "python-pptx": "pptx",
}
"""Packages whose modules have different names."""
UNTRUSTED = frozenset({"cffi", "pip", "requests", "urllib3"})
"""Packages of the runtime that are as doubtful as the modules above."""
_RUNTIME = names(" ".join(_IMPORTED_AS.get(package, package.replace("-", "_")) for package in RUNTIME))
_STANDARD = frozenset(sys.stdlib_module_names) | {"__future__", "__main__"}
_KNOWN = (_STANDARD - DOUBTFUL) | _RUNTIME
_WITHIN = {"urllib": frozenset({"parse"})}
"""Packages of which only these parts are harmless."""

_FROM = re.compile(r"(?:^|[;:])[ \t]*+from[ \t]++([\w.]++)[ \t]++import\b[ \t]*+\(?[ \t]*+(\w*+)", re.MULTILINE)
_IMPORT = re.compile(r"(?:^|[;:])[ \t]*+import[ \t]++(\w[\w., \t]*+)(?=[;#\n\"'`]|$)", re.MULTILINE)
_CALLED = re.compile(r"\b(?:__import__|import_module)[ \t]*+\([ \t\n]*+[rbfu]?+[\"']([\w.]++)[\"']")
_RUNS_PYTHON = re.compile(r"python|pypy|\.pyw?\b", re.IGNORECASE)
_GIVES_PROGRAM = re.compile(r"python|pypy|<<<|\s-\w*c\b", re.IGNORECASE)
_QUOTES = str.maketrans("\"'`", ";;;")


def unknown_imports(text: Text, own: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Line number, from 0, and name of each module that is not known to be harmless. own: the skill's modules next to
    the script."""
    starts = text.starts
    for offset, module in _modules(*_python_of(text)):
        first, _, rest = module.partition(".")
        parts = _WITHIN.get(first)
        fine = first in _KNOWN or (first in own and first not in _STANDARD)
        if not fine or (parts is not None and rest.partition(".")[0] not in parts):
            yield text.line_at(starts, offset), module


def _is_python(text: Text) -> bool:
    first = text.lines[0]
    return extension(text.path) in ("py", "pyw", NOTEBOOK) or (first.startswith("#!") and "python" in first)


def _python_of(text: Text) -> tuple[str, str]:
    """The Python of a text, each part at its offset in `text.joined`, and the same as statements for _FROM and _IMPORT.

    For shell it is every block that names Python: a here-document, a quoted program or a variable may contain some.
    """
    is_python, has_shell, lines = _is_python(text), False, list[str]()
    for is_shell, found in groupby(zip(text.lines, text.places, strict=True), lambda each: bool(each[1] & Place.SHELL)):
        block = [line for line, _ in found]
        taken = any(map(_RUNS_PYTHON.search, block)) if is_shell else is_python
        has_shell = has_shell or (is_shell and taken)
        said = [taken and not (is_shell and line.lstrip().startswith("#")) for line in block]
        lines += [line if kept else " " * len(line) for line, kept in zip(block, said, strict=True)]
    source = "\n".join(lines).replace("\\\n", "  ")
    return source, "\n".join(map(_statements, source.split("\n"))) if has_shell else source


def _statements(line: str) -> str:
    """A line of shell in which the quotes around a program end statements."""
    return line.translate(_QUOTES) if _GIVES_PROGRAM.search(line) else line


def _modules(source: str, statements: str) -> Iterator[tuple[int, str]]:
    for found in _FROM.finditer(statements):
        module = found[1]
        if not module.startswith("."):
            yield found.start(1), f"{module}.{found[2]}" if module in _WITHIN else module
    for found in _IMPORT.finditer(statements):
        for each in found[1].split(","):
            if words := each.split():
                yield found.start(1), words[0]
    yield from ((found.start(1), found[1]) for found in _CALLED.finditer(source))


def modules_near(path: str, paths: Iterable[str]) -> frozenset[str]:
    """Names by which a script can import the skill's other files."""
    folder = posixpath.dirname(path)
    inner = (other[len(folder) :].lstrip("/") for other in paths if not folder or other.startswith(f"{folder}/"))
    return frozenset(name.partition("/")[0].removesuffix(".py") for name in inner if name.endswith(".py"))
