"""Patterns of the rules: expressions over arguments, in RE2's time linear in the text, and words of commands. Pure."""

from __future__ import annotations

import functools
from typing import Any

MOST_MEMORY = 4 << 20
LONGEST = 500


class BadPattern(ValueError):
    """The text says why, for operators."""


def check_arguments(expression: str) -> None:
    """Raises BadPattern."""
    _compiled(expression, whole=False)


def check_words(pattern: str) -> None:
    """Raises BadPattern."""
    words = pattern.split()
    if not words or words[0] == "*":
        raise BadPattern("a command's pattern begins with the name of a program, as in `git status *`")
    for word in words:
        _glob(word)


def fits_whole(expression: str, text: str) -> bool:
    """Whether all of a text is what the expression says; a dot is no line break. For what is allowed by it."""
    return _compiled(expression, whole=True).fullmatch(_valid(text)) is not None


def fits_anywhere(expression: str, text: str) -> bool:
    """Whether the expression is found in a text; a dot is any character. For what is held back by it."""
    return _compiled(expression, whole=False).search(_valid(text)) is not None


def fits_words(pattern: str, words: list[str]) -> bool:
    """Whether the words of a command fit, one by one; a * at the end stands for any further ones, or none."""
    wanted = pattern.split()
    if wanted[-1] == "*":
        wanted = wanted[:-1]
        words = words[: len(wanted)] if len(words) >= len(wanted) else []
    return len(words) == len(wanted) and all(map(fits_glob, wanted, words))


def fits_glob(pattern: str, text: str) -> bool:
    """* and ? as in file names, over the whole text."""
    return _glob(pattern).fullmatch(_valid(text)) is not None


def _valid(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


@functools.lru_cache(maxsize=1024)
def _compiled(expression: str, *, whole: bool) -> Any:
    import re2  # type: ignore[import-untyped]  # 1.5 MB, which a gateway without such rules does not need

    if len(expression) > LONGEST:
        raise BadPattern(f"longer than {LONGEST} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_MEMORY
    options.dot_nl = not whole
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise BadPattern(f"no regular expression of RE2 ({error})") from None


@functools.lru_cache(maxsize=1024)
def _glob(pattern: str) -> Any:
    import re2

    if len(pattern) > LONGEST:
        raise BadPattern(f"longer than {LONGEST} characters")
    options = re2.Options()
    options.dot_nl = True
    expression = "".join({"*": ".*", "?": "."}.get(sign) or re2.escape(sign) for sign in pattern)
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise BadPattern(f"cannot be used ({error})") from None
