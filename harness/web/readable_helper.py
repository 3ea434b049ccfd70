"""The helper process that converts a page's HTML to Markdown; run by harness/files/helpers.py."""

from __future__ import annotations

import json
import resource
import sys

MEMORY = 1 << 30
PROCESSOR_SECONDS = 600
LONGEST_TEXT = 2_000_000
LONGEST_TITLE = 300
TOO_LITTLE = 200
"""Characters: if a page seems to have less, all its text is used as a fallback."""


def main() -> None:
    """Answer requests until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while line := sys.stdin.buffer.readline():
        question = json.loads(line)
        body = sys.stdin.buffer.read(question["size"])
        title, text = readable(body, question["charset"], question["url"])
        answer = {
            "title": title[:LONGEST_TITLE],
            "text": text[:LONGEST_TEXT],
            "cut": len(text) > LONGEST_TEXT,
            "scripted": len(text) < TOO_LITTLE and b"<script" in body.lower(),
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def readable(body: bytes, charset: str, url: str) -> tuple[str, str]:
    """(title, Markdown), each "" if there is none."""
    from trafilatura import extract, html2txt
    from trafilatura.utils import load_html

    tree = load_html(_decoded(body, charset))
    if tree is None:
        return "", ""
    title = " ".join((tree.findtext(".//title") or "").split())
    text = extract(
        tree, url=url, output_format="markdown", include_links=True, include_comments=False, include_tables=True
    )
    if text is None or len(text) < TOO_LITTLE:
        text = max(text or "", html2txt(tree), key=len)
    return title, text


def _decoded(body: bytes, charset: str) -> str | bytes:
    """The body decoded as the server declares, else as bytes, whose encoding is then guessed."""
    if charset:
        try:
            return body.decode(charset, errors="replace")
        except (LookupError, UnicodeError, ValueError):
            pass
    return body


if __name__ == "__main__":
    main()
