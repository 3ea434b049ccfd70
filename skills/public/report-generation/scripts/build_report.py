"""Builds a report from Markdown as Word (.docx), one HTML file (.html) or plain Markdown (.md), by --output's ending.

  build_report.py report.md --output /mnt/user-data/outputs/report.docx

Front matter: title, subtitle, author, organisation, date, status, version, language (en, de, zh), toc (true), paper
(a4, letter). Besides plain Markdown: a line `Table: caption` above a table, ![caption](picture.png), callouts (> [!KEY]
text, also NOTE, WARNING, DECISION), notes ([^a] and a line [^a]: text), citations [1] of a numbered list below the
heading Sources, and <!-- pagebreak -->. The report is checked first (check_report.py); errors keep it from being built.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from _checks import errors
from _html import Writer as HtmlWriter
from _markdown import Report, parse, stop
from _plain import Writer as PlainWriter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="the Markdown file; pictures are looked for beside it")
    parser.add_argument("--output", type=Path, required=True, help=".docx, .html or .md")
    args = parser.parse_args()
    if not args.report.is_file():
        stop(f"there is no file {args.report}", "write the report first, from a template in assets/templates")
    report = parse(args.report.read_text(encoding="utf-8"))
    if wrong := errors(report, args.report.parent):
        stop("the report is not finished:\n  " + "\n  ".join(wrong), "mend these, then build again")
    args.output.parent.mkdir(parents=True, exist_ok=True)
    if args.output.resolve() == args.report.resolve():
        stop("that would replace the report itself", "give another name")
    told = _write(report, args.report.parent, args.output)
    print(f"{args.output} ({args.output.stat().st_size // 1024 + 1} KB): {told}")


def _write(report: Report, folder: Path, output: Path) -> str:
    """Returns what is in it."""
    page: HtmlWriter | PlainWriter | None = None
    if output.suffix == ".html":
        page = HtmlWriter(report, folder)
    elif output.suffix == ".md":
        page = PlainWriter(report, folder)
    if page is not None:
        page.write(output)
        return f"{page.tables} tables, {page.figures} figures"
    if output.suffix != ".docx":
        stop(
            f"{output.suffix or 'no ending'} is not made here",
            "give .docx, .html or .md; a PDF is made of the .md, as SKILL.md says",
        )
    try:
        from _docx import Writer
    except ImportError as error:
        stop(f"{error}", "the packages for the agent's code are missing here: build .html instead and say so")
    word = Writer(report, folder)
    word.write(output)
    return ", ".join(f"{count} {what}" for what, count in word.count.items())


if __name__ == "__main__":
    main()
