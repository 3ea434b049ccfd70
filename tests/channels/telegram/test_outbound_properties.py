"""Whatever a model writes, Telegram can take what we make of it, no word is lost, and what was shown stays."""

from __future__ import annotations

import re
import unicodedata
from itertools import count, pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.message import OutboundMessage
from channels.telegram.outbound import layout
from tests.properties import examples

if TYPE_CHECKING:
    from channels.telegram.outbound import Entity, TelegramPart

MARKS = ["**", "*", "_", "~~", "||", "`", "```", "[", "](", ")", "![", "<", ">", "\\", "&amp;", "~~~", "tg://", "<br>"]
STARTS = ["# ", "> ", "- ", "1. ", "  ", "    ", "```py\n", "```\n", "| a | b |\n|---|---|\n", "| ", "---\n", "- [ ] "]
INK = [
    "word",
    "字",
    "😀",
    "👨‍👩‍👧",
    "שלום",
    "e\u0301",
    "🇩🇪",
    "https://a.b/c",
    "x",
    "1",
    "…",
    "\u200b",
    "\u202e",
    "\x00",
]
SPACE = [" ", "  ", "\n", "\n\n", "\t"]
MARKDOWN = st.lists(st.sampled_from([*MARKS, *STARTS, *INK, *SPACE, *INK]), max_size=120).map("".join)
LONG = st.builds(
    lambda head, body, times, tail: head + body * times + tail,
    MARKDOWN,
    st.lists(st.sampled_from([*MARKS, *STARTS, *INK, *SPACE]), min_size=1, max_size=30).map("".join),
    st.integers(1, 300),
    MARKDOWN,
)
SOME = settings(max_examples=examples(50))


def units(text: str) -> list[str]:
    data = text.encode("utf-16-le")
    return [data[index : index + 2].hex() for index in range(0, len(data), 2)]


def is_low_surrogate(unit: str) -> bool:
    return "dc" <= unit[2:] <= "df"


def check(part: TelegramPart) -> None:
    """Telegram's rules for one text message, as its own server checks them."""
    part.text.encode()
    measured = units(part.text)
    assert 0 < len(measured) <= 4096
    assert len(part.entities) <= 100
    assert part.text == part.text.rstrip()
    first = part.entities[0] if part.entities else None
    if not (first and first.offset == 0 and first.type == "pre"):
        assert part.text == part.text.lstrip()
    assert not part.text.startswith("\n")
    assert any(unicodedata.category(char)[0] not in "ZC" for char in part.text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", part.text)
    for entity in part.entities:
        check_entity(entity, measured)
    for index, outer in enumerate(part.entities):
        for inner in part.entities[index + 1 :]:
            check_pair(outer, inner)
    order = [(entity.offset, -entity.length) for entity in part.entities]
    assert order == sorted(order)


def check_entity(entity: Entity, measured: list[str]) -> None:
    end = entity.offset + entity.length
    assert entity.length > 0
    assert entity.offset >= 0
    assert end <= len(measured)
    assert not is_low_surrogate(measured[entity.offset])
    assert end == len(measured) or not is_low_surrogate(measured[end])
    covered = bytes.fromhex("".join(measured[entity.offset : end])).decode("utf-16-le")
    assert covered.strip()
    assert covered == covered.rstrip()
    assert entity.type == "pre" or covered == covered.lstrip()
    assert (entity.url is not None) == (entity.type == "text_link")
    assert entity.url is None or entity.url.lower().startswith(("http://", "https://"))
    assert entity.language is None or entity.type == "pre"


def check_pair(outer: Entity, inner: Entity) -> None:
    outer_end, inner_end = outer.offset + outer.length, inner.offset + inner.length
    if inner.offset >= outer_end:
        return
    assert inner_end <= outer_end, "spans overlap"
    assert outer.type != inner.type, "a span in itself"
    assert "pre" not in (outer.type, inner.type)
    assert outer.type != "code"
    assert inner.type != "code" or outer.type == "blockquote"
    assert inner.type != "blockquote"


def check_all(text: str, *, final: bool) -> tuple[TelegramPart, ...]:
    parts = layout(OutboundMessage(text=text, status="" if final else "Working", final=final))
    assert [part.index for part in parts] == list(range(len(parts)))
    for part in parts:
        if part.file is None:
            check(part)
    return parts


@given(MARKDOWN, st.booleans())
def test_any_markdown_makes_valid_parts(text: str, final: bool) -> None:
    check_all(text, final=final)


@SOME
@given(LONG, st.booleans())
def test_any_long_markdown_makes_valid_parts(text: str, final: bool) -> None:
    check_all(text, final=final)


@given(st.text(alphabet=st.characters(), max_size=300), st.booleans())
def test_any_text_makes_valid_parts(text: str, final: bool) -> None:
    check_all(text, final=final)


@SOME
@given(LONG, st.lists(st.integers(1, 200), min_size=1, max_size=12))
def test_what_was_shown_stays_while_the_text_grows(text: str, steps: list[int]) -> None:
    ends = [0]
    for step in steps:
        ends.append(ends[-1] + step * max(1, len(text) // 600))
    shown = [check_all(text[:end], final=False) for end in [*ends, len(text)]]
    for before, after in pairwise(shown):
        assert after[: max(0, len(before) - 2)] == before[:-2]


SHAPES = ["{}", "**{}**", "*{}*", "`{}`", "~~{}~~", "||{}||", "[{}](https://x.y)", "**{} *{}***", "\\*{}", "[{}](no:z)"]
BLOCKS = ["{}", "# {}", "> {}", "- {}\n- {}", "1. {}\n\n   {}", "```py\n{}\n{}\n```", "- [ ] {}", "> - {}\n>   > {}"]
TABLES = ["| {} | {} |\n|---|---|\n| {} | {} |", "|{}" * 9 + "|\n" + "|---" * 9 + "|\n" + "|{}" * 9 + "|"]


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Blocks of every kind with numbered words in every kind of mark."""
    blocks = draw(st.lists(st.sampled_from([*BLOCKS, *TABLES]), max_size=12)) * draw(st.sampled_from([1, 1, 1, 40]))
    document = ""
    for number, block in enumerate(blocks):
        shape = "{}" if "```" in block else SHAPES[number % len(SHAPES)]
        document += block.replace("{}", shape) + "\n\n"
    numbers = count()
    return re.sub(r"\{\}", lambda _: f"w{next(numbers)}w", document)


@SOME
@given(documents())
def test_no_word_is_lost_and_the_order_stays(text: str) -> None:
    shown = "\n".join(part.text for part in check_all(text, final=True) if part.file is None)
    words = re.findall(r"w\d+w", text)
    found = re.findall(r"w\d+w", shown)
    # A table's head may be repeated, and its cells stand side by side.
    assert sorted(set(found), key=found.index) == words if "|--" not in text else set(found) == set(words)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "a" * 100_000,
        "a\n" * 50_000,
        "**a** " * 17_000,
        "`a` " * 25_000,
        "~~a " * 25_000,
        ">" * 100_000,
        "* " * 50_000,
        "[" * 100_000,
        "\x00" * 100_000,
        "\ud800" * 100_000,
        "😀" * 50_000,
        "a\u0301" * 50_000,
        "\u200b" * 100_000,
        "| a | b |\n|---|---|\n" + "| c | **d** |\n" * 7_000,
        "```\n" + "x" * 100_000,
        "- a\n" * 25_000,
        "".join("  " * depth + "- a\n" for depth in range(300)),
        "x" * 600 + "|y\n---|---\n" + "a|b\n" * 1_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_a_hundred_thousand_characters(text: str) -> None:
    check_all(text, final=True)


@pytest.mark.parametrize("block", [*BLOCKS, *TABLES, "**{}** `{}` _{}_ ", "> {}\n"])
def test_long_replies_of_one_kind_keep_what_was_shown(block: str) -> None:
    separator = "" if block.endswith((" ", "\n")) else "\n\n"
    text = separator.join(block.replace("{}", "some words") for _ in range(400))[:14_000]
    before: tuple[TelegramPart, ...] = ()
    for end in range(0, len(text), 331):
        after = check_all(text[:end], final=False)
        assert after[: max(0, len(before) - 2)] == before[:-2]
        before = after
