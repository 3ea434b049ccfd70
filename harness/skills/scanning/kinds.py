"""Kinds of files, detected by their first bytes and not by their names. Pure."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from dataclasses import dataclass
from enum import Enum

from sandbox.shell.reader import names

SCRIPTS = names(
    "py pyw sh bash zsh ksh fish ps1 psm1 bat cmd vbs js mjs cjs ts tsx jsx rb pl pm php lua r jl go rs c cc cpp h "
    "java kt swift scala groovy awk sed tcl applescript scpt sql ipynb mk dockerfile"
)
"""Extensions of files that can be run, or are compiled and then run."""
PROSE = names("md markdown mdx rst txt adoc")
DATA = names("json jsonl yaml yml toml csv tsv xml xsd html css svg ini cfg")
SHELL = names("sh bash zsh ksh fish mk")
SHELL_NAMES = frozenset({"makefile", "dockerfile", "justfile"})
"""Names of files with shell commands that have no extension."""
SCRIPT_NAMES = SHELL_NAMES | {"rakefile", "package.json", "setup.py", "setup.cfg"}
NOTEBOOK = "ipynb"

_PROGRAMS: dict[str, tuple[bytes, ...]] = {
    "ELF": (b"\x7fELF",),
    "PE": (b"MZ",),
    "Mach-O": (b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe", b"\xbe\xba\xfe\xca"),
    "Mach-O or Java class": (b"\xca\xfe\xba\xbe",),
    "WebAssembly": (b"\0asm",),
    "Lua bytecode": (b"\x1bLua",),
    "Dalvik": (b"dex\n",),
    "LLVM bitcode": (b"BC\xc0\xde",),
    "Windows shortcut": (b"L\0\0\0\x01\x14\x02\0",),
    "object archive": (b"!<arch>\n",),
    "cabinet": (b"MSCF",),
    "pickle": (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
}
_ARCHIVES: tuple[tuple[int, bytes], ...] = (
    (0, b"PK\x03\x04"),
    (0, b"PK\x05\x06"),
    (0, b"PK\x07\x08"),
    (0, b"\x1f\x8b"),
    (0, b"\x1f\x9d"),
    (0, b"BZh"),
    (0, b"\xfd7zXZ\0"),
    (0, b"7z\xbc\xaf\x27\x1c"),
    (0, b"Rar!\x1a\x07"),
    (0, b"\x28\xb5\x2f\xfd"),
    (0, b"\x04\x22\x4d\x18"),
    (0, b"xar!"),
    (257, b"ustar"),
    (32769, b"CD001"),
)
_ASSETS: tuple[tuple[re.Pattern[bytes], frozenset[str]], ...] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), frozenset({"png"})),
    (re.compile(rb"\xff\xd8\xff"), frozenset({"jpg", "jpeg"})),
    (re.compile(rb"GIF8[79]a"), frozenset({"gif"})),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), frozenset({"webp"})),
    (re.compile(rb"RIFF....WAVE", re.DOTALL), frozenset({"wav"})),
    (re.compile(rb"\0\0\x01\0"), frozenset({"ico"})),
    (re.compile(rb"BM....\0\0\0\0", re.DOTALL), frozenset({"bmp"})),
    (re.compile(rb"%PDF-"), frozenset({"pdf"})),
    (re.compile(rb"wOF[F2]"), frozenset({"woff", "woff2"})),
    (re.compile(rb"\0\x01\0\0|true|ttcf|OTTO"), frozenset({"ttf", "ttc", "otf"})),
    (re.compile(rb"ID3|\xff[\xfb\xf3\xf2]"), frozenset({"mp3"})),
    (re.compile(rb"OggS"), frozenset({"ogg", "oga", "opus"})),
    (re.compile(rb"....ftyp", re.DOTALL), frozenset({"mp4", "m4a", "mov", "heic", "avif"})),
    (re.compile(rb"SQLite format 3\0"), frozenset({"sqlite", "sqlite3", "db"})),
    (re.compile(rb"PAR1"), frozenset({"parquet"})),
    (re.compile(rb"\x93NUMPY"), frozenset({"npy"})),
)
BINARY = frozenset().union(*(extensions for _, extensions in _ASSETS))
"""Extensions of files that are not text."""
_OFFICE = names("docx xlsx pptx dotx potx xltx odt ods odp ott otp epub")
_PYC = re.compile(rb"[\s\S]{2}\r\n")
_MACRO_PARTS = ("vbaproject", "activex", "basic/", "scripts/", ".exe", ".dll", ".js", ".vbs")
MACROS = "macros"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


class Form(Enum):
    TEXT = "text"
    PROGRAM = "program"
    ARCHIVE = "archive"
    ASSET = "asset"
    """A picture, font or document whose bytes match its name."""
    ACTIVE = "active"
    """A document that can execute something."""
    MISNAMED = "misnamed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Kind:
    """Form of a file. detail: its specific kind, "" if the form says it."""

    form: Form
    detail: str = ""


def extension(path: str) -> str:
    """A path's extension in lower case, without the dot."""
    return posixpath.splitext(path)[1][1:].lower()


def is_script(path: str, data: bytes) -> bool:
    """Whether a file is meant to be run."""
    name = posixpath.basename(path).lower()
    return extension(path) in SCRIPTS or name in SCRIPT_NAMES or data.lstrip(b"\xef\xbb\xbf").startswith(b"#!")


def program(data: bytes) -> str:
    """The kind of program that these bytes are, "" for none."""
    known = next((name for name, magics in _PROGRAMS.items() if data.startswith(magics)), "")
    if known == "PE" and (len(data) < 64 or not _has_pe_header(data)):
        return ""
    if known == "pickle" and not data.endswith(b"."):
        return ""
    # CPython's format: a number and a line end, then sixteen bytes of flags and time, then a code object.
    is_python = _PYC.match(data) and b"\0" in data[4:8] and data[16:17] in (b"\xe3", b"c")
    return known or ("Python bytecode" if is_python else "")


def _has_pe_header(data: bytes) -> bool:
    """Whether bytes beginning `MZ` are a program: old ones have no PE header, and text may begin like that too."""
    offset = int.from_bytes(data[60:64], "little")
    return data[offset : offset + 2] in (b"PE", b"NE", b"LE") or b"\0" in data[:64]


def kind_of(path: str, data: bytes) -> Kind:
    """The kind of a file, by content; its extension must only agree."""
    found = program(data)
    if found:
        return Kind(Form.PROGRAM, found)
    ending = extension(path)
    if any(data[offset : offset + len(magic)] == magic for offset, magic in _ARCHIVES):
        return _office(data) if ending in _OFFICE else Kind(Form.ARCHIVE)
    if data.startswith(_OLE):
        return Kind(Form.ACTIVE, "an old Office format")
    for magic, endings in _ASSETS:
        if magic.match(data) and not (_is_text(data) and ending not in BINARY):
            return Kind(Form.ASSET) if ending in endings else Kind(Form.MISNAMED)
    if ending in BINARY | _OFFICE and data:
        return Kind(Form.MISNAMED)
    return Kind(Form.TEXT) if _is_text(data) else Kind(Form.UNKNOWN)


def _is_text(data: bytes) -> bool:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    return b"\0" not in data and sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in data[:4096]) <= 4


def _office(data: bytes) -> Kind:
    """The kind of a zip named as a document: it may have parts, but none that can run."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as document:
            names = [name.lower() for name in document.namelist()]
    except (zipfile.BadZipFile, ValueError, NotImplementedError, UnicodeDecodeError):
        return Kind(Form.ARCHIVE)
    if not {"[content_types].xml", "mimetype"} & set(names):
        return Kind(Form.ARCHIVE)
    if any(part in name for name in names for part in _MACRO_PARTS):
        return Kind(Form.ACTIVE, MACROS)
    if any("embeddings/" in name for name in names):
        return Kind(Form.ACTIVE, "embedded objects")
    return Kind(Form.ASSET)
