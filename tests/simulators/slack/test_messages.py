"""chat.*, conversations.*, reactions.* and identities answer the real SDK as the Web API does."""

import time
from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack.bolt import web_client
from tests.simulators.slack.client import SlackSimulator
from tests.simulators.slack.seen import ADMIN, ALICE, BOB, SECRET, SHARED, STRANGER, TEAM, Room

pytestmark = pytest.mark.timeout(30)
METADATA = {"event_type": "reply", "event_payload": {"key": "k1"}}


class TestIdentity:
    async def test_auth_test_tells_the_bot_and_its_scopes(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        answer = await web.auth_test()
        assert (answer["user_id"], answer["bot_id"], answer["team_id"]) == (
            slack.bot_user_id,
            slack.bot_id,
            slack.team_id,
        )
        assert "chat:write" in answer.headers["x-oauth-scopes"].split(",")
        await slack.configure(scopes=["chat:write"])
        with pytest.raises(SlackApiError) as refused:
            await web.users_info(user=slack.bot_user_id)
        assert refused.value.response["error"] == "missing_scope"
        assert (refused.value.response["needed"], refused.value.response["provided"]) == ("users:read", "chat:write")

    @pytest.mark.parametrize(
        ("token", "error"), [("xoxb-unknown", "invalid_auth"), ("APP", "not_allowed_token_type"), ("", "not_authed")]
    )
    async def test_wrong_tokens(self, slack: SlackSimulator, token: str, error: str) -> None:
        web = web_client(slack, token=slack.app_token if token == "APP" else token or " ")
        with pytest.raises(SlackApiError, match=error):
            await web.chat_postMessage(channel="C1", text="hi")

    async def test_a_persons_token_is_not_a_bots(self, slack: SlackSimulator) -> None:
        web = web_client(slack, token=slack.user_token)
        answer = await web.auth_test()
        assert (answer["user_id"], "bot_id" in answer.data) == (ADMIN.id, False)
        with pytest.raises(SlackApiError, match="not_allowed_token_type"):
            await web.users_list()
        assert await slack.problems() == ["a method was called with a person's token"]

    async def test_a_token_can_be_revoked(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        await slack.break_tokens("token_revoked")
        with pytest.raises(SlackApiError, match="token_revoked"):
            await web.auth_test()
        await slack.break_tokens()
        assert (await web.auth_test())["ok"]

    async def test_people_and_bots_are_known(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        await slack.user_says("hi")
        await slack.user_says("hi", user=STRANGER, chat=SHARED)
        assert (await web.users_info(user=ALICE.id, include_locale=True))["user"]["locale"] == "en-US"
        assert "locale" not in (await web.users_info(user=ALICE.id))["user"]
        assert (await web.users_info(user=STRANGER.id))["user"]["is_stranger"]
        assert (await web.bots_info(bot=slack.bot_id))["bot"]["app_id"] == slack.app_id
        with pytest.raises(SlackApiError, match="missing_scope"):
            await web.team_info()

    async def test_an_unknown_method_fails_the_test(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        with pytest.raises(SlackApiError, match="unknown_method"):
            await web.pins_list(channel="C1")
        assert await slack.problems() == ["unimplemented method called: pins.list"]
        assert await slack.problems() == []


class TestPosting:
    async def test_a_post_shows_in_the_channel(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        said = await slack.channel_says("question")
        sent = await web.chat_postMessage(channel=TEAM.id, text="answer", thread_ts=said.ts)
        (seen,) = await slack.bot_messages(TEAM)
        assert (seen.ts, seen.text, seen.thread) == (sent["ts"], "answer", said.ts)
        assert sent["message"]["bot_id"] == slack.bot_id
        (record,) = await slack.records("chat.postMessage")
        assert (record.encodings, record.status, record.outcome, record.ts) == (["json"], 200, "applied", sent["ts"])
        assert "answer" in await slack.transcript(TEAM)

    async def test_every_encoding_is_read(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        said = await slack.user_says("hi")
        await web.reactions_add(channel=said.channel, timestamp=said.ts, name="eyes")
        await web.chat_postMessage(channel=said.channel, text="json")
        blocks = '[{"type": "markdown", "text": "*form*"}]'
        await web.api_call("chat.postMessage", data={"channel": said.channel, "blocks": blocks, "text": "form"})
        assert [record.encodings for record in await slack.records()] == [["query"], ["json"], ["form"]]
        assert [message.shown for message in await slack.bot_messages(ALICE)] == ["json", "*form*"]

    async def test_a_persons_id_means_their_dm(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        await slack.add_person(ALICE)
        sent = await web.chat_postMessage(channel=ALICE.id, text="hello")
        assert sent["channel"] == slack.channel_id(ALICE)
        opened = await web.conversations_open(users=[ALICE.id])
        assert opened["channel"]["id"] == slack.channel_id(ALICE)

    async def test_where_a_bot_may_not_write(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        await slack.add_chat(TEAM, member=False)
        await slack.add_chat(SECRET, member=False)
        await slack.add_chat(Room("C0OLD", name="old"), archived=True)
        for channel, error in ((TEAM.id, "not_in_channel"), (SECRET.id, "channel_not_found"), ("C0OLD", "is_archived")):
            with pytest.raises(SlackApiError, match=error):
                await web.chat_postMessage(channel=channel, text="hello")
        await slack.user_says("hi")
        await slack.configure(messages_tab=False)
        with pytest.raises(SlackApiError, match="messages_tab_disabled"):
            await web.chat_postMessage(channel=slack.channel_id(ALICE), text="hello")

    async def test_threads_are_named_by_their_root(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        root = await slack.channel_says("root")
        reply = await slack.channel_says("reply", thread=root.ts)
        with pytest.raises(SlackApiError, match="cannot_reply_to_message"):
            await web.chat_postMessage(channel=TEAM.id, text="x", thread_ts=reply.ts)
        with pytest.raises(SlackApiError, match="thread_not_found"):
            await web.chat_postMessage(channel=TEAM.id, text="x", thread_ts="1.000000")
        sent = await web.chat_postMessage(channel=TEAM.id, text="all", thread_ts=root.ts, reply_broadcast=True)
        assert sent["message"]["subtype"] == "thread_broadcast"

    async def test_an_update_keeps_its_history(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        said = await slack.user_says("hi")
        sent = await web.chat_postMessage(channel=said.channel, text="draft", metadata=METADATA)
        await web.chat_update(channel=said.channel, ts=sent["ts"], markdown_text="**answer**")
        (seen,) = await slack.bot_messages(ALICE)
        assert [version.shown for version in seen.history] == ["draft", "**answer**"]
        assert (seen.metadata, seen.blocks[0]["type"]) == (METADATA, "markdown")
        await web.chat_update(channel=said.channel, ts=sent["ts"], text="plain")
        (seen,) = await slack.bot_messages(ALICE)
        assert (seen.shown, seen.blocks, seen.data["edited"]["user"]) == ("plain", (), slack.bot_user_id)

    async def test_only_its_own_messages_can_be_changed(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        said = await slack.user_says("mine")
        with pytest.raises(SlackApiError, match="cant_update_message"):
            await web.chat_update(channel=said.channel, ts=said.ts, text="x")
        with pytest.raises(SlackApiError, match="cant_delete_message"):
            await web.chat_delete(channel=said.channel, ts=said.ts)
        sent = await web.chat_postMessage(channel=said.channel, text="gone soon")
        await web.chat_delete(channel=said.channel, ts=sent["ts"])
        with pytest.raises(SlackApiError, match="message_not_found"):
            await web.chat_update(channel=said.channel, ts=sent["ts"], text="x")
        assert [message.deleted for message in await slack.messages(ALICE)] == [False, True]

    async def test_ephemeral_messages_have_no_history(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        await slack.channel_says("hi")
        await web.chat_postEphemeral(channel=TEAM.id, user=ALICE.id, text="psst")
        assert await slack.bot_messages(TEAM) == []
        assert [m.text for m in await slack.messages(TEAM) if m.ephemeral_to == ALICE.id] == ["psst"]
        with pytest.raises(SlackApiError, match="user_not_in_channel"):
            await web.chat_postEphemeral(channel=TEAM.id, user=BOB.id, text="psst")

    async def test_reactions_are_counted_once(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        said = await slack.user_says("hi")
        target = {"channel": said.channel, "timestamp": said.ts}
        await web.reactions_add(name="eyes", **target)
        with pytest.raises(SlackApiError, match="already_reacted"):
            await web.reactions_add(name="eyes", **target)
        await slack.reacts(said.ts, "eyes")
        assert (await slack.messages(ALICE))[0].reactions == {"eyes": [slack.bot_user_id, ALICE.id]}
        await web.reactions_remove(name="eyes", **target)
        with pytest.raises(SlackApiError, match="no_reaction"):
            await web.reactions_remove(name="eyes", **target)


class TestReading:
    async def test_history_is_newest_first_and_paged(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        past = time.time() - 3600
        said = [await slack.channel_says(f"m{n}", at=past + n, silent=True) for n in range(5)]
        await slack.channel_says("in a thread", thread=said[0].ts)
        pages = [
            [message["text"] for message in page["messages"]]
            async for page in await web.conversations_history(channel=TEAM.id, limit=2)
        ]
        assert pages == [["m4", "m3"], ["m2", "m1"], ["m0"]]
        since = await web.conversations_history(channel=TEAM.id, oldest=said[2].ts)
        assert [message["text"] for message in since["messages"]] == ["m4", "m3"]
        until = await web.conversations_history(channel=TEAM.id, latest=said[1].ts, inclusive=True)
        assert [message["text"] for message in until["messages"]] == ["m1", "m0"]
        assert until["messages"][1]["reply_count"] == 1

    async def test_replies_start_with_the_root(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        root = await slack.channel_says("root")
        sent = await web.chat_postMessage(channel=TEAM.id, text="r1", thread_ts=root.ts, metadata=METADATA)
        await slack.channel_says("r2", thread=root.ts)
        found = await web.conversations_replies(channel=TEAM.id, ts=root.ts, include_all_metadata=True)
        assert [message["text"] for message in found["messages"]] == ["root", "r1", "r2"]
        assert found["messages"][1]["metadata"] == METADATA
        later = await web.conversations_replies(channel=TEAM.id, ts=root.ts, oldest=sent["ts"])
        assert [message["text"] for message in later["messages"]] == ["root", "r2"]
        assert "metadata" not in (await web.conversations_replies(channel=TEAM.id, ts=root.ts))["messages"][1]
        with pytest.raises(SlackApiError, match="thread_not_found"):
            await web.conversations_replies(channel=TEAM.id, ts="1.000000")

    async def test_channels_are_described_and_listed(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        await slack.add_chat(SECRET, people=[ALICE])
        await slack.add_chat(TEAM, member=False)
        await slack.user_says("hi")
        info = (await web.conversations_info(channel=SECRET.id))["channel"]
        assert (info["is_private"], info["is_member"]) == (True, True)
        assert not (await web.conversations_info(channel=TEAM.id))["channel"]["is_member"]
        assert (await web.conversations_info(channel=slack.channel_id(ALICE)))["channel"]["user"] == ALICE.id
        mine = await web.users_conversations(types="public_channel,private_channel,im")
        assert {channel["id"] for channel in mine["channels"]} == {SECRET.id, slack.channel_id(ALICE)}
        everything = await web.conversations_list(types="public_channel")
        assert [channel["id"] for channel in everything["channels"]] == [TEAM.id]
        assert (await web.conversations_members(channel=SECRET.id))["members"] == sorted([ALICE.id, slack.bot_user_id])
        with pytest.raises(SlackApiError, match="not_in_channel"):
            await web.conversations_history(channel=TEAM.id)


class TestAssistant:
    async def test_a_status_goes_with_the_reply_or_after_two_minutes(
        self, slack: SlackSimulator, web: AsyncWebClient
    ) -> None:
        opened = await slack.opens_assistant(context=TEAM.id)
        thread: dict[str, Any] = {"channel_id": opened.channel, "thread_ts": opened.ts}
        await web.assistant_threads_setTitle(title="A talk", **thread)
        await web.assistant_threads_setSuggestedPrompts(prompts=[{"title": "t", "message": "m"}], **thread)
        await web.assistant_threads_setStatus(status="is thinking...", loading_messages=["one", "two"], **thread)
        shown = await slack.thread(ALICE, opened.ts)
        assert (shown["status"], shown["title"], len(shown["loading_messages"])) == ("is thinking...", "A talk", 2)
        await web.chat_postMessage(channel=opened.channel, thread_ts=opened.ts, text="done")
        assert (await slack.thread(ALICE, opened.ts))["status"] == ""
        await web.assistant_threads_setStatus(status="again", **thread)
        await slack.advance(121)
        shown = await slack.thread(ALICE, opened.ts)
        assert (shown["status"], [status["status"] for status in shown["statuses"]]) == (
            "",
            ["is thinking...", "again"],
        )

    async def test_a_status_needs_a_thread(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        said = await slack.channel_says("hi")
        await web.assistant_threads_setStatus(channel_id=TEAM.id, thread_ts=said.ts, status="works in channels")
        with pytest.raises(SlackApiError, match="invalid_thread_ts"):
            await web.assistant_threads_setStatus(channel_id=TEAM.id, thread_ts="1.000000", status="x")
        with pytest.raises(SlackApiError, match="invalid_arguments"):
            await web.assistant_threads_setStatus(
                channel_id=TEAM.id, thread_ts=said.ts, status="x", loading_messages=["x"] * 11
            )
