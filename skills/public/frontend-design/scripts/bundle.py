"""One file of a page with its CSS, scripts and pictures: bundle.py page.html -o /mnt/user-data/outputs/page.html"""

from __future__ import annotations

import argparse
import base64
import mimetypes
import re
import sys
from pathlib import Path

from bs4 import BeautifulSoup
from bs4.element import Script, Stylesheet, Tag

_URL = re.compile(r"url\(\s*[\"']?([^\"')]+)[\"']?\s*\)")
_IMPORT = re.compile(r"@import\s+(?:url\()?[\"']?([^\"')]+)[\"']?\)?[^;]*;")
OUTSIDE = ("http:", "https:", "//", "data:", "#", "mailto:", "tel:")
HEAVY = 500_000
"""Bytes of one picture, from which it is told."""


class Bundle:
    """root: the page's folder, out of which nothing is taken. notes: what the maker has to know."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.missing: list[str] = []
        self.notes: list[str] = []

    def file(self, target: str, base: Path) -> Path | None:
        """What a page names; None where it is elsewhere, or not there."""
        name = target.split("?")[0].split("#")[0]
        if target.startswith(OUTSIDE) or not name:
            return None
        path = (self.root / name.lstrip("/") if name.startswith("/") else base / name).resolve()
        if not path.is_relative_to(self.root) or not path.is_file():
            self.missing.append(target)
            return None
        return path

    def data(self, path: Path) -> str:
        content = path.read_bytes()
        if len(content) > HEAVY:
            self.notes.append(
                f"{path.name} weighs {len(content) / 1e6:.1f} MB: make it smaller, as large as it is shown"
            )
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return f"data:{kind};base64,{base64.b64encode(content).decode()}"

    def css(self, text: str, base: Path) -> str:
        """With what it imports and shows inside."""

        def imported(found: re.Match[str]) -> str:
            path = self.file(found[1], base)
            return found[0] if path is None else self.css(path.read_text(encoding="utf-8"), path.parent)

        def shown(found: re.Match[str]) -> str:
            path = self.file(found[1], base)
            return found[0] if path is None else f'url("{self.data(path)}")'

        return _URL.sub(shown, _IMPORT.sub(imported, text))

    def page(self, html: str) -> str:
        soup = BeautifulSoup(html, "html.parser")
        for tag in soup.find_all("style"):
            _put(tag, Stylesheet(self.css(tag.get_text(), self.root)))
        for tag in soup.find_all("link", rel="stylesheet", href=True):
            path = self.file(str(tag["href"]), self.root)
            if path is not None:
                style = soup.new_tag("style")
                _put(style, Stylesheet(self.css(path.read_text(encoding="utf-8"), path.parent)))
                tag.replace_with(style)
        for tag in soup.find_all("script", src=True):
            path = self.file(str(tag["src"]), self.root)
            if path is not None:
                del tag["src"]
                _put(tag, Script(path.read_text(encoding="utf-8").replace("</script", "<\\/script")))
                if tag.has_attr("defer"):  # means nothing without src: the script has to come last instead
                    (soup.body or soup).append(tag.extract())
        for tag in soup.find_all(["img", "source", "link"]):
            key = "href" if tag.name == "link" else "src"
            path = self.file(str(tag.get(key, "")), self.root) if tag.get(key) else None
            if path is not None:
                tag[key] = self.data(path)
        self._outside(soup)
        return str(soup)

    def _outside(self, soup: BeautifulSoup) -> None:
        tags = soup.find_all(["script", "link", "img", "source", "iframe"])
        named = {str(tag.get("src") or tag.get("href") or "") for tag in tags if tag.get("rel") != ["canonical"]}
        elsewhere = sorted(each for each in named if each.startswith(("http:", "https:", "//")))
        if elsewhere:
            self.notes.append(f"still loads from elsewhere, and lacks it without a network: {', '.join(elsewhere)}")


def _put(tag: Tag, content: Script | Stylesheet) -> None:
    """Of these kinds, for what is in a script or style is not escaped."""
    tag.clear()
    tag.append(content)


def main() -> int:
    parser = argparse.ArgumentParser(description="Puts CSS, scripts, pictures and fonts of a page into one HTML file.")
    parser.add_argument("page", type=Path, help="the .html; what it names is looked for in its folder")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a .html below /mnt/user-data/outputs")
    options = parser.parse_args()
    if not options.page.is_file():
        print(f"{options.page} does not exist", file=sys.stderr)
        return 1
    if options.output.resolve() == options.page.resolve():
        print("the output would replace the page; give it another name or folder", file=sys.stderr)
        return 1
    bundle = Bundle(options.page.parent)
    html = bundle.page(options.page.read_text(encoding="utf-8"))
    if bundle.missing:
        print(f"Nothing was written; not there: {', '.join(sorted(set(bundle.missing)))}", file=sys.stderr)
        return 1
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(html, encoding="utf-8")
    print(f"{options.output}: {options.output.stat().st_size / 1000:.0f} KB, one file")
    for note in dict.fromkeys(bundle.notes):
        print(f"note: {note}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
