"""Builds a presentation from an outline: python3 build.py outline.json -o /mnt/user-data/outputs/deck.pptx"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from layouts import draw
from outline import LAYOUTS, BadOutline, read
from template import empty_deck


def main() -> int:
    options = _options()
    if options.output.suffix.lower() != ".pptx":
        return _failed([f"{options.output}: the output has to end in .pptx"])
    try:
        outline, look = read(options.outline)
    except BadOutline as error:
        return _failed(error.problems)
    deck = empty_deck(look)
    language = str(outline.get("language", "en-US"))
    problems = []
    for number, slide in enumerate(outline["slides"], 1):
        found = draw(
            deck, slide, look, language=language, foot=str(outline.get("footer", "")), folder=options.outline.parent
        )
        problems += [f"slide {number}: {problem}" for problem in found]
    if problems and not options.anyway:
        return _failed(problems)
    deck.core_properties.title = str(outline.get("title", outline["slides"][0].get("title", "")))
    deck.core_properties.author = str(outline.get("author", ""))
    deck.core_properties.language = language
    options.output.parent.mkdir(parents=True, exist_ok=True)
    deck.save(str(options.output))
    for problem in problems:
        print(f"warning: {problem}")
    print(f"{options.output}: {len(outline['slides'])} slides. Next: check.py and preview.py with it.")
    return 0


def _failed(problems: list[str]) -> int:
    print(f"Nothing was written; {len(problems)} to put right:", file=sys.stderr)
    for problem in problems:
        print(f"- {problem}", file=sys.stderr)
    return 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Builds a .pptx from an outline in JSON.", epilog=f"Layouts: {', '.join(LAYOUTS)}."
    )
    parser.add_argument("outline", type=Path, help="the outline; pictures are looked for beside it")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the .pptx, below /mnt/user-data/outputs")
    parser.add_argument("--anyway", action="store_true", help="write it although text does not fit")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
