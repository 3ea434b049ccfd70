"""The shape of the code does not get worse: each figure of `make house` stays within its limit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.house import LIMITS, ROOT, House

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def figures() -> dict[str, float]:
    return House().figures()


@pytest.mark.parametrize("name", LIMITS)
def test_a_figure_keeps_its_limit(figures: dict[str, float], name: str) -> None:
    """Lower the limit if a figure falls; check `python -m tests.house` if it rises."""
    assert figures[name] <= LIMITS[name].limit


def test_every_figure_has_a_limit(figures: dict[str, float]) -> None:
    assert figures.keys() == LIMITS.keys()


def _write(root: Path, modules: dict[str, str]) -> House:
    for package in ("bot", "channels", "harness", "sandbox"):
        modules = {f"{package}/__init__.py": "", f"{package}/app.py": "", **modules}
    for name, source in modules.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return House(root)


def test_floors_are_counted_between_rooms_at_run_time(tmp_path: Path) -> None:
    house = _write(
        tmp_path,
        {
            "bot/a/x.py": "from bot.b.y import z\nfrom bot.a import other",
            "bot/a/other.py": "",
            "bot/b/y.py": "if TYPE_CHECKING:\n    from bot.a.x import q\nfrom bot.c import z",
            "bot/c.py": "z = 1",
        },
    )
    assert house.floors("bot") == 3


def test_a_circle_of_rooms_is_named(tmp_path: Path) -> None:
    house = _write(tmp_path, {"bot/a/x.py": "import bot.b", "bot/b.py": "def f():\n    from bot.a.x import g"})
    with pytest.raises(ValueError, match=r"bot\.a -> bot\.b -> bot\.a"):
        house.floors("bot")


def test_a_crumb_has_one_importer_even_for_types(tmp_path: Path) -> None:
    used = {"bot/a.py": "x = 1\n", "bot/b.py": "x = 1\n", "bot/c.py": "x = 1\n" * 80}
    imports = "from bot import a, b, c\n"
    house = _write(tmp_path, {**used, "bot/d.py": imports, "bot/e.py": "if TYPE_CHECKING:\n    import bot.b\n"})
    assert house.crumbs() == ["bot.a"]


def test_the_docs_name_files_that_are_there() -> None:
    named = re.compile(r"(?<![\w/.-])((?:bot|channels|harness|sandbox|tests|docs)/[\w/.-]+\.(?:py|md))")
    pages = [ROOT / "README.md", ROOT / "README.zh.md", *(ROOT / "docs").rglob("*.md")]
    gone = {
        f"{page.name}: {file}"
        for page in pages
        for file in named.findall(page.read_text())
        if not (ROOT / file).exists()
    }
    assert gone == set()


def test_the_chinese_readme_says_what_the_english_one_says() -> None:
    """The same headings, commands, names in code, and links, with Chinese pictures; each links to the other."""
    told = []
    for name, other, picture in (("README.md", "README.zh.md", ".png"), ("README.zh.md", "README.md", "-zh.png")):
        text = (ROOT / name).read_text()
        assert f"]({other})" in text.partition("\n## ")[0]
        blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        links = set(re.findall(r"\]\(([^)]+)\)", prose))
        told.append(
            {
                "headings": [len(marks) for marks in re.findall(r"^(#+) ", prose, re.MULTILINE)],
                "commands": [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()],
                "code": sorted(re.findall(r"`([^`]+)`", prose)),
                "links": sorted(link.replace(picture, ".(picture)") for link in links - {other}),
                "rows": prose.count("\n|"),
            }
        )
    english, chinese = told
    assert english["commands"]
    assert chinese == english
