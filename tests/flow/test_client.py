"""`antler.client`: the same calls over HTTP and with an embedded gateway, and what becomes of lost connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from antler.client import (
    Answer,
    Approval,
    ApprovalRequired,
    Client,
    Conflict,
    EmbeddedClient,
    File,
    Invalid,
    NotAllowed,
    NotFound,
    NotSignedIn,
    Progress,
    Run,
    RunFailed,
    Text,
    Unreachable,
)
from tests.flow.api_world import serving
from tests.flow.client_world import HALF, WHOLE, Place, rules, through_a_relay, written
from tests.flow.letters import LETTERS, Letters
from tests.flow.sandboxed import bash, call, require_bubblewrap
from tests.simulators.telegram.seen import TEAM, Person

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from antler.client import Event
    from antler.values import Decision
    from tests.flow.gateway import World

require_bubblewrap()

pytestmark = pytest.mark.asyncio(loop_scope="module")
OUTPUTS = "/mnt/user-data/outputs"
HOOK_SECRET = "0123456789abcdef"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["http", "embedded"])
async def place(request: pytest.FixtureRequest, public_world: World) -> AsyncIterator[Place]:
    world, letters = public_world, Letters(public_world.folder)
    config = world.folder / "embedded" / "config.yaml"
    if request.param == "embedded":
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(LETTERS, letters.environment[LETTERS])
            async with EmbeddedClient(written(world, config.parent), name="flow") as embedded:
                yield Place(world, embedded, letters, config)
        return
    world.environment |= letters.environment
    hook = {"secret": HOOK_SECRET, "chat": f"telegram:{TEAM.id}"}
    async with (
        serving(world, **rules(), http={"hooks": {"alerts": hook}}) as api,
        Client(api.url, await api.token()) as client,
    ):
        yield Place(world, client, letters, config, api)


def letter(to: str, *more: str) -> str:
    return "\n".join([call("send_letter", to=to), *more])


def added(events: list[Event]) -> str:
    return "".join(event.added for event in events if isinstance(event, Text))


# The same calls, however the gateway is reached.


async def test_an_answer_is_asked_for_and_its_thread_stays(place: Place) -> None:
    client = place.client
    answer = await client.ask("!say The answer.", metadata={"about": "a test"})
    assert (answer.text, answer.files, answer.stopped, answer.limited) == ("The answer.", (), False, False)
    again = await client.ask("!say Another.", thread=answer.thread_id)
    assert (again.text, again.thread_id) == ("Another.", answer.thread_id)
    assert [(message.role, message.text) for message in await client.history(answer.thread_id)] == [
        ("user", "!say The answer."),
        ("assistant", "The answer."),
        ("user", "!say Another."),
        ("assistant", "Another."),
    ]


async def test_threads_are_made_listed_and_deleted(place: Place) -> None:
    client, mark = place.client, place.mark()
    thread = await client.create_thread({"mark": mark})
    assert (thread.status, thread.metadata) == ("idle", {"mark": mark})
    (listed,) = await client.threads(metadata={"mark": mark})
    assert (listed.id, listed.created_at) == (thread.id, thread.created_at)
    assert await client.history(thread.id) == []
    await client.delete_thread(thread.id)
    await client.delete_thread(thread.id)
    assert await client.threads(metadata={"mark": mark}) == []
    with pytest.raises(NotFound, match="there is no such thread"):
        await client.history(thread.id)


async def test_a_run_is_followed_while_it_works(place: Place) -> None:
    mark, events = place.mark(), list[Any]()
    todo = call("write_todos", todos=[{"content": "Look", "status": "in_progress"}])
    async for event in place.client.stream(f"{todo}\n!pause {mark}"):
        events.append(event)
        if added(events) == HALF:
            await place.world.model.wait_for_pause(mark)
            await place.world.model.release(mark)
    assert isinstance(events[0], Run)
    assert isinstance(events[-1], Answer)
    assert events[-1].text == added(events) == WHOLE
    progress = [(event.kind, event.line) for event in events if isinstance(event, Progress)]
    assert ("todos_changed", "Look") in progress
    assert "tool_started" in dict(progress)
    texts = [event.text for event in events if isinstance(event, Text)]
    assert texts == sorted(texts, key=len)


async def test_a_run_is_followed_from_its_beginning_by_who_comes_late(place: Place) -> None:
    answer = await place.client.ask("!say Long ago.")
    events = [event async for event in place.client.follow(answer.thread_id, answer.run_id)]
    assert added(events) == "Long ago."
    assert events[-1] == answer


async def test_an_approval_is_decided_within_the_stream(place: Place) -> None:
    events: list[Any] = []
    place.letters.forget()
    async for event in place.client.stream(letter("ann", "!say Sent.")):
        events.append(event)
        if isinstance(event, Approval):
            assert (event.tool, event.reason, "ann" in event.arguments) == (
                "send_letter",
                "It cannot be taken back.",
                True,
            )
            assert set(event.options) >= {"once", "deny"}
            assert place.letters.sent == []
            assert await place.client.waiting(event.thread_id) == [event]
            assert await place.client.decide(event, "once")
            assert not await place.client.decide(event, "deny")
    assert [type(event) for event in events].count(Approval) == 1
    assert (events[-1].text, place.letters.sent) == ("Sent.", ["ann"])


async def test_who_asks_for_the_answer_alone_decides_by_a_function_or_later(place: Place) -> None:
    place.letters.forget()
    asked: list[str] = []

    async def approve(approval: Approval) -> Decision:
        asked.append(approval.tool)
        return "deny"

    answer = await place.client.ask(letter("bob", "!say Then not."), approve=approve)
    assert (answer.text, asked) == ("Then not.", ["send_letter"])
    with pytest.raises(ApprovalRequired, match="send_letter") as waits:
        await place.client.ask(letter("cid", "!say Sent."))
    assert place.letters.sent == []
    approval = waits.value.approval
    await place.client.decide(approval, "once")
    answer = await place.client.wait(approval.thread_id, approval.run_id)
    assert (answer.text, place.letters.sent) == ("Sent.", ["cid"])


async def test_a_question_is_answered_by_the_next_message(place: Place) -> None:
    answer = await place.client.ask(call("ask_clarification", question="Which colour?", options=["teal", "red"]))
    assert answer.question is not None
    assert (answer.question.text, answer.question.options) == ("Which colour?", ("teal", "red"))
    assert await place.client.waiting(answer.thread_id) == [answer.question]
    again = await place.client.ask("teal", thread=answer.thread_id)
    assert again.question is None
    assert await place.client.waiting(answer.thread_id) == []


async def test_a_run_is_stopped(place: Place) -> None:
    mark = place.mark()
    events: list[Any] = []
    async for event in place.client.stream(f"!pause {mark}"):
        events.append(event)
        if added(events) == HALF and not isinstance(event, Answer):
            await place.client.stop(events[0].thread_id, events[0].run_id)
    assert (events[-1].stopped, events[-1].text) == (True, HALF)
    await place.client.stop(events[0].thread_id, events[0].run_id)


async def test_files_go_both_ways(place: Place, tmp_path: Path) -> None:
    table = tmp_path / "sales.csv"
    table.write_bytes(b"month,sum\nmay,41\n" * 20_000)
    upload = await place.client.upload(table)
    assert (upload.name, upload.size) == ("sales.csv", table.stat().st_size)
    work = bash(f"cp /mnt/user-data/uploads/*-sales.csv {OUTPUTS}/copy.csv")
    lines = [work, call("present_files", paths=[f"{OUTPUTS}/copy.csv"]), "!say Here."]
    events = [event async for event in place.client.stream("\n".join(lines), files=[upload])]
    (file,) = [event for event in events if isinstance(event, File)]
    assert isinstance(events[-1], Answer)
    assert events[-1].files == (file,)
    assert (file.name, file.size) == ("copy.csv", upload.size)
    assert await place.client.fetch(file) == table.read_bytes()
    note = await place.client.upload(b"remember", name="note.txt")
    assert (note.name, note.size) == ("note.txt", 8)


async def test_a_message_of_the_same_key_is_one_message(place: Place) -> None:
    first = await place.client.start("!say Once.", key=place.mark())
    again = await place.client.start("!say Once.", key=place.marks[-1])
    assert again == first
    assert (await place.client.wait(first.thread_id, first.run_id)).text == "Once."
    assert [message.text for message in await place.client.history(first.thread_id)] == ["!say Once.", "Once."]


async def test_what_the_gateway_refuses_is_told_by_kind(place: Place) -> None:
    client, mark = place.client, place.mark()
    nowhere = "00000000-0000-4000-8000-000000000000"
    with pytest.raises(NotFound, match="there is no such thread") as refused:
        await client.wait(nowhere, nowhere)
    assert (refused.value.status, refused.value.code) == (404, "not_found")
    with pytest.raises(Invalid, match="the last message is empty"):
        await client.ask(" ")
    with pytest.raises(NotFound, match="no assistant"):
        await client.ask("hello", agent="nobody")
    run = await client.start(f"!pause {mark}")
    with pytest.raises(Conflict) as busy:
        await client.ask("!say Now.", thread=run.thread_id, multitask_strategy="reject")
    assert busy.value.code == "thread_busy"
    await client.stop(run.thread_id, run.run_id)


async def test_a_run_without_an_answer_says_why(place: Place) -> None:
    with pytest.raises(RunFailed) as failed:
        await place.client.ask("!status 401")
    assert failed.value.code == "auth"
    assert str(failed.value).endswith("(auth)")
    with pytest.raises(RunFailed, match="auth"):
        await place.client.wait(failed.value.thread_id, failed.value.run_id)


async def test_the_gateway_tells_how_it_is(place: Place) -> None:
    health = await place.client.health()
    assert health.version
    assert health.uptime > 0
    assert await place.client.agents() == ["default"]


async def test_two_streams_at_once_do_not_wait_for_each_other(place: Place) -> None:
    mark = place.mark()
    slow = asyncio.create_task(place.client.ask(f"!pause {mark}"))
    await place.world.model.wait_for_pause(mark)
    assert (await place.client.ask("!say Quick.")).text == "Quick."
    assert not slow.done()
    await place.world.model.release(mark)
    assert (await slow).text == WHOLE


# Over HTTP.

over_http = pytest.mark.parametrize("place", ["http"], indirect=True)


@over_http
async def test_a_stream_that_is_cut_off_goes_on_where_it_was(place: Place) -> None:
    api, mark = place.served, place.mark()
    events: list[Any] = []
    async with through_a_relay(api) as (client, relay):
        async for event in client.stream(f"!pause {mark}"):
            events.append(event)
            if added(events) == HALF:
                relay.cut()
                await api.world.model.release(mark)
    assert events[-1].text == added(events) == WHOLE
    assert [type(event) for event in events].count(Run) == 1


@over_http
async def test_a_message_whose_answer_was_lost_is_not_sent_twice(place: Place) -> None:
    async with through_a_relay(place.served) as (client, relay):
        relay.swallow = 1
        answer = await client.ask("!say Once.")
    assert relay.swallow == 0
    assert [message.text for message in await place.client.history(answer.thread_id)] == ["!say Once.", "Once."]


@over_http
@pytest.mark.parametrize("away", [False, True])
async def test_after_kill_9_in_mid_stream_the_answer_comes_once(place: Place, away: bool) -> None:
    """away: the run ends before its reader is back."""
    api, mark, killed = place.served, place.mark(), False
    events: list[Any] = []
    async for event in place.client.stream(f"!pause {mark}"):
        events.append(event)
        if added(events) == HALF and not killed:
            killed = True
            await api.world.kill()
            await api.world.start()
            await api.world.model.release(mark)
            if away:
                assert (await place.client.wait(events[0].thread_id, events[0].run_id)).text == WHOLE
                await place.client.ask("!say Another.", thread=events[0].thread_id)
    assert events[-1].text == added(events) == WHOLE
    roles = [message.role for message in await place.client.history(events[0].thread_id)]
    assert roles == ["user", "assistant"] * (2 if away else 1)


@over_http
async def test_who_is_not_let_in_is_told(place: Place) -> None:
    api = place.served
    async with Client(api.url, "ant_0123abcd_nonsense") as stranger:
        with pytest.raises(NotSignedIn, match="the token is unknown"):
            await stranger.ask("hello")
    async with Client(api.url, await api.token("reader", "read")) as reader:
        with pytest.raises(NotAllowed) as refused:
            await reader.ask("hello")
        assert (refused.value.code, refused.value.details) == ("missing_scope", {"scopes": ["runs"]})
    async with Client(f"{api.url}/elsewhere", await api.token()) as lost:
        with pytest.raises(NotFound):
            await lost.health()


async def test_a_gateway_that_is_not_there_is_named_in_time() -> None:
    async with Client("http://127.0.0.1:9", "ant_0123abcd_nonsense", retry_seconds=0) as client:
        with pytest.raises(Unreachable, match="cannot be reached"):
            await client.health()


@over_http
async def test_a_token_and_an_address_come_from_the_environment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTLER_TOKEN", raising=False)
    with pytest.raises(ValueError, match="antler token create"):
        async with Client():
            pass
    monkeypatch.setenv("ANTLER_URL", place.served.url)
    monkeypatch.setenv("ANTLER_TOKEN", await place.served.token())
    async with Client() as client:
        assert (await client.health()).version
    with pytest.raises(RuntimeError, match="async with"):
        await client.health()


@over_http
async def test_a_webhook_says_something_in_a_chat_once(place: Place, person: Person) -> None:
    api, text = place.served, f"The disk is full: {place.mark()}"
    key = place.marks[-1]
    await api.world.telegram.user_says("hello everybody", user=person, chat=TEAM)
    assert await place.client.send(text, hook="alerts", secret=HOOK_SECRET, key=key)
    assert not await place.client.send(text, hook="alerts", secret=HOOK_SECRET, key=key)
    await api.world.telegram.wait_for_text(TEAM, text)
    with pytest.raises(NotSignedIn, match="signature"):
        await place.client.send(text, hook="alerts", secret="another one of them")
