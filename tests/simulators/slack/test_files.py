"""Files in both directions: downloads with and without a valid token, the three steps of an upload."""

import hashlib
from typing import Any

import httpx
import pytest
from slack_sdk.errors import SlackApiError, SlackRequestError
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack import faults
from tests.simulators.slack.client import SlackSimulator
from tests.simulators.slack.seen import ALICE, TEAM, FileSpec

pytestmark = pytest.mark.timeout(30)


async def get(url: str, token: str = "") -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.get(url, headers={"Authorization": f"Bearer {token}"} if token else {})


async def shared(slack: SlackSimulator, **spec: Any) -> dict[str, Any]:
    said = await slack.user_says("see file", files=[FileSpec(**spec)])
    assert said.message["subtype"] == "file_share"
    file: dict[str, Any] = said.message["files"][0]
    return file


class TestDownloads:
    async def test_a_file_comes_with_the_token(self, slack: SlackSimulator) -> None:
        file = await shared(slack, name="notes.txt", mime="text/plain", content=b"hello")
        answer = await get(file["url_private_download"], slack.bot_token)
        assert (answer.content, answer.headers["content-type"]) == (b"hello", "text/plain")
        assert (await get(file["url_private"], slack.bot_token)).content == b"hello"
        assert (await slack.file(file["id"]))["downloads"] == 2

    async def test_anybody_else_gets_the_login_page(self, slack: SlackSimulator) -> None:
        file = await shared(slack, content=b"secret")
        stranger = await slack.fresh_app()
        for token in ("", "xoxb-unknown", stranger.bot_token):
            answer = await get(file["url_private"], token)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
            assert b"secret" not in answer.content
        await slack.configure(scopes=["chat:write"])
        assert b"Sign in" in (await get(file["url_private"], slack.bot_token)).content
        assert (await slack.file(file["id"]))["login_pages"] == 4

    async def test_it_may_stream_more_than_it_declares(self, slack: SlackSimulator) -> None:
        file = await shared(slack, declared_size=1024, stream_size=3_000_000)
        assert file["size"] == 1024
        assert len((await get(file["url_private"], slack.bot_token)).content) == 3_000_000

    async def test_stubs_snippets_clips_and_external_files(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        stub = await shared(slack, content=b"x", name="far.txt", access="check_file_info")
        assert "url_private" not in stub
        info = await web.files_info(file=stub["id"])
        assert (await get(info["file"]["url_private"], slack.bot_token)).content == b"x"
        snippet = await shared(slack, content=b"print()", name="a.py", mode="snippet", filetype="python")
        assert (snippet["mode"], snippet["filetype"]) == ("snippet", "python")
        clip = await shared(slack, content=b"ogg", name="clip.m4a", mime="audio/mp4", subtype="slack_audio")
        assert clip["subtype"] == "slack_audio"
        far = await shared(slack, mode="external", external_url="https://example.org/doc")
        assert (far["is_external"], far["url_private"]) == (True, "https://example.org/doc")

    async def test_downloads_meet_faults(self, slack: SlackSimulator) -> None:
        file = await shared(slack, content=b"x")
        await slack.fail(faults.FILE_DOWNLOAD, faults.login_page())
        assert b"Sign in" in (await get(file["url_private"], slack.bot_token)).content
        await slack.fail(faults.FILE_DOWNLOAD, faults.server_error(503))
        assert (await get(file["url_private"], slack.bot_token)).status_code == 503
        assert (await get(file["url_private"], slack.bot_token)).content == b"x"


class TestUploads:
    async def test_an_upload_becomes_a_message(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        root = await slack.channel_says("send it")
        answer = await web.files_upload_v2(
            channel=TEAM.id, thread_ts=root.ts, filename="report.md", content="# hi", initial_comment="done"
        )
        assert "ts" not in answer.data
        (seen,) = await slack.bot_messages(TEAM)
        assert (seen.text, seen.thread, seen.files[0]["name"]) == ("done", root.ts, "report.md")
        file = await slack.file(seen.files[0]["id"])
        assert file["sha256"] == hashlib.sha256(b"# hi").hexdigest()
        shares = (await web.files_info(file=seen.files[0]["id"]))["file"]["shares"]
        assert shares == {"public": {TEAM.id: [{"ts": seen.ts}]}}

    async def test_several_files_are_one_message(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        said = await slack.user_says("two please")
        uploads: list[dict[str, Any]] = [{"filename": "a.txt", "content": "a"}, {"filename": "b.bin", "file": b"b"}]
        await web.files_upload_v2(channel=said.channel, file_uploads=uploads)
        (seen,) = await slack.bot_messages(ALICE)
        assert [file["name"] for file in seen.files] == ["a.txt", "b.bin"]

    async def test_what_goes_wrong(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        said = await slack.user_says("hi")
        with pytest.raises(SlackApiError, match="invalid_channel"):
            await web.files_upload_v2(channel="general", filename="a", content="a")
        with pytest.raises(SlackApiError, match="missing_argument"):
            await web.files_getUploadURLExternal(filename="a", length=0)
        announced = await web.files_getUploadURLExternal(filename="a", length=5)
        async with httpx.AsyncClient(trust_env=False) as http:
            assert (await http.post(str(announced["upload_url"]), content=b"four")).status_code == 400
        with pytest.raises(SlackApiError, match="file_not_found"):
            await web.files_completeUploadExternal(files=[{"id": announced["file_id"]}], channel_id=said.channel)
        with pytest.raises(SlackApiError, match="method_deprecated"):
            await web.api_call("files.upload", data={"content": "x"})
        await slack.fail(faults.FILE_UPLOAD, faults.server_error())
        with pytest.raises(SlackRequestError, match="Failed to upload"):
            await web.files_upload_v2(channel=said.channel, filename="a", content="a")
        assert await slack.bot_messages(ALICE) == []

    async def test_an_app_removes_its_own_files_only(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        said = await slack.user_says("one please", files=[FileSpec("theirs.txt", content=b"x")])
        sent = await web.files_upload_v2(channel=said.channel, filename="a.txt", content="a")
        await web.files_delete(file=sent["files"][0]["id"])
        assert await slack.bot_messages(ALICE) == []
        with pytest.raises(SlackApiError, match="file_not_found"):
            await web.files_delete(file=sent["files"][0]["id"])
        with pytest.raises(SlackApiError, match="cant_delete_file"):
            await web.files_delete(file=said.message["files"][0]["id"])

    async def test_a_multipart_upload_works_too(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        announced = await web.files_getUploadURLExternal(filename="a.txt", length=3)
        async with httpx.AsyncClient(trust_env=False) as http:
            answer = await http.post(str(announced["upload_url"]), files={"file": ("a.txt", b"abc")})
        assert answer.text == "OK - 3"
