"""What clients of the API send: messages in all their forms, answers to approvals, and what is refused by name."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from bot.http.api.content import Said, read_messages
from bot.http.api.models import RunCreate, ThreadCreate
from bot.http.api.runs import decisions_of, message_of_program, said_before
from bot.http.errors import HttpProblem
from bot.store.prompts import ApprovalRow, Decided

DATA = base64.b64encode(b"bytes").decode()
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("hello", Said("user", "hello")),
        ({"role": "user", "content": "hello"}, Said("user", "hello")),
        ({"type": "human", "content": "hello", "id": "1"}, Said("user", "hello", id="1")),
        ({"type": "ai", "content": [{"type": "text", "text": "a"}, "b"]}, Said("assistant", "a\n\nb")),
        (["system", "hello"], Said("system", "hello")),
        ({"role": "developer", "content": [{"type": "input_text", "text": "x"}]}, Said("system", "x")),
        ({"role": "assistant", "content": None}, Said("assistant", "")),
        (
            {
                "lc": 1,
                "type": "constructor",
                "id": ["langchain", "HumanMessage"],
                "kwargs": {"type": "human", "content": "x"},
            },
            Said("user", "x"),
        ),
    ],
)
def test_a_message_is_read_in_each_form(raw: Any, said: Said) -> None:
    assert read_messages([raw]) == [said]


@pytest.mark.parametrize(
    ("part", "name", "mime_type"),
    [
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}, "image.png", "image/png"),
        ({"type": "input_image", "image_url": f"data:image/gif;base64,{DATA}"}, "image.gif", "image/gif"),
        ({"type": "file", "file": {"filename": "a.pdf", "file_data": DATA}}, "a.pdf", "application/pdf"),
        (
            {"type": "input_file", "filename": "a.txt", "file_data": f"data:text/plain;base64,{DATA}"},
            "a.txt",
            "text/plain",
        ),
        ({"type": "image", "source": {"media_type": "image/webp", "data": DATA}}, "image.webp", "image/webp"),
        ({"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}, "audio.wav", "audio/wav"),
    ],
)
def test_a_file_inside_a_message_is_read(part: Any, name: str, mime_type: str) -> None:
    (said,) = read_messages([{"role": "user", "content": [part]}])
    (file,) = said.files
    assert (file.data, file.mime_type) == (b"bytes", mime_type)
    assert file.name.rpartition(".")[0] == name.rpartition(".")[0]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "file", "file": {"file_id": "f"}},
        {"type": "input_file", "file_id": "f"},
        {"type": "input_image", "file_id": "f", "detail": "low"},
    ],
)
def test_a_file_that_was_uploaded_is_named(part: Any) -> None:
    (said,) = read_messages([{"role": "user", "content": [part]}])
    assert [file.upload_id for file in said.files] == ["f"]


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (5, r"messages\[0\]"),
        ({"role": "nobody", "content": "x"}, "role"),
        ({"role": "user", "content": 5}, "content"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://10.0.0.1/x.png"}}]},
            "data: URL",
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}}]},
            "base64",
        ),
        ({"role": "user", "content": [{"type": "file", "file": {"filename": "f"}}]}, "bytes are missing"),
        ({"role": "user", "content": [{"type": "file", "file": {"file_id": 5}}]}, "bytes are missing"),
        ({"role": "user", "content": [{"type": "teapot", "file_id": "f"}]}, "teapot"),
        ({"role": "user", "content": [{"type": "teapot"}]}, "teapot"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(raw: Any, place: str) -> None:
    with pytest.raises(HttpProblem, match=place) as refused:
        read_messages([raw])
    assert refused.value.status == 422


def test_the_newest_message_has_to_be_the_users() -> None:
    before, last = Said("assistant", "b", id="b"), Said("user", "c", id="c")
    assert message_of_program([before, last], frozenset()) == (last, [before])
    assert message_of_program([before, last], frozenset({"b"})) == (last, [])
    for wrong in ([before], [], [Said("user", " ")]):
        with pytest.raises(HttpProblem):
            message_of_program(wrong, frozenset())


def test_a_clients_instructions_are_words_of_the_users() -> None:
    entries = said_before([Said("system", "Be rude."), Said("tool", "x"), Said("assistant", "y")])
    assert [entry.role for entry in entries] == ["user", "assistant"]
    assert entries[0].text.endswith("Be rude.")


def approval(prompt_id: str) -> ApprovalRow:
    return ApprovalRow(
        prompt_id=prompt_id,
        run_id="r",
        call_id="c",
        args_hash="h",
        conversation="api:x",
        requester="api:x",
        tool="bash",
        shown="",
        why="",
        coverage="tool:bash",
        asked_at=NOW,
        expires_at=NOW,
    )


ONE, TWO = approval("p1"), approval("p2")


@pytest.mark.parametrize(
    ("answer", "decision", "reason"),
    [
        ("once", Decided.ONCE, ""),
        ("chat", Decided.CHAT, ""),
        (True, Decided.ONCE, ""),
        (False, Decided.DENY, ""),
        ({"decision": "deny", "reason": "no  time"}, Decided.DENY, "no time"),
        ({"decisions": [{"type": "approve"}]}, Decided.ONCE, ""),
        ([{"type": "reject", "message": "no"}], Decided.DENY, "no"),
        ({"p1": "once"}, Decided.ONCE, ""),
    ],
)
def test_an_approval_is_answered_in_each_form(answer: Any, decision: Decided, reason: str) -> None:
    assert decisions_of(answer, [ONE]) == [(ONE, decision, reason)]


def test_of_several_each_is_answered() -> None:
    assert decisions_of({"p2": "deny"}, [ONE, TWO]) == [(TWO, Decided.DENY, "")]
    assert [each[1] for each in decisions_of(["once", "deny"], [ONE, TWO])] == [Decided.ONCE, Decided.DENY]
    with pytest.raises(HttpProblem, match="by its id"):
        decisions_of("once", [ONE, TWO])


@pytest.mark.parametrize("answer", [None, 1, "perhaps", {"decision": 1}, {"unknown": "once"}, ["once", "once"]])
def test_what_decides_nothing_is_refused(answer: Any) -> None:
    with pytest.raises(HttpProblem):
        decisions_of(answer, [ONE])


@pytest.mark.parametrize(
    "asked",
    [
        {"interrupt_before": ["tools"]},
        {"interrupt_after": "*"},
        {"webhook": "http://x"},
        {"checkpoint": {"checkpoint_id": "c", "checkpoint_ns": "tools:1"}},
        {"after_seconds": 5},
        {"stream_mode": "debug"},
        {"multitask_strategy": "other"},
        {"command": {"goto": "x"}},
        {"metadata": {"a": "x" * 20_000}},
        {"metadata": {"a": float("nan")}},
        {"metadata": {"a": "\ud800"}},
    ],
)
def test_what_cannot_be_done_is_refused(asked: dict[str, Any]) -> None:
    RunCreate.model_validate({"assistant_id": "a", "interrupt_before": [], "webhook": None})
    with pytest.raises(ValidationError):
        RunCreate.model_validate({"assistant_id": "a", **asked})


def test_a_threads_id_is_a_uuid_in_one_spelling() -> None:
    thread_id = "0d4f1e1c0d4f4e1c8d4f1e1c0d4f1e1c"
    assert ThreadCreate(thread_id=thread_id).thread_id == "0d4f1e1c-0d4f-4e1c-8d4f-1e1c0d4f1e1c"
    with pytest.raises(ValidationError):
        ThreadCreate(thread_id="mine")
