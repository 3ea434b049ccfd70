"""Ranges of lines, replacements and patterns, held against simpler ways of saying the same."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox.base import ProblemCode
from sandbox.files.beneath import Refused
from sandbox.files.content import Lines, decoded, read_lines, replaced, require_text
from sandbox.files.patterns import Glob, LinePattern, split_glob
from sandbox.files.searching import Bounds, hits_in
from tests.tables import table

ROOT = Path(__file__).resolve().parents[3]
TEXTS = st.text(st.sampled_from("ab\n\r é🦌"), max_size=60)


def lines_of(text: str) -> list[str]:
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


@given(TEXTS, st.integers(-1, 8), st.none() | st.integers(0, 8), st.integers(1, 7))
def test_a_range_is_what_splitting_gives(text: str, first: int, last: int | None, piece: int) -> None:
    source = io.BytesIO(text.encode())
    found = read_lines(lambda size: source.read(piece), first, last, 10_000)
    lines = lines_of(text)
    wanted = lines[max(0, first - 1) : last]
    assert (found.text, found.total, found.cut) == ("".join(wanted), len(lines), False)
    assert (found.first, found.last) == ((max(1, first), max(1, first) + len(wanted) - 1) if wanted else (0, 0))


@given(TEXTS, st.integers(1, 4), st.integers(4, 20))
def test_a_cut_range_is_a_beginning_of_it(text: str, first: int, most: int) -> None:
    whole = "".join(lines_of(text)[first - 1 :])
    found = read_lines(io.BytesIO(text.encode()).read, first, None, most)
    assert whole.startswith(found.text)
    assert len(found.text.encode()) <= most
    assert found.cut == (len(whole.encode()) > most)
    if found.cut and "\n" in whole.encode()[:most].decode(errors="ignore"):
        assert found.text.endswith("\n")
    assert found.text.count("\n") + (not found.text.endswith("\n")) == found.last - found.first + 1 or not found.text


def test_an_empty_file() -> None:
    assert read_lines(io.BytesIO(b"").read, 1, None, 10) == Lines("", 0, 0, 0, False)


@given(st.text(st.sampled_from("ab\n"), max_size=20), st.text(st.sampled_from("ab\n"), min_size=1, max_size=3))
def test_replacing(text: str, old: str) -> None:
    places = sum(text.startswith(old, at) for at in range(len(text)))
    try:
        changed, count = replaced(text, old, "X", everywhere=False)
    except Refused as refused:
        assert refused.code is (ProblemCode.NOT_UNIQUE if places else ProblemCode.NO_MATCH)  # noqa: PT017
        assert places != 1
    else:
        assert (places, count, changed) == (1, 1, text.replace(old, "X"))


def test_many_places_are_counted_and_some_named() -> None:
    with pytest.raises(Refused, match=r"2500 places: lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, \.\.\.") as caught:
        replaced("x\n" * 2500, "x", "y", everywhere=False)
    assert caught.value.code is ProblemCode.NOT_UNIQUE


@given(st.binary(max_size=200))
def test_text_is_what_decodes_and_has_no_null(data: bytes) -> None:
    try:
        text = decoded(data)
    except Refused as refused:
        assert refused.code is ProblemCode.BINARY  # noqa: PT017
    else:
        assert text.encode() == data
        assert "\0" not in text


def test_a_character_at_the_end_of_the_looked_at_part_is_no_problem() -> None:
    data = "é".encode() * 5000
    require_text(data[:8191], len(data))
    with pytest.raises(Refused):
        require_text(data[:8191], 8191)


LINES = st.lists(st.sampled_from(["", "a", "ab", "b", "é", "a" * 70_000]), max_size=8)


@given(LINES, st.sampled_from(["a", "^a", "b$", "^$", "é", "c"]))
@example(["", ""], "^$")
def test_lines_that_match_are_those_that_match_alone(lines: list[str], pattern: str) -> None:
    text = "\n".join(lines)
    hits = hits_in(io.BytesIO(text.encode()).read, "p", LinePattern(pattern), Bounds(), 1000)
    found = {hit.line for hit in hits}
    short = {number for number, line in enumerate(lines, 1) if len(line) < 1000}
    expected = {number for number, line in enumerate(lines, 1) if re.search(pattern, line)}
    if lines and not lines[-1]:
        expected.discard(len(lines))  # what stands after the last newline is no line
    assert found & short == expected & short


@pytest.mark.parametrize(
    ("pattern", "path", "rest", "start"),
    [
        ("*.py", "src", "*.py", "src"),
        ("/mnt/a/*/b", "x", "*/b", "/mnt/a"),
        ("/mnt/a/b.txt", "x", "b.txt", "/mnt/a"),
        ("/*", "x", "*", "/"),
    ],
)
def test_absolute_patterns_bring_their_own_start(pattern: str, path: str, rest: str, start: str) -> None:
    assert split_glob(pattern, path) == (rest, start)


@table(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", ".py"], ["d/a.py", "a.pyc"]),
        ("**/*.py", ["a.py", "d/e/a.py"], ["a.pyc"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "x/src/a"]),
        ("{a,b/**}/x.{md,txt}", ["a/x.md", "b/c/x.txt"], ["c/x.md"]),
        ("[!a-c]x[.]", ["dx."], ["ax.", "/x."]),
        ("a[", ["a["], ["a"]),
        ("x?y", ["xéy"], ["x/y"]),
        (r"a.b\*(", ["a.b*("], ["aXb*("]),
        ("[]a-]", ["]", "-", "a"], ["b"]),
    ],
)
def test_globs(pattern: str, yes: list[str], no: list[str]) -> None:
    glob = Glob(pattern)
    assert [glob.matches(path) for path in yes + no] == [True] * len(yes) + [False] * len(no)


GLOBS = st.text(st.sampled_from("ab/*?[]{},!\\-^.é"), min_size=1, max_size=12)


@given(GLOBS, st.text(st.sampled_from("ab/é."), max_size=8))
def test_any_glob_is_a_pattern_or_refused(pattern: str, path: str) -> None:
    try:
        Glob(pattern).matches(path)
    except Refused as refused:
        assert refused.code is ProblemCode.BAD_PATTERN  # noqa: PT017


def test_many_classes_of_unicode_are_refused_before_they_cost_time() -> None:
    for pattern in (r"\pL" * 330, r"(?i)" + r"\PN" * 300, r"[\p{Greek}\pL]" * 60):
        begun = time.process_time()
        with pytest.raises(Refused, match="classes"):
            LinePattern(pattern)
        assert time.process_time() - begun < 0.05
    assert [
        match.line for match in LinePattern(r"\pL+ \p{Greek}").matches("-\na \N{GREEK SMALL LETTER PI}".encode())
    ] == [1]


def test_what_is_only_for_searching_is_loaded_by_the_first_search() -> None:
    code = (
        "import sandbox.files.workspace, sys; from sandbox.files.patterns import Glob\n"
        "print('re2' in sys.modules, Glob('*.py').matches('a.py'), 're2' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False", "True", "True"]
