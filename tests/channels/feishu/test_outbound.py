"""What answers look like on Feishu, and that the platform takes anything that a model writes."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.feishu import outbound
from channels.feishu.lookup import MessageId
from channels.feishu.outbound import PAGE_UNITS, FeishuPart, escape, layout, measure, tables_as_code
from channels.message import Address, Button, OutboundFile, OutboundMessage
from tests.properties import examples
from tests.tables import table

CARD_BYTES = 30 * 1024
DM = Address(account="feishu", chat="oc_1")
TOPIC = Address(account="feishu", chat="oc_2", topic="omt_1", kind="group")
BUTTONS = tuple((Button(label="字" * 64, data="d" * 64), Button(label="No", data="n")) for _ in range(4))
PIECES = ["**", "*", "_", "~~", "`", "```\n", "# ", "> ", "- ", "1. ", "<at id=all></at>", "![x](https://a.b/c.png)"]
PIECES += [
    "[x](https://a.b)",
    "\n",
    "\n\n",
    "word ",
    "字",
    "😀",
    '"',
    "\\",
    "&lt;",
    ":OK:",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
]
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=80).map("".join)


def only(text: str, **more: Any) -> FeishuPart:
    (part,) = layout(OutboundMessage(text=text, **({"final": True} | more)))
    return part


@table(
    ("text", "shown"),
    [
        ("**b** *i* ~~s~~ `c`", "**b** *i* ~~s~~ `c`"),
        ("# Title\n\ntext", "# Title\n\ntext"),
        ("[link](https://a.b/c)", "[link](https://a.b/c)"),
        ("![a picture](https://a.b/c.png)", "[a picture](https://a.b/c.png)"),
        ("```py\nx = 1 < 2\n```", "```py\nx = 1 < 2\n```"),
        ("a < b & c > d", "a &#60; b & c &#62; d"),
        ("&amp; &lt;", "& &#60;"),
        ("5 \\* 3 = \\*15\\*", "5 * 3 = &#42;15&#42;"),
        ("<at id=all></at>", "&#60;at id=all&#62;&#60;/at&#62;"),
        ("all :OK: now: yes", "all &#58;OK: now: yes"),
        ("- [x] done\n- [ ] open", None),
        ("a | b", "a &#124; b"),
    ],
)
def test_markdown_in_the_platforms_own(text: str, shown: str | None) -> None:
    made = only(text).text
    assert made == shown or shown is None
    assert "[x]" not in made


def test_what_shows_literally_reads_as_written() -> None:
    text = r"2*3 <b> &lt; a_b_c ~x~ `code` [x](y) 字 😀 :OK: | C:\Users\name \\server\share \frac{1}{2} \*"
    assert html.unescape(escape(text)) == text


def test_the_measure_is_the_length_in_a_card() -> None:
    for text in ("abc", 'a"b', "a\nb", "字\\"):
        card = outbound.dumps({"data": outbound.dumps({"content": text})})
        assert measure(text) == len(card.encode()) - len(
            outbound.dumps({"data": outbound.dumps({"content": ""})}).encode()
        )


@given(MARKDOWN, st.integers(1, 400), st.booleans())
@settings(max_examples=examples(60))
def test_every_card_is_within_the_limits_in_every_form(text: str, times: int, final: bool) -> None:
    for part in layout(OutboundMessage(text=text * times, status="s" * 300, buttons=BUTTONS, final=final)):
        for shown in (
            outbound.card(part, DM),
            outbound.card(part, TOPIC, streams=True, card_id="7" * 19),
            outbound.post(part),
        ):
            assert len(json.dumps(shown, ensure_ascii=False).encode()) <= CARD_BYTES
            assert measure(part.text) <= PAGE_UNITS
        assert "<at" not in part.text or "`" in part.text


@given(MARKDOWN)
@settings(max_examples=examples(60))
def test_text_messages_mention_nobody(text: str) -> None:
    for part in layout(OutboundMessage(text=text, final=True)):
        assert "<at" not in json.loads(outbound.text(part))["text"]


def test_a_draft_grows_and_tells_what_happens() -> None:
    part = only("Hel", final=False, status="Reading\n\na file")
    assert (part.text, part.status, part.growing) == ("Hel", "Reading\na file", True)
    card = json.loads(outbound.card(part, DM, streams=True))
    assert [(e["element_id"], e["content"]) for e in card["body"]["elements"]] == [
        ("text", "Hel"),
        ("status", "Reading\na file"),
    ]
    assert card["config"]["streaming_mode"]
    assert "summary" not in card["config"]  # the platform's own "generating"


def test_only_the_last_page_grows() -> None:
    parts = layout(OutboundMessage(text="\n\n".join(["word " * 300] * 40), status="Writing"))
    assert [part.growing for part in parts] == [False] * (len(parts) - 1) + [True]
    assert [part.status for part in parts] == [""] * (len(parts) - 1) + ["Writing"]
    assert len(parts) > 1


def test_a_question_is_no_stream() -> None:
    part = only("May I?", final=False, buttons=((Button(label="Yes", data="p:0"),),))
    assert not part.growing
    row = json.loads(outbound.card(part, TOPIC, card_id="735"))["body"]["elements"][1]
    button = row["columns"][0]["elements"][0]
    value = {"data": "p:0", "chat": "oc_2", "kind": "group", "topic": "omt_1", "card": "735"}
    assert button["behaviors"] == [{"type": "callback", "value": value}]
    told = outbound.Pressed(data="p:0", card_id="735", direct=False, topic="omt_1")
    assert outbound.read_value(value, "oc_2") == told
    assert outbound.read_value(value, "oc_3") == outbound.Pressed(data="p:0", card_id="735")  # forwarded there
    assert json.loads(outbound.post(part))["zh_cn"]["content"][0][0]["text"] == "May I?"


def test_buttons_without_words_have_something_above_them() -> None:
    assert only("", buttons=((Button(label="Yes", data="p:0"),),)).text


def test_the_list_of_chats_shows_the_beginning() -> None:
    assert (
        outbound.summary(only("# Title\n\n5 < 6 and **bold** `2*3` [x](https://a.b)")) == "Title 5 < 6 and bold 2*3 x"
    )
    assert (
        outbound.summary(only("> - *a*\n> - b\n\n| c | d |\n|---|---|\n| e | f |\n\n```py\n1 * 2\n```"))
        == "a b c d e f 1 * 2"
    )
    assert len(outbound.summary(only("word " * 100))) <= 80


def test_files_come_after_the_text() -> None:
    file = OutboundFile(path=Path("/tmp/x.txt"), name="x.txt", mime_type="text/plain")
    text, sent = layout(OutboundMessage(text="Here", files=(file,), final=True))
    assert (text.text, sent.index) == ("Here", 1)
    assert sent.file is not None
    assert sent.file.name == "x.txt"


def test_tables_can_become_code() -> None:
    table = "| a | b |\n| --- | --- |\n| 1 | 2 |"
    assert tables_as_code(f"x\n\n{table}\n\ny") == f"x\n\n```\n{table}\n```\n\ny"
    assert tables_as_code(table) == f"```\n{table}\n```"
    fenced = f"```\n{table}\n```"
    assert tables_as_code(fenced) == fenced


@pytest.mark.parametrize("text", ["om_1", "om_1/735", "om_1/post", "om_1/text", "om_1/file"])
def test_ids_are_read_as_they_were_written(text: str) -> None:
    assert str(MessageId.parse(text)) == text
    assert MessageId.parse(text).native == "om_1"


def test_what_was_done_is_a_panel_that_opens_below_the_answer() -> None:
    part = only("The answer.", done=("What I did", "Reading *a*.csv", "Searching: <at>"))
    *_, panel = json.loads(outbound.card(part, DM))["body"]["elements"]
    assert (panel["tag"], panel["expanded"]) == ("collapsible_panel", False)
    assert panel["header"]["title"]["content"] == "What I did"
    (lines,) = panel["elements"]
    assert html.unescape(lines["content"]) == "Reading *a*.csv\nSearching: <at>"
    assert "<at>" not in lines["content"]
