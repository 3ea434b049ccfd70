"""How a reply looks: Markdown blocks within Slack's limits, and nothing in them that calls anybody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.message import Button, OutboundFile, OutboundMessage
from channels.slack import payload, streams
from channels.slack.outbound import PAGE_CHARACTERS, SlackPart, layout
from tests.simulators.slack.blocks import check_blocks

CONTROL = re.compile(r"<!(?:here|channel|everyone|subteam|date)|<@[UW]|<#C")
WORDS = re.compile(r"@(?:here|channel|everyone)\b")


def final(text: str) -> tuple[SlackPart, ...]:
    return layout(OutboundMessage(text=text, final=True))


@pytest.mark.parametrize(
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
    blocks = payload.content(parts[1])["blocks"]
    assert [block["type"] for block in blocks] == ["markdown", "actions", "actions", "context"]
    check_blocks(blocks)
    assert blocks[-1]["elements"][0]["text"] == "searching the web"


def test_a_final_shows_no_status_and_files_come_last() -> None:
    files = (OutboundFile(path=Path("/tmp/a"), name="a.txt"),)
    text, file = layout(OutboundMessage(text="done", status="working", files=files, final=True))
    assert (text.status, file.file, file.index) == ("", files[0], 1)


def test_a_message_of_buttons_only_has_a_fallback() -> None:
    (part,) = layout(OutboundMessage(buttons=((Button(label="Yes", data="p:0"),),), final=True))
    assert payload.content(part)["text"] == "[Yes]"


@pytest.mark.parametrize("text", ["x" * 5000, "&" * 3000, "a&b" * 1500])
def test_the_fallback_is_never_too_long_nor_cut_in_an_entity(text: str) -> None:
    shown = payload.content(SlackPart(0, markdown=text))["text"]
    assert len(shown) <= 4000
    assert re.sub("&amp;", "", shown).count("&") == 0


PIECES = st.sampled_from(
    ("<!channel>", "<", "!", "@", "here", "@everyone", "<@U123>", "**", "`", "```\n", "\n\n", "- ", "| a |\n|--|\n")
)
TEXTS = st.lists(PIECES | st.text(max_size=30), max_size=40).map("".join)


@given(TEXTS)
def test_whatever_the_model_writes_is_taken_and_calls_nobody(text: str) -> None:
    for part in layout(OutboundMessage(text=text, status=text, final=False)):
        shown = payload.content(part)
        check_blocks(shown["blocks"])
        assert len(part.markdown) <= PAGE_CHARACTERS
        assert not CONTROL.search(part.markdown)
        assert "<" not in shown["text"]
        check_blocks(payload.plain_content(part)["blocks"])


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
