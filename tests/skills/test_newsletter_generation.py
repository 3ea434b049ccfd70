"""build_newsletter: a mail that every program can show, and what keeps an issue from being built."""

from __future__ import annotations

import json
from email import message_from_bytes, policy
from typing import TYPE_CHECKING, Any

import pytest

from tests.skills.running import require_runtime, script

if TYPE_CHECKING:
    from pathlib import Path

require_runtime()

ITEM = {
    "title": "Prices fell by 18 % & more",
    "text": "It fell. **Why it matters:** <b>cheaper</b> [bids](https://example.org/b), not [this](javascript:x).",
    "link": "https://example.org/report?a=1&b=2",
    "link_text": "Price list",
    "source": "Exchange",
    "date": "2099-01-01",
}
ISSUE: dict[str, Any] = {
    "name": "Grid Weekly",
    "issue": "27",
    "subject": "Storage is cheaper than peakers now",
    "preview": "Three price lists, one ruling, and what they mean for August",
    "language": "de",
    "sections": [{"title": "Diese Woche", "items": [ITEM]}],
    "outro": "Reply: what next?",
    "sender": "Example Ltd, Street 1",
    "unsubscribe": "https://example.org/u",
}


def build(folder: Path, issue: dict[str, Any], *arguments: str, fails: bool = False) -> str:
    (folder / "issue.json").write_text(json.dumps(issue))
    where = ("issue.json", "--output", "out/2026-27")
    return script("newsletter-generation/build_newsletter", *where, *arguments, folder=folder, fails=fails)


def with_item(**changes: Any) -> dict[str, Any]:
    return ISSUE | {"sections": [{"title": "Diese Woche", "items": [ITEM | changes]}]}


def test_a_mail_has_both_forms_and_nothing_that_runs(tmp_path: Path) -> None:
    item = {"text": ITEM["text"].replace("[this](javascript:x)", "*this*")}
    said = build(tmp_path, with_item(**item))
    assert "1 items, about " in said
    assert "warning" not in said
    mail = message_from_bytes((tmp_path / "out" / "2026-27.eml").read_bytes(), policy=policy.default)
    assert (mail["Subject"], mail.get_content_type()) == (ISSUE["subject"], "multipart/alternative")
    text, page = (part.get_content() for part in mail.iter_parts())
    assert (
        "* Prices fell by 18 % & more\n  It fell. Why it matters: <b>cheaper</b> bids (https://example.org/b)" in text
    )
    assert "Price list (Exchange, 2099-01-01):\n  https://example.org/report?a=1&b=2" in text
    assert "Abbestellen: https://example.org/u" in text
    assert "Prices fell by 18 % &amp; more" in page
    assert '<strong>Why it matters:</strong> &lt;b&gt;cheaper&lt;/b&gt; <a href="https://example.org/b"' in page
    assert 'href="https://example.org/report?a=1&amp;b=2"' in page
    assert page == (tmp_path / "out" / "2026-27.html").read_text()
    assert "<script" not in page


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"unsubscribe": ""}, "unsubscribe is missing"),
    ({"colour": "red"}, "unknown key colour"),
    ({"sender": "«company»"}, "sender still says «"),
    ({"sections": [{"title": "x", "items": []}]}, "a section has no title or no items"),
    (with_item(text="See [it](http://example.org)."), "is not https"),
    (with_item(text="See [it](javascript:x)."), "is not https"),
    (with_item(source=""), "a link needs its source and date"),
    (with_item(image="https://example.org/a.png"), "a picture needs image_alt"),
]


@pytest.mark.parametrize(("changes", "problem"), ERRORS, ids=[problem for _, problem in ERRORS])
def test_what_must_not_go_out_is_not_built(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    assert problem in build(tmp_path, with_item(text="It fell.") | changes, fails=True)
    assert not (tmp_path / "out").exists()


WARNINGS: list[tuple[dict[str, Any], str]] = [
    ({"subject": "FREE money!!"}, "the subject shouts or sells"),
    ({"subject": "s" * 90}, "the subject has 90 characters"),
    ({"preview": ISSUE["subject"]}, "the preview repeats the subject"),
    (with_item(text="word " * 130), "130 words; 110 are enough"),
    (with_item(text="ok", link_text="click here"), "link_text should say what is behind it"),
    (with_item(text="ok", date="2020-01-01"), "is it still news?"),
]


@pytest.mark.parametrize(("changes", "said"), WARNINGS, ids=[said for _, said in WARNINGS])
def test_an_editor_warns(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    assert said in build(tmp_path, with_item(text="It fell.") | changes, "--check")
