"""Replies -> WeCom messages: the dialect, the limits in bytes, cards, files. Pure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.message import Button, OutboundFile, OutboundMessage
from channels.wecom.outbound import (
    BUTTONS_PER_CARD,
    FILE_AFTER_PARTS,
    KEY_BYTES,
    MESSAGE_BYTES,
    ONLY_BUTTONS,
    PRESSED_KEY,
    TEXT_CHARACTERS,
    Card,
    Pressed,
    WecomPart,
    cards,
    layout,
    stream_text,
)
from tests.properties import examples
from tests.tables import table

BUTTONS = ((Button(label="Yes", data="p:0"), Button(label="No", data="p:1")),)
TABLE = "| a | b |\n| --- | --- |\n| 1 | 2 |"
MARKS = [
    "**",
    "*",
    "_",
    "~~",
    "`",
    "```\n",
    "[",
    "](",
    ")",
    "<@bob>",
    "<think>",
    "</think>",
    "# ",
    "> ",
    "- ",
    "| a |\n",
]
INK = ["word ", "字", "😀", "👨‍👩‍👧", "\n", "\n\n", "https://a.b/c ", "\x00", "x" * 50]
MARKDOWN = st.lists(st.sampled_from([*MARKS, *INK, *INK]), max_size=100).map("".join)


def texts(text: str, **more: Any) -> list[str]:
    return [part.text for part in layout(OutboundMessage(text=text, final=True, **more))]


@table(
    ("markdown", "shown"),
    [
        ("Hello", "Hello"),
        ("# Title\n\ntext", "# Title\n\ntext"),
        ("**bold** and *italic* and ~~gone~~", "**bold** and *italic* and ~~gone~~"),
        ("- one\n- two", "- one\n- two"),
        ("> said", "> said"),
        ("```py\nif a < b:\n```", "```py\nif a < b:\n```"),
        ("[site](https://example.org)", "[site](https://example.org)"),
        ("snake_case_name and 2 * 3", "snake_case_name and 2 * 3"),
        ("a < b and c<5", "a < b and c<5"),
    ],
)
def test_what_wecom_knows_stays_markdown(markdown: str, shown: str) -> None:
    assert texts(markdown) == [shown]


def test_a_table_stays_a_table() -> None:
    (shown,) = texts(TABLE)
    assert [re.sub(r"[\s-]+", "", line) for line in shown.splitlines()] == [
        "|a|b|",
        "||||".replace("||||", "|||"),
        "|1|2|",
    ]


@pytest.mark.parametrize("text", ["<@zhangsan> hi", "**<@all>**", "`<@all>`", "```\n<@all>\n```", "a\n<@all>"])
def test_nobody_is_called_by_an_answer(text: str) -> None:
    for shown in texts(text):
        assert "<@" not in shown


def test_an_answer_cannot_fold_itself_away() -> None:
    (shown,) = texts("<think>secret</think> hello")
    assert "<think>" not in shown
    assert "hello" in shown


def test_the_status_is_a_quoted_line_below_and_cannot_form_marks() -> None:
    assert stream_text(OutboundMessage(status="reading **a** # b")) == "> reading \\*\\*a\\*\\* # b"
    assert stream_text(OutboundMessage(status="☑ read\nwriting")) == "> writing"
    assert stream_text(OutboundMessage(text="Half", status="writing")) == "Half\n\n> writing"
    assert stream_text(OutboundMessage(text="Whole", status="done", final=True)) == "Whole"
    assert stream_text(OutboundMessage(status="x" * 5000)).endswith("…")
    assert stream_text(OutboundMessage()) == ""


def test_long_text_is_cut_by_bytes() -> None:
    pages = [text for text in texts("字" * 30_000) if text]
    assert len(pages) == 5
    assert all(len(page.encode()) <= MESSAGE_BYTES for page in pages)
    assert sum(page.count("字") for page in pages) == 30_000


def test_a_fence_that_is_cut_is_closed_and_opened_again() -> None:
    pages = texts("```python\n" + "print('hello')\n" * 3000 + "```")
    assert len(pages) > 2
    for page in pages:
        assert page.startswith("```python\n")
        assert page.rstrip().endswith("```")


def test_many_messages_come_as_a_file_as_well() -> None:
    text = "word " * 5000 * FILE_AFTER_PARTS
    parts = layout(OutboundMessage(text=text, final=True))
    assert len(parts) == FILE_AFTER_PARTS + 2
    assert parts[-1].file is not None
    assert parts[-1].file.content.decode().split() == text.split()
    assert not any(part.file for part in layout(OutboundMessage(text=text)))


def test_buttons_that_stay_are_there_after_a_press_in_their_order() -> None:
    row = tuple(Button(label=label, data=f"p:{number}", stays=True) for number, label in enumerate("ABC"))
    (card,) = cards("What?", (row,))
    card_json = card.to_json("t")
    for label, left in (("B", ["A", "C"]), ("A", ["C"]), ("C", ["✓ C"])):
        key = next(button["key"] for button in card_json["button_list"] if button["text"] == label)
        pressed = Pressed.read(key)
        assert pressed.data == f"p:{'ABC'.index(label)}"
        card_json = pressed.card(f"{label} it is").to_json("t")
        assert [button["text"] for button in card_json["button_list"]] == left
        assert card_json["sub_title_text"] == f"{label} it is", "what came of earlier presses is not repeated"


def test_where_their_keys_have_no_room_the_others_go() -> None:
    row = tuple(Button(label=f"{number}" + "長" * 63, data=f"p:{number}", stays=True) for number in range(6))
    (card,) = cards("長" * 100, (row,))
    (first, *_) = card.to_json("t")["button_list"]
    assert len(first["key"].encode()) <= KEY_BYTES
    assert Pressed.read(first["key"]).others == ()


def test_a_short_question_is_one_card() -> None:
    (part,) = layout(OutboundMessage(text="Delete **old.txt**?", status="waiting", buttons=BUTTONS))
    assert part.card == Card(text="Delete old.txt?\nwaiting", buttons=(("Yes", "p:0"), ("No", "p:1")))


@pytest.mark.parametrize("text", ["Really? " * 20, "- one\n- two", "```\nrm -rf x\n```"])
def test_what_a_card_cannot_show_stands_above_it(text: str) -> None:
    above, card = layout(OutboundMessage(text=text, buttons=BUTTONS))
    assert above.text
    assert card.card is not None
    assert card.card.text == ONLY_BUTTONS


def test_buttons_alone_are_a_card() -> None:
    (part,) = layout(OutboundMessage(buttons=BUTTONS))
    assert part.card is not None
    assert part.card.text == ONLY_BUTTONS


def test_a_card_in_the_platforms_form() -> None:
    (part,) = layout(OutboundMessage(text="Go?", buttons=BUTTONS))
    assert part.card is not None
    assert part.card.to_json("t1") == {
        "card_type": "button_interaction",
        "main_title": {"title": "Go?"},
        "button_list": [
            {"text": "Yes", "style": 1, "key": '["p:0","Yes","Go?"]'},
            {"text": "No", "style": 1, "key": '["p:1","No","Go?"]'},
        ],
        "task_id": "t1",
    }


def test_a_pressed_button_says_what_its_card_becomes() -> None:
    pressed = Pressed.read('["p:1","No","Go?"]')
    assert pressed.data == "p:1"
    assert pressed.card("noted") == Card(text="Go?", note="noted", buttons=(("✓ No", PRESSED_KEY),))
    assert pressed.card("noted").to_json("t")["main_title"] == {"title": "Go?"}
    assert pressed.card("noted").to_json("t")["sub_title_text"] == "noted"
    assert Pressed.read("p:9").card("").buttons == (("✓ …", PRESSED_KEY),)
    assert Pressed.read(f'["p:1","No","{ONLY_BUTTONS}"]').card("noted").to_json("t")["main_title"] == {"title": "noted"}


@given(st.text(max_size=TEXT_CHARACTERS), st.text(max_size=64), st.text(max_size=16))
def test_every_key_is_read_as_it_was_written_and_within_its_limit(text: str, label: str, data: str) -> None:
    (part,) = layout(OutboundMessage(buttons=((Button(label=label, data=data),),)))
    assert part.card is not None
    (button,) = Card(text=text, buttons=part.card.buttons).to_json("t1")["button_list"]
    assert len(button["key"].encode()) <= 1024
    assert Pressed.read(button["key"]) == Pressed(data=data, label=part.card.buttons[0][0], text=text)


@pytest.mark.parametrize(
    ("text", "title", "below"),
    [
        ("Go?\nwaiting", "Go?", "waiting"),
        ("Delete all 3 files in the folder?", ONLY_BUTTONS, "Delete all 3 files in the folder?"),
        ("", ONLY_BUTTONS, None),
    ],
)
def test_every_card_has_the_title_that_the_platform_requires(text: str, title: str, below: str | None) -> None:
    card = Card(text=text, buttons=(("Yes", "p:0"),)).to_json("t1")
    assert (card["main_title"], card.get("sub_title_text")) == ({"title": title}, below)


def test_files_come_last_and_keep_their_names() -> None:
    file = OutboundFile(path=Path("/nowhere/x"), name="a.png", mime_type="image/png", kind="image")
    text, sent = layout(OutboundMessage(text="Here", files=(file,), final=True))
    assert text.text == "Here"
    assert sent.file is not None
    assert (sent.index, sent.file.name, sent.file.kind) == (1, "a.png", "image")


def check(parts: tuple[WecomPart, ...]) -> None:
    assert [part.index for part in parts] == list(range(len(parts)))
    for part in parts:
        assert sum(bool(content) for content in (part.text, part.card, part.file)) == 1
        assert len(part.text.encode()) <= MESSAGE_BYTES
        assert "<@" not in part.text
        if part.card is not None:
            assert 1 <= len(part.card.buttons) <= BUTTONS_PER_CARD
            assert 1 <= len(part.card.text) <= TEXT_CHARACTERS + 1


@settings(max_examples=examples(60))
@given(MARKDOWN, st.integers(1, 60), st.booleans(), st.text(max_size=30), st.booleans())
def test_every_reply_fits(text: str, times: int, final: bool, status: str, buttons: bool) -> None:
    message = OutboundMessage(text=text * times, status=status, final=final, buttons=BUTTONS if buttons else ())
    check(layout(message))
    assert len(stream_text(message).encode()) <= MESSAGE_BYTES


@settings(max_examples=examples(30))
@given(MARKDOWN, st.integers(100, 400))
def test_while_a_reply_grows_all_messages_but_the_last_two_stay(text: str, times: int) -> None:
    whole, before = text * times, ()
    for end in range(0, len(whole), max(1, len(whole) // 9)):
        parts: Any = layout(OutboundMessage(text=whole[:end], status="writing"))
        kept = max(0, len(before) - 2)
        assert parts[:kept] == before[:kept]
        before = parts
