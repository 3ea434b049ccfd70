"""What is shown of a file beside the chat: as what it is, bounded, and never so that it could run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.http.errors import HttpProblem
from bot.http.page.artifacts import LONGEST_CELL, MOST_COLUMNS, MOST_READ, MOST_ROWS, Preview, preview
from bot.http.page.messages import icon_of, type_of
from bot.http.page.view import Pages
from bot.texts.page import words
from harness.events import Finished, Outcome, ReadyFile
from tests.bot.http.served import PERSON, served

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from harness.events import AnyRunEvent
    from tests.bot.http.served import ServedCore
    from tests.bot.scripted_harness import Teller

T = words("en")
EVIL = "<script>alert(1)</script>"


def shown(folder: Path, name: str, content: bytes | str, mime_type: str = "application/octet-stream") -> Preview:
    path = folder / "file"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return preview(path, name, mime_type, T)


def test_pictures_and_sounds_are_what_the_browser_shows_itself(tmp_path: Path) -> None:
    assert shown(tmp_path, "a.png", b"x", "image/png").looks == "picture"
    assert shown(tmp_path, "a.mp3", b"x", "audio/mpeg").looks == "sound"
    assert shown(tmp_path, "a.svg", "<svg/>", "image/svg+xml").looks == "code", "it could run scripts"


def test_markdown_is_rendered_and_what_could_run_is_source(tmp_path: Path) -> None:
    told = shown(tmp_path, "notes.md", f"# Title\n\n{EVIL}")
    assert told.looks == "prose"
    assert 'class="level-1"' in told.pieces[0]
    assert EVIL not in "".join(told.pieces)
    for name in ("page.html", "drawing.SVG"):
        told = shown(tmp_path, name, EVIL, "text/html")
        assert (told.looks, told.is_source, EVIL in told.pieces[0]) == ("code", True, False)
        assert "&lt;" in told.pieces[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "shop,sold\nNorth,1 200\n"),
        ("a.csv", "shop;sold\r\nNorth;1 200\r\n"),
        ("a.tsv", "shop\tsold\nNorth\t1 200"),
    ],
)
def test_tables_are_read_whatever_parts_their_columns(tmp_path: Path, name: str, text: str) -> None:
    told = shown(tmp_path, name, text)
    assert told.looks == "table"
    assert list(map(list, told.rows)) == [[("shop", False), ("sold", False)], [("North", False), ("1 200", True)]]
    assert not told.is_cut


@pytest.mark.parametrize("text", ["1,5;2,5\n3,5;4,5\n", "Name, first;Age\nMüller, Jan;33\n"])
def test_commas_within_cells_part_no_columns(tmp_path: Path, text: str) -> None:
    assert [len(row) for row in shown(tmp_path, "a.csv", text).rows] == [2, 2]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le", "utf-16"])
def test_a_table_of_another_program_is_shown_in_its_encoding(tmp_path: Path, encoding: str) -> None:
    text = "Größe;Stück\r\nMützen für Mädchen;12\r\nGürtel für Männer;7\r\n"
    assert shown(tmp_path, "a.csv", text.encode(encoding)).rows[1] == [("Mützen für Mädchen", False), ("12", True)]


def test_a_large_table_is_cut(tmp_path: Path) -> None:
    rows = "\n".join(f"{number},{'x' * 400}" for number in range(MOST_ROWS + 50))
    told = shown(tmp_path, "a.csv", "n,text\n" + rows)
    assert (len(told.rows), told.is_cut) == (MOST_ROWS + 1, True)
    assert len(told.rows[1][1][0]) == LONGEST_CELL + 1
    wide = shown(tmp_path, "a.csv", ",".join(map(str, range(MOST_COLUMNS + 5))))
    assert (len(wide.rows[0]), wide.is_cut) == (MOST_COLUMNS, True)
    quoted = shown(tmp_path, "a.csv", 'a,b\n"two\nlines",1\n')
    assert quoted.rows[1][0] == ("two\nlines", False)
    ragged = shown(tmp_path, "a.csv", "a,b,c\n1\n")
    assert [len(row) for row in ragged.rows] == [3, 3]


def test_other_texts_are_source_and_other_bytes_have_no_preview(tmp_path: Path) -> None:
    told = shown(tmp_path, "a.py", "x = 1  # one")
    assert (told.looks, told.is_source, "tok-c" in told.pieces[0]) == ("code", False, True)
    assert shown(tmp_path, "notes", "just words").looks == "code"
    assert shown(tmp_path, "a.csv", "").looks == "code"
    for content in (b"PK\x03\x04\0\0", bytes(range(128, 256)) * 4):
        assert shown(tmp_path, "a.txt", content).looks == "none"
    long = shown(tmp_path, "a.log", "line of words\n" * (MOST_READ // 10))
    assert long.is_cut
    assert len(long.pieces[0]) <= MOST_READ


def test_a_file_that_is_gone_or_no_file_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name in ("nothing", "link"):
        with pytest.raises(HttpProblem) as found:
            preview(tmp_path / name, "a.txt", "text/plain", T)
        assert found.value.status == 404


def test_icons_exist() -> None:
    pages = Pages()
    for name in ("a.png", "a.csv", "a.xlsx", "a.md", "a.pdf", "a.py", "a.bin", "a", "a.mp3"):
        mime_type = {"a.png": "image/png", "a.mp3": "audio/mpeg"}.get(name, "")
        template = pages._environment.from_string("{{ icon(name) }}")
        assert "<path" in template.render(name=icon_of(name, mime_type))
    assert [type_of(name) for name in ("a.csv", "a", "a.verylongsuffix")] == ["CSV", "", ""]


async def makes_a_file(world: ServedCore, text: str, name: str, content: str) -> None:
    """Have the agent make this file when it is told that text."""

    async def answer(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        folder = world.folder / "spool" / tell.ctx.run_id
        folder.mkdir(parents=True)
        (folder / name).write_text(content)
        file = ReadyFile(
            spooled=f"{tell.ctx.run_id}/{name}",
            path=name,
            name=name,
            size=len(content),
            mime_type="text/plain",
            kind="file",
        )
        yield tell(Finished, outcome=Outcome.SUCCESS, text="There it is.", message_id="a", files=(file,))

    world.harness.scripts[text] = answer


async def test_the_files_of_a_chat_are_listed_and_shown_to_its_person_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob, other = await world.browser(PERSON), await world.browser()
        await makes_a_file(world, "make it", "page.html", EVIL)
        chat = (await bob.post("/api/conversations")).json()["chat"]
        await bob.post(f"/api/conversations/{chat}/messages", json={"text": "make it", "client_id": "1"})
        await world.answered()
        await world.clock.until(world.delivery.drained())
        listed = await bob.get(f"/c/{chat}/files")
        assert "page.html" in listed.text
        assert "25 B" in listed.text
        history = (await bob.get(f"/api/conversations/{chat}/messages")).json()["messages"]
        file = next(each["message_id"] for each in history if each.get("file"))
        one = await bob.get(f"/c/{chat}/files/{file}")
        assert one.status_code == 200
        assert EVIL not in one.text
        assert "never runs in your browser" in one.text
        assert f'data-file="{file}"' in (await bob.get(f"/c/{chat}", headers={"Accept": "text/html"})).text
        for path in (f"/c/{chat}/files", f"/c/{chat}/files/{file}"):
            assert (await other.get(path)).status_code == 404
        assert (await bob.get(f"/c/{chat}/files/nothing")).status_code == 404
        raw = await bob.get(f"/api/conversations/{chat}/files/{file}")
        assert raw.headers["content-disposition"].startswith("attachment")
        assert raw.headers["content-type"] == "application/octet-stream"
