"""Other text than HTML, whatever its bytes are: the same as if it were decoded at once."""

from __future__ import annotations

import pytest

from harness.web.fetch import Fetched
from harness.web.readable import PIECE, Reader


@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "gb18030", "iso2022_jp", "cp1252", "euc-kr"])
@pytest.mark.parametrize("text", ["año 漢字 😀 " * 20_000, "plain"])
async def test_it_is_decoded_in_pieces(charset: str, text: str) -> None:
    body = b"x" + text.encode(charset, errors="replace") + b"\x81"
    assert len(body) > PIECE or text == "plain"
    fetched = Fetched(url="http://x/", kind="text/plain", charset=charset, body=body, size=None, cut=False)
    page = await Reader().page(fetched, "ann")
    assert page.text == body.decode(charset, errors="replace")


@pytest.mark.parametrize("charset", ["utf-8", "cp1251", "koi8-r", "gb18030"])
async def test_an_encoding_that_is_not_declared_is_guessed(charset: str) -> None:
    text = "Договор поставки товара." if charset in {"cp1251", "koi8-r"} else "请确认合同的内容。会议将于下周一举行。"
    body = f"{text}\n".encode(charset)
    fetched = Fetched(url="http://x/", kind="text/plain", charset="", body=body, size=None, cut=False)
    assert (await Reader().page(fetched, "ann")).text == f"{text}\n"
