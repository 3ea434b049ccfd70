"""Builds one issue of a newsletter from JSON: HTML for mail, plain text, and an .eml with both; checks it first.

  build_newsletter.py issue.json --output /mnt/user-data/outputs/2026-07     writes 2026-07.html, .txt and .eml

{"name": "Grid Weekly", "issue": "27 / 2026", "subject": "Why storage got cheaper than peakers",
 "preview": "Three price lists, one court ruling, and what it means for bids in August", "language": "en",
 "intro": "One short paragraph: why this issue is worth two minutes.",
 "sections": [{"title": "This week", "items": [
   {"title": "Battery prices fell by 18 %", "text": "What happened. **Why it matters:** what the reader does with it.",
    "link": "https://example.org/report", "link_text": "Price list of the exchange", "source": "Exchange",
    "date": "2026-07-01"}]}],
 "outro": "Reply to this mail: what should we look at next?", "sender": "Example Ltd, Street 1, City", "unsubscribe": "https://..."}

Texts know **bold**, *italic* and [links](https://...). Errors keep it from being built; warnings are for judgement.
"""

from __future__ import annotations

import argparse
import json
import re
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from _checks import errors, stop, warnings
from _letter import html_of, text_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("issue", type=Path, help="the issue, JSON as above")
    parser.add_argument("--output", type=Path, required=True, help="name of the three files, without an ending")
    parser.add_argument("--check", action="store_true", help="only check")
    args = parser.parse_args()
    issue = _read(args.issue)
    if wrong := errors(issue):
        stop("the issue is not finished:\n  " + "\n  ".join(wrong), "mend these, then build again")
    for text in warnings(issue):
        print(f"warning: {text}")
    if not args.check:
        print("\n".join(_write(issue, args.output)))


def _read(path: Path) -> dict[str, Any]:
    try:
        issue = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        stop(f"{path}: {error}", "write the issue as one JSON object; --help shows one")
    if not isinstance(issue, dict):
        stop(f"{path} holds no object", "--help shows one")
    return issue


def _write(issue: dict[str, Any], output: Path) -> list[str]:
    """Returns a line on each file."""
    if re.search(r"\.(?:html|txt|eml)$", output.name):
        output = output.with_suffix("")
    output.parent.mkdir(parents=True, exist_ok=True)
    page, text = html_of(issue), text_of(issue)
    message = EmailMessage()
    message["Subject"] = issue["subject"]
    message.set_content(text)
    message.add_alternative(page, subtype="html")
    told = []
    for ending, content in ((".html", page.encode()), (".txt", text.encode()), (".eml", message.as_bytes())):
        file = output.with_name(output.name + ending)
        file.write_bytes(content)
        told.append(f"{file} ({len(content) // 1024 + 1} KB)")
    items = sum(len(section["items"]) for section in issue["sections"])
    words = len(re.findall(r"\w+", text))
    return [*told, f"{items} items, about {words} words, {max(1, round(words / 220))} minutes to read"]


if __name__ == "__main__":
    main()
