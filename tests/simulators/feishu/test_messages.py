"""Messages over raw HTTP and through the SDK: sending, answering, editing, and every limit that an app can break."""

import json
from typing import Any

import pytest
from lark_oapi.api.im.v1 import CreateMessageRequest, CreateMessageRequestBody, GetMessageRequest

from tests.simulators.feishu.client import FeishuSimulator
from tests.simulators.feishu.raw import Api, Json, button, streaming_card
from tests.simulators.feishu.sdk import api_client, called
from tests.simulators.feishu.seen import ALICE, BOB, TEAM, TOPICS

pytestmark = pytest.mark.timeout(60)


def static_card(*elements: Json, **config: Any) -> Json:
    """A card that does not stream."""
    return {"schema": "2.0", "config": config, "body": {"elements": list(elements)}}


def markdown(text: str) -> Json:
    return {"tag": "markdown", "content": text}


class TestSending:
    async def test_through_the_sdk(self, feishu: FeishuSimulator, api: Api) -> None:
        client = api_client(feishu)
        body = CreateMessageRequestBody.builder().receive_id(feishu.open_id(ALICE)).msg_type("text")
        content = json.dumps({"text": f'hi <at user_id="{feishu.open_id(ALICE)}">Alice</at>'})
        request = CreateMessageRequest.builder().receive_id_type("open_id").request_body(body.content(content).build())
        sent = await called(client.im.v1.message.create, request.build())
        assert (sent.code, sent.data.chat_id, sent.data.sender.id) == (0, feishu.chat_id(ALICE), feishu.app_id)
        (seen,) = await feishu.bot_messages(ALICE)
        assert (seen.text, seen.mentions) == ("hi @_user_1", [ALICE.id])
        got = await called(client.im.v1.message.get, GetMessageRequest.builder().message_id(seen.message_id).build())
        assert json.loads(got.data.items[0].body.content) == {"text": "hi @_user_1"}

    async def test_a_repeated_uuid_is_the_same_message_for_an_hour(self, feishu: FeishuSimulator, api: Api) -> None:
        first = await api.say(ALICE, "once", uuid="key-1")
        assert await api.say(ALICE, "once more", uuid="key-1") == first
        await feishu.advance(3700)
        assert await api.say(ALICE, "later", uuid="key-1") != first
        assert (await api.send(ALICE, "text", {"text": "x"}, uuid="u" * 51))["code"] == 99992402

    async def test_answers_know_their_roots_and_topics(self, feishu: FeishuSimulator, api: Api) -> None:
        root = await feishu.group_says("a question")
        path = f"/im/v1/messages/{root.message_id}/reply"
        body: Json = {"msg_type": "text", "content": '{"text": "an answer"}'}
        plain = (await api.call("POST", path, body))["data"]
        assert (plain["root_id"], plain["parent_id"], plain.get("thread_id")) == (root.message_id,) * 2 + (None,)
        threaded = (await api.call("POST", path, {**body, "reply_in_thread": True}))["data"]
        assert threaded["thread_id"].startswith("omt_")
        follow = await feishu.group_says("and more", reply_to=threaded["message_id"])
        assert follow.thread_id == threaded["thread_id"]
        topic = await feishu.group_says("a new topic", chat=TOPICS)
        assert topic.thread_id not in ("", follow.thread_id)

    async def test_code_is_no_table_and_no_image(self, api: Api) -> None:
        code = "```\n| a |\n| - |\n![x](https://example.com/x.png)\n```"
        assert (await api.send(ALICE, "interactive", static_card(*[markdown(code)] * 6)))["code"] == 0

    async def test_where_the_bot_may_not_write(self, feishu: FeishuSimulator, api: Api) -> None:
        await feishu.bot_leaves(TEAM)
        assert (await api.send(TEAM, "text", {"text": "x"}))["code"] == 230002
        await feishu.add_person(ALICE, unavailable=True)
        assert (await api.send(ALICE, "text", {"text": "x"}))["code"] == 230013
        await feishu.add_chat(TEAM, disbanded=True)
        assert (await api.send(TEAM, "text", {"text": "x"}))["code"] == 232009
        assert (await api.send("oc_unknown", "text", {"text": "x"}))["code"] == 230001
        await feishu.configure(bot_active=False)
        assert (await api.send(ALICE, "text", {"text": "x"}))["code"] == 230006

    async def test_five_a_second_in_one_chat(self, feishu: FeishuSimulator, api: Api) -> None:
        codes = [(await api.send(ALICE, "text", {"text": str(n)}))["code"] for n in range(6)]
        assert codes == [0] * 5 + [230020]
        assert (await api.send(TEAM, "text", {"text": "elsewhere"}))["code"] == 0
        await feishu.advance(1)
        assert (await api.send(ALICE, "text", {"text": "later"}))["code"] == 0
        assert await feishu.refusals() == {"chat": 1}
        other = await feishu.another_app("other")
        await other.add_chat(TEAM)
        await feishu.advance(1)
        async with Api.of(other) as theirs:
            codes = [(await who.send(TEAM, "text", {"text": "x"}))["code"] for who in (api, theirs) * 3]
        assert codes == [0] * 5 + [230020]

    async def test_the_gateways_own_rate(self, feishu: FeishuSimulator, api: Api) -> None:
        await feishu.set_limits(endpoint_per_second=1)
        await api.call("GET", "/bot/v3/info")
        answer = await api.http.get("/bot/v3/info")
        assert (answer.status_code, answer.json()["code"]) == (429, 99991400)
        assert answer.headers["x-ogw-ratelimit-reset"] == "1"


class TestChanging:
    async def test_a_text_is_edited_twenty_times(self, feishu: FeishuSimulator, api: Api) -> None:
        message_id = await api.say(ALICE, "0")
        for number in range(21):
            body = {"msg_type": "text", "content": json.dumps({"text": str(number + 1)})}
            answer = await api.call("PUT", f"/im/v1/messages/{message_id}", body)
        assert answer["code"] == 230072
        (seen,) = await feishu.bot_messages(ALICE)
        assert [version.text for version in seen.history] == [str(number) for number in range(21)]

    async def test_only_cards_are_patched_and_only_shared_ones(self, feishu: FeishuSimulator, api: Api) -> None:
        text = await api.say(ALICE, "no card")
        card = (await api.send(ALICE, "interactive", static_card(markdown("one"), button("Go"))))["data"]["message_id"]
        body = {"content": json.dumps(static_card(markdown("two")))}
        assert (await api.call("PATCH", f"/im/v1/messages/{text}", body))["code"] == 230001
        assert (await api.call("PATCH", f"/im/v1/messages/{card}", body))["code"] == 0
        seen = await feishu.wait_for_text(ALICE, "two")
        assert (seen.message_id, seen.states, seen.buttons) == (card, 2, [])
        old = {"elements": [markdown("a 1.0 card for one person")]}
        assert (await api.call("PATCH", f"/im/v1/messages/{card}", {"content": json.dumps(old)}))["code"] == 230099
        await feishu.advance(15 * 24 * 3600)
        api.http.headers["Authorization"] = f"Bearer {await api.new_token()}"
        assert (await api.call("PATCH", f"/im/v1/messages/{card}", body))["code"] == 230031

    async def test_five_patches_a_second(self, api: Api) -> None:
        card = (await api.send(ALICE, "interactive", static_card(markdown("0"))))["data"]["message_id"]
        codes = []
        for number in range(6):
            body = {"content": json.dumps(static_card(markdown(str(number))))}
            codes.append((await api.call("PATCH", f"/im/v1/messages/{card}", body))["code"])
        assert codes == [0] * 5 + [230020]

    async def test_what_is_recalled_stays_so(self, feishu: FeishuSimulator, api: Api) -> None:
        message_id = await api.say(ALICE, "oops")
        assert (await api.call("DELETE", f"/im/v1/messages/{message_id}"))["code"] == 0
        assert (await api.call("DELETE", f"/im/v1/messages/{message_id}"))["code"] == 230011
        assert await feishu.bot_messages(ALICE) == []
        said = await feishu.user_says("not yours")
        assert (await api.call("DELETE", f"/im/v1/messages/{said.message_id}"))["code"] == 230071

    async def test_reactions_come_and_go(self, feishu: FeishuSimulator, api: Api) -> None:
        said = await feishu.user_says("hello")
        path = f"/im/v1/messages/{said.message_id}/reactions"
        added = await api.call("POST", path, {"reaction_type": {"emoji_type": "OnIt"}})
        assert (await feishu.messages(ALICE))[0].reactions == [[feishu.app_id, "OnIt"]]
        assert (await api.call("DELETE", f"{path}/{added['data']['reaction_id']}"))["code"] == 0
        assert (await api.call("DELETE", f"{path}/{added['data']['reaction_id']}"))["code"] == 231007
        assert (await feishu.messages(ALICE))[0].reactions == []


class TestReading:
    async def test_history_in_pages(self, feishu: FeishuSimulator, api: Api) -> None:
        said = [await feishu.group_says(str(number), silent=True) for number in range(3)]

        async def page(**query: str) -> Json:
            where = {"container_id_type": "chat", "container_id": TEAM.id, "page_size": "2", **query}
            found: Json = (await api.call("GET", "/im/v1/messages", None, **where))["data"]
            return found

        first = await page()
        second = await page(page_token=first["page_token"])
        found = [item["message_id"] for item in first["items"] + second["items"]]
        assert (found, second["has_more"]) == ([each.message_id for each in said], False)
        assert (await page(sort_type="ByCreateTimeDesc"))["items"][0]["message_id"] == said[2].message_id

    async def test_chats_and_people(self, feishu: FeishuSimulator, api: Api) -> None:
        await feishu.group_says("hi", chat=TOPICS, user=BOB)
        assert (await api.call("GET", f"/im/v1/chats/{TOPICS.id}"))["data"]["chat_mode"] == "topic"
        path = f"/contact/v3/users/{feishu.open_id(BOB)}"
        assert (await api.call("GET", path, user_id_type="open_id"))["data"]["user"]["name"] == "Bob"
        assert (await api.call("GET", "/im/v1/chats/oc_none"))["code"] == 232006
        assert (await api.call("GET", "/contact/v3/users/ou_none"))["code"] == 41050


class TestTokens:
    async def test_a_wrong_secret_and_a_stale_token(self, feishu: FeishuSimulator, api: Api) -> None:
        body = {"app_id": feishu.app_id, "app_secret": "wrong"}
        assert (await api.call("POST", "/auth/v3/tenant_access_token/internal", body))["code"] == 10014
        await feishu.expire_tokens()
        assert (await api.call("GET", "/bot/v3/info"))["code"] == 99991663
        api.http.headers["Authorization"] = f"Bearer {await api.new_token()}"
        assert (await api.call("GET", "/bot/v3/info"))["bot"]["open_id"] == feishu.bot_open_id
        await feishu.advance(7200)
        assert (await api.call("GET", "/bot/v3/info"))["code"] == 99991663
        del api.http.headers["Authorization"]
        assert (await api.call("GET", "/bot/v3/info"))["code"] == 99991661

    async def test_malformed_requests(self, feishu: FeishuSimulator, api: Api) -> None:
        assert (await api.call("POST", "/im/v1/messages", {}, receive_id_type="chat_id"))["code"] == 99992402
        body = {"receive_id": feishu.chat_id(ALICE), "msg_type": "text", "content": {"text": "an object"}}
        assert (await api.call("POST", "/im/v1/messages", body, receive_id_type="chat_id"))["code"] == 9499
        answer = await api.http.post("/im/v1/messages", content=b"{", headers={"Content-Type": "application/json"})
        assert answer.json()["code"] == 9499


async def test_a_streaming_card_is_seen_as_such(feishu: FeishuSimulator, api: Api) -> None:
    await api.send(ALICE, "interactive", streaming_card("thinking"))
    (seen,) = await feishu.bot_messages(ALICE)
    assert (seen.text, seen.streaming, seen.generating, seen.summary) == ("thinking", True, True, "...")
