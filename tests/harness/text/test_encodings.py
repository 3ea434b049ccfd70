"""Texts of older programs are read in the encoding that they were written in."""

from __future__ import annotations

import tracemalloc

import pytest

from harness.text.plain import encoding_of

FRENCH = "Éléonore a reçu hier une lettre de sa sœur à Paris. Où étaient-ils passés ? Le prix s'élève à 25 €."
POLISH = "Zażółć gęślą jaźń. W Łodzi świeci słońce, a dzieci są już w szkole."
RUSSIAN = "Договор поставки товара. Стоимость услуг составляет пять тысяч рублей."
JAPANESE = "契約書の内容を確認してください。会議は来週の月曜日に行われます。"
KOREAN = "계약서의 내용을 확인해 주시기 바랍니다. 회의는 다음 주 월요일에 열립니다."
CHINESE = "请确认合同的内容。会议将于下周一举行,谢谢您的配合。"
TAIWANESE = "請確認合約的內容。會議將於下週一舉行,謝謝您的配合。"


@pytest.mark.parametrize("around", ["", "A long heading\r\n" * 5000], ids=["short", "long"])
@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        *(("cp1252", FRENCH), ("cp1250", POLISH), ("cp1251", RUSSIAN), ("koi8-r", RUSSIAN), ("cp932", JAPANESE)),
        *(("euc-kr", KOREAN), ("gb18030", CHINESE), ("big5", TAIWANESE), ("utf-16", JAPANESE), ("utf-8-sig", FRENCH)),
        *(("utf-16-le", FRENCH), ("utf-16-be", f"一一一\n{CHINESE} 1\n"), ("utf-16-le", f"一一一\n{CHINESE} 1\n")),
    ],
)
def test_a_text_is_read_as_it_was_written(encoding: str, text: str, around: str) -> None:
    written = around + text + "\r\n" + around
    data = written.encode(encoding)
    assert data.decode(encoding_of(data)) == written


@pytest.mark.parametrize("times", [1, 50])
def test_a_list_of_western_names_is_not_taken_for_eastern_ones(times: int) -> None:
    data = ("Éléonore;François\nHélène;Zoë\nJoão;Conceição\n" * times).encode("cp1252")
    assert encoding_of(data) == "cp1252"


@pytest.mark.parametrize("text", ["é", "Grüße", "中", "我们\n" * 9000, "😀", "plain", ""])
def test_what_is_utf_8_is_never_guessed(text: str) -> None:
    assert encoding_of(text.encode()) == "utf-8"


def test_only_where_a_text_is_cut_its_last_character_may_be() -> None:
    assert encoding_of("Café".encode("cp1252")) == "cp1252"
    assert encoding_of("Café".encode()[:-1], cut=True) == "utf-8"


def test_a_list_that_repeats_itself_is_text() -> None:
    data = ("город,цена\n" + "Москва,5\n" * 10).encode("cp1251")
    assert encoding_of(data) == "cp1251"


def test_a_guess_takes_little_memory_however_many_lines_there_are() -> None:
    data = b"a\n" * 2_000_000 + FRENCH.encode("cp1252") + b"\na" * 2_000_000
    tracemalloc.start()
    try:
        assert encoding_of(data) == "cp1252"
        assert tracemalloc.get_traced_memory()[1] < 64_000_000
    finally:
        tracemalloc.stop()


def test_a_few_damaged_bytes_do_not_change_the_encoding() -> None:
    assert encoding_of(JAPANESE.encode() * 2000 + b"\xff\xe3\x81") == "utf-8"


@pytest.mark.parametrize(
    "data", [b"a\0b", b"PK\x03\x04\0\0", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\2\0\0\0\1\0\x08\6\0\0\0"]
)
def test_zeros_alone_are_no_text(data: bytes) -> None:
    assert encoding_of(data) == ""
