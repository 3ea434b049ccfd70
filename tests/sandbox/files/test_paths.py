"""Virtual paths both ways, and host paths that text must not show."""

from __future__ import annotations

import posixpath
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.base import OUTPUTS, SKILLS, UPLOADS, WORKSPACE, ProblemCode
from sandbox.files.beneath import Refused
from sandbox.files.paths import Layout, Root, locate, locate_all, shown
from tests.tables import table

ROOTS = (WORKSPACE, UPLOADS, OUTPUTS, SKILLS, "/mnt/docs")
NAMES = st.sampled_from(["a", "b", "..", ".", "", "mnt", "user-data", "workspace", "uploads", "skills", "…", "a b"])
PATHS = st.builds("/".join, st.lists(NAMES, max_size=8))


@table(
    ("path", "root", "inside"),
    [
        ("a.txt", WORKSPACE, "a.txt"),
        ("./a//b/../c", WORKSPACE, "a/c"),
        (".", WORKSPACE, "."),
        (WORKSPACE, WORKSPACE, "."),
        ("//mnt/user-data/uploads/./x", UPLOADS, "x"),
        (f"{SKILLS}/public/x/SKILL.md", SKILLS, "public/x/SKILL.md"),
        ("/mnt/docs/x", "/mnt/docs", "x"),
        ("a\nb", WORKSPACE, "a\nb"),
    ],
)
def test_where_a_path_is(path: str, root: str, inside: str) -> None:
    place = locate(path, ROOTS)
    assert (place.virtual_root, place.path) == (root, inside)


@table(
    "path",
    [
        "..",
        "a/../../b",
        "../uploads/a",
        f"{WORKSPACE}/..",
        f"{WORKSPACE}/../uploads/a",
        f"{SKILLS}/../user-data/workspace/a",
        "/etc/passwd",
        "/mnt/docs2",
        "/mnt",
        f"{WORKSPACE}-2/a",
        "/../../etc",
    ],
)
def test_what_is_outside(path: str) -> None:
    with pytest.raises(Refused) as caught:
        locate(path, ROOTS)
    assert caught.value.code is ProblemCode.OUTSIDE


@given(PATHS)
def test_a_place_is_what_posix_says_or_nothing(path: str) -> None:
    try:
        place = locate(path, ROOTS)
    except Refused:
        return
    assert place.virtual == posixpath.normpath(posixpath.join(WORKSPACE, path)).replace("//", "/")
    assert ".." not in place.path.split("/")
    assert locate(place.virtual, ROOTS).virtual == place.virtual


@given(st.text())
def test_any_text_is_a_place_or_refused(path: str) -> None:
    try:
        place = locate(path, ROOTS)
    except Refused as refused:
        assert refused.code in (ProblemCode.OUTSIDE, ProblemCode.BAD_PATH)  # noqa: PT017
    else:
        assert place.virtual_root in ROOTS


def test_above_the_roots_are_the_roots() -> None:
    assert [place.virtual for place in locate_all("/mnt/user-data", ROOTS)] == sorted([WORKSPACE, UPLOADS, OUTPUTS])
    assert len(locate_all("/", ROOTS)) == len(ROOTS)
    assert [place.virtual for place in locate_all("a", ROOTS)] == [f"{WORKSPACE}/a"]


@pytest.mark.parametrize(
    ("name", "harmless"),
    [
        ("报告 🦌é.txt", "报告 🦌é.txt"),
        ("a\nb\x1b[31m", "a\\u000ab\\u001b[31m"),
        ("caf\udce9", "caf\\xe9"),
        ("gpj.\u202etxt", "gpj.\\u202etxt"),
        ("family 👨‍👩‍👧", "family 👨‍👩‍👧"),
    ],
)
def test_hostile_names_are_shown_harmlessly(name: str, harmless: str) -> None:
    assert shown(name) == harmless


@given(st.binary(max_size=40))
def test_every_name_can_be_shown(name: bytes) -> None:
    text = shown(name.decode("utf-8", "surrogateescape"))
    assert text.encode().decode() == text
    assert len(text.splitlines()) <= 1


def layout() -> Layout:
    roots = [
        Root(virtual=WORKSPACE, host=Path("/srv/antler/threads/x/user-data/workspace"), own=True),
        Root(virtual=UPLOADS, host=Path("/srv/antler/threads/x/user-data/uploads"), own=True),
        Root(virtual="/mnt/docs", host=Path("/srv/docs")),
        Root(virtual="/mnt/more", host=Path("/srv/docs/more")),
    ]
    return Layout(roots, {"/srv/antler/threads/x/user-data": "/mnt/user-data"})


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("cd /srv/antler/threads/x/user-data/workspace/a", f"cd {WORKSPACE}/a"),
        ("-I/srv/docs: file:///srv/docs/more/x", "-I/mnt/docs: file:///mnt/more/x"),
        ("/srv/antler/threads/x/user-data.", "/mnt/user-data."),
        ("/srv/docs2 and /srv/docs-old are others", "/srv/docs2 and /srv/docs-old are others"),
        ("nothing", "nothing"),
    ],
)
def test_host_paths_are_masked_the_longest_first(text: str, masked: str) -> None:
    assert layout().mask(text) == masked


WORDS = st.sampled_from(["/srv/docs", "/more", "/srv/antler/threads/x/user-data", "/uploads", "/", " ", "2", "a"])


@given(st.lists(WORDS), st.data())
def test_masking_in_pieces_gives_the_same(words: list[str], data: st.DataObject) -> None:
    text = "".join(words)
    masking = layout().masking()
    masked = ""
    while text:
        size = data.draw(st.integers(1, 20))
        masked += masking.feed(text[:size])
        text = text[size:]
    assert masked + masking.end() == layout().mask("".join(words))


def test_what_cannot_be_a_host_path_is_not_held_back() -> None:
    masking = layout().masking()
    assert masking.feed("plain text") == "plain text"
    assert masking.feed("see /srv/do") == "see "
    assert masking.feed("nut") == "/srv/donut"
    assert masking.end() == ""
