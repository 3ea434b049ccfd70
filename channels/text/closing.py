"""Finishes the marks of a text that is still being written, so that `**half a sen` already looks bold.

Called by `parse` for the last leaf of a growing reply; without it the marks would be seen until the closing ones come.
"""

from __future__ import annotations

import re

_MARK = re.compile(r"\\.|`+|\*+|~~|\|\||_+", re.DOTALL)
# A mark with nothing behind it yet, or half of a closing one.
_DANGLING = re.compile(r"(?:(?<=\s)|^)[*_~|`!\[]+$|(?<!\*)\*$|(?<!~)~$|(?<!\|)\|$|`{1,2}$")
_OPEN_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*$")


def close_open_marks(source: str) -> str:
    """The text with what is open at its end closed, and with a link whose address is incomplete as its label."""
    stack = _open_marks(source)
    if stack[-1:] and stack[-1][0] == "`":
        return source.rstrip("`") + stack[-1] if source.strip("`") else ""
    source = _OPEN_LINK.sub(r"\1", source)
    if stack or _DANGLING.search(source):
        trimmed = _DANGLING.sub("", source)
        if trimmed != source:
            stack = _open_marks(trimmed)
            source = trimmed
    if not stack:
        return source
    return source.rstrip() + "".join(reversed(stack))


def _open_marks(source: str) -> list[str]:
    """The marks that are open at the end, outermost first; a code span ends the list, nothing counts inside it."""
    stack: list[str] = []
    for match in _MARK.finditer(source):
        run = match.group()
        if stack and stack[-1][0] == "`":
            if run == stack[-1]:
                stack.pop()
            continue
        if run[0] == "\\":
            continue
        before = source[match.start() - 1] if match.start() else " "
        after = source[match.end()] if match.end() < len(source) else " "
        _apply(stack, run, before, after)
    return stack


def _apply(stack: list[str], run: str, before: str, after: str) -> None:
    for mark in _marks(run):
        if mark in stack and not before.isspace():
            del stack[stack.index(mark) :]
        elif mark not in stack and not after.isspace() and _may_open(run, before):
            stack.append(mark)


def _marks(run: str) -> tuple[str, ...]:
    if run[0] in "`~|":
        return (run,)
    return {1: (run,), 2: (run,), 3: (run[:2], run[:1])}.get(len(run), ())


def _may_open(run: str, before: str) -> bool:
    """Inside a word a single * or _ is rather a sign than a mark."""
    return (len(run) > 1 and run[0] != "_") or run[0] == "`" or not before.isalnum()
