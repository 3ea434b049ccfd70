"""Secrets stay out of texts and logs in every form, and a log line cannot be forged."""

from __future__ import annotations

import base64
import io
import json
import logging
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.logs import OURS, JsonFormatter, TextFormatter, configure
from bot.redaction import MARK, MOST_LEARNT, SHORTEST, RedactingFormatter, Redactor

SECRET = 'sk-äé "quoted"/+ 0123456789'
TOKEN = "123456:AAbbCCdd-EEff_gg"


@pytest.mark.parametrize(
    "hidden",
    [
        TOKEN,
        f"https://api/bot{TOKEN}/getMe",
        f"x{TOKEN}y{TOKEN}",
        quote(TOKEN, safe=""),
        base64.b64encode(TOKEN.encode()).decode(),
        base64.b64encode(f"user:{TOKEN}".encode()).decode(),
        base64.b64encode(f"me:{TOKEN}@host".encode()).decode(),
        base64.urlsafe_b64encode(f"\xff?{TOKEN}".encode()).decode(),
    ],
)
def test_a_secret_is_replaced_in_every_form(hidden: str) -> None:
    redacted = Redactor([TOKEN])(f"before {hidden} after")
    assert MARK in redacted
    for form in (TOKEN, quote(TOKEN, safe=""), base64.b64encode(TOKEN.encode()).decode()[:12]):
        assert form not in redacted
    assert redacted.startswith("before ")
    assert redacted.endswith(" after")


@given(st.binary(max_size=8), st.text(min_size=SHORTEST, max_size=40), st.binary(max_size=8))
def test_base64_hides_it_nowhere(before: bytes, secret: str, after: bytes) -> None:
    encoded = base64.b64encode(before + secret.encode("utf-8", "surrogatepass") + after).decode()
    assert MARK in Redactor([secret])(encoded)


def test_secrets_with_marks_of_their_own() -> None:
    redact = Redactor([SECRET])
    for form in (SECRET, quote(SECRET, safe=""), quote_plus(SECRET), json.dumps(SECRET, ensure_ascii=False)[1:-1]):
        assert redact(f"a {form} b") == f"a {MARK} b"
    assert redact.longest >= len(quote(SECRET, safe=""))


def test_the_longer_of_two_secrets_wins_and_short_or_no_values_are_none() -> None:
    assert Redactor(["abcdefgh", "abcdefgh-ijkl"])("abcdefgh-ijkl") == MARK
    assert Redactor(["1234567", ""])("1234567") == "1234567"
    assert Redactor([])("text") == "text"
    assert Redactor([]).longest == 0


def test_a_secret_may_be_learnt_later_and_the_oldest_of_too_many_are_forgotten() -> None:
    redact = Redactor([SECRET])
    for number in range(MOST_LEARNT + 1):
        redact.add(f"learnt-secret-{number:04}")
    assert redact(f"{SECRET} learnt-secret-0001 learnt-secret-0100") == f"{MARK} {MARK} {MARK}"
    assert redact("learnt-secret-0000") == "learnt-secret-0000"


def logged(formatter: logging.Formatter, message: str, *args: object, error: bool = False) -> str:
    logger, out = logging.Logger("bot.test"), io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(RedactingFormatter(formatter, Redactor([TOKEN])))
    logger.addHandler(handler)
    if error:
        try:
            raise ValueError(f"bad {TOKEN}")
        except ValueError:
            logger.exception(message, *args)
    else:
        logger.info(message, *args)
    return out.getvalue()


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_records_arguments_and_tracebacks_are_redacted(formatter: logging.Formatter) -> None:
    text = logged(formatter, f"{TOKEN} %s", f"https://x/{TOKEN}", error=True)
    assert TOKEN not in text
    assert text.count(MARK) >= 3
    assert "ValueError: bad" in text


def test_a_newline_forges_no_json_record() -> None:
    line = logged(JsonFormatter(), "said: %s", 'x\n{"level": "error"}')
    assert line.count("\n") == 1
    assert json.loads(line)["message"] == 'said: x\n{"level": "error"}'


def test_a_newline_or_an_escape_forges_no_text_record() -> None:
    lines = logged(TextFormatter(), "said: %s", "x\n12:00:00 ERROR bot: forged\x1b[2J\r\u202e").splitlines()
    assert len(lines) == 2
    assert lines[1] == "    12:00:00 ERROR bot: forged\\x1b[2J\\x0d\\x202e"


def test_libraries_are_kept_quiet() -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in OURS}
    try:
        configure("info", "json", Redactor([]))
        for library in ("httpx", "httpx2", "telegram", "openai", "one.that.nobody.knows"):
            assert not logging.getLogger(library).isEnabledFor(logging.INFO)
        assert logging.getLogger("bot").isEnabledFor(logging.INFO)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, known in levels.items():
            logging.getLogger(name).setLevel(known)
