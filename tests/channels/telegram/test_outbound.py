"""How a reply looks in Telegram: the text, its spans, and how it is parted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from channels.message import Button, OutboundFile, OutboundMessage
from channels.telegram.outbound import TelegramFile, TelegramPart, layout


def final(text: str) -> tuple[TelegramPart, ...]:
    return layout(OutboundMessage(text=text, final=True))


def spans(part: TelegramPart) -> list[tuple[str, str]]:
    """Each entity's type and the text that it covers."""
    units = part.text.encode("utf-16-le")
    return [
        (entity.type, units[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le"))
        for entity in part.entities
    ]


def test_headings_lists_and_spacing() -> None:
    (part,) = final("# Title\n\nText\n- one\n- two\n  1. inner\n     more\n\n## Next\n\n- [ ] open\n- [x] done")
    assert part.text == "Title\nText\n• one\n• two\n   1. inner\n      more\n\nNext\n☐ open\n☑ done"
    assert spans(part) == [("bold", "Title"), ("bold", "Next")]


def test_offsets_count_utf16_units() -> None:
    (part,) = final("😀😀 **é😀** `c`")
    assert spans(part) == [("bold", "é😀"), ("code", "c")]
    assert part.entities[0].offset == 5


def test_code_keeps_its_language_and_indentation() -> None:
    (part,) = final("```python\n    x = 1\n\ty\n```")
    assert part.text == "    x = 1\n    y"
    assert [(entity.type, entity.language) for entity in part.entities] == [("pre", "python")]


def test_code_within_other_marks_stands_alone() -> None:
    (part,) = final("**bold `code` bold** [`link`](https://a.b)")
    assert spans(part) == [("bold", "bold"), ("code", "code"), ("bold", "bold"), ("text_link", "link")]


def test_quotes_do_not_nest() -> None:
    (part,) = final("> a\n> > b\n\nc\n\n- > d")
    assert part.text == "a\n│ b\n\nc\n\n• │ d"
    assert spans(part) == [("blockquote", "a\n│ b")]


def test_code_in_a_quote_interrupts_it() -> None:
    (part,) = final("> a\n> ```\n> b\n> ```\n> c")
    assert spans(part) == [("blockquote", "a"), ("pre", "b"), ("blockquote", "c")]


def test_links() -> None:
    (part,) = final("[a](https://x.y) [b](javascript:z) [c](tg://resolve?domain=d) [e](mailto:f@g.h) <https://i.j>")
    assert part.text == "a b (javascript:z) c (tg:\u2060//resolve?domain=d) e (f@g.h) https://i.j"
    assert [(entity.type, entity.url) for entity in part.entities] == [
        ("text_link", "https://x.y"),
        ("text_link", "https://i.j"),
    ]


def test_links_into_the_app_are_disarmed_in_text_but_not_in_code() -> None:
    (part,) = final("tg:**//a** `tg://b`")
    assert part.text == "tg:\u2060//a tg://b"


def test_a_narrow_table_is_aligned() -> None:
    (part,) = final("| a | bb |\n|---|---:|\n| ccc | 1 |")
    assert part.text == "a   | bb\n----+---\nccc |  1"
    assert spans(part) == [("pre", part.text)]


def test_a_wide_table_is_read_row_by_row_and_comes_as_a_file() -> None:
    header = "|" + "".join(f" column {index} |" for index in range(8))
    rows = "\n".join("|" + "".join(f" value {row}.{index} |" for index in range(8)) for row in range(2))
    part, file = final(f"{header}\n|{'---|' * 8}\n{rows}")
    assert part.text.startswith("column 0: value 0.0\ncolumn 1: value 0.1\n")
    assert "column 7: value 0.7\n\ncolumn 0: value 1.0" in part.text
    assert spans(part) == [("bold", "value 0.0"), ("bold", "value 1.0")]
    assert file.file is not None
    assert (file.index, file.file.name, file.file.kind) == (1, "tables.md", "file")
    assert file.file.content.decode().splitlines()[0] == header


def test_links_in_a_table_stay_links() -> None:
    part, *_ = final("| a | b |\n|---|---|\n| c | [d](https://e.f) |")
    assert spans(part) == [("bold", "c"), ("text_link", "d")]


def test_a_long_table_repeats_its_head() -> None:
    rows = "\n".join(f"| {index} | {'x' * 20} |" for index in range(200))
    parts = final(f"| n | word |\n|--:|---|\n{rows}")
    texts = [part for part in parts if part.file is None]
    assert len(texts) > 1
    assert all(part.text.splitlines()[0].split() == ["n", "|", "word"] for part in texts)
    assert all(spans(part) == [("pre", part.text)] for part in texts)


def test_a_long_fence_is_closed_and_opened_again() -> None:
    code = "\n".join(f"line {index}" for index in range(1000))
    parts = final(f"```go\n{code}\n```\n\nend")
    texts = [part.text for part in parts if part.file is None]
    assert "\n".join(texts) == f"{code}\n\nend"
    assert all(part.entities[0].language == "go" for part in parts if part.file is None)


def test_parts_end_at_block_borders() -> None:
    paragraph = "word " * 120
    parts = final("\n\n".join([paragraph.strip()] * 14))
    assert [part.text.count("\n\n") for part in parts] == [5, 5, 1]


def test_a_heading_stays_with_its_text() -> None:
    parts = final("\n\n".join(["word " * 75 + f"\n\n## Heading {index}\n\ntext" for index in range(20)]))
    assert all(not part.text.splitlines()[-1].startswith("Heading") for part in parts)


def test_an_endless_line_is_cut_between_characters() -> None:
    parts = final("👨‍👩‍👧" * 2000)
    assert "".join(part.text for part in parts if part.file is None) == "👨‍👩‍👧" * 2000
    assert all(part.text.startswith("👨") for part in parts if part.file is None)


def test_a_reply_of_more_than_four_parts_comes_as_a_file_when_final() -> None:
    text = "\n\n".join(["word " * 700] * 6)
    *texts, answer = final(text)
    assert len(texts) > 4
    assert answer.file is not None
    assert (answer.file.name, answer.file.mime_type) == ("answer.md", "text/markdown")
    assert answer.file.content.decode().strip() == text.strip()
    assert all(part.file is None for part in layout(OutboundMessage(text=text)))


def test_the_status_is_below_the_text_while_the_reply_grows() -> None:
    (part,) = layout(OutboundMessage(text="so far", status="Thinking …"))
    assert part.text == "so far\n\nThinking …"
    assert spans(part) == [("italic", "Thinking …")]
    assert [part.text for part in layout(OutboundMessage(text="done", status="Thinking …", final=True))] == ["done"]
    (alone,) = layout(OutboundMessage(status="a b" + "😀" * 300))
    assert alone.text.startswith("a b😀")
    assert alone.text.endswith("…")
    assert len(alone.text.encode("utf-16-le")) // 2 <= 240


def test_a_status_of_several_lines_is_cut_to_its_last_where_there_is_no_room() -> None:
    status = "☑ read\n▶ write\n\nWriting a.txt"
    (part,) = layout(OutboundMessage(text="so far", status=status))
    assert part.text == "so far\n\n☑ read\n▶ write\nWriting a.txt"
    assert spans(part) == [("italic", "☑ read\n▶ write\nWriting a.txt")]
    plan = "\n".join(f"☐ step {number} of a long plan" for number in range(100))
    assert layout(OutboundMessage(text="so far", status=f"{plan}\nnow"))[0].text == "so far\n\nnow"
    (full,) = layout(OutboundMessage(text="word " * 760, status=status * 10))
    assert full.text.endswith("word\n\nWriting a.txt")
    assert len(full.text.encode("utf-16-le")) // 2 <= 4096


def test_what_was_done_is_a_quote_that_opens_below_the_answer() -> None:
    message = OutboundMessage(text="> quoted\n\nThe answer.", done=("What I did", "Reading a.csv", " "), final=True)
    (part,) = layout(message)
    assert part.text == "quoted\n\nThe answer.\n\nWhat I did\nReading a.csv"
    assert spans(part) == [("blockquote", "quoted"), ("expandable_blockquote", "What I did\nReading a.csv")]
    assert layout(replace(message, final=False, done=(), status="x"))[0].text.endswith("The answer.\n\nx")
    *_, last = layout(OutboundMessage(text="word " * 2000, done=("Reading",) * 500, final=True))
    assert len(last.text.encode("utf-16-le")) // 2 <= 4096
    assert last.text.endswith("…")


def test_buttons_are_below_the_last_text() -> None:
    rows = ((Button(label="Yes", data="y"), Button(label="No", data="n")),)
    file = OutboundFile(path=Path("/tmp/a.png"), name="a.png", mime_type="image/png", kind="image")
    text, picture = layout(OutboundMessage(text="sure?", buttons=rows, files=(file,), final=True))
    assert text.keyboard == ((("Yes", "y"), ("No", "n")),)
    assert picture == TelegramPart(
        1, file=TelegramFile(name="a.png", mime_type="image/png", kind="image", path=Path("/tmp/a.png"))
    )
    (alone,) = layout(OutboundMessage(buttons=rows))
    assert alone.text
    assert alone.keyboard


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b\u200d", "\u202e", "\x01\x02"])
def test_nothing_to_see_makes_no_part(text: str) -> None:
    assert final(text) == ()
    assert layout(OutboundMessage(text=text)) == ()


@pytest.mark.parametrize("text", ["```", "#", "[](https://a.b)", ">", "**", "&#8203;", "```\n```"])
def test_marks_alone_are_shown_as_they_are(text: str) -> None:
    (part,) = final(text)
    assert part.text


def test_bidi_overrides_go_and_right_to_left_text_stays() -> None:
    (part,) = final("שלום \u202eabc\u202c **مرحبا**")
    assert part.text == "שלום abc مرحبا"
    assert spans(part) == [("bold", "مرحبا")]


def test_an_unclosed_mark_looks_closed_while_the_reply_grows() -> None:
    (growing,) = layout(OutboundMessage(text="so **impor"))
    assert spans(growing) == [("bold", "impor")]
    (done,) = final("so **impor")
    assert done.text == "so **impor"
