"""A report as Markdown that any converter understands: numbered captions, callouts and notes as words."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from _markdown import NOTE_MARK, Block, Report
from _words import words

if TYPE_CHECKING:
    from pathlib import Path


class Writer:
    """Writes one report. folder: where its pictures are."""

    def __init__(self, report: Report, folder: Path) -> None:
        self.report, self.folder, self.words = report, folder, words(report.language)
        self.tables = self.figures = 0

    def write(self, path: Path) -> None:
        """Raises OSError."""
        parts = [*self._title(), *(self._block(block, path.parent) for block in self.report.blocks), *self._notes()]
        text = "\n\n".join(part for part in parts if part)
        text = re.sub(r"\0\n\n(?= *(?:-|\d+\.) )", "\n", text).replace("\0", "")
        path.write_text(text + "\n", encoding="utf-8")

    def _title(self) -> list[str]:
        about = self.report.about
        lines = [about[key] for key in ("organisation", "author", "date", "version", "status") if about.get(key)]
        return [
            f"# {about.get('title', '')}",
            f"*{about['subtitle']}*" if about.get("subtitle") else "",
            " · ".join(lines),
            "---",
        ]

    def _block(self, block: Block, beside: Path) -> str:
        text = self._said(block.text)
        match block.kind:
            case "heading":
                return f"{'#' * min(block.level + 1, 6)} {text}"
            case "item":
                mark = f"{block.ordered}." if block.ordered else "-"
                return f"{'   ' * block.level}{mark} {text}\0"
            case "table":
                return self._table(block)
            case "image":
                self.figures += 1
                target = os.path.relpath(self.folder / block.target, beside)
                caption = f"**{self.words['figure']} {self.figures}.** {self._said(block.caption)}"
                return f"![{block.caption}]({target})\n\n{caption}"
            case "callout":
                return f"> **{self.words[block.kind_of]}.** {text}"
            case "quote":
                return f"> {text}"
            case "code":
                return f"```\n{block.text}\n```"
            case "break" | "rule":
                return "---"
            case _:
                return text

    def _said(self, text: str) -> str:
        """Notes as numbers in parentheses."""
        names = list(self.report.notes)
        return NOTE_MARK.sub(lambda found: f" ({names.index(found[1]) + 1})" if found[1] in names else found[0], text)

    def _table(self, block: Block) -> str:
        self.tables += 1
        head, *rows = ([self._said(cell).replace("|", "\\|") for cell in row] for row in block.rows)
        lines = [head, ["---"] * len(head), *rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"**{self.words['table']} {self.tables}.** {self._said(block.caption)}\n\n{table}"

    def _notes(self) -> list[str]:
        if not self.report.notes:
            return []
        return [
            f"### {self.words['notes']}",
            *(f"({n}) {text}" for n, text in enumerate(self.report.notes.values(), 1)),
        ]
