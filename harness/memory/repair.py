"""Reads JSON as weak models write it: fenced, between sentences, truncated, with trailing commas or comments. Pure.

The package json-repair is no substitute: its time is quadratic for nested text (seconds for 16 kB of braces), and it
keeps half a sentence of a truncated answer as if it were complete.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from harness.graph.messages import THINK_CLOSE, without_thinking
from harness.text.plain import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 100_000
"""Characters of an answer that are read."""
MOST_OPEN = 20
"""Brackets that a text may have left open."""

_FENCE = re.compile(r"```[\w-]*\s*\n?(.*?)(?:```|\Z)", re.DOTALL)
_STRING = r'"(?:[^"\\\n]|\\.)*+"?'
"""An unterminated string extends to the end of its line: text that was scanned once is never scanned again."""
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING = re.compile(rf"({_STRING})|,(?=\s*[\]}}])")
_LITERAL = re.compile(rf"({_STRING})|\b(True|False|None|undefined|NaN)\b")
_LITERALS = {"True": "true", "False": "false", "None": "null", "undefined": "null", "NaN": "null"}
_CURLY = str.maketrans("“”„‟＂", '"""""')


class Unreadable(ValueError):
    """The text contains no object. The message says why, in a clause for the model."""


def read_object(text: str) -> dict[str, Any]:
    """The JSON object in an answer. Raises Unreadable."""
    text = without_thinking(clean_text(text[:LONGEST]).rpartition(THINK_CLOSE)[2]).strip()
    problem = "it contains no JSON object"
    for candidate in _candidates(text):
        for form in _forms(candidate):
            try:
                found = json.loads(form, strict=False)
            except json.JSONDecodeError as error:
                problem = f"{error.msg} at line {error.lineno} column {error.colno}"
            except ValueError:
                problem = "a number in it is too long"
            except RecursionError:
                problem = "it is nested too deeply"
            else:
                if isinstance(found, dict):
                    return found
                problem = "it is not an object"
    raise Unreadable(problem)


def _candidates(text: str) -> Iterator[str]:
    """Where the object may be: the whole text, a fence's content, the first object in the text."""
    yield text
    yield from (found.group(1).strip() for found in _FENCE.finditer(text))
    start = text.find("{")
    if start >= 0:
        yield text[start:].partition("```")[0].rstrip()
        end = text.rfind("}")
        if end > start:
            yield text[start : end + 1]


def _forms(text: str) -> Iterator[str]:
    """The text unchanged, then with common mistakes corrected."""
    if "{" not in text:
        return
    yield text
    plain = _COMMENT.sub(r"\1", text)
    plain = _LITERAL.sub(lambda found: found.group(1) or _LITERALS[found.group(2)], plain)
    yield _TRAILING.sub(r"\1", plain)
    yield _TRAILING.sub(r"\1", plain.translate(_CURLY))
    closed = _closed(plain)
    if closed is not None:
        yield closed


def _closed(text: str) -> str | None:
    """A truncated text, cut after the last complete item and closed; None if nothing is open."""
    stack: list[str] = []
    whole: tuple[int, str] | None = None
    in_string = escaped = False
    for place, sign in enumerate(text):
        if in_string:
            in_string = escaped or sign != '"'
            escaped = sign == "\\" and not escaped
        elif sign == '"':
            in_string = True
        elif sign in "{[":
            stack.append("}" if sign == "{" else "]")
            if len(stack) > MOST_OPEN:
                return None
        elif sign in "}]":
            if not stack or stack.pop() != sign:
                return None
            whole = (place + 1, "".join(reversed(stack)))
    if not stack or whole is None:
        return None
    return _TRAILING.sub(r"\1", text[: whole[0]] + whole[1])
