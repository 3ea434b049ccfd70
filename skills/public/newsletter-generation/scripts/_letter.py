"""An issue as HTML that mail programs show alike (tables, styles in place, no scripts), and as plain text."""

from __future__ import annotations

import re
import textwrap
from html import escape
from typing import Any

LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
FONT = "font-family:Arial,Helvetica,'PingFang SC','Microsoft YaHei',sans-serif"
INK, GREY, ACCENT = "#222b36", "#5a6672", "#1f4e79"
META = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
LOOKS = {
    "h1": f"margin:4px 0 12px;font-size:24px;line-height:1.25;color:{ACCENT}",
    "h2": f"margin:24px 0 4px;font-size:18px;color:{ACCENT};border-bottom:2px solid #dce6f0",
    "table": 'width="100%" cellpadding="0" cellspacing="0" style="max-width:600px;margin:0 auto"',
}
UNSUBSCRIBE = {"en": "Unsubscribe", "de": "Abbestellen", "zh": "退订"}


def inline(text: str) -> str:
    """Marks as tags, everything else escaped; only https links."""
    shown = escape(text)
    shown = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", shown)
    shown = re.sub(r"(?<!\*)\*([^*\s][^*]*)\*", r"<em>\1</em>", shown)
    return LINK.sub(lambda found: _link(found[2], found[1]) if found[2].startswith("https://") else found[1], shown)


def _link(address: str, shown: str, color: str = ACCENT) -> str:
    """Of texts that are escaped already."""
    return f'<a href="{address}" style="color:{color}">{shown}</a>'


def html_of(issue: dict[str, Any]) -> str:
    """A whole page."""
    rows = [_row(f'<p style="margin:0;color:{GREY};font-size:13px">{escape(_line(issue))}</p>')]
    rows.append(_row(f'<h1 style="{LOOKS["h1"]}">{escape(issue["subject"])}</h1>'))
    if issue.get("intro"):
        rows.append(_row(_paragraph(issue["intro"])))
    for section in issue["sections"]:
        rows.append(_row(f'<h2 style="{LOOKS["h2"]}">{escape(section["title"])}</h2>'))
        rows += [_row(_item(item)) for item in section["items"]]
    if issue.get("outro"):
        rows.append(_row(_paragraph(issue["outro"])))
    rows.append(_row(_footer(issue)))
    preview = f'<div style="display:none;max-height:0;overflow:hidden">{escape(issue["preview"])}</div>'
    table = f'<table role="presentation" {LOOKS["table"]}>{"".join(rows)}</table>'
    head = f"{META}<title>{escape(issue['subject'])}</title>"
    body = f'<body style="margin:0;padding:16px;background:#ffffff;color:{INK};{FONT};font-size:16px;line-height:1.5">'
    language = escape(issue["language"])
    return f'<!doctype html><html lang="{language}"><head>{head}</head>{body}{preview}{table}</body></html>\n'


def _row(inner: str) -> str:
    return f'<tr><td style="padding:0">{inner}</td></tr>\n'


def _paragraph(text: str) -> str:
    return f'<p style="margin:0 0 12px">{inline(text)}</p>'


def _line(issue: dict[str, Any]) -> str:
    return " · ".join(str(issue[key]) for key in ("name", "issue") if issue.get(key))


def _item(item: dict[str, Any]) -> str:
    parts = []
    if item.get("image"):
        look = "max-width:100%;height:auto;border:0"
        parts.append(f'<img src="{escape(item["image"])}" alt="{escape(item["image_alt"])}" style="{look}">')
    parts.append(f'<h3 style="margin:16px 0 4px;font-size:16px">{escape(item["title"])}</h3>')
    parts.append(_paragraph(item["text"]))
    if item.get("link"):
        link = _link(escape(item["link"]), escape(item.get("link_text") or item["link"]))
        source = escape(f" ({item['source']}, {item['date']})")
        parts.append(f'<p style="margin:0 0 12px;font-size:14px;color:{GREY}">{link}{source}</p>')
    return "".join(parts)


def _footer(issue: dict[str, Any]) -> str:
    word = UNSUBSCRIBE.get(issue["language"][:2], UNSUBSCRIBE["en"])
    link = _link(escape(issue["unsubscribe"]), word, GREY)
    return f'<p style="margin:24px 0 0;font-size:12px;color:{GREY}">{escape(issue["sender"])} · {link}</p>'


def text_of(issue: dict[str, Any]) -> str:
    """For readers without HTML."""
    parts = [_line(issue), issue["subject"].upper(), _plain(issue.get("intro", ""))]
    for section in issue["sections"]:
        parts.append(f"{section['title']}\n{'-' * len(section['title'])}")
        for item in section["items"]:
            lines = [f"* {item['title']}", _plain(item["text"], "  ")]
            if item.get("link"):
                lines.append(
                    f"  {item.get('link_text') or item['source']} ({item['source']}, {item['date']}):\n  {item['link']}"
                )
            parts.append("\n".join(lines))
    word = UNSUBSCRIBE.get(issue["language"][:2], UNSUBSCRIBE["en"])
    parts += [_plain(issue.get("outro", "")), f"{issue['sender']}\n{word}: {issue['unsubscribe']}"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _plain(text: str, indent: str = "") -> str:
    text = LINK.sub(r"\1 (\2)", text.replace("**", ""))
    return textwrap.fill(
        text, 72, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
