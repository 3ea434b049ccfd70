"""JSON as weak models write it: in fences, between sentences, with trailing commas, comments, without its end. Pure.

The package json-repair is no substitute: its time grows with the square of nested text (seconds for 16 kB of braces),
and of an answer that was cut off it keeps half a sentence as if it were whole.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from harness.graph.messages import THINK_CLOSE
from harness.text.plain import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 100_000
"""Characters of an answer that are looked at."""
MOST_OPEN = 20
"""Brackets that a text may have left open."""

_FENCE = re.compile(r"```[\w-]*\s*\n?(.*?)(?:```|\Z)", re.DOTALL)
_STRING = r'"(?:[^"\\\n]|\\.)*+"?'
"""Of one without its end all that is left of its line: what was looked at once is never looked at again."""
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING = re.compile(rf"({_STRING})|,(?=\s*[\]}}])")
_LITERAL = re.compile(rf"({_STRING})|\b(True|False|None|undefined|NaN)\b")
_LITERALS = {"True": "true", "False": "false", "None": "null", "undefined": "null", "NaN": "null"}
_CURLY = str.maketrans("“”„‟＂", '"""""')


class Unreadable(ValueError):
    """There is no object in it. Its text says why, in a clause for the model."""


def read_object(text: str) -> dict[str, Any]:
    """The JSON object that an answer holds. Raises Unreadable."""
    text = clean_text(text[:LONGEST]).rpartition(THINK_CLOSE)[2].strip()
    problem = "it holds no JSON object"
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
    """Where it may be: all of the text, a fence's content, the first object in it."""
    yield text
    yield from (found.group(1).strip() for found in _FENCE.finditer(text))
    start = text.find("{")
    if start >= 0:
        yield text[start:].partition("```")[0].rstrip()
        end = text.rfind("}")
        if end > start:
            yield text[start : end + 1]


def _forms(text: str) -> Iterator[str]:
    """The text as it is, then with common mistakes corrected."""
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
    """A text whose end is missing, cut behind the last whole item and closed; None where nothing is open."""
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
