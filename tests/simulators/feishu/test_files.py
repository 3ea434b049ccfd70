"""Images and files, both ways, through the SDK and over raw HTTP."""

import io
import json

import httpx
import pytest
from lark_oapi.api.im.v1 import (
    CreateFileRequest,
    CreateFileRequestBody,
    CreateImageRequest,
    CreateImageRequestBody,
    GetMessageResourceRequest,
)

from tests.simulators.feishu import faults
from tests.simulators.feishu.client import FeishuSimulator
from tests.simulators.feishu.raw import Api
from tests.simulators.feishu.sdk import api_client, called
from tests.simulators.feishu.seen import ALICE, PNG, FileSpec

pytestmark = pytest.mark.timeout(60)


class TestUploads:
    async def test_through_the_sdk(self, feishu: FeishuSimulator, api: Api) -> None:
        client = api_client(feishu)
        picture = io.BytesIO(PNG)
        picture.name = "dot.png"
        body = CreateImageRequestBody.builder().image_type("message").image(picture).build()
        made = await called(client.im.v1.image.create, CreateImageRequest.builder().request_body(body).build())
        assert (await api.send(ALICE, "image", {"image_key": made.data.image_key}))["code"] == 0
        report = io.BytesIO(b"numbers")
        report.name = "report.pdf"
        form = CreateFileRequestBody.builder().file_type("pdf").file_name("报告.pdf").file(report).build()
        stored = await called(client.im.v1.file.create, CreateFileRequest.builder().request_body(form).build())
        assert (await api.send(ALICE, "file", {"file_key": stored.data.file_key}))["code"] == 0
        seen = await feishu.bot_messages(ALICE)
        assert [next(iter(message.resources.values()))["name"] for message in seen] == ["image", "报告.pdf"]
        assert (await feishu.upload(stored.data.file_key))["content"] == b"numbers"

    async def test_types_must_fit(self, feishu: FeishuSimulator, api: Api) -> None:
        async def upload(kind: str, content: bytes = b"x") -> str:
            answer = await api.http.post(
                "/im/v1/files", data={"file_type": kind, "file_name": "f"}, files={"file": ("f", content)}
            )
            return str(answer.json().get("data", {}).get("file_key") or answer.json()["code"])

        voice, text = await upload("opus"), await upload("stream")
        assert (await api.send(ALICE, "audio", {"file_key": voice}))["code"] == 0
        assert (await api.send(ALICE, "audio", {"file_key": text}))["code"] == 230055
        assert (await api.send(ALICE, "media", {"file_key": text}))["code"] == 230055
        assert await upload("exe") == "234001"
        assert await upload("stream", b"") == "234010"

    async def test_images_are_looked_at(self, api: Api) -> None:
        async def upload(content: bytes) -> int:
            answer = await api.http.post(
                "/im/v1/images", data={"image_type": "message"}, files={"image": ("x.png", content)}
            )
            return int(answer.json()["code"])

        assert [await upload(content) for content in (PNG, b"text", b"")] == [0, 234011, 234010]
        assert await upload(PNG + bytes(10 * 1024 * 1024)) == 234006


class TestDownloads:
    async def test_through_the_sdk(self, feishu: FeishuSimulator, api: Api) -> None:
        said = await feishu.sends(FileSpec("名字 1.txt", "text/plain", b"content"))
        client = api_client(feishu)
        request = GetMessageResourceRequest.builder().message_id(said.message_id).file_key(said.keys[0]).type("file")
        got = await called(client.im.v1.message_resource.get, request.build())
        assert (got.file.read(), got.file_name) == (b"content", "名字 1.txt")
        assert (await feishu.upload(said.keys[0]))["downloads"] == 1

    async def test_a_large_one_is_made_while_it_streams(self, feishu: FeishuSimulator, api: Api) -> None:
        said = await feishu.sends(FileSpec("big.bin", size=3_000_000))
        answer = await api.http.get(
            f"/im/v1/messages/{said.message_id}/resources/{said.keys[0]}", params={"type": "file"}
        )
        assert len(answer.content) == int(answer.headers["Content-Length"]) == 3_000_000

    async def test_what_cannot_be_fetched(self, feishu: FeishuSimulator, api: Api) -> None:
        said = await feishu.sends_image()
        path = f"/im/v1/messages/{said.message_id}/resources"
        assert (await api.call("GET", f"{path}/{said.keys[0]}", type="file"))["code"] == 234003
        assert (await api.call("GET", f"{path}/{said.keys[0]}"))["code"] == 234001
        huge = await feishu.sends(FileSpec("huge.bin", size=101 * 1024 * 1024))
        path = f"/im/v1/messages/{huge.message_id}/resources/{huge.keys[0]}"
        assert (await api.call("GET", path, type="file"))["code"] == 234037
        bundle = await feishu.forwards([said.message_id])
        items = (await api.call("GET", f"/im/v1/messages/{bundle.message_id}"))["data"]["items"]
        assert items[1]["upper_message_id"] == bundle.message_id
        path = f"/im/v1/messages/{items[1]['message_id']}/resources/{said.keys[0]}"
        assert (await api.call("GET", path, type="image"))["code"] == 234043

    async def test_its_faults(self, feishu: FeishuSimulator, api: Api) -> None:
        said = await feishu.sends_image()
        path = f"/im/v1/messages/{said.message_id}/resources/{said.keys[0]}"
        await feishu.fail("im.resource.get", faults.server_error(502))
        assert (await api.http.get(path, params={"type": "image"})).status_code == 502
        assert (await api.http.get(path, params={"type": "image"})).content == PNG
        await feishu.fail("im.resource.get", faults.truncated())
        with pytest.raises(httpx.TransportError):
            await api.http.get(path, params={"type": "image"})


async def test_contents_of_every_kind(feishu: FeishuSimulator, api: Api) -> None:
    await feishu.sends(FileSpec("voice.opus", "audio/ogg", b"x", kind="audio", duration=2000))
    await feishu.sends_video(FileSpec("film.mp4", "video/mp4", b"x", kind="media", duration=9000))
    voice, film = (json.loads(m) for m in [await _content(api, m.message_id) for m in await feishu.messages(ALICE)])
    assert (voice.keys(), voice["duration"]) == ({"file_key", "duration"}, 2000)
    assert film.keys() == {"file_key", "file_name", "duration", "image_key"}


async def _content(api: Api, message_id: str) -> str:
    return str((await api.call("GET", f"/im/v1/messages/{message_id}"))["data"]["items"][0]["body"]["content"])
