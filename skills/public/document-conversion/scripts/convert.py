"""Converts documents: python3 convert.py to SOURCE OUTPUT; further commands for PDF and pictures: convert.py --help."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from matrix import matrix, targets
from pathways import compare, convert
from report import CannotConvert, Report

if TYPE_CHECKING:
    from collections.abc import Callable


def _to(options: argparse.Namespace, report: Report) -> None:
    convert(options.source, options.output, report, options)


def _information(options: argparse.Namespace, report: Report) -> None:
    path: Path = options.source
    if path.suffix.lower() == ".pdf":
        import pdf_tools

        print("\n".join(pdf_tools.information(path, options.password)))
    else:
        print(
            f"{path.name}: {path.stat().st_size / 1000:.0f} KB; becomes: {', '.join(targets(path)) or 'nothing here'}"
        )


def _parts(options: argparse.Namespace, report: Report) -> None:
    import pdf_tools

    command = options.command
    if command == "pdf-merge":
        pdf_tools.merge(options.sources, options.output, report)
    elif command == "pdf-split":
        pdf_tools.split(
            options.source, options.output, report, pages=options.pages, each=options.each, password=options.password
        )
    elif command == "pdf-rotate":
        pdf_tools.rotate(
            options.source, options.output, report, pages=options.pages, by=options.by, password=options.password
        )
    elif command == "pdf-pages":
        pdf_tools.drawn(
            options.source, options.output, report, pages=options.pages, dpi=options.dpi, password=options.password
        )
    else:
        pdf_tools.pictures_of(options.source, options.output, report, options.password)


def _images(options: argparse.Namespace, report: Report) -> None:
    import pictures

    pictures.as_pdf(options.sources, options.output, report, fit=not options.original_size)


def _compare(options: argparse.Namespace, report: Report) -> None:
    print("\n".join(compare(options.source, options.output)))


def main() -> int:
    options = _options()
    if options.command == "matrix":
        print(matrix())
        return 0
    report = Report()
    try:
        for path in getattr(options, "sources", [getattr(options, "source", None)]):
            if not path.is_file():
                raise CannotConvert(f"{path} does not exist")
        output = getattr(options, "output", None)
        if output is not None and output in getattr(options, "sources", [options.__dict__.get("source")]):
            raise CannotConvert("source and output are the same file; give the output a name of its own")
        options.run(options, report)
    except CannotConvert as error:
        print(f"Cannot convert: {error}.".replace("..", "."), file=sys.stderr)
        return 1
    for line in report.lines():
        print(line)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Converts documents, offline, and says what was lost on the way.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("matrix", help="what becomes what")
    to = _command(commands, "to", "one file into another kind, by the endings", _to)
    to.add_argument("output", type=Path)
    to.add_argument("--pages", default="", help="of a PDF, such as 1-3,5")
    to.add_argument("--paper", choices=("a4", "letter"), default="a4")
    to.add_argument("--title", default="", help="of the document; the file's name otherwise")
    to.add_argument("--language", default="en", help="of an HTML page, such as de")
    to.add_argument("--layout", action="store_true", help="PDF to txt: with spaces as on the page")
    to.add_argument("--loose", action="store_true", help="tables of a PDF that have no lines")
    to.add_argument("--encoding", default="", help="of a csv or txt, such as cp1252 or gb18030")
    to.add_argument("--delimiter", default="", help="of a csv")
    to.add_argument("--decimal-comma", action="store_true", help="a csv in which 3,5 is three and a half")
    to.add_argument("--longest", type=int, default=0, help="of a picture: pixels of its longer side")
    to.add_argument("--quality", type=int, default=90, help="of a JPEG or WEBP, 1 to 100")
    _command(commands, "info", "what a file is, and what it can become", _information)
    checked = _command(commands, "compare", "words, tables, headings of a file and of what became of it", _compare)
    checked.add_argument("output", type=Path)
    _parts_commands(commands)
    return parser.parse_args()


def _parts_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Those for pages and pictures."""
    for name, text in (
        ("pdf-split", "pages as a file"),
        ("pdf-rotate", "turn pages"),
        ("pdf-pages", "pages as pictures"),
        ("pdf-images", "the pictures in it"),
    ):
        part = _command(commands, name, text, _parts)
        part.add_argument("-o", "--output", type=Path, required=True, help="a file; a folder for several")
        part.add_argument("--pages", default="", help="such as 1-3,5,8-; all of them otherwise")
        part.add_argument("--each", action="store_true", help="pdf-split: a file for each page")
        part.add_argument("--by", type=int, choices=(90, 180, 270), default=90, help="pdf-rotate: clockwise")
        part.add_argument("--dpi", type=int, default=120, help="pdf-pages")
    for name, text, run in (
        ("pdf-merge", "several PDF files as one", _parts),
        ("images-to-pdf", "a page each", _images),
    ):
        joined = commands.add_parser(name, help=text)
        joined.set_defaults(run=run)
        joined.add_argument("sources", type=Path, nargs="+")
        joined.add_argument("-o", "--output", type=Path, required=True)
        joined.add_argument("--original-size", action="store_true", help="images-to-pdf: not fitted to A4")


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    run: Callable[[argparse.Namespace, Report], None],
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text)
    parser.set_defaults(run=run)
    parser.add_argument("source", type=Path)
    parser.add_argument("--password", default="", help="of a PDF")
    return parser


if __name__ == "__main__":
    sys.exit(main())
