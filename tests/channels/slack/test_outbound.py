"""How a reply looks: Markdown blocks within Slack's limits, and nothing in them that calls anybody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from bot.texts.markdown import plain
from channels.message import Button, OutboundFile, OutboundMessage
from channels.slack import outbound, streams
from channels.slack.outbound import PAGE_CHARACTERS, SlackPart, layout
from tests.properties import examples
from tests.simulators.slack.blocks import check_blocks
from tests.tables import table

CONTROL = re.compile(r"<!(?:here|channel|everyone|subteam|date)|<@[UW]|<#C")
WORDS = re.compile(r"@(?:here|channel|everyone)\b")


def final(text: str) -> tuple[SlackPart, ...]:
    return layout(OutboundMessage(text=text, final=True))


@table(
    ("text", "shown"),
    [
        ("Hello", "Hello"),
        ("**bold** *it* ~~no~~ `x`", "**bold** *it* ~~no~~ `x`"),
        ("# Title\n\n- a\n    - b\n\n> q", "# Title\n\n- a\n    - b\n\n> q"),
        ("[label](https://a.b)", "[label](https://a.b)"),
        ("snake_case and 2 * 3", "snake_case and 2 * 3"),
        ("Hi <!channel> and <@U123>", "Hi <\u2060!channel> and <\u2060@U123>"),
        ("@here and me@channel.org", "@\u2060here and me@\u2060channel.org"),
        ("`<!here>` but `<!DOCTYPE html>`", "`<\u2060!here>` but `<!DOCTYPE html>`"),
        ("a < b & c", "a < b & c"),
    ],
)
def test_markdown(text: str, shown: str) -> None:
    (part,) = final(text)
    assert part.markdown == shown


def test_code_keeps_its_language_and_tables_stay_tables() -> None:
    (part,) = final("```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    assert part.markdown.startswith("```python\nx = 1\n```")
    assert "| a | b |" in part.markdown


def test_status_and_buttons_hang_below_the_last_page() -> None:
    buttons = ((Button(label="A" * 90, data="p:0"), Button(label="", data="p:1")), (), (Button(label="C", data="p:2"),))
    text = "\n\n".join(f"{number}. " + "word " * 100 for number in range(40))
    parts = layout(OutboundMessage(text=text, status="searching\nthe web", buttons=buttons))
    assert len(parts) == 2
    assert (parts[0].status, parts[0].keyboard) == ("", ())
    blocks = outbound.content(parts[1])["blocks"]
    assert [block["type"] for block in blocks] == ["markdown", "context", "actions", "actions"]
    check_blocks(blocks)
    assert blocks[1]["elements"][0]["text"] == "searching\nthe web"


def test_what_was_done_hangs_below_the_answer_in_small_print() -> None:
    (part,) = layout(OutboundMessage(text="The answer.", done=("What I did", "Reading *a*.csv"), final=True))
    *_, below = outbound.content(part)["blocks"]
    text = {"type": "plain_text", "text": "What I did\nReading *a*.csv", "emoji": False}
    assert below == {"type": "context", "elements": [text]}
    (cut,) = layout(OutboundMessage(text="The answer.", done=("Reading",) * 500, final=True))
    assert len(outbound.content(cut)["blocks"][-1]["elements"][0]["text"]) <= 2000


def test_a_final_shows_no_status_and_files_come_last() -> None:
    files = (OutboundFile(path=Path("/tmp/a"), name="a.txt"),)
    text, file = layout(OutboundMessage(text="done", status="working", files=files, final=True))
    assert (text.status, file.file, file.index) == ("", files[0], 1)


def test_a_message_of_buttons_only_has_a_fallback() -> None:
    (part,) = layout(OutboundMessage(buttons=((Button(label="Yes", data="p:0"),),), final=True))
    assert outbound.content(part)["text"] == "[Yes]"


def test_a_notification_shows_words_and_no_marks() -> None:
    (part,) = layout(OutboundMessage(text="# **Sell** `all`\n\n- [now](https://x.org), 2\\*3", final=True))
    assert outbound.content(part)["text"] == "Sell all\nnow, 2*3"


@pytest.mark.parametrize("text", ["x" * 5000, "&" * 3000, "a&b" * 1500])
def test_the_fallback_is_never_too_long_nor_cut_in_an_entity(text: str) -> None:
    shown = outbound.content(SlackPart(0, markdown=text))["text"]
    assert len(shown) <= 4000
    assert re.sub("&amp;", "", shown).count("&") == 0


PIECES = st.sampled_from(
    ("<!channel>", "<", "!", "@", "here", "@everyone", "<@U123>", "**", "`", "```\n", "\n\n", "- ", "| a |\n|--|\n")
)
TEXTS = st.lists(PIECES | st.text(max_size=30), max_size=40).map("".join)


@given(TEXTS)
def test_whatever_the_model_writes_is_taken_and_calls_nobody(text: str) -> None:
    for part in layout(OutboundMessage(text=text, status=text, final=False)):
        shown = outbound.content(part)
        check_blocks(shown["blocks"])
        assert len(part.markdown) <= PAGE_CHARACTERS
        assert not CONTROL.search(part.markdown)
        assert "<" not in shown["text"]
        check_blocks(outbound.plain_content(part)["blocks"])


def _table(rows: int, columns: int, cell: str) -> str:
    row = f"|{f'{cell}|' * columns}\n"
    return row + f"|{'-|' * columns}\n" + row * rows + "\n"


LONG = st.lists(
    st.builds(_table, st.integers(0, 130), st.integers(1, 24), st.sampled_from(("x", "", "many words " * 20)))
    | st.builds(
        lambda line, count: line * count,
        st.sampled_from(("# Title\n", "text\n\n", "- item\n\n", "1. one\n", "> said\n\n", "---\n\n", "```\nx\n```\n")),
        st.integers(1, 70),
    ),
    min_size=1,
    max_size=6,
).map("".join)
KEYBOARDS = st.lists(st.integers(1, 30).map(lambda count: (Button(label="A", data="p:0"),) * count), max_size=30)


@settings(max_examples=examples(40), phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(LONG, KEYBOARDS.map(tuple), st.sampled_from(("", "working")), st.booleans())
def test_no_length_of_lists_headings_tables_and_buttons_is_refused(
    text: str, buttons: tuple[tuple[Button, ...], ...], status: str, final: bool
) -> None:
    parts = layout(OutboundMessage(text=text, status=status, buttons=buttons, final=final))
    shown = [outbound.content(part) for part in parts]
    for one in shown:
        check_blocks(one["blocks"])
    elements = [block["elements"] for block in shown[-1]["blocks"] if block["type"] == "actions"]
    assert sum(map(len, elements)) == sum(map(len, buttons))


def test_a_table_goes_on_in_the_next_message_and_a_second_one_is_set_in_columns() -> None:
    first, second = final(_table(150, 2, "a"))
    assert first.markdown.startswith("| a | a |\n| --- | --- |")
    assert second.markdown.startswith("| a | a |\n| --- | --- |")
    assert (first.markdown + second.markdown).count("| a | a |") == 152
    (one,) = final("| a |\n|---|\n| 1 |\n\n| b |\n|---|\n| 2 |")
    assert one.markdown == "| a |\n| --- |\n| 1 |\n\n```\nb\n-\n2\n```"


def test_a_refused_reply_is_plain_text_in_parts_without_a_word_lost() -> None:
    words = " ".join(f"w{number}&<b>" for number in range(2000))
    parts = layout(OutboundMessage(text=plain(words), final=True, plain=True))
    assert len(parts) > 1
    shown = [outbound.content(part) for part in parts]
    assert [one["blocks"] for one in shown] == [[]] * len(parts)
    assert " ".join(one["text"].strip() for one in shown) == words.replace("&", "&amp;").replace("<", "&lt;").replace(
        ">", "&gt;"
    )


@given(TEXTS)
def test_plain_text_is_taken_whatever_it_says(text: str) -> None:
    button = ((Button(label="Yes", data="p:0"),),)
    for part in layout(OutboundMessage(text=plain(text), buttons=button, final=True, plain=True)):
        shown = outbound.content(part)
        check_blocks(shown["blocks"])
        assert "<" not in shown["text"]
        assert len(shown["text"]) <= 3000
        assert shown["text"].strip()


@given(TEXTS, st.integers(0, 200))
def test_a_stream_only_ever_grows_and_calls_nobody(text: str, cut: int) -> None:
    before, after = streams.shown(text[:cut]), streams.shown(text)
    assert after.startswith(before)
    assert not CONTROL.search(after)
    assert not WORDS.search(after)


def test_a_stream_shows_nearly_all() -> None:
    assert streams.shown("Hello, **world**") == "Hello, **world**"
    assert streams.shown("mail me@chan") == "mail me"
    assert len(streams.shown("x" * 20_000)) == PAGE_CHARACTERS
