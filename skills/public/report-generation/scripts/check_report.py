"""Reads a report's Markdown as an editor would: what is missing, contradicts itself or was left over from a template.

Ends with 1 when there are errors; warnings are for judgement.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from _checks import errors, length, warnings
from _markdown import parse, stop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="the Markdown file")
    args = parser.parse_args()
    if not args.report.is_file():
        stop(f"there is no file {args.report}", "write the report first, from a template in assets/templates")
    report = parse(args.report.read_text(encoding="utf-8"))
    wrong, doubtful = errors(report, args.report.parent), warnings(report)
    for text in wrong:
        print(f"error: {text}")
    for text in doubtful:
        print(f"warning: {text}")
    words = sum(length(block.text) for block in report.blocks)
    print(f"{len(wrong)} errors, {len(doubtful)} warnings, about {words} words")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
