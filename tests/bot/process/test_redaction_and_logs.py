"""Secrets stay out of texts and logs in every form, and a log line cannot be forged."""

from __future__ import annotations

import base64
import io
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from sqlalchemy import text

from bot.control.logs import OURS, JsonFormatter, TextFormatter, configure
from bot.delivery.redaction import may_hide, redact_message, without_hidden
from bot.redaction import MARK, MOST_LEARNT, SHORTEST, RedactingFormatter, Redactor
from bot.store import sql
from channels.console import channel as console
from channels.feishu import outbound as feishu
from channels.message import OutboundMessage
from channels.slack import outbound as slack
from channels.telegram import outbound as telegram
from channels.text.sanitize import sanitize
from channels.wecom import outbound as wecom
from tests.properties import examples
from tests.tables import table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.simulators.postgres import PostgresServer

SECRET = 'sk-äé "quoted"/+ 0123456789'
TOKEN = "123456:AAbbCCdd-EEff_gg"


@table(
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
            raise RuntimeError(f"bad {TOKEN}")
        except RuntimeError:
            logger.exception(message, *args)
    else:
        logger.info(message, *args)
    return out.getvalue()


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_records_arguments_and_tracebacks_are_redacted(formatter: logging.Formatter) -> None:
    text = logged(formatter, f"{TOKEN} %s", f"https://x/{TOKEN}", error=True)
    assert TOKEN not in text
    assert text.count(MARK) >= 3
    assert "RuntimeError: bad" in text


def test_a_newline_forges_no_json_record() -> None:
    line = logged(JsonFormatter(), "said: %s", 'x\n{"level": "error"}')
    assert line.count("\n") == 1
    assert json.loads(line)["message"] == 'said: x\n{"level": "error"}'


def test_a_newline_or_an_escape_forges_no_text_record() -> None:
    lines = logged(TextFormatter(), "said: %s", "x\n12:00:00 ERROR bot: forged\x1b[2J\r\u202e").splitlines()
    assert len(lines) == 2
    assert lines[1] == "    12:00:00 ERROR bot: forged\\x1b[2J\\x0d\\x202e"


def test_a_text_record_says_when_with_date_and_zone() -> None:
    when, level, name, said = logged(TextFormatter(), "said").rstrip().rsplit(" ", 3)
    assert (level, name, said) == ("INFO", "bot.test:", "said")
    told = datetime.fromisoformat(when)
    assert told.tzinfo is not None
    assert abs(datetime.now(UTC) - told) < timedelta(minutes=1)


def test_a_json_record_has_the_fields_that_are_known_and_no_others() -> None:
    logger, out = logging.Logger("bot.test"), io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(RedactingFormatter(JsonFormatter(), Redactor([TOKEN])))
    logger.addHandler(handler)
    logger.info("ended", extra={"event": "run_ended", "seconds": 1.5, "account": "", "run": TOKEN, "words": "hello"})
    entry = json.loads(out.getvalue())
    assert datetime.fromisoformat(entry.pop("time")).tzinfo is not None
    assert entry == {
        "level": "info",
        "logger": "bot.test",
        "message": "ended",
        "event": "run_ended",
        "seconds": 1.5,
        "run": MARK,
    }


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


# What exceptions tell.

CANARY = "kanarienvogel"


class Ours(Exception):
    """As one of the program's own."""

    __module__ = "bot.somewhere"


class Answer(BaseModel):
    number: int


def caught(action: Callable[[], object]) -> BaseException:
    try:
        action()
    except BaseException as error:  # whatever it is
        return error
    raise AssertionError("nothing was raised")


def written(error: BaseException, formatter: logging.Formatter, *, as_argument: bool = False) -> str:
    record = logging.LogRecord("bot.test", logging.ERROR, __file__, 1, "it failed: %s", ("so",), None)
    if as_argument:
        record.args = (error,)
    else:
        record.exc_info = (type(error), error, error.__traceback__)
    return formatter.format(record)


def within_another() -> None:
    try:
        int(CANARY)
    except ValueError as error:
        raise ExceptionGroup("several", [KeyError(CANARY)]) from error


def refused_by_sqlite(tmp_path: Path) -> None:
    engine = sql.writer_engine(sql.parse(f"sqlite:///{tmp_path}/x.db"))
    try:
        with engine.connect() as tx, tx.begin():
            tx.execute(text("CREATE TABLE said (words TEXT UNIQUE)"))
            for _ in range(2):
                tx.execute(text("INSERT INTO said VALUES (:words)"), {"words": CANARY})
    finally:
        engine.dispose()


@table("as_argument", [True, False])
@table("formatter", [TextFormatter(), JsonFormatter()])
@table(
    ("action", "told"),
    [
        (lambda: dict[str, int]()[CANARY], "KeyError"),
        (lambda: float(CANARY), "ValueError"),
        (lambda: Answer.model_validate({"number": CANARY}), "number: Input should be a valid integer"),
        (lambda: open(f"/tmp/antler-nowhere/{CANARY}.pdf"), "No such file or directory"),  # noqa: SIM115
        (lambda: json.loads(CANARY), "Expecting value"),
        (within_another, "ExceptionGroup"),
    ],
)
def test_the_text_of_an_exception_is_logged_only_where_it_holds_no_words_of_people(
    formatter: logging.Formatter, as_argument: bool, action: Callable[[], object], told: str
) -> None:
    line = written(caught(action), formatter, as_argument=as_argument)
    assert CANARY not in line
    assert told in line


def test_a_database_that_refuses_a_row_names_the_column_and_not_the_words(tmp_path: Path) -> None:
    error = caught(lambda: refused_by_sqlite(tmp_path))
    assert CANARY not in str(error)
    line = written(error, TextFormatter())
    assert "UNIQUE constraint failed: said.words" in line
    assert CANARY not in line


@pytest.mark.postgres
def test_a_server_that_refuses_a_row_names_the_constraint_and_not_the_words(postgres: PostgresServer) -> None:
    engine = sql.writer_engine(sql.parse(postgres.database()))

    def doubled() -> None:
        with engine.connect() as tx, tx.begin():
            tx.execute(text("CREATE TABLE said (words TEXT CONSTRAINT once UNIQUE)"))
            for _ in range(2):
                tx.execute(text("INSERT INTO said VALUES (:words)"), {"words": CANARY})

    def mistaken() -> None:
        with engine.connect() as tx, tx.begin():
            tx.execute(text("SELECT CAST(:words AS INTEGER)"), {"words": CANARY})

    try:
        line = written(caught(doubled), TextFormatter())
        assert '"once" 23505' in line
        assert CANARY not in line
        line = written(caught(mistaken), TextFormatter())
        assert "22P02" in line
        assert CANARY not in line
    finally:
        engine.dispose()


def test_what_the_program_says_itself_is_logged_with_its_traceback() -> None:
    error = caught(lambda: raised(Ours("the disk is full")))
    assert "Ours: the disk is full" in written(error, TextFormatter())
    assert "in raised" in written(error, TextFormatter())
    assert "it failed: the disk is full" in written(error, TextFormatter(), as_argument=True)


def raised(error: BaseException) -> None:
    raise error


def test_a_task_that_nobody_waited_for_does_not_show_its_exception() -> None:
    error = caught(lambda: float(CANARY))
    record = logging.LogRecord("asyncio", logging.ERROR, __file__, 1, f"never retrieved\nfuture: {error!r}", (), None)
    record.exc_info = (type(error), error, error.__traceback__)
    line = TextFormatter().format(record)
    assert "never retrieved" in line
    assert CANARY not in line


SPLIT = "123456:abcdefgh-ijklmnop"


@table("final", [True, False])
@table(
    "written",
    [
        "it is 123456\\:abcdefgh-ijklmnop, see",
        "it is 123456&#58;abcdefgh-ijklmnop, see",
        "it is **123456**:abcdefgh-ijklmnop, see",
        "it is 123456:abcd*efgh*-ijklmnop, see",
        "it is 123456:abcd[efgh](https://a.example)-ijklmnop, see",
        "see [this](https://a.example/?k=123456:abcdefgh\\-ijklmnop) page",
        "> - it is 123456\\:abcdefgh-ijklmnop, see",
        "|a|b|\n|-|-|\n|123456\\:abcdefgh-ijklmnop|x|\n\nsee",
    ],
)
def test_a_secret_that_markdown_splits_or_escapes_never_shows(written: str, final: bool) -> None:
    message = redact_message(OutboundMessage(text=written, status=written, final=final), Redactor([SPLIT]))
    for layout in (console.layout, telegram.layout, slack.layout, feishu.layout, wecom.layout):
        shown = repr(layout(message))
        assert "redacted" in shown
        assert "see" in shown
        assert not any(piece in shown for piece in ("ijklmnop", "123456"))


def test_a_text_without_secrets_keeps_its_formatting() -> None:
    written = "# A\n\n**bold** `code` [x](https://a.example) 1\\. &amp;\n\n- a\n  - b\n\n---\n\n|a|\n|-|\n|b|"
    for final in (True, False):
        message = OutboundMessage(text=written, final=final)
        assert redact_message(message, Redactor([SPLIT])) == message


def test_a_control_character_within_a_secret_does_not_help() -> None:
    message = OutboundMessage(text="it is 123456:abcd\x01efgh-ijklmnop, see", final=True)
    assert redact_message(message, Redactor([SPLIT])).text == "it is [redacted], see"


ORDINARY = (
    "## Summary\n\nThe **gateway** reads `a_file` and [the page](https://example.org/a?b=1&c=%20d), see R&D.\n\n"
    "- one *item*\n- [x] two \\* items\n\n```python\nif a < b:\n    print(b % a)\n```\n\n| a | b |\n"
    "|---|---|\n| 1 | ~~2~~ |"
)


@pytest.mark.parametrize("growing", [True, False])
def test_an_ordinary_text_is_not_read_as_markdown_for_it(growing: bool) -> None:
    assert not may_hide(ORDINARY, Redactor([SPLIT, "correct-horse-battery-staple"]))
    assert without_hidden(ORDINARY, Redactor([SPLIT]), growing=growing) == ORDINARY


_MARKS = (
    *(
        "*",
        "**",
        "_",
        "~~",
        "||",
        "`",
        "\\",
        "[",
        "]",
        "](https://a.example/x)",
        "](https://a.example/?k=",
        ")",
        "![",
        "<",
    ),
    *(
        ">",
        "<https://a.example/?k=",
        "](<",
        '](a "t")',
        "](a)",
        "&#58;",
        "&colon;",
        "&",
        "%31",
        "<br>",
        "|",
        "\n",
        "\n\n",
    ),
    *("\n> ", "\n- ", "\n1. ", "\n    ", "\n```\n", "\n|a|\n|-|\n|", " ", "  \n", "\x01", "\x1b[1m", "# ", "$", "x"),
)


@given(st.lists(st.tuples(st.integers(1, 8), st.sampled_from(_MARKS)), max_size=12), st.booleans())
@example(text=[(3, "["), (4, "](https://a.example/x)")], growing=True)
@settings(max_examples=examples(500))
def test_no_secret_is_hidden_where_it_says_so(text: list[tuple[int, str]], growing: bool) -> None:
    """A secret in pieces, with marks between: either it is looked for as it is shown, or there is nothing to find."""
    for secret in (SPLIT, "a-b-c d&e/f\\gh"):
        redact, rest, written = Redactor([secret]), secret, "*it* is "
        for length, mark in text:
            written, rest = written + rest[:length] + mark, rest[length:] or secret
        source = redact(sanitize(written + rest))
        source = redact.without_beginning(source) if growing else source
        if not may_hide(source, redact):
            assert without_hidden(source, redact, growing=growing) == source
