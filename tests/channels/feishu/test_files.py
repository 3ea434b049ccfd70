"""Files on the wire, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from channels.errors import AttachmentFailed, MessageGone, NotAllowed, Rejected
from channels.message import Attachment, OutboundFile, OutboundMessage
from tests.simulators.feishu import faults
from tests.simulators.feishu.seen import ALICE, PNG, FileSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.channels.feishu.support import Bench


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "mime_type", "kind", "msg_type"),
        [
            ("report.txt", "text/plain", "file", "file"),
            ("p.png", "image/png", "image", "image"),
            ("v.mp4", "video/mp4", "video", "media"),
            ("a.opus", "audio/ogg", "voice", "audio"),
            ("report.pdf", "application/pdf", "file", "file"),
        ],
    )
    async def test_files_are_uploaded_and_sent_once(
        self, bench: Bench, tmp_path: Path, name: str, mime_type: str, kind: Any, msg_type: str
    ) -> None:
        path = tmp_path / name
        path.write_bytes(PNG)
        (part,) = bench.channel.layout(
            OutboundMessage(files=(OutboundFile(path=path, name=name, mime_type=mime_type, kind=kind),), final=True)
        )
        first = await bench.channel.send(bench.dm, part, "k1")
        assert await bench.channel.send(bench.dm, part, "k1") == first
        await bench.channel.edit(bench.dm, first, part)
        (sent,) = await bench.feishu.bot_messages(ALICE)
        assert (sent.msg_type, first) == (msg_type, f"{sent.message_id}/file")
        key = sent.content.get("image_key") or sent.content.get("file_key")
        assert (await bench.feishu.upload(str(key)))["content"] == PNG

    async def test_what_is_no_file_is_refused_before_any_call(self, bench: Bench, tmp_path: Path) -> None:
        (tmp_path / "empty.txt").write_bytes(b"")
        (tmp_path / "link.txt").symlink_to("/etc/passwd")
        for name in ("empty.txt", "link.txt", "missing.txt"):
            file = OutboundFile(path=tmp_path / name, name=name)
            (part,) = bench.channel.layout(OutboundMessage(files=(file,), final=True))
            with pytest.raises(Rejected):
                await bench.channel.send(bench.dm, part, "k1")
        assert await bench.methods() == []

    async def test_a_text_that_becomes_a_file_is_sent_anew(self, bench: Bench, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text("a")
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        (part,) = bench.channel.layout(OutboundMessage(files=(OutboundFile(path=path, name="a.txt"),), final=True))
        with pytest.raises(MessageGone):
            await bench.channel.edit(bench.dm, message_id, part)
        assert await bench.feishu.bot_messages(ALICE) == []

    async def test_what_people_send_is_fetched_up_to_the_cap(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(max_download_mb=0.01)
        async with bench.running():
            for number, size in enumerate((5_000, 50_000)):
                await bench.feishu.sends(FileSpec("a.bin", size=size))
                event = await bench.gateway.event(number)
                (attachment,) = event.attachments  # type: ignore[union-attr]  # it is a Message
                sink = Bytes()
                if size < 10_000:
                    await bench.channel.fetch(attachment, sink)
                    assert len(sink.content) == size
                else:
                    with pytest.raises(AttachmentFailed) as caught:
                        await bench.channel.fetch(attachment, sink)
                    assert caught.value.reason == "too_large"

    async def test_a_file_that_is_gone_says_so(self, bench: Bench) -> None:
        ref = '{"message_id": "om_none", "key": "file_none", "type": "file"}'
        with pytest.raises(AttachmentFailed) as caught:
            await bench.channel.fetch(Attachment(ref=ref, kind="file"), Bytes())
        assert caught.value.reason == "gone"

    async def test_a_missing_right_to_read_files_is_named_and_no_file_is_called_gone(self, bench: Bench) -> None:
        await bench.feishu.fail("im.resource.get", faults.missing_scope("im:resource"))
        ref = '{"message_id": "om_none", "key": "file_none", "type": "file"}'
        with pytest.raises(NotAllowed, match="im:resource"):
            await bench.channel.fetch(Attachment(ref=ref, kind="file"), Bytes())


class Bytes:
    """A Sink."""

    def __init__(self) -> None:
        self.content = b""

    async def write(self, chunk: bytes) -> None:
        self.content += chunk
