"""What people see of what the gateway sends: answers, pushes, cards and files, on the real wire."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from channels.base import Probe
from channels.errors import ChatGone, OutcomeUnknown, RateLimited, Rejected, Temporary
from channels.message import Button, ButtonPressed, OutboundFile, OutboundMessage
from channels.wecom.failures import Conflict
from tests.channels.wecom.support import QUICK, address, asked, only
from tests.simulators.wecom import faults
from tests.simulators.wecom.seen import ALICE, BOB, TEAM

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.channels.wecom.support import Bench

BUTTONS = ((Button(label="Yes", data="p:0"), Button(label="No", data="p:1")),)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


async def test_an_answer_goes_out_under_the_question_and_costs_no_push(bench: Bench) -> None:
    async with bench.running():
        question = await asked(bench)
        sent = await bench.channel.send(address(), only(bench, "Good **morning**"), "k1", question)
        (seen,) = await bench.wecom.bot_messages(ALICE)
        assert (seen.kind, seen.state, seen.text, seen.stream_id) == ("stream", "finished", "Good **morning**", sent)
        assert seen.answers == question.partition("|")[0]
        assert not await bench.wecom.records("aibot_send_msg")


@pytest.mark.parametrize("code", [48002, 93006, 846605])
async def test_an_answer_that_is_not_taken_under_its_question_is_pushed(bench: Bench, code: int) -> None:
    async with bench.running():
        question = await asked(bench)
        await bench.wecom.fail("aibot_respond_msg", faults.error(code))
        await bench.channel.send(address(), only(bench, "Hello"), "k1", question)
        (seen,) = await bench.wecom.bot_messages(ALICE)
        assert (seen.kind, seen.text) == ("markdown", "Hello")


async def test_without_a_question_or_behind_its_answer_it_is_pushed(bench: Bench) -> None:
    async with bench.running():
        question = await asked(bench)
        await bench.channel.send(address(), only(bench, "First"), "k1", question)
        await bench.channel.send(address(), only(bench, "Second"), "k2", question)
        await bench.channel.send(address(), only(bench, "Third"), "k3")
        kinds = [(message.kind, message.text) for message in await bench.wecom.bot_messages(ALICE)]
        assert kinds == [("stream", "First"), ("markdown", "Second"), ("markdown", "Third")]


async def test_a_card_whose_ack_is_missing_is_not_doubled(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(QUICK)
    async with bench.running():
        await asked(bench)
        part = only(bench, "Go?", buttons=BUTTONS)
        await bench.wecom.fail("aibot_send_msg", faults.missing_ack())
        with pytest.raises(OutcomeUnknown):
            await bench.channel.send(address(), part, "k1")
        assert await bench.channel.send(address(), part, "k1") == "k1"
        (card,) = await bench.wecom.bot_messages(ALICE)
        assert card.task_id == "k1"


async def test_a_card_whose_id_an_earlier_process_used_gets_another(make_bench: Callable[..., Bench]) -> None:
    before, after = make_bench(), make_bench()
    async with before.running():
        await asked(before)
        await before.channel.send(address(), only(before, "Go?", buttons=BUTTONS), "k1")
    await before.channel.close()
    async with after.running():
        sent = await after.channel.send(address(), only(after, "Go?", buttons=BUTTONS), "k1")
        assert sent != "k1"
        assert [message.task_id for message in await after.wecom.bot_messages(ALICE)] == ["k1", sent]


async def test_a_push_without_an_ack_cannot_be_found(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(QUICK)
    async with bench.running():
        await asked(bench)
        await bench.wecom.fail("aibot_send_msg", faults.missing_ack())
        with pytest.raises(OutcomeUnknown, match="no ack"):
            await bench.channel.send(address(), only(bench, "Maybe"), "k1")
        with pytest.raises(OutcomeUnknown):
            await bench.channel.find(address(), only(bench, "Maybe"), Probe(idem_key="k1", after=None))
        assert await bench.wecom.texts(ALICE) == ["Maybe"]


async def test_a_short_question_is_a_card_and_a_long_one_stands_above_it(bench: Bench) -> None:
    async with bench.running():
        await asked(bench)
        short = bench.channel.layout(OutboundMessage(text="Send **it**?", buttons=BUTTONS))
        long = bench.channel.layout(OutboundMessage(text="Word " * 60, buttons=BUTTONS))
        for number, part in enumerate((*short, *long)):
            await bench.channel.send(address(), part, f"k{number}")
        seen = [(m.kind, m.text.strip(), m.labels) for m in await bench.wecom.bot_messages(ALICE)]
        assert seen == [
            ("card", "Send it?", ["Yes", "No"]),
            ("markdown", ("Word " * 60).strip(), []),
            ("card", "👇", ["Yes", "No"]),
        ]


async def test_many_buttons_are_several_cards(bench: Bench) -> None:
    rows = tuple((Button(label=f"Model {n}", data=f"m:{n}"),) for n in range(14))
    async with bench.running():
        await asked(bench)
        for part in bench.channel.layout(OutboundMessage(text="Which?", buttons=rows)):
            await bench.channel.send(address(), part, f"k{part.index}")
        seen = await bench.wecom.bot_messages(ALICE)
        assert [len(message.labels) for message in seen] == [6, 6, 2]
        assert [label for message in seen for label in message.labels] == [f"Model {n}" for n in range(14)]


async def test_a_pressed_button_is_acknowledged_on_its_card(bench: Bench) -> None:
    async with bench.running():
        await bench.wecom.says("Ask me", BOB, TEAM)
        await bench.gateway.event()
        team = address(TEAM.id, "group")
        sent = await bench.channel.send(team, only(bench, "Really?", buttons=BUTTONS), "k1")
        await bench.wecom.presses("No", BOB, TEAM)
        press = await bench.gateway.event(1)
        assert isinstance(press, ButtonPressed)
        assert (press.address, press.sender.id, press.platform_message_id) == (team, "bob", sent)
        await bench.channel.acknowledge(press, "noted")
        (card,) = await bench.wecom.bot_messages(TEAM)
        assert (card.text, card.labels) == ("Really?\nnoted", ["✓ No"])
        (update,) = await bench.wecom.records("aibot_respond_update_msg")
        assert update.body["userids"] == ["bob"]


async def test_a_card_of_an_earlier_process_is_changed_like_any_other(make_bench: Callable[..., Bench]) -> None:
    before, after = make_bench(), make_bench()
    async with before.running():
        await asked(before)
        await before.channel.send(address(), only(before, "Really?", buttons=BUTTONS), "k1")
    await before.channel.close()
    async with after.running():
        await after.wecom.presses("No")
        press = await after.gateway.event(0)
        assert isinstance(press, ButtonPressed)
        assert press.data == "p:1"
        await after.channel.acknowledge(press, "Denied.")
        (card,) = await after.wecom.bot_messages(ALICE)
        assert (card.text, card.labels) == ("Really?\nDenied.", ["✓ No"])
        await after.wecom.presses("✓ No")
        await asked(after, "And now?", 1)  # it only says what was pressed


async def test_an_acknowledgement_that_comes_too_late_harms_nobody(bench: Bench) -> None:
    async with bench.running():
        await asked(bench)
        await bench.channel.send(address(), only(bench, "Really?", buttons=BUTTONS), "k1")
        await bench.wecom.presses("No")
        press = await bench.gateway.event(1)
        assert isinstance(press, ButtonPressed)
        await bench.wecom.advance(6)
        await bench.channel.acknowledge(press, "noted")
        (card,) = await bench.wecom.bot_messages(ALICE)
        assert card.labels == ["Yes", "No"]


@pytest.mark.parametrize(
    ("name", "kind", "content", "seen_as"),
    [
        ("photo.png", "image", PNG, "image"),
        ("photo.webp", "image", b"RIFF" + bytes(60), "file"),
        ("big.png", "image", PNG + bytes(3 * 1024 * 1024), "file"),
        ("clip.mp4", "video", b"\0\0\0\x20ftypisom" + bytes(64), "video"),
        ("memo.ogg", "voice", b"OggS" + bytes(64), "file"),
        ("notes.txt", "file", b"six by", "file"),
    ],
)
async def test_files_arrive_whole(
    bench: Bench, tmp_path: Path, name: str, kind: Any, content: bytes, seen_as: str
) -> None:
    path = tmp_path / "on-disk"
    path.write_bytes(content)
    (part,) = bench.channel.layout(OutboundMessage(files=(OutboundFile(path=path, name=name, kind=kind),), final=True))
    async with bench.running():
        await asked(bench)
        await bench.channel.send(address(), part, "k1")
        (seen,) = await bench.wecom.bot_messages(ALICE)
        digest = hashlib.sha256(content).hexdigest()
        assert (seen.kind, seen.file) == (seen_as, {"name": name, "size": len(content), "sha256": digest})


async def test_a_link_in_place_of_a_file_is_not_followed(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("of the machine")
    path = tmp_path / "report.txt"
    path.symlink_to(tmp_path / "secret.txt")
    (part,) = bench.channel.layout(OutboundMessage(files=(OutboundFile(path=path, name="report.txt"),), final=True))
    async with bench.running():
        with pytest.raises(Rejected):
            await bench.channel.send(address(), part, "k1")
        assert await bench.wecom.records("aibot_upload_media_init") == []


@pytest.mark.parametrize("size", [0, 5, 20 * 1024 * 1024 + 1])
async def test_a_file_of_a_size_that_wecom_refuses_is_refused_here(bench: Bench, tmp_path: Path, size: int) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(bytes(size))
    (part,) = bench.channel.layout(OutboundMessage(files=(OutboundFile(path=path, name="file.bin"),), final=True))
    async with bench.running():
        with pytest.raises(Rejected, match="6 bytes to 20 MB"):
            await bench.channel.send(address(), part, "k1")


async def test_a_lost_step_of_an_upload_changes_nothing(make_bench: Callable[..., Bench], tmp_path: Path) -> None:
    bench = make_bench(QUICK)
    path = tmp_path / "file.bin"
    path.write_bytes(bytes(100))
    (part,) = bench.channel.layout(OutboundMessage(files=(OutboundFile(path=path, name="file.bin"),), final=True))
    async with bench.running():
        await asked(bench)
        for command in ("aibot_upload_media_init", "aibot_upload_media_chunk", "aibot_upload_media_finish"):
            await bench.wecom.fail(command, faults.missing_ack())
            with pytest.raises(Temporary):
                await bench.channel.send(address(), part, "k1")
        await bench.channel.send(address(), part, "k1")
        assert len(await bench.wecom.bot_messages(ALICE)) == 1


@pytest.mark.parametrize(
    ("code", "error"),
    [(6000, Conflict), (846602, Temporary), (846607, RateLimited), (45009, RateLimited), (40058, Rejected)],
)
async def test_refusals_say_what_to_do_next(bench: Bench, code: int, error: type[Exception]) -> None:
    async with bench.running():
        await asked(bench)
        await bench.wecom.fail("aibot_send_msg", faults.error(code))
        with pytest.raises(error, match=str(code)) as caught:
            await bench.channel.send(address(), only(bench, "Hello"), "k1")
        assert type(caught.value) is error
        if isinstance(caught.value, RateLimited):
            assert caught.value.retry_after > 0


async def test_a_chat_that_never_spoke_cannot_be_written_to(bench: Bench) -> None:
    async with bench.running():
        with pytest.raises(ChatGone, match="93006"):
            await bench.channel.send(address("carol"), only(bench, "Hello"), "k1")


async def test_the_platform_limits_a_conversation(bench: Bench) -> None:
    await bench.wecom.configure(limits={"per_minute": 2})
    async with bench.running():
        await asked(bench)
        for number in range(2):
            await bench.channel.send(address(), only(bench, "Hello"), f"k{number}")
        with pytest.raises(RateLimited):
            await bench.channel.send(address(), only(bench, "Hello"), "k3")
