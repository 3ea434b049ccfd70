"""Socket Mode against the real bolt app: delivery, acks, redelivery, and every way in which a socket ends."""

import asyncio

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack import faults
from tests.simulators.slack.bolt import BoltApp, bolt_app
from tests.simulators.slack.client import SlackSimulator
from tests.simulators.slack.disturbing import DisconnectReason, Disturbance
from tests.simulators.slack.seen import TEAM

pytestmark = pytest.mark.timeout(60)


class TestDelivery:
    async def test_an_event_is_handed_over_and_acked(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        said = await slack.user_says("hello")
        request = await bolt.received.next()
        assert request.body["event"]["text"] == "hello"
        assert request.headers["x-slack-retry-num"] == ["0"]
        (event_id,) = said.event_ids
        envelope = await slack.wait_acked(event_id)
        assert (len(envelope.attempts), envelope.event_type, envelope.ts) == (1, "message", said.ts)
        await slack.wait_idle(quiet=0.05)

    async def test_what_is_not_acked_comes_again_as_a_retry(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        await slack.set_timing(ack_timeout=0.3, retry_delays=[0.0, 0.05, 0.05])
        bolt.received.refuse = 2
        said = await slack.user_says("again")
        tries = [await bolt.received.next() for _ in range(3)]
        assert [request.headers["x-slack-retry-num"] for request in tries] == [["0"], ["1"], ["2"]]
        assert tries[1].headers["x-slack-retry-reason"] == ["timeout"]
        assert {request.body["event_id"] for request in tries} == set(said.event_ids)
        assert len((await slack.wait_acked(said.event_ids[0])).attempts) == 3

    async def test_after_three_repetitions_it_is_given_up(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        await slack.set_timing(ack_timeout=0.1, retry_delays=[0.0, 0.0, 0.0])
        bolt.received.refuse = 9
        said = await slack.user_says("never")
        envelope = await slack.wait_envelope(said.event_ids[0])
        assert (envelope.state, len(envelope.attempts)) == ("failed", 4)

    async def test_without_a_socket_it_waits_for_a_repetition(self, slack: SlackSimulator) -> None:
        await slack.set_timing(retry_delays=[0.0, 1.0, 1.0])
        said = await slack.user_says("anybody?")
        async with bolt_app(slack) as bolt:
            assert (await bolt.received.next()).headers["x-slack-retry-num"] != ["0"]
            envelope = await slack.wait_acked(said.event_ids[0])
        assert envelope.attempts[0]["socket"] is None

    async def test_envelopes_can_be_doubled_dropped_and_lost(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        await slack.set_timing(ack_timeout=0.2, retry_delays=[0.0, 0.0, 0.0])
        kinds: list[tuple[Disturbance, int]] = [("duplicate", 2), ("duplicate_event", 2), ("drop", 1)]
        for kind, times in kinds:
            await slack.disturb(kind)
            said = await slack.user_says(kind)
            assert [(await bolt.received.event())["text"] for _ in range(times)] == [kind] * times
            await slack.wait_acked(said.event_ids[0])
        await slack.disturb("lose")
        lost = await slack.user_says("lost")
        assert (await slack.wait_envelope(lost.event_ids[0])).state == "lost"
        assert bolt.received.requests.empty()

    async def test_they_can_come_out_of_order_and_late(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        await slack.user_says("bolt asks for auth.test once")
        await bolt.received.event()
        await slack.hold_envelopes()
        said = [await slack.user_says(text) for text in ("first", "second")]
        await slack.hold_envelopes(False)
        assert await slack.release_envelopes([1, 0]) == 2
        assert [(await bolt.received.event())["text"] for _ in said] == ["second", "first"]
        await slack.redeliver(said[0].event_ids[0], attempt=3)
        late = await bolt.received.next()
        assert (late.body["event_id"], late.headers["x-slack-retry-num"]) == (said[0].event_ids[0], ["3"])

    async def test_its_own_echo_is_acked(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        said = await slack.user_says("hi")
        await bolt.received.event()
        await bolt.client.chat_postMessage(channel=said.channel, text="my answer")
        await slack.wait_idle(quiet=0.05)
        echo = (await slack.envelopes())[-1]
        assert (echo.event_type, echo.state) == ("message", "acked")
        assert bolt.received.requests.empty()  # bolt skips its own messages before any other middleware

    async def test_only_what_is_subscribed_and_granted_arrives(self, slack: SlackSimulator) -> None:
        await slack.configure(events=["app_mention", "message.channels"], scopes=["app_mentions:read"])
        assert (await slack.user_says("dm")).event_ids == []
        assert (await slack.channel_says("no history scope")).event_ids == []
        assert len((await slack.channel_says("@antler hi")).event_ids) == 1

    async def test_a_raw_event_and_a_strange_frame_pass(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        await slack.send_frame('{"type":"news"}')
        await slack.send_frame("not json")
        await slack.inject({"type": "reaction_added", "user": "U1", "event_ts": "1.0"}, is_ext_shared_channel=True)
        request = await bolt.received.next()
        assert request.body["is_ext_shared_channel"]


class TestConnections:
    async def test_hello_pings_and_pongs(self, slack: SlackSimulator) -> None:
        async with bolt_app(slack, ping_interval=0.2):
            await slack.ping_client()
            await slack.wait_idle(quiet=0.5)
            (socket,) = await slack.sockets()
            assert socket.pings >= 2
            assert (socket.pongs, socket.bad_frames) == (1, [])
        await slack.wait_connected(0)

    @pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
    async def test_a_disconnect_frame_makes_the_sdk_reconnect(
        self, slack: SlackSimulator, bolt: BoltApp, reason: DisconnectReason
    ) -> None:
        (old,) = await slack.sockets()
        since = await links(slack)
        await slack.disconnect(reason)
        await slack.wait_for_record(lambda record: record.method == "link", since=since)
        await slack.wait_connected()
        (new,) = await slack.sockets()
        assert new.id != old.id
        await slack.user_says("after it")
        assert (await bolt.received.event())["text"] == "after it"

    @pytest.mark.parametrize("code", [1000, None])
    async def test_a_closed_socket_is_replaced(self, slack: SlackSimulator, code: int | None) -> None:
        """A reset is only noticed when the next ping is due."""
        async with bolt_app(slack, ping_interval=0.5) as bolt:
            since = await links(slack)
            await slack.close_sockets(code)
            await slack.wait_for_record(lambda record: record.method == "link", since=since, timeout=20)
            await slack.wait_connected()
            await slack.user_says("after it")
            assert (await bolt.received.event())["text"] == "after it"

    async def test_a_half_open_socket_swallows_events_until_it_is_noticed(self, slack: SlackSimulator) -> None:
        await slack.set_timing(ack_timeout=0.3, retry_delays=[0.0, 2.0, 2.0])
        async with bolt_app(slack, ping_interval=0.5) as bolt:
            since = await links(slack)
            await slack.silence()
            said = await slack.user_says("swallowed")
            await slack.wait_for_record(lambda record: record.method == "link", since=since, timeout=20)
            assert (await bolt.received.event())["text"] == "swallowed"
            envelope = await slack.wait_acked(said.event_ids[0])
            first, second = await slack.sockets()
            assert (first.silent, second.silent) == (True, False)
            assert envelope.attempts[0]["socket"] == first.id
            await slack.silence(False, socket=first.id)
            await slack.wait_connected(1)

    async def test_two_processes_share_the_events(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        async with bolt_app(slack) as other:
            await slack.wait_connected(2)
            for text in ("one", "two"):
                await slack.user_says(text)
            texts = {(await each.received.event())["text"] for each in (bolt, other)}
        assert texts == {"one", "two"}

    async def test_the_eleventh_socket_is_too_many(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        async with asyncio.TaskGroup() as group:
            urls = [group.create_task(bolt.client.apps_connections_open(app_token=slack.app_token)) for _ in range(10)]
        session = bolt.handler.client.aiohttp_client_session
        sockets = [await session.ws_connect(str(url.result()["url"])) for url in urls]
        hello = await sockets[-1].receive_json()
        assert (hello["num_connections"], hello["connection_info"]["app_id"]) == (11, slack.app_id)
        assert (await sockets[-1].receive_json())["reason"] == "too_many_websockets"
        for socket in sockets:
            await socket.close()
        await slack.wait_connected(1)

    async def test_a_ticket_is_good_once_and_for_half_a_minute(self, slack: SlackSimulator, bolt: BoltApp) -> None:
        session = bolt.handler.client.aiohttp_client_session
        url = str((await bolt.client.apps_connections_open(app_token=slack.app_token))["url"])
        await (await session.ws_connect(url)).close()
        assert (await session.get(url.replace("ws", "http", 1))).status == 408
        old = str((await bolt.client.apps_connections_open(app_token=slack.app_token))["url"])
        await slack.advance(31)
        assert (await session.get(old.replace("ws", "http", 1))).status == 408

    async def test_a_refused_upgrade_traps_the_sdk_on_its_old_ticket(self, slack: SlackSimulator) -> None:
        """The adapter must supervise, because the SDK does not request a new ticket."""
        await slack.fail(faults.SOCKET_UPGRADE, faults.refused_upgrade())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5), bolt_app(slack, ping_interval=0.1):
                raise AssertionError("connected with a used-up ticket")
        assert len(await slack.records("apps.connections.open")) == 1
        refused = [record.status for record in await slack.records("link")]
        assert len(refused) > 1
        assert set(refused) == {408}

    async def test_socket_mode_can_be_switched_off(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        async with bolt_app(slack):
            await slack.disconnect("link_disabled", close=True)
            await slack.wait_for_record(lambda record: record.error == "forbidden_team", timeout=20)
        with pytest.raises(SlackApiError, match="forbidden_team"):
            await web.apps_connections_open(app_token=slack.app_token)

    @pytest.mark.parametrize("error", ["invalid_auth", "token_revoked"])
    async def test_a_bad_app_token(self, slack: SlackSimulator, web: AsyncWebClient, error: str) -> None:
        await slack.break_tokens(app_error=error)
        with pytest.raises(SlackApiError, match=error):
            await web.apps_connections_open(app_token=slack.app_token)
        with pytest.raises(SlackApiError, match="not_allowed_token_type"):
            await web.apps_connections_open(app_token=slack.bot_token)

    async def test_an_app_token_needs_its_scope(self, slack: SlackSimulator, web: AsyncWebClient) -> None:
        await slack.configure(app_token_scopes=[])
        with pytest.raises(SlackApiError, match="missing_scope"):
            await web.apps_connections_open(app_token=slack.app_token)


async def links(slack: SlackSimulator) -> int:
    """The index after the newest record, to wait for later ones."""
    return max((record.index for record in await slack.records()), default=-1) + 1


async def test_events_of_all_workspaces_come_over_one_socket(slack: SlackSimulator, bolt: BoltApp) -> None:
    second = await slack.another_workspace()
    await second.channel_says("over here", chat=TEAM)
    request = await bolt.received.next()
    assert (request.body["team_id"], request.body["event"]["text"]) == (second.team_id, "over here")
