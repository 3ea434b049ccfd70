"""Which modules a skill's Python asks for, and which of them are known to be harmless; used by scan.py. Pure."""

from __future__ import annotations

import posixpath
import re
import sys
from typing import TYPE_CHECKING

from harness.skills.scanning.kinds import extension
from sandbox.shell_parts import names

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
"""Of the standard library: what reaches the network, runs code that is not seen, or works below the interpreter."""
RUNTIME = {
    "beautifulsoup4": "bs4",
    "certifi": "certifi",
    "charset-normalizer": "charset_normalizer",
    "click": "click",
    "cobble": "cobble",
    "contourpy": "contourpy",
    "cryptography": "cryptography",
    "cycler": "cycler",
    "defusedxml": "defusedxml",
    "et_xmlfile": "et_xmlfile",
    "flatbuffers": "flatbuffers",
    "fonttools": "fontTools",
    "idna": "idna",
    "kiwisolver": "kiwisolver",
    "lxml": "lxml",
    "magika": "magika",
    "mammoth": "mammoth",
    "markdownify": "markdownify",
    "markitdown": "markitdown",
    "matplotlib": "matplotlib mpl_toolkits pylab",
    "numpy": "numpy",
    "olefile": "olefile",
    "onnxruntime": "onnxruntime",
    "openpyxl": "openpyxl",
    "packaging": "packaging",
    "pandas": "pandas",
    "pdfminer.six": "pdfminer",
    "pdfplumber": "pdfplumber",
    "pillow": "PIL",
    "protobuf": "google",
    "pycparser": "pycparser",
    "pyparsing": "pyparsing",
    "pypdf": "pypdf",
    "pypdfium2": "pypdfium2 pypdfium2_raw",
    "python-dateutil": "dateutil",
    "python-docx": "docx",
    "python-dotenv": "dotenv",
    "python-pptx": "pptx",
    "six": "six",
    "soupsieve": "soupsieve",
    "tabulate": "tabulate",
    "typing_extensions": "typing_extensions",
    "tzdata": "tzdata",
    "xlrd": "xlrd",
    "xlsxwriter": "xlsxwriter",
}
"""The packages of the sandbox's runtime (constraints-sandbox.txt), and what they are imported as."""
UNTRUSTED = frozenset({"cffi", "pip", "requests", "urllib3"})
"""Of that runtime too, and as doubtful as the above."""
_RUNTIME = names(" ".join(RUNTIME.values()))
_STANDARD = frozenset(sys.stdlib_module_names) | {"__future__", "__main__"}
_KNOWN = (_STANDARD - DOUBTFUL) | _RUNTIME
_WITHIN = {"urllib": frozenset({"parse"})}
"""Packages of which only these parts are harmless."""

_FROM = re.compile(r"(?:^|[;:])[ \t]*+from[ \t]++([\w.]++)[ \t]++import\b[ \t]*+\(?[ \t]*+(\w*+)", re.MULTILINE)
_IMPORT = re.compile(r"(?:^|[;:])[ \t]*+import[ \t]++(\w[\w., \t]*+)(?=[;#\n]|$)", re.MULTILINE)
_CALLED = re.compile(r"\b(?:__import__|import_module)[ \t]*+\([ \t\n]*+[rbfu]?+[\"']([\w.]++)[\"']")


def is_python(path: str, text: Text) -> bool:
    first = text.lines[0]
    return extension(path) in ("py", "pyw") or (first.startswith("#!") and "python" in first)


def unknown_imports(text: Text, own: frozenset[str]) -> Iterator[tuple[int, str]]:
    """The number of the line, from 0, and the name of each module that is not known to be harmless. own: modules of the
    skill that stand beside it."""
    joined, starts = text.joined, text.starts
    for offset, module in _modules(joined):
        first, _, rest = module.partition(".")
        parts = _WITHIN.get(first)
        fine = first in _KNOWN or (first in own and first not in _STANDARD)
        if not fine or (parts is not None and rest.partition(".")[0] not in parts):
            yield text.line_at(starts, offset), module


def _modules(source: str) -> Iterator[tuple[int, str]]:
    for found in _FROM.finditer(source):
        module = found[1]
        if not module.startswith("."):
            yield found.start(1), f"{module}.{found[2]}" if module in _WITHIN else module
    for found in _IMPORT.finditer(source):
        for each in found[1].split(","):
            if words := each.split():
                yield found.start(1), words[0]
    yield from ((found.start(1), found[1]) for found in _CALLED.finditer(source))


def modules_beside(path: str, paths: Iterable[str]) -> frozenset[str]:
    """The names by which a script can import the skill's other files."""
    folder = posixpath.dirname(path)
    inner = (other[len(folder) :].lstrip("/") for other in paths if not folder or other.startswith(f"{folder}/"))
    return frozenset(name.partition("/")[0].removesuffix(".py") for name in inner if name.endswith(".py"))
