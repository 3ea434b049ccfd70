"""Long texts are cut or refused as documented, and the blocks of the SDK are accepted."""

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import ActionsBlock, ButtonElement, MarkdownBlock, SectionBlock
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack.client import SlackSimulator
from tests.simulators.slack.seen import ALICE

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
async def dm(slack: SlackSimulator) -> str:
    return (await slack.user_says("hi")).channel


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
