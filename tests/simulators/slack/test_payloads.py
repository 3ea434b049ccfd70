"""Payload checks against the documented limits, written down here independently of the simulator's own constants."""

from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import ActionsBlock, ButtonElement, MarkdownBlock, SectionBlock
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack.client import SlackSimulator
from tests.simulators.slack.seen import ALICE

pytestmark = pytest.mark.timeout(30)
Json = dict[str, Any]


def plain(text: str) -> Json:
    return {"type": "plain_text", "text": text}


def mrkdwn(text: str) -> Json:
    return {"type": "mrkdwn", "text": text}


def button(**more: Any) -> Json:
    return {"type": "button", "text": plain("Yes"), "action_id": "yes", "value": "1", **more}


def actions(*elements: Json) -> Json:
    return {"type": "actions", "elements": list(elements)}


def menu(count: int, value: str = "v") -> Json:
    options = [{"text": plain(f"o{number}"), "value": f"{value}{number}"} for number in range(count)]
    return {"type": "static_select", "action_id": "pick", "options": options}


def table(rows: int, columns: int, text: str = "x") -> Json:
    return {"type": "table", "rows": [[{"type": "raw_text", "text": text}] * columns for _ in range(rows)]}


def markdown(text: str) -> Json:
    return {"type": "markdown", "text": text}


def markdown_table(rows: int, columns: int, text: str = "x") -> str:
    row = f"|{f'{text}|' * columns}\n"
    return row + f"|{'-|' * columns}\n" + row * (rows - 1)


ACCEPTED: list[list[Json]] = [
    [{"type": "section", "text": mrkdwn("x" * 3000)}],
    [{"type": "section", "fields": [mrkdwn("x" * 2000)] * 10}],
    [{"type": "header", "text": plain("x" * 150)}],
    [{"type": "markdown", "text": "x" * 12_000}],
    [{"type": "divider"}] * 50,
    [{"type": "context", "elements": [mrkdwn("x")] * 10}],
    [actions(*(button(action_id=f"a{number}") for number in range(25)))],
    [actions(button(text=plain("x" * 75), value="x" * 2000, action_id="x" * 255, style="danger"))],
    [actions(menu(100))],
    [table(100, 20)],
    [table(10, 1, "x" * 1000)],
    [markdown("# Title\n\ntext\n\n" * 25)],
    [markdown("- item\n" * 500)],
    [markdown(markdown_table(100, 20))],
    [markdown(markdown_table(10, 1, "x" * 1000))],
    [{"type": "image", "image_url": "https://example.org/x.png", "alt_text": "x"}],
    [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "x"}]}]}],
]

REFUSED: list[tuple[list[Json], str]] = [
    ([{"type": "section", "text": mrkdwn("x" * 3001)}], "must be less than 3001 characters"),
    ([{"type": "section", "text": mrkdwn("")}], "must be more than 0 characters"),
    ([{"type": "section"}], "must define either `text` or `fields`"),
    ([{"type": "section", "fields": [mrkdwn("x")] * 11}], "no more than 10 items allowed"),
    ([{"type": "section", "fields": [mrkdwn("x" * 2001)]}], "must be less than 2001 characters"),
    ([{"type": "header", "text": plain("x" * 151)}], "must be less than 151 characters"),
    ([{"type": "header", "text": mrkdwn("x")}], "must be one of: plain_text"),
    ([{"type": "markdown", "text": "x" * 12_001}], "must be less than 12001 characters"),
    ([{"type": "divider"}] * 51, "no more than 50 items allowed"),
    ([{"type": "context", "elements": [mrkdwn("x")] * 11}], "no more than 10 items allowed"),
    ([actions(*(button(action_id=f"a{number}") for number in range(26)))], "no more than 25 items allowed"),
    ([actions(button(text=plain("x" * 76)))], "must be less than 76 characters"),
    ([actions(button(value="x" * 2001))], "must be less than 2001 characters"),
    ([actions(button(action_id="x" * 256))], "must be less than 256 characters"),
    ([actions(button(), button())], "action_id 'yes' already exists"),
    ([actions(button(text=mrkdwn("Yes")))], "must be one of: plain_text"),
    ([actions(button(style="default"))], "must be one of: primary, danger"),
    ([actions()], "no less than 1 items required"),
    ([actions(menu(101))], "no more than 100 items allowed"),
    ([actions(menu(1, "x" * 150))], "must be less than 151 characters"),
    ([actions({"type": "slider"})], "unsupported type: slider"),
    ([{"type": "paragraph"}], "unsupported type: paragraph"),
    ([{"type": "divider", "block_id": "b"}] * 2, "block_id 'b' already exists"),
    ([{"type": "image", "image_url": "https://example.org/x.png"}], "missing required field: alt_text"),
    ([table(101, 1)], "no more than 100 items allowed"),
    ([table(1, 21)], "no more than 20 items allowed"),
    ([table(1, 1), table(1, 1)], "only one table is allowed"),
    ([table(10, 1, "x" * 1001)], "no more than 10000 characters allowed"),
    ([markdown("# Title\n\ntext\n\n" * 25 + "---")], "no more than 50 items allowed"),
    ([markdown("text\n\n" * 50), {"type": "divider"}], "no more than 50 items allowed"),
    ([markdown(f"{markdown_table(2, 1)}\n{markdown_table(2, 1)}")], "only one table is allowed"),
    ([markdown(markdown_table(101, 1))], "no more than 100 items allowed"),
    ([markdown(markdown_table(2, 21))], "no more than 20 items allowed"),
    ([markdown(markdown_table(10, 1, "x" * 1001))], "no more than 10000 characters allowed"),
]


@pytest.fixture
async def dm(slack: SlackSimulator) -> str:
    return (await slack.user_says("hi")).channel


async def refusal(web: AsyncWebClient, **arguments: Any) -> Any:
    with pytest.raises(SlackApiError) as refused:
        await web.chat_postMessage(**arguments)
    return refused.value.response


@pytest.mark.parametrize("blocks", ACCEPTED, ids=lambda blocks: str(blocks[0]["type"]))
async def test_blocks_at_their_limit_are_accepted(web: AsyncWebClient, dm: str, blocks: list[Json]) -> None:
    assert (await web.chat_postMessage(channel=dm, text="fallback", blocks=blocks))["ok"]


@pytest.mark.parametrize(("blocks", "problem"), REFUSED, ids=[problem for _, problem in REFUSED])
async def test_blocks_beyond_their_limit_are_refused(
    web: AsyncWebClient, dm: str, blocks: list[Json], problem: str
) -> None:
    response = await refusal(web, channel=dm, text="fallback", blocks=blocks)
    assert response["error"] == "invalid_blocks"
    assert problem in response["errors"][0]
    assert response["response_metadata"]["messages"][0] == f"[ERROR] {response['errors'][0]}"
    assert "json-pointer:/blocks" in response["errors"][0]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"text": ""}, "no_text"),
        ({"text": " \n"}, "no_text"),
        ({"blocks": []}, "no_text"),
        ({"markdown_text": "x" * 12_001}, "msg_too_long"),
        ({"markdown_text": "x", "text": "x"}, "markdown_text_conflict"),
        ({"text": "x", "blocks": "not json"}, "invalid_blocks_format"),
        ({"text": "x", "blocks": [{"type": "markdown", "text": "x" * 6001}] * 2}, "msg_blocks_too_long"),
        ({"text": "x", "metadata": {"event_type": "x"}}, "invalid_metadata_format"),
        ({"text": "x", "metadata": {"event_type": "x", "event_payload": {"k": "v" * 9000}}}, "metadata_too_large"),
        ({"text": "x", "attachments": [{"text": "x"}] * 101}, "too_many_attachments"),
    ],
)
async def test_other_content_is_checked(web: AsyncWebClient, dm: str, arguments: Json, error: str) -> None:
    # The SDK parses blocks that are a string only when they are JSON; api_call sends what it is given.
    with pytest.raises(SlackApiError) as refused:
        await web.api_call("chat.postMessage", json={"channel": dm, **arguments})
    assert refused.value.response["error"] == error


async def test_a_long_text_is_cut_when_posted_and_refused_when_updated(
    slack: SlackSimulator, web: AsyncWebClient, dm: str
) -> None:
    sent = await web.chat_postMessage(channel=dm, text="x" * 40_001)
    assert len((await slack.bot_messages(ALICE))[0].text) == 40_000
    await web.chat_update(channel=dm, ts=sent["ts"], text="y" * 4_000)
    with pytest.raises(SlackApiError, match="msg_too_long"):
        await web.chat_update(channel=dm, ts=sent["ts"], text="y" * 4_001)
    await web.chat_update(channel=dm, ts=sent["ts"], markdown_text="y" * 12_000)


async def test_the_sdks_own_models_are_accepted(slack: SlackSimulator, web: AsyncWebClient, dm: str) -> None:
    yes = ButtonElement(text="Yes", action_id="yes", value="1", style="primary")
    blocks = [MarkdownBlock(text="**May I?**"), SectionBlock(text="*really*"), ActionsBlock(elements=[yes])]
    await web.chat_postMessage(channel=dm, text="May I?", blocks=blocks)
    (seen,) = await slack.bot_messages(ALICE)
    assert (seen.shown, [element["value"] for element in seen.elements]) == ("**May I?**\n*really*", ["1"])
