"""Makes text fit to store, send and display: no NUL, hidden characters, terminal codes or visible secrets. Light to
import."""

from __future__ import annotations

import codecs
import io
import math
import re
import unicodedata
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_HIDDEN = frozenset({"Cf", "Co", "Cs"})
_UNSEEN = _HIDDEN | {"Cc"}
_NEVER_DRAWN = re.compile("[\u2065\ufdd0-\ufdef\ufff0-\ufff8\ufffe\uffff\U000e0000-\U000e0fff]")
"""Characters without a meaning in Python's Unicode that are never drawn; others may be visible: newer emoji."""
_JOINS = frozenset("\u200c\u200d")
"""Used between letters of some scripts and in emoji made of several characters."""

_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u051d"
    "\u04bb\u04cf\u0433\u0475\u044c\u04af\u043a\u0442\u043c\u043d\u043f\u0432"
    "\u03b1\u03b5\u03b9\u03bd\u03bf\u03c1\u03c5\u03ba\u03c4\u03c7\u03b3\u03c3\u03c9\u03b7\u03b2\u03b6"
    "\u0585\u0578\u057d\u0570\u0575\u0581\u0566"
    "\u0251\u0261\u0131"
    "01",
    "aeopcyxijsdqwhlrvbyktmhnbaeivopuktxyownbzonuhjgqagiol",
)
"""Lower-case Cyrillic, Greek, Armenian and other Latin letters, and digits, mapped to the letters a-z that they look
like: a part of Unicode's confusables (UTS 39), which Python does not have."""

SUMMARY_CHARACTERS = 80
LONGEST_LOOKED_AT = 2000
MASK = "***"

_TERMINAL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[@-Z\\-_ -/].?)"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")

_TELLING = r"(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|credential|pwd)"
_KEY = rf"(?=[\w-]*?{_TELLING})[\w-]++"
"""A whole word, scanned once: a model's text must not take long."""
_SECRETS = (
    re.compile(rf"(?i)(?P<keep>(?<![\w-]){_KEY}[\"']?\s*+[=:]\s*[\"']?)[^\s\"'&,;]+"),
    re.compile(rf"(?i)(?P<keep>(?<![\w-])--?{_KEY}\s+[\"']?)[^\s\"'-][^\s\"']*"),
    re.compile(r"(?i)(?P<keep>\b(?:bearer|basic|token)\s+)[\w.~+/=-]{8,}"),
    re.compile(r"(?P<keep>://[^\s/:@]*:)[^\s/@]+(?=@)"),
    re.compile(r"(?P<keep>(?:^|\s)-u\s*[\"']?[^\s:\"']+:)[^\s\"']+"),
    re.compile(
        r"(?P<keep>\b(?:sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|hf|AIza|AKIA|ASIA|ya29|eyJ))[\w.-]{12,}"
    ),
    re.compile(r"(?P<keep>-----BEGIN [A-Z ]*PRIVATE KEY-----).*", re.DOTALL),
)
SALIENT = {
    "bash": "command",
    "ls": "path",
    "glob": "pattern",
    "grep": "pattern",
    "read_file": "path",
    "write_file": "path",
    "str_replace": "path",
    "present_files": "paths",
    "view_image": "path",
    "web_fetch": "url",
    "web_search": "query",
    "knowledge_search": "query",
    "task": "description",
}
"""Tool -> its salient argument, which tells what a call is about."""
DESCRIPTION = "description"
"""The argument with the model's description of a command for people. It does not affect the call."""
OWN, WORK = "/mnt/user-data/", "workspace/"
"""Prefixes of a path that people need not see."""
ASCII_PER_TOKEN = 3.5
"""Characters; a safe estimate for tokenizers on English text."""
TOKENS = ((0x80, 0.0), (0x800, 1.0), (0x2E80, 2.0), (0xD7B0, 1.2), (0xF900, 3.0), (0x10000, 1.5), (0x110000, 3.0))
"""Tokens per other character, by the exclusive end of its code point range: alphabets, South and Southeast Asian
scripts, Chinese, Japanese and Korean, rare ones and emoji. Also a safe estimate."""
_OTHERS = re.compile(r"[^\0-\x7f]")

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_LATIN = ("cp1252", "cp1250", "cp1254")
_ENCODINGS = (
    *("cp1252", "gb18030", "cp932", "big5hkscs", "cp949", "euc_jp", "cp1251", "koi8_r"),
    *("cp1250", "cp1253", "cp1254", "cp1255", "cp1256", "cp874"),
)
"""Encodings that are guessed; what fits several is taken for the first of them."""
_ODD = re.compile("[\uff61-\uff9f]|[а-я][А-Я]")
"""What another alphabet seems to be: Katakana of one byte each in cp932, capitals inside of words in cp1251."""
_DAMAGE = 0.4
"""How unlike any text a reading may be: lists, which repeat words, are somewhat."""
_DOUBT = 0.15
"""How much more a text must be like a language in cp1250 than in cp1252, which is commoner."""
_SAMPLE = 16_384
"""Bytes of a text that a guess is based on."""
_TOLERATED = 0.1
"""Share of damaged characters among those beyond ASCII, up to which a text is taken for UTF-8."""


def clean_text(text: str) -> str:
    """Text that every store and wire format accepts: no NUL, no lone surrogates."""
    if text.isascii():
        return text.replace("\0", "") if "\0" in text else text
    return text.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def encoding_of(data: bytes, *, cut: bool = False) -> str:
    """Python's name for the encoding of a text, "" for what is not text: by its byte order mark, as UTF-8 if it is
    valid, else guessed from the lines that are not ASCII. cut: the last character may not be whole."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    if b"\0" in data[:_SAMPLE]:
        return "" if len(data) % 2 else _without_mark(data[:_SAMPLE])
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final=not cut)
    except UnicodeDecodeError:
        return _guessed(_sample(data))
    return "utf-8"


def _sample(data: bytes) -> bytes:
    """The first lines that are not ASCII."""
    found = b""
    for line in io.BytesIO(data):
        if not line.isascii():
            found += line[: _SAMPLE - len(found)]
        if len(found) == _SAMPLE:
            break
    return found


def _without_mark(sample: bytes) -> str:
    """Which UTF-16 the beginning of a file is that has zeros; "" if neither makes it text."""
    zeros = {"utf-16-be": sample[::2].count(0), "utf-16-le": sample[1::2].count(0)}
    for name in sorted(zeros, key=zeros.__getitem__, reverse=True):
        text = sample.decode(name, "replace").rstrip("\ufffd")
        odd = sum(char not in "\t\n\f\r" and unicodedata.category(char) in {"Cc", "Cn", "Co"} for char in text)
        if "\ufffd" not in text and odd <= len(text) / 100:
            return name
    return ""


def _guessed(sample: bytes) -> str:
    text = sample.decode("utf-8", "replace")
    damaged, others = text.count("\ufffd"), len(_OTHERS.findall(text))
    if damaged <= _TOLERATED * others:
        return "utf-8"
    from charset_normalizer import from_bytes  # 2 MB, rarely needed

    # In alphabets of Latin letters the other ones stand alone, mostly.
    likely = _ENCODINGS if re.search(rb"[\x80-\xff]{2}", sample) else _LATIN
    cuts = range(4 if len(sample) == _SAMPLE else 1)  # the last character may have been cut
    found = []
    readings = (from_bytes(sample[: len(sample) - cut], cp_isolation=[*likely], threshold=_DAMAGE) for cut in cuts)
    for match in chain.from_iterable(readings):
        place = min(map(_ENCODINGS.index, {*match.could_be_from_charset} & {*_ENCODINGS}))
        doubt = _DOUBT if _ENCODINGS[place] == "cp1250" else 0
        found.append((round(match.chaos + len(_ODD.findall(str(match))), 2), doubt - match.coherence, place))
    return _ENCODINGS[min(found)[2]] if found else "utf-8"


def seen(text: str) -> str:
    """Only characters visible to a reader; hidden ones (tags, zero width, direction) can carry hidden orders."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in text if char in "\n\t" or not _is_among(char, _UNSEEN))


def readable(text: str) -> str:
    """A text as it is displayed: without characters that hide something or change its direction, but with those that
    join letters of some scripts and parts of emoji, if they are between such."""
    if text.isascii():
        return text
    return "".join(
        char
        for before, char, after in zip(" " + text, text, text[1:] + " ", strict=False)
        if not _is_among(char, _HIDDEN) or (char in _JOINS and not before.isascii() and not after.isascii())
    )


def _is_among(char: str, kinds: frozenset[str]) -> bool:
    kind = unicodedata.category(char)
    return kind in kinds or (kind == "Cn" and _NEVER_DRAWN.match(char) is not None)


def plain_text(text: str) -> str:
    """A program's output as a reader would see it: no colours, no overwritten lines, no invisible characters."""
    text = _TERMINAL.sub("", text.replace("\r\n", "\n")) if "\x1b" in text or "\r" in text else text
    if "\r" in text:
        text = "\n".join(map(_last_written, text.split("\n")))
    return _CONTROL.sub("", clean_text(text))


def _last_written(line: str) -> str:
    """What a terminal would show of a line that was overwritten repeatedly, like progress bars."""
    return line.removesuffix("\r").rpartition("\r")[2]


def one_line(text: str, limit: int = SUMMARY_CHARACTERS) -> str:
    """The text for people: plain, on one line, apparent secrets masked. Known ones are redacted later."""
    return cut(masked(" ".join(plain_text(text[:LONGEST_LOOKED_AT]).split())), limit)


def cut(text: str, most: int) -> str:
    """The text, at most `most` characters of it; what is cut off is replaced by an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def short_line(text: str, most: int) -> str:
    """The text on one line, cut."""
    return cut(" ".join(text.split()), most)


def size_text(size: int) -> str:
    for unit, step in (("MB", 1_000_000), ("KB", 1_000)):
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size} bytes"


def masked(text: str) -> str:
    """The text without values in places of secrets, or that look like keys of well-known services."""
    for pattern in _SECRETS:
        text = pattern.sub(rf"\g<keep>{MASK}", text)
    return text


def summary(tool: str, args: Mapping[str, object]) -> str:
    """Summary of a tool call, for people: its salient argument, or the first short text among its arguments."""
    value = args.get(SALIENT.get(tool, ""))
    if isinstance(value, list):
        value = ", ".join(str(part).rpartition("/")[2] for part in value)
    if isinstance(value, str) and value.strip():
        return one_line(value if tool == "bash" else value.removeprefix(OWN).removeprefix(WORK))
    texts = (one_line(value) for value in args.values() if isinstance(value, str) and value.strip())
    return next(texts, "") if tool not in SALIENT else ""


def described(tool: str, args: Mapping[str, object]) -> str:
    """The model's description of a call, for people; in other tools an argument of that name may be anything."""
    said = args.get(DESCRIPTION)
    return one_line(said) if tool == "bash" and isinstance(said, str) else ""


def entropy(text: str) -> float:
    """Shannon entropy in bits per character."""
    counts = Counter(text)
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values())


def skeleton(name: str) -> str:
    """The same text for all names that look alike, so that one cannot pass for another; never displayed."""
    return unicodedata.normalize("NFKC", name).casefold().translate(_LOOKALIKES)


def tokens(text: str) -> int:
    """Approximate number of tokens of a text, computed without the network or a tokenizer."""
    others = [] if text.isascii() else _OTHERS.findall(text)
    weight = sum(next(tokens for end, tokens in TOKENS if ord(sign) < end) for sign in others)
    return int((len(text) - len(others)) / ASCII_PER_TOKEN + weight) + 1
