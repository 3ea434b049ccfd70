"""Sources: kept for a thread's runs, found again after a restart, and what a citation of one is worth."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.web import sources as module
from harness.web.sources import FileSources, MemorySources, Source, hash_of, occurs, pages_read, texts_of
from tests.harness.support import START

if TYPE_CHECKING:
    from pathlib import Path

    from harness.web.sources import Sources

TEXT = """\
# The lighthouse

It was painted **green** in 1911, says the [diary](https://a.example/diary) of its keeper.

| Year | Colour |
|---|---|
| 1890 | white |

“Who keeps the lamp”, he wrote, “keeps the coast – and everybody on it.”
"""


@pytest.fixture(params=["memory", "files"])
def sources(request: pytest.FixtureRequest, tmp_path: Path) -> Sources:
    return MemorySources() if request.param == "memory" else files(tmp_path)


def files(folder: Path) -> FileSources:
    return FileSources(lambda thread_id: folder / thread_id / "sources")


def source(run: str = "r1", url: str = "https://a.example/x", text: str = TEXT, minutes: int = 0) -> Source:
    return Source(
        thread_id="thread-1",
        run_id=run,
        url=url,
        address=url.replace("http:", "https:"),
        title="The lighthouse",
        kind="text/html",
        fetched_at=START + timedelta(minutes=minutes),
        sha256=hash_of(text),
        characters=len(text),
    )


async def test_what_a_run_has_read_is_told_in_its_order(sources: Sources) -> None:
    later, first = source(url="https://a.example/2", text="two", minutes=2), source()
    for each, text in ((later, "two"), (first, TEXT), (source("r2"), TEXT)):
        await sources.keep(each, text)
    assert await sources.of_run("thread-1", "r1") == (first, later)
    assert await sources.of_run("thread-1", "r3") == ()
    assert await sources.of_run("thread-2", "r1") == ()
    assert await sources.text(later) == "two"
    assert await sources.text(replace(later, sha256=hash_of("else"))) is None


async def test_the_latest_of_an_address(sources: Sources) -> None:
    assert await sources.latest("thread-1", "https://a.example/x") is None
    newer = source("r2", text="newer \ud800", minutes=5)
    await sources.keep(newer, "newer \ud800")
    await sources.keep(source(), TEXT)
    assert await sources.latest("thread-1", "https://a.example/x") == (newer, "newer \ud800")
    assert await sources.latest("thread-1", "https://a.example/x?y") is None
    assert await sources.latest("thread-2", "https://a.example/x") is None


async def test_a_run_that_reads_a_page_again_has_its_newest_text(sources: Sources) -> None:
    await sources.keep(source(), TEXT)
    await sources.keep(source(text="changed", minutes=1), "changed")
    (found,) = await sources.of_run("thread-1", "r1")
    assert await sources.text(found) == "changed"


async def test_files_outlive_the_process_and_what_is_wrong_among_them(tmp_path: Path) -> None:
    await files(tmp_path).keep(source(), TEXT)
    folder = tmp_path / "thread-1" / "sources"
    for name, body in (("r1.a.json", "{"), ("r1.b.json", '{"url": 3}'), ("r1.c.json", "[]")):
        (folder / name).write_text(body)
    again = files(tmp_path)
    assert await again.of_run("thread-1", "r1") == (source(),)
    assert await again.latest("thread-1", source().url) == (source(), TEXT)
    assert folder.stat().st_mode & 0o077 == 0
    (folder / f"{source().sha256}.txt").unlink()
    assert await again.latest("thread-1", source().url) is None
    with pytest.raises(ValueError, match="cannot name a file"):
        await again.of_run("thread-1", "../r1")


async def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SOURCES", 3)
    kept = files(tmp_path)
    for number in range(6):
        await kept.keep(source(url=f"https://a.example/{number}", text=f"{number}", minutes=number), f"{number}")
    found = await kept.of_run("thread-1", "r1")
    assert len(found) == 3
    assert found[-1].url.endswith("/5")
    assert len(list((tmp_path / "thread-1" / "sources").iterdir())) == 6
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    await kept.keep(source(url="https://a.example/large", text="x" * 100), "x" * 100)
    (only,) = await kept.of_run("thread-1", "r1")
    assert await kept.text(only) == "x" * 100  # the one that was just read stays, however long it is


async def test_a_page_that_several_runs_have_read_is_one(sources: Sources) -> None:
    tracked, other = "http://a.example/x?utm_source=mail", "https://b.example/"
    await sources.keep(source("r2", url="https://www.a.example/x/", text="newer", minutes=5), "newer")
    await sources.keep(source(url=tracked), TEXT)
    await sources.keep(source("r2", url=other, text="b", minutes=1), "b")
    await sources.keep(source("r3", url="https://c.example/", text="c"), "c")
    pages = await pages_read(sources, "thread-1", ["r2", "r1", "r2"])
    assert [page.first.url for page in pages] == [tracked, other]
    texts = await texts_of(sources, pages)
    assert [page.texts(texts) for page in pages] == [[TEXT, "newer"], ["b"]]
    assert [page.sha256 for page in pages] == [hash_of("newer"), hash_of("b")]
    assert pages[0].is_at("https://a.example/x#part")
    assert not pages[0].is_at("https://a.example/y")
    assert await pages_read(sources, "thread-2", ["r1"]) == ()


async def test_a_page_is_one_by_where_it_led_and_each_text_counts_once(sources: Sources) -> None:
    landed = "https://a.example/landed"
    read = [("r1", "https://go.example/1"), ("r1", "https://go.example/2"), ("r2", landed)]
    for minutes, (run, url) in enumerate(read):
        await sources.keep(replace(source(run, url=url, minutes=minutes), address=landed), TEXT)
    (page,) = await pages_read(sources, "thread-1", ["r1", "r2"])
    assert len(page.sources) == 3
    assert page.is_at("https://go.example/2")
    assert page.texts(await texts_of(sources, [page])) == [TEXT]
    assert page.texts({}) == []


@pytest.mark.parametrize(
    "words",
    [
        "It was painted green in 1911",
        "says the diary of its keeper",
        "1890 white",
        '"Who keeps the lamp", he wrote',
        "keeps the coast - and everybody on it.",
        "It was painted … of its keeper",
        "it was\n  PAINTED [...] the coast",
        "It was painted green. … of its keeper,",
    ],
)
def test_words_that_stand_there(words: str) -> None:
    assert occurs(words, TEXT)


@pytest.mark.parametrize(
    "words",
    [
        "It was painted red",
        "of its keeper … It was painted",
        "",
        "…",
        "**",
        "x",
        "the",
        "1911 1890 green lamps of gold",
    ],
)
def test_words_that_do_not(words: str) -> None:
    assert not occurs(words, TEXT)


@given(st.text(st.characters(codec="latin-1"), max_size=200), st.integers(0, 200), st.integers(4, 40))
def test_a_part_of_a_plain_text_stands_in_it(text: str, start: int, length: int) -> None:
    plain = " ".join("".join(char for char in text if char.isalnum() or char == " ").split())
    part = plain[start : start + length].strip()
    if len(part.casefold()) >= module.LEAST_WORDS:
        assert occurs(part, plain)
