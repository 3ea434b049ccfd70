"""CardKit: streaming text, sequences, the ten minutes, elements and settings, and what is refused."""

import json

import pytest
from lark_oapi.api.cardkit.v1 import (
    ContentCardElementRequest,
    ContentCardElementRequestBody,
    CreateCardRequest,
    CreateCardRequestBody,
)

from tests.simulators.feishu.client import FeishuSimulator
from tests.simulators.feishu.raw import Api, Json, button, streaming_card
from tests.simulators.feishu.sdk import api_client, called
from tests.simulators.feishu.seen import ALICE, TEAM

pytestmark = pytest.mark.timeout(60)


class TestStreaming:
    async def test_a_card_grows_and_ends(self, feishu: FeishuSimulator, api: Api) -> None:
        card_id, message_id = await api.streaming_card(ALICE)
        for number, text in enumerate(("Hel", "Hello", "Hello world"), 1):
            assert (await api.stream(card_id, text, number))["code"] == 0
        await api.settings(card_id, 4, streaming_mode=False, summary={"content": "Hello world"})
        (seen,) = await feishu.bot_messages(ALICE)
        assert (seen.message_id, seen.card_id, seen.msg_type) == (message_id, card_id, "interactive")
        assert [version.text for version in seen.history] == ["", "Hel", "Hello", "Hello world", "Hello world"]
        assert [version.streaming for version in seen.history] == [True] * 4 + [False]
        assert (seen.generating, seen.summary) == (False, "Hello world")
        assert (await feishu.card(card_id))["sequence"] == 4

    async def test_through_the_sdk(self, feishu: FeishuSimulator, api: Api) -> None:
        client = api_client(feishu)
        body = CreateCardRequestBody.builder().type("card_json").data(json.dumps(streaming_card())).build()
        made = await called(client.cardkit.v1.card.create, CreateCardRequest.builder().request_body(body).build())
        text = ContentCardElementRequestBody.builder().content("streamed").sequence(1).uuid("one").build()
        request = ContentCardElementRequest.builder().card_id(made.data.card_id).element_id("md1").request_body(text)
        assert (await called(client.cardkit.v1.card_element.content, request.build())).code == 0
        again = await called(client.cardkit.v1.card_element.content, request.build())
        assert (again.code, again.success()) == (200770, False)

    async def test_sequences_only_grow(self, api: Api) -> None:
        card_id, _ = await api.streaming_card(ALICE)
        assert (await api.stream(card_id, "zero", 0))["code"] == 300317
        assert (await api.stream(card_id, "five", 5))["code"] == 0
        assert (await api.stream(card_id, "five again", 5))["code"] == 300317
        assert (await api.settings(card_id, 4, streaming_mode=False))["code"] == 300317
        assert (await api.stream(card_id, "too far", 1 << 31))["code"] == 300317

    async def test_ten_minutes_and_reopening(self, feishu: FeishuSimulator, api: Api) -> None:
        card_id, _ = await api.streaming_card(ALICE)
        await feishu.advance(550)
        assert (await api.stream(card_id, "in time", 1))["code"] == 0
        await api.settings(card_id, 2, streaming_mode=True)
        await feishu.advance(550)
        assert (await api.stream(card_id, "opened again in time", 3))["code"] == 0
        await feishu.advance(60)
        assert [(await api.stream(card_id, "too late", 4))["code"] for _ in range(2)] == [200850, 300309]
        (seen,) = await feishu.bot_messages(ALICE)
        assert (seen.streaming, seen.generating, seen.text) == (False, True, "opened again in time")
        assert (await api.settings(card_id, 4, streaming_mode=True))["code"] == 0
        assert (await api.stream(card_id, "once more", 5))["code"] == 0

    async def test_a_closed_card_is_not_streamed_into(self, api: Api) -> None:
        card_id, _ = await api.streaming_card(ALICE)
        await api.settings(card_id, 1, streaming_mode=False)
        assert (await api.stream(card_id, "late", 2))["code"] == 300309

    async def test_ten_operations_a_second(self, feishu: FeishuSimulator, api: Api) -> None:
        card_id, _ = await api.streaming_card(ALICE)
        codes = [(await api.stream(card_id, str(number), number))["code"] for number in range(1, 12)]
        assert codes == [0] * 10 + [99991400]
        await feishu.set_limits(enforce=False)
        assert (await api.stream(card_id, "counted only", 12))["code"] == 0
        assert await feishu.refusals() == {"card": 2}


class TestEntities:
    async def test_one_is_sent_once_and_by_its_maker(self, feishu: FeishuSimulator, api: Api) -> None:
        card_id, _ = await api.streaming_card(ALICE)
        entity = {"type": "card", "data": {"card_id": card_id}}
        assert (await api.send(TEAM, "interactive", entity))["code"] == 230099
        other = await feishu.another_app("other")
        await other.add_chat(TEAM)
        async with Api.of(other) as theirs:
            assert (await theirs.stream(card_id, "mine?", 1))["code"] == 300311
        await feishu.advance(15 * 24 * 3600)
        api.http.headers["Authorization"] = f"Bearer {await api.new_token()}"
        assert (await api.stream(card_id, "old", 1))["code"] == 200750

    async def test_streamed_text_meets_the_same_limits(self, api: Api) -> None:
        card_id, _ = await api.streaming_card(ALICE)
        assert (await api.stream(card_id, "汉" * 10_300, 1))["code"] == 200860
        assert (await api.stream(card_id, "\n\n".join(["| a |\n| - |\n| 1 |"] * 6), 1))["code"] == 230099
        assert (await api.stream(card_id, "x" * 100_001, 1))["code"] == 10002
        assert (await api.stream(card_id, "", 1))["code"] == 99992402
        assert (await api.stream(card_id, "fine", 1))["code"] == 0


class TestElements:
    async def test_adding_changing_and_removing(self, feishu: FeishuSimulator, api: Api) -> None:
        card_id, _ = await api.streaming_card(ALICE, "middle")
        path = f"/cardkit/v1/cards/{card_id}/elements"
        first = {"tag": "markdown", "element_id": "top", "content": "first"}
        body: Json = {"type": "insert_before", "target_element_id": "md1", "elements": json.dumps([first])}
        assert (await api.call("POST", path, {**body, "sequence": 1}))["code"] == 0
        body = {"partial_element": json.dumps({"content": "FIRST"}), "sequence": 2}
        assert (await api.call("PATCH", f"{path}/top", body))["code"] == 0
        body = {"element": json.dumps(button("Stop", element_id="md1")), "sequence": 3}
        assert (await api.call("PUT", f"{path}/md1", body))["code"] == 0
        (seen,) = await feishu.bot_messages(ALICE)
        assert (seen.text, seen.labels) == ("FIRST", ["Stop"])
        assert (await api.stream(card_id, "no text", 4))["code"] == 300310
        assert (await api.call("DELETE", f"{path}/md1", {"sequence": 4}))["code"] == 0
        assert (await api.stream(card_id, "gone", 5))["code"] == 300313
        assert (await api.call("DELETE", f"{path}/md1", {"sequence": 5}))["code"] == 300314

    async def test_a_batch_is_all_or_nothing(self, feishu: FeishuSimulator, api: Api) -> None:
        card_id, _ = await api.streaming_card(ALICE, "text")
        path = f"/cardkit/v1/cards/{card_id}/batch_update"
        actions: list[Json] = [
            {"action": "partial_update_setting", "params": {"settings": {"config": {"streaming_mode": False}}}},
            {"action": "add_elements", "params": {"type": "append", "elements": [button("Again")]}},
            {
                "action": "partial_update_element",
                "params": {"element_id": "md1", "partial_element": {"content": "END"}},
            },
        ]
        bad = [*actions, {"action": "delete_elements", "params": {"element_ids": ["none"]}}]
        assert (await api.call("POST", path, {"actions": json.dumps(bad), "sequence": 1}))["code"] == 300314
        assert (await feishu.card(card_id))["streaming"]
        assert (await api.call("POST", path, {"actions": json.dumps(actions), "sequence": 1}))["code"] == 0
        (seen,) = await feishu.bot_messages(ALICE)
        assert (seen.text, seen.labels, seen.streaming, seen.states) == ("END", ["Again"], False, 2)

    async def test_the_whole_card_anew(self, feishu: FeishuSimulator, api: Api) -> None:
        card_id, _ = await api.streaming_card(ALICE, "draft")
        data = {
            "schema": "2.0",
            "header": {"title": {"tag": "plain_text", "content": "Title"}},
            "body": {
                "elements": [
                    {"tag": "div", "text": {"tag": "lark_md", "content": "in a div"}},
                    {"tag": "column_set", "columns": [{"tag": "column", "elements": [button("One"), button("Two")]}]},
                    {"tag": "hr"},
                ]
            },
        }
        body = {"card": {"type": "card_json", "data": json.dumps(data)}, "sequence": 1}
        assert (await api.call("PUT", f"/cardkit/v1/cards/{card_id}", body))["code"] == 0
        (seen,) = await feishu.bot_messages(ALICE)
        assert (seen.text, seen.labels, seen.streaming) == ("Title\nin a div\n---", ["One", "Two"], False)
