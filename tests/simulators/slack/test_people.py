"""Actions of people reach the real bolt app in the platform's format: messages, edits, presses, commands, forms."""

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.webhook.async_client import AsyncWebhookClient

from tests.simulators.client import SimulatorError
from tests.simulators.slack.bolt import BoltApp
from tests.simulators.slack.client import SlackSimulator
from tests.simulators.slack.seen import ALICE, BOB, SECRET, SHARED, STRANGER, TEAM, FileSpec, Room

pytestmark = pytest.mark.timeout(30)
BUTTONS = [
    {
        "type": "actions",
        "block_id": "ask",
        "elements": [
            {"type": "button", "action_id": "yes", "value": "y:1", "text": {"type": "plain_text", "text": "Yes"}},
            {
                "type": "static_select",
                "action_id": "model",
                "options": [{"text": {"type": "plain_text", "text": "Big"}, "value": "big"}],
            },
        ],
    }
]


class TestMessages:
    async def test_a_dm_is_a_message_of_an_im(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        said = await slack.user_says("a < b & c")
        body = (await bolt.received.next()).body
        event = body["event"]
        assert (event["channel"], event["channel_type"], event["user"]) == (slack.channel_id(ALICE), "im", ALICE.id)
        assert (event["ts"], event["event_ts"], event["text"]) == (said.ts, said.ts, "a &lt; b &amp; c")
        assert event["blocks"][0]["elements"][0]["elements"] == [{"type": "text", "text": "a < b & c"}]
        assert (body["team_id"], body["api_app_id"], body["type"]) == (slack.team_id, slack.app_id, "event_callback")
        assert body["authorizations"][0]["user_id"] == slack.bot_user_id

    @pytest.mark.parametrize("mention_first", [False, True])
    async def test_a_mention_comes_twice(self, slack: SlackSimulator, bolt: BoltApp, mention_first: bool) -> None:
        said = await slack.channel_says("@antler hello", mention_first=mention_first)
        requests = [await bolt.received.next(), await bolt.received.next()]
        events = [request.body["event"] for request in requests]
        kinds = ["app_mention", "message"]
        assert sorted(event["type"] for event in events) == kinds
        # The order in which the envelopes were sent; bolt handles them concurrently.
        sent = [envelope.event_type for envelope in await slack.envelopes()]
        assert sent == (kinds if mention_first else kinds[::-1])
        assert len({request.body["event_id"] for request in requests}) == 2
        assert {event["ts"] for event in events} == {said.ts}
        assert {event["client_msg_id"] for event in events} == {said.message["client_msg_id"]}
        mention = next(event for event in events if event["type"] == "app_mention")
        assert "channel_type" not in mention
        assert mention["text"] == f"{slack.mention} hello"

    async def test_the_composer_marks_what_people_type(self, slack: SlackSimulator) -> None:
        await slack.add_person(BOB)
        await slack.add_chat(TEAM)
        said = await slack.user_says("@Bob see #team, https://x.org/?a=1&b=2 @here `a<b` ```x\ny```")
        assert said.message["text"] == (
            f"<@{BOB.id}> see <#{TEAM.id}|team>, <https://x.org/?a=1&amp;b=2> <!here> `a&lt;b` ```x\ny```"
        )
        parts = said.message["blocks"][0]["elements"]
        assert [part["type"] for part in parts] == ["rich_text_section", "rich_text_preformatted"]
        assert parts[1]["elements"] == [{"type": "text", "text": "x\ny"}]

    async def test_threads_and_broadcasts(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        root = await slack.channel_says("root")
        assert "thread_ts" not in await bolt.received.event()
        await slack.channel_says("reply", thread=root.ts, user=BOB)
        reply = await bolt.received.event()
        await slack.channel_says("for all", thread=root.ts, broadcast=True)
        broadcast = await bolt.received.event()
        assert (reply["thread_ts"], reply["parent_user_id"]) == (root.ts, ALICE.id)
        assert (broadcast["subtype"], broadcast["thread_ts"]) == ("thread_broadcast", root.ts)

    async def test_edits_unfurls_and_deletions(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        said = await slack.user_says("first")
        await bolt.received.event()
        await slack.edits(said.ts, "second")
        edited = await bolt.received.event()
        await slack.unfurls(said.ts, "https://example.org")
        unfurled = await bolt.received.event()
        await slack.deletes(said.ts)
        deleted = await bolt.received.event()
        assert (edited["subtype"], edited["message"]["text"]) == ("message_changed", "second")
        assert (edited["previous_message"]["text"], edited["message"]["ts"]) == ("first", said.ts)
        assert edited["ts"] != said.ts
        assert unfurled["message"]["text"] == unfurled["previous_message"]["text"]
        assert (deleted["subtype"], deleted["deleted_ts"]) == ("message_deleted", said.ts)

    async def test_other_kinds_of_senders(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        await slack.other_bot_says("build failed")
        assert (await bolt.received.event())["subtype"] == "bot_message"
        await slack.user_says("from afar", user=STRANGER, chat=SHARED)
        request = await bolt.received.next()
        assert request.body["is_ext_shared_channel"]
        assert request.body["event"]["user_team"] == STRANGER.team_id
        second = await slack.another_app("second")
        await slack.channel_says("hi", chat=TEAM)
        await bolt.received.event()
        await second.add_chat(TEAM)
        await second.channel_says("@antler and @second", chat=TEAM)
        assert {(await bolt.received.event())["type"] for _ in range(2)} == {"message", "app_mention"}
        assert [envelope.event_type for envelope in await second.envelopes()] == ["message", "app_mention"]

    async def test_files_private_channels_and_group_dms(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        await slack.user_says("look", files=[FileSpec("a.txt", "text/plain", b"x")])
        event = await bolt.received.event()
        assert (event["subtype"], event["files"][0]["name"], event["text"]) == ("file_share", "a.txt", "look")
        for room, kind in ((SECRET, "group"), (Room("G0TRIO", "mpim", "mpdm-trio"), "mpim")):
            await slack.channel_says("hi", chat=room)
            assert (await bolt.received.event())["channel_type"] == kind


class TestOtherEvents:
    async def test_the_bot_is_added_and_removed(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        await slack.bot_joins(TEAM)
        joined = await bolt.received.event()
        assert (joined["type"], joined["user"], joined["inviter"]) == (
            "member_joined_channel",
            slack.bot_user_id,
            ALICE.id,
        )
        await slack.bot_leaves(TEAM)
        with pytest.raises(SlackApiError, match="not_in_channel"):
            await bolt.client.chat_postMessage(channel=TEAM.id, text="hello?")

    async def test_reactions_home_and_assistant(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        said = await slack.user_says("hi")
        await bolt.received.event()
        await slack.reacts(said.ts, "thumbsup")
        reaction = await bolt.received.event()
        assert (reaction["reaction"], reaction["item"]["ts"]) == ("thumbsup", said.ts)
        await slack.opens_home()
        assert (await bolt.received.event())["tab"] == "messages"
        opened = await slack.opens_assistant(context=TEAM.id)
        started = (await bolt.received.event())["assistant_thread"]
        assert (started["thread_ts"], started["user_id"], started["context"]["channel_id"]) == (
            opened.ts,
            ALICE.id,
            TEAM.id,
        )
        await slack.user_says("in it", thread=opened.ts)
        assert (await bolt.received.event())["thread_ts"] == opened.ts


class TestInteractions:
    async def test_a_press_is_acked_and_answered(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        said = await slack.user_says("may I?")
        sent = await bolt.client.chat_postMessage(channel=said.channel, text="Allow?", blocks=BUTTONS)

        async def on_yes(ack: object) -> None:
            assert callable(ack)
            await ack()

        bolt.app.action("yes")(on_yes)
        await bolt.received.event("message")
        press = await slack.press(str(sent["ts"]), "Yes", user=BOB)
        body = (await bolt.received.next()).body
        assert (body["type"], body["user"]["id"], body["user"]["team_id"]) == ("block_actions", BOB.id, slack.team_id)
        assert (body["actions"][0]["action_id"], body["actions"][0]["value"]) == ("yes", "y:1")
        assert (body["actions"][0]["block_id"], body["container"]["message_ts"]) == ("ask", sent["ts"])
        assert (await slack.wait_acked(press.envelope_id)).type == "interactive"
        answer = AsyncWebhookClient(press.response_url)
        assert (await answer.send(text="Allowed.", replace_original=True)).status_code == 200
        (seen,) = await slack.bot_messages(ALICE)
        assert (seen.shown, seen.elements) == ("Allowed.", [])

    async def test_what_is_not_acked_is_not_repeated(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        await slack.set_timing(ack_timeout=0.2)
        said = await slack.user_says("hi")
        await bolt.received.event("message")
        sent = await bolt.client.chat_postMessage(channel=said.channel, text="?", blocks=BUTTONS)
        press = await slack.press(str(sent["ts"]), "model", choice="Big")
        envelope = await slack.wait_envelope(press.envelope_id)
        assert (envelope.state, len(envelope.attempts)) == ("failed", 1)
        assert (await bolt.received.next()).body["actions"][0]["selected_option"]["value"] == "big"
        with pytest.raises(SimulatorError, match="no element 'No'"):
            await slack.press(str(sent["ts"]), "No")

    async def test_a_response_url_has_five_uses(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        said = await slack.user_says("hi")
        sent = await bolt.client.chat_postMessage(channel=said.channel, text="?", blocks=BUTTONS)
        press = await slack.press(str(sent["ts"]), "yes")
        answer = AsyncWebhookClient(press.response_url)
        for number in range(5):
            kind = "in_channel" if number == 0 else "ephemeral"
            assert (await answer.send(text=f"{number}", response_type=kind)).body == "ok"
        used = await answer.send(text="6")
        assert (used.status_code, "used_url" in used.body) == (404, True)
        late = await slack.press(str(sent["ts"]), "yes")
        await slack.advance(1801)
        assert "expired_url" in (await AsyncWebhookClient(late.response_url).send(text="late")).body
        assert [message.text for message in await slack.bot_messages(ALICE)] == ["?", "0"]

    async def test_a_command_is_answered_in_its_ack(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        await slack.configure(commands=["/new"])

        async def on_new(ack: object) -> None:
            assert callable(ack)
            await ack("started anew")

        bolt.app.command("/new")(on_new)
        typed = await slack.command("/new please", chat=TEAM)
        body = (await bolt.received.next()).body
        assert (body["command"], body["text"], body["channel_id"]) == ("/new", "please", TEAM.id)
        assert (await slack.wait_acked(typed.envelope_id)).ack_payload == {"text": "started anew"}
        assert [m.text for m in await slack.messages(TEAM) if m.ephemeral_to == ALICE.id] == ["started anew"]
        with pytest.raises(SimulatorError, match="no command /old"):
            await slack.command("/old")

    async def test_a_modal_is_opened_once_per_trigger(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        field = {"type": "input", "block_id": "b", "label": {"type": "plain_text", "text": "Name"}}
        blocks = [{**field, "element": {"type": "plain_text_input", "action_id": "name"}}]
        view = {"type": "modal", "title": {"type": "plain_text", "text": "Ask"}, "blocks": blocks, "callback_id": "c"}

        async def on_submit(ack: object) -> None:
            assert callable(ack)
            await ack(response_action="clear")

        bolt.app.view("c")(on_submit)
        used = await slack.shortcut("ask")
        opened = await bolt.client.views_open(trigger_id=used.trigger_id, view=view)
        with pytest.raises(SlackApiError, match="exchanged_trigger_id"):
            await bolt.client.views_open(trigger_id=used.trigger_id, view=view)
        slow = await slack.shortcut("ask")
        await slack.advance(3.1)
        with pytest.raises(SlackApiError, match="expired_trigger_id"):
            await bolt.client.views_open(trigger_id=slow.trigger_id, view=view)
        shown = await slack.modal()
        assert shown is not None
        assert shown["id"] == opened["view"]["id"]
        sent = await slack.submit_view(shown["id"], {"b": {"name": {"type": "plain_text_input", "value": "Al"}}})
        acked = await slack.wait_acked(sent.envelope_id)
        assert acked.ack_payload == {"response_action": "clear"}
        home = {"type": "home", "blocks": [{"type": "divider"}]}
        await bolt.client.views_publish(user_id=ALICE.id, view=home)
        published = await slack.home()
        assert published is not None
        assert published["blocks"][0]["type"] == "divider"
