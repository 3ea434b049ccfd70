"""Looks a SOUL.md over before it is handed over: check_soul.py SOUL.md. Exit code 1 when it could not be used."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

LONGEST = 20_000
"""Characters; Antler refuses more."""
WELL = (60, 450)
"""Words of a text that is followed as a whole."""
LONGEST_SENTENCE = 38
_SECRET = re.compile(
    r"(?i)\b(?:password|passwort|api[ _-]?key|token|密码)\b\s*[:=]\s*\S+|\b(?:sk|ghp|xox[bp])[-_]\w{12,}"
)
_GAP = re.compile(
    r"\[[^\]]*(?:fill|name|todo|company|insert)[^\]]*\]|\bTODO\b|\?\?\?|<[^>]*(?:name|company)[^>]*>", re.IGNORECASE
)
_YOU = re.compile(r"\byou(?:r| are)?\b|\bdu\b|\bsie sind\b|你|您|\btu es\b|\bvous êtes\b|\beres\b", re.IGNORECASE)
_EMPTY = re.compile(
    r"(?i)\b(?:helpful|professional|best possible|high[- ]quality|state[- ]of[- ]the[- ]art|world[- ]class|as an ai)\b"
)
_LIFTS = re.compile(r"(?i)\b(?:never refuse|no restrictions?|without (?:any )?limits?|do anything|unrestricted)\b")
_TOOLS = re.compile(r"\b(?:bash|web_search|web_fetch|read_file|write_file|present_files|str_replace|/mnt/[\w/-]+)\b")


def findings(text: str) -> tuple[list[str], list[str]]:
    """For which it cannot be used, and what to look at."""
    errors, advice = [], []
    words = _words(text)
    if not text.strip():
        return ["it is empty"], []
    if len(text) > LONGEST:
        errors.append(f"it has {len(text)} characters, {LONGEST} are the most")
    errors += [
        f"looks like a secret, which everyone who writes to the agent could get: {each[:12]}..."
        for each in _SECRET.findall(text)
    ]
    errors += [f"a gap is left: {each.group()}" for each in _GAP.finditer(text)]
    if _LIFTS.search(text):
        errors.append("it tries to lift rules: they stand above it, and such words only confuse")
    if not _YOU.search(text):
        advice.append('it does not speak to the agent: write it as "You are ..."')
    if not WELL[0] <= words <= WELL[1]:
        advice.append(f"it has {words} words; {WELL[0]} to {WELL[1]} are read and followed as a whole")
    advice += [
        f'"{each}" says nothing: say what it does in a case'
        for each in sorted({e.lower() for e in _EMPTY.findall(text)})
    ]
    for sentence in re.split(r"(?<=[.!?。！？])\s+", text):
        if len(sentence.split()) > LONGEST_SENTENCE:
            advice.append(f'a sentence of {len(sentence.split())} words: "{" ".join(sentence.split()[:6])} ..."')
    if _TOOLS.search(text):
        advice.append("it names tools or paths: what the agent has stands in its config; here stands who it is")
    return errors, advice


def _words(text: str) -> int:
    """Two Chinese signs count as a word."""
    squares = len(re.findall(r"[\u2e80-\u9fff]", text))
    return squares // 2 + len(re.findall(r"[^\W\u2e80-\u9fff]+", text))


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks a SOUL.md: length, gaps, secrets, empty words, sentences.")
    parser.add_argument("soul", type=Path)
    options = parser.parse_args()
    try:
        text = options.soul.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print(f"{options.soul} cannot be read: {error}", file=sys.stderr)
        return 1
    errors, advice = findings(text)
    for error in errors:
        print(f"error: {error}")
    for each in advice:
        print(f"advice: {each}")
    print(f"{len(errors)} errors, {len(advice)} pieces of advice, {_words(text)} words.")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
