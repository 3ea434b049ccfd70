"""The arguments of a call as shown to a person for a decision: as they run, nothing hidden or overlong. Pure.

Characters that are invisible or look like others are written as \\u{...}; long blanks are counted; of a long text both
ends are shown with the number of characters between them. A key of a well-known service is counted too: it has only
letters, digits, hyphens and underscores, so its placeholder cannot hide anything that a shell acts on.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from itertools import islice
from typing import TYPE_CHECKING, Any

from harness.text.plain import DESCRIPTION, clean_text

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 1500
"""Characters of all arguments together."""
LONGEST_PROPOSAL = 14_000
MOST_PROPOSAL_LINES = 1000
ROOM, ROOM_LINES = 2000, 20
"""Space for what may precede the change."""
TAIL = 300
MOST_BLANKS = 8
MOST_LINES = 40
MOST_ARGUMENTS = 20
LONGEST_NAME = 40
LONGEST_LOOKED_AT = 50_000
"""Characters of one text; of a longer one only both ends are processed, so that no call takes long."""

_KEYS = re.compile(
    r"(?<![\w-])(?P<keep>(?:[spr]k[-_]|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|hf_|AIza|AKIA|ASIA|eyJ))"
    r"(?P<rest>[A-Za-z0-9_-]{16,}+)"
)
_BLANKS = re.compile(rf" {{{MOST_BLANKS + 1},}}")
_LINES = re.compile(r"\n(?: *\n){2,}")
_WORD = re.compile(r"[^\W_]+")
_LOOKALIKES = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "GEORGIAN", "OSAGE")
_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
_EMPTY = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
"""Letters and marks that are invisible."""


def args_hash(tool: str, args: Mapping[str, Any], place: str) -> str:
    """Hash of the exact call. place: where it would run (isolation, the MCP server's definition)."""
    args = {name: value for name, value in args.items() if not (tool == "bash" and name == DESCRIPTION)}
    text = json.dumps([tool, args, place], sort_keys=True, ensure_ascii=True, default=str, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def shown_arguments(tool: str, args: Mapping[str, Any]) -> str:
    """All arguments of a call, for a code block of their own."""
    command = args.get("command")
    if tool == "bash" and isinstance(command, str):
        rest = {name: value for name, value in args.items() if name not in ("command", "description")}
        text = "\n".join([_safe(command), *_lines(rest)])
    else:
        text = "\n".join(_lines(args))
    return _cut(text)


def shown_proposal(text: str) -> str:
    """The change that a call proposes, for a code block; only a very long one is cut."""
    return _cut(_safe(text), LONGEST_PROPOSAL, MOST_PROPOSAL_LINES)


def shows_whole(text: str) -> bool:
    """Whether `shown_proposal` shows the text in full, counting escaped characters."""
    if len(text) > LONGEST_LOOKED_AT:
        return False
    safe = _safe(text)
    return len(safe) <= LONGEST_PROPOSAL - ROOM and safe.count("\n") < MOST_PROPOSAL_LINES - ROOM_LINES


def _lines(args: Mapping[str, Any]) -> list[str]:
    shown = islice(args.items(), MOST_ARGUMENTS)
    lines = [f"{_safe(str(name)[:LONGEST_NAME])[:LONGEST_NAME]}: {_safe(_text(value))}" for name, value in shown]
    more = len(args) - MOST_ARGUMENTS
    return [*lines, f"… +{more} arguments"] if more > 0 else lines


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _safe(text: str) -> str:
    """The text, escaped. It is cut first, to bound the time; keys are counted before anything is escaped."""
    text = clean_text(_ends(text, LONGEST_LOOKED_AT).replace("\r\n", "\n"))
    text = _KEYS.sub(lambda found: f"{found['keep']}⟨{len(found['rest'])} characters⟩", text)
    if not text.isascii():
        text = _WORD.sub(_distinct, text)
    text = "".join(_visible(sign, before) for sign, before in zip(text, "\n" + text, strict=False))
    text = _BLANKS.sub(lambda found: f" ⟨{len(found.group())} blanks⟩ ", text)
    return _LINES.sub(lambda found: f"\n⟨{found.group().count(chr(10)) - 1} empty lines⟩\n", text)


def _ends(text: str, longest: int) -> str:
    half = longest // 2
    return text if len(text) <= longest else f"{text[:half]}\n… +{len(text) - 2 * half} chars …\n{text[-half:]}"


def _visible(sign: str, before: str) -> str:
    if sign in " \n" or (sign.isascii() and sign.isprintable()):
        return sign
    category = unicodedata.category(sign)
    stacked = category in ("Mn", "Me") and unicodedata.category(before) in ("Mn", "Me")
    if category in _UNSEEN or category == "Zs" or sign in _EMPTY or stacked or _is_variant(sign):
        return _written_out(sign)
    return sign


def _is_variant(sign: str) -> bool:
    """Whether it is a variation selector, or a variant form of an ASCII character."""
    if "\ufe00" <= sign <= "\ufe0f" or "\U000e0100" <= sign <= "\U000e01ef":
        return True
    plain = unicodedata.normalize("NFKC", sign)
    return plain != sign and plain.isascii() and unicodedata.category(sign)[0] in "LNPS"


def _distinct(found: re.Match[str]) -> str:
    """A word with lookalikes among its ASCII letters, with these escaped."""
    word = found.group()
    if not any(sign.isascii() and sign.isalpha() for sign in word):
        return word
    return "".join(_written_out(sign) if _is_lookalike(sign) else sign for sign in word)


def _is_lookalike(sign: str) -> bool:
    return not sign.isascii() and unicodedata.name(sign, "").startswith(_LOOKALIKES)


def _written_out(sign: str) -> str:
    return f"\\u{{{ord(sign):04X}}}"


def _cut(text: str, longest: int = LONGEST, most_lines: int = MOST_LINES) -> str:
    lines = text.split("\n")
    if len(lines) > most_lines:
        left_out = lines[most_lines - 5 : -4]
        count = sum(map(len, left_out)) + len(left_out)
        text = "\n".join([*lines[: most_lines - 5], f"… +{count} chars …", *lines[-4:]])
    if len(text) <= longest:
        return text
    return f"{text[: longest - TAIL]}\n… +{len(text) - longest} chars …\n{text[-TAIL:]}"
