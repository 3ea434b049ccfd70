"""The Telegram simulator answers the real SDK as the Bot API does; one test per behaviour that Antler relies on."""

import asyncio
import hashlib
import os
import signal
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from telegram import (
    Bot,
    BotCommand,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputMediaDocument,
    LinkPreviewOptions,
    MessageEntity,
    ReplyParameters,
    Update,
)
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TimedOut,
)
from telegram.request import HTTPXRequest

from tests.simulators.client import WaitTimeoutError
from tests.simulators.process import SimulatorProcess, SimulatorStartError
from tests.simulators.telegram import faults
from tests.simulators.telegram.client import TelegramSimulator, connect, running_telegram
from tests.simulators.telegram.seen import ALICE, BOB, FORUM, TEAM, FileSpec, Person, Room

pytestmark = pytest.mark.timeout(30)


@pytest.fixture(scope="module")
def process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess("tests.simulators.telegram") as running:
        yield running


@pytest.fixture
async def telegram(process: SimulatorProcess, request: pytest.FixtureRequest) -> AsyncIterator[TelegramSimulator]:
    """A separate bot for each test: its queue, private chats and faults are unaffected by other tests."""
    async with connect(process) as default:
        number = 7_100_000_000 + int(hashlib.sha256(request.node.name.encode()).hexdigest()[:6], 16)
        yield await default.add_bot(f"{number}:secret-part-of-this-token")


@pytest.fixture(autouse=True)
def durations_as_timedelta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose timedeltas: without this the SDK's RetryAfter emits a deprecation warning as soon as it is built."""
    monkeypatch.setenv("PTB_TIMEDELTA", "1")


@pytest.fixture
async def bot(telegram: TelegramSimulator) -> AsyncIterator[Bot]:
    async with sdk_bot(telegram) as initialized:
        yield initialized


def sdk_bot(telegram: TelegramSimulator, *, read_timeout: float = 5.0, token: str | None = None) -> Bot:
    quick = HTTPXRequest(read_timeout=read_timeout, httpx_kwargs={"trust_env": False})
    polling = HTTPXRequest(read_timeout=read_timeout, httpx_kwargs={"trust_env": False})
    return Bot(
        token or telegram.token,
        base_url=telegram.base_url,
        base_file_url=telegram.file_url,
        request=quick,
        get_updates_request=polling,
    )


async def one_update(bot: Bot, offset: int | None = None) -> Update:
    (update,) = await bot.get_updates(offset=offset, timeout=5)
    return update


class TestPolling:
    async def test_an_update_stays_until_its_offset_is_confirmed(self, telegram: TelegramSimulator, bot: Bot) -> None:
        said = await telegram.user_says("hello")
        first = await one_update(bot)
        assert first.message is not None
        assert (first.update_id, first.message.text) == (said.update_id, "hello")
        assert first.message.from_user is not None
        assert first.message.from_user.id == ALICE.id
        assert (await one_update(bot)).update_id == said.update_id
        assert await bot.get_updates(offset=first.update_id + 1, timeout=0) == ()

    async def test_a_held_poll_is_answered_by_the_next_event(self, telegram: TelegramSimulator, bot: Bot) -> None:
        poll = asyncio.create_task(one_update(bot))
        await telegram.wait_polled()
        said = await telegram.user_says("now")
        assert (await poll).update_id == said.update_id

    async def test_a_second_poller_ends_the_first_with_409(self, telegram: TelegramSimulator, bot: Bot) -> None:
        first = asyncio.create_task(bot.get_updates(timeout=5))
        await telegram.wait_polled()
        async with sdk_bot(telegram) as rival:
            assert await rival.get_updates(timeout=0) == ()
        with pytest.raises(Conflict):
            await first

    async def test_allowed_updates_filter_with_the_default_set(self, telegram: TelegramSimulator, bot: Bot) -> None:
        reaction = {"message_reaction": {"chat": ALICE.dm().to_json(), "message_id": 1}}
        assert await telegram.inject(reaction, filtered=True) == [None]
        await bot.get_updates(timeout=0, allowed_updates=["callback_query"])
        assert (await telegram.user_says("kept out")).update_id is None

    async def test_duplicates_and_late_updates_arrive_behind_the_offset(
        self, telegram: TelegramSimulator, bot: Bot
    ) -> None:
        late, early = await telegram.reserve_update_ids(2)
        text = {"date": 1, "chat": ALICE.dm().to_json(), "message_id": 1, "text": "x"}
        await telegram.inject({"update_id": early, "message": text})
        assert (await one_update(bot)).update_id == early
        assert await bot.get_updates(offset=early + 1, timeout=0) == ()
        await telegram.inject({"update_id": late, "message": text})
        await telegram.redeliver(early)
        updates = await bot.get_updates(offset=early + 1, timeout=5)
        assert [update.update_id for update in updates] == [late, early]
        assert await bot.get_updates(offset=early + 1, timeout=0) == ()

    async def test_people_may_be_heard_out_of_order(self, telegram: TelegramSimulator, bot: Bot) -> None:
        first, second = await telegram.reserve_update_ids(2)
        await telegram.user_says("said first", update_id=second)
        await telegram.user_says("said second", update_id=first)
        updates = await bot.get_updates(timeout=5)
        assert [update.update_id for update in updates] == [second, first]
        assert [update.message.text for update in updates if update.message] == ["said first", "said second"]

    async def test_an_unknown_kind_and_a_huge_user_id_pass(self, telegram: TelegramSimulator, bot: Bot) -> None:
        await telegram.inject({"made_up": {"draft_id": 4}})
        giant = Person(2**53 + 1, "Giant")
        await telegram.user_says("\ud83d lone", user=giant)
        unknown, message = await bot.get_updates(timeout=5)
        assert unknown.api_kwargs == {"made_up": {"draft_id": 4}}
        assert message.effective_user is not None
        assert message.effective_user.id == giant.id

    async def test_a_dead_server_holds_polls_for_ever(self, telegram: TelegramSimulator, bot: Bot) -> None:
        await telegram.play_dead()
        await telegram.user_says("unheard")
        poll = asyncio.create_task(bot.get_updates(timeout=0))
        await telegram.wait_for_record(lambda record: record.method == "getUpdates")
        done, _ = await asyncio.wait([poll], timeout=0.2)
        assert not done
        await telegram.play_dead(False)
        with pytest.raises(NetworkError):
            await poll
        assert (await one_update(bot)).message is not None


class TestTexts:
    async def test_send_and_edit_show_in_the_chat(self, telegram: TelegramSimulator, bot: Bot) -> None:
        said = await telegram.user_says("question")
        options = LinkPreviewOptions(is_disabled=True)
        sent = await bot.send_message(
            ALICE.id, "draft", reply_parameters=ReplyParameters(said.message_id), link_preview_options=options
        )
        assert sent.reply_to_message is not None
        bold = MessageEntity(MessageEntity.BOLD, 0, 6)
        edited = await bot.edit_message_text("answer!", ALICE.id, sent.message_id, entities=[bold])
        assert not isinstance(edited, bool)
        assert edited.edit_date is not None
        (seen,) = await telegram.bot_messages(ALICE)
        assert [version.text for version in seen.history] == ["draft", "answer!"]
        assert seen.entities == ({"type": "bold", "offset": 0, "length": 6},)
        assert await telegram.transcript(ALICE) == "#1 Alice: question\n#2 Antler (re #1, edited 1x): answer!"
        (record,) = await telegram.records("sendMessage")
        assert (record.status, record.outcome, record.message_id) == (200, "applied", sent.message_id)
        assert record.params["link_preview_options"] == {"is_disabled": True}

    async def test_edits_are_refused_as_by_the_real_server(self, telegram: TelegramSimulator, bot: Bot) -> None:
        said = await telegram.user_says("mine")
        sent = await bot.send_message(ALICE.id, "same")
        with pytest.raises(BadRequest, match="not modified"):
            await bot.edit_message_text("same", ALICE.id, sent.message_id)
        with pytest.raises(BadRequest, match="can't be edited"):
            await bot.edit_message_text("other", ALICE.id, said.message_id)
        await bot.delete_message(ALICE.id, sent.message_id)
        with pytest.raises(BadRequest, match="to edit not found"):
            await bot.edit_message_text("late", ALICE.id, sent.message_id)
        assert [message.deleted for message in await telegram.messages(ALICE)] == [False, True]

    @pytest.mark.parametrize(
        ("text", "reason"),
        [("", "text is empty"), (" \u200b\n", "text is empty"), ("x" * 4097, "too long"), ("😀" * 2049, "too long")],
    )
    async def test_length_is_checked_in_utf16_units(
        self, telegram: TelegramSimulator, bot: Bot, text: str, reason: str
    ) -> None:
        await telegram.user_says("hi")
        with pytest.raises(BadRequest, match=reason):
            await bot.send_message(ALICE.id, text)
        assert (await bot.send_message(ALICE.id, "😀" * 2048)).text == "😀" * 2048

    @pytest.mark.parametrize(
        ("entities", "reason"),
        [
            ([("bold", 0, 99)], "after the end"),
            ([("bold", 3, 1)], "begins in a middle"),
            ([("bold", 0, 3)], "ends in a middle"),
            ([("bold", 0, 5), ("italic", 4, 4)], "overlaps"),
            ([("bold", 0, 6), ("code", 4, 2)], "can't contain"),
            ([("glitter", 0, 1)], "unsupported type"),
        ],
    )
    async def test_entities_are_validated(
        self, telegram: TelegramSimulator, bot: Bot, entities: list[tuple[str, int, int]], reason: str
    ) -> None:
        await telegram.user_says("hi")
        with pytest.raises(BadRequest, match=reason):
            await bot.send_message(ALICE.id, "ab😀 text", entities=[MessageEntity(*entity) for entity in entities])

    async def test_drafts_belong_to_private_chats(self, telegram: TelegramSimulator, bot: Bot) -> None:
        await telegram.user_says("hi")
        await telegram.group_says("hi")
        assert await bot.send_message_draft(ALICE.id, 1, "so far")
        assert (await telegram.chat_view(ALICE))["draft"]["text"] == "so far"
        await bot.send_message(ALICE.id, "so far and done")
        assert (await telegram.chat_view(ALICE))["draft"] is None
        with pytest.raises(BadRequest, match=r"(?i)textdraft_peer_invalid"):
            await bot.send_message_draft(TEAM.id, 1, "no")
        with pytest.raises(BadRequest, match=r"(?i)draft_id"):
            await bot.send_message_draft(ALICE.id, 0, "no")

    async def test_topics_need_a_known_thread(self, telegram: TelegramSimulator, bot: Bot) -> None:
        await telegram.group_says("in a topic", chat=FORUM, thread=7)
        assert (await bot.send_message(FORUM.id, "there", message_thread_id=7)).is_topic_message
        with pytest.raises(BadRequest, match="thread not found"):
            await bot.send_message(FORUM.id, "nowhere", message_thread_id=8)


class TestPeopleAndChats:
    async def test_a_button_press_is_answered_once_shown(self, telegram: TelegramSimulator, bot: Bot) -> None:
        await telegram.user_says("may I?")
        keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="y:1")]])
        sent = await bot.send_message(ALICE.id, "Allow?", reply_markup=keyboard)
        pressed = await telegram.press(sent.message_id, "Yes", user=BOB)
        _, update = await bot.get_updates(timeout=5)
        assert update.callback_query is not None
        assert (update.callback_query.data, update.callback_query.from_user.id) == ("y:1", BOB.id)
        await update.callback_query.answer("done")
        assert (await telegram.wait_answered(pressed.callback_id))["text"] == "done"
        old = await telegram.press(sent.message_id, "y:1", expired=True)
        with pytest.raises(BadRequest, match=r"(?i)query is too old"):
            await bot.answer_callback_query(old.callback_id)
        await bot.edit_message_text("Allowed.", ALICE.id, sent.message_id)
        (seen,) = await telegram.bot_messages(ALICE)
        assert seen.buttons == []
        long = InlineKeyboardMarkup([[InlineKeyboardButton("No", callback_data="n" * 65)]])
        with pytest.raises(BadRequest, match=r"(?i)button_data_invalid"):
            await bot.send_message(ALICE.id, "?", reply_markup=long)

    async def test_group_mentions_carry_their_entity(self, telegram: TelegramSimulator, bot: Bot) -> None:
        await telegram.group_says("😀 @antler_bot please /status@antler_bot")
        message = (await one_update(bot)).message
        assert message is not None
        found = message.parse_entities()
        assert list(found.values()) == ["@antler_bot", "/status@antler_bot"]

    async def test_blocking_and_migration_change_the_answers(self, telegram: TelegramSimulator, bot: Bot) -> None:
        await telegram.membership("kicked")
        with pytest.raises(Forbidden, match="blocked by the user"):
            await bot.send_message(ALICE.id, "hello?")
        small = Room(-4001, "group", "Small")
        await telegram.group_says("old", chat=small)
        await telegram.migrate(small, -1004001)
        with pytest.raises(ChatMigrated) as moved:
            await bot.send_message(small.id, "hello?")
        assert moved.value.new_chat_id == -1004001
        assert (await bot.send_message(-1004001, "hello!")).chat_id == -1004001
        with pytest.raises(BadRequest, match=r"(?i)chat not found"):
            await bot.send_message(99, "stranger")

    async def test_commands_are_kept_per_scope_and_language(self, telegram: TelegramSimulator, bot: Bot) -> None:
        await bot.delete_webhook()
        await bot.set_my_commands([BotCommand("new", "Start anew")], language_code="de")
        assert await bot.get_my_commands() == ()
        (command,) = await bot.get_my_commands(language_code="de")
        assert command.command == "new"

    async def test_every_kind_of_sender_arrives(self, telegram: TelegramSimulator, bot: Bot) -> None:
        said = await telegram.user_says("first")
        await telegram.edits(said.message_id, "second")
        await telegram.album([FileSpec("photo"), FileSpec("voice")], caption="two")
        await telegram.forwards("look")
        await telegram.anonymous_admin_says("from nowhere")
        await telegram.channel_posts("news")
        await telegram.group_says("beep", user=Person(555, "Other", is_bot=True))
        updates = await bot.get_updates(timeout=5)
        assert [update.update_id for update in updates] == sorted({update.update_id for update in updates})
        _, edited, photo, voice, forwarded, anonymous, post, other = updates
        assert edited.edited_message is not None
        assert edited.edited_message.text == "second"
        assert photo.message is not None
        assert voice.message is not None
        assert photo.message.media_group_id == voice.message.media_group_id is not None
        assert (photo.message.caption, len(photo.message.photo)) == ("two", 2)
        assert forwarded.message is not None
        assert forwarded.message.forward_origin is not None
        assert anonymous.message is not None
        assert anonymous.message.sender_chat == anonymous.message.chat
        assert post.channel_post is not None
        assert other.message is not None
        assert other.message.from_user is not None
        assert other.message.from_user.is_bot

    async def test_two_bots_share_a_group_but_not_a_private_chat(self, telegram: TelegramSimulator, bot: Bot) -> None:
        second = await telegram.add_bot(f"{telegram.bot_id + 1}:other-secret", username="second_bot")
        shared = Room(-1009002, title="Shared")
        first_said = await telegram.group_says("one", chat=shared)
        second_said = await second.group_says("two", chat=shared)
        assert second_said.message_id == first_said.message_id + 1
        await telegram.user_says("only the first bot knows me")
        async with sdk_bot(second) as other:
            assert other.username == "second_bot"
            with pytest.raises(BadRequest, match=r"(?i)chat not found"):
                await other.send_message(ALICE.id, "hello")
            assert (await one_update(other)).message is not None
        assert [record.method for record in await second.records()] == ["getMe", "sendMessage", "getUpdates"]

    async def test_members_and_administrators(self, telegram: TelegramSimulator, bot: Bot) -> None:
        club = Room(-1009001, title="Club")
        await telegram.group_says("hi", chat=club)
        assert (await bot.get_chat_member(club.id, ALICE.id)).status == "member"
        assert await bot.get_chat_administrators(club.id) == ()
        assert (await bot.get_chat(club.id)).title == "Club"
        await bot.leave_chat(club.id)
        with pytest.raises(Forbidden):
            await bot.send_message(club.id, "gone")


class TestFiles:
    async def test_a_file_may_stream_more_than_it_declares(self, telegram: TelegramSimulator, bot: Bot) -> None:
        spec = FileSpec(name="small.txt", declared_size=1024, stream_size=3_000_000)
        await telegram.user_says("see file", file=spec)
        message = (await one_update(bot)).message
        assert message is not None
        assert message.document is not None
        assert (message.caption, message.document.file_size) == ("see file", 1024)
        file = await bot.get_file(message.document.file_id)
        assert len(await file.download_as_bytearray()) == 3_000_000
        counters = await telegram.file(file.file_id)
        assert (counters["sent"], counters["downloads"]) == (3_000_000, 1)

    async def test_an_endless_download_can_be_left(self, telegram: TelegramSimulator, bot: Bot) -> None:
        await telegram.user_says(file=FileSpec(declared_size=1024, stream_size=5_000_000_000))
        message = (await one_update(bot)).message
        assert message is not None
        assert message.document is not None
        file = await bot.get_file(message.document.file_id)
        assert file.file_path is not None
        async with httpx.AsyncClient(trust_env=False) as http, http.stream("GET", file.file_path) as response:
            async for _ in response.aiter_bytes():
                break
        record = await telegram.wait_for_record(lambda record: record.method == "file" and record.finished is not None)
        assert record.outcome == "dropped"
        assert 0 < (await telegram.file(file.file_id))["sent"] < 100_000_000

    async def test_uploads_are_hashed_and_shown(self, telegram: TelegramSimulator, bot: Bot) -> None:
        await telegram.user_says("send it")
        sent = await bot.send_document(ALICE.id, b"report", filename="report.md", caption="done")
        assert sent.document is not None
        (seen,) = await telegram.bot_messages(ALICE)
        (file,) = seen.files
        assert (file["name"], file["size"]) == ("report.md", 6)
        assert file["sha256"] == hashlib.sha256(b"report").hexdigest()
        assert await (await sent.document.get_file()).download_as_bytearray() == b"report"
        album = await bot.send_media_group(ALICE.id, [InputMediaDocument(b"a"), InputMediaDocument(b"b")])
        assert len({message.media_group_id for message in album}) == 1


class TestFaults:
    async def test_refusals_come_as_the_sdk_expects_them(self, telegram: TelegramSimulator, bot: Bot) -> None:
        await telegram.user_says("hi")
        await telegram.fail("sendMessage", faults.flood(7), chat=ALICE)
        with pytest.raises(RetryAfter, match="Retry in 0:00:07"):
            await bot.send_message(ALICE.id, "one")
        expected = [
            (faults.bad_request("can't parse entities"), BadRequest),
            (faults.blocked(), Forbidden),
            (faults.unauthorized(), InvalidToken),
            (faults.not_found(), InvalidToken),
            (faults.bad_gateway(), NetworkError),
            (faults.reset(), NetworkError),
        ]
        for fault, error in expected:
            await telegram.fail("sendMessage", fault)
            with pytest.raises(error):
                await bot.send_message(ALICE.id, "two")
        assert await telegram.bot_messages(ALICE) == []
        assert (await bot.send_message(ALICE.id, "three")).text == "three"

    async def test_a_timed_out_send_may_have_been_applied(self, telegram: TelegramSimulator) -> None:
        await telegram.user_says("hi")
        async with sdk_bot(telegram, read_timeout=0.3) as impatient:
            await telegram.fail("sendMessage", faults.apply_then_hang(1.0))
            with pytest.raises(TimedOut):
                await impatient.send_message(ALICE.id, "there")
            await telegram.fail("sendMessage", faults.reset(apply=True))
            with pytest.raises(NetworkError):
                await impatient.send_message(ALICE.id, "there too")
        assert [message.text for message in await telegram.bot_messages(ALICE)] == ["there", "there too"]

    async def test_a_held_call_waits_for_the_test(self, telegram: TelegramSimulator, bot: Bot) -> None:
        await telegram.user_says("hi")
        await telegram.fail("sendMessage", faults.hold(), skip=1)
        await bot.send_message(ALICE.id, "passes")
        held = asyncio.create_task(bot.send_message(ALICE.id, "waits"))
        await telegram.wait_for_record(lambda record: record.outcome == "held")
        assert [message.text for message in await telegram.bot_messages(ALICE)] == ["passes"]
        await telegram.release()
        await held
        await telegram.wait_for_text(ALICE, "waits")

    async def test_limits_count_always_and_refuse_on_request(self, telegram: TelegramSimulator, bot: Bot) -> None:
        await telegram.user_says("hi")
        for number in range(5):
            await bot.send_message(ALICE.id, f"{number}")
        assert (await telegram.refusals())["chat"] == 2
        await telegram.set_limits(enforce=True)
        for seconds in ("0:00:03", "0:00:06"):
            with pytest.raises(RetryAfter, match=f"Retry in {seconds}"):
                await bot.send_message(ALICE.id, "more")

    async def test_unknown_tokens_and_methods(self, telegram: TelegramSimulator, bot: Bot) -> None:
        stranger = sdk_bot(telegram, token="42:unknown")
        with pytest.raises(InvalidToken):
            await stranger.initialize()
        await stranger.shutdown()
        answer = await telegram._http.post(f"{telegram.base_url}{telegram.token}/noSuchMethod")
        assert (answer.status_code, answer.json()["description"]) == (404, "Not Found")


async def test_waiting_reports_what_is_there(telegram: TelegramSimulator, bot: Bot) -> None:
    await telegram.user_says("hi")
    await bot.send_message(ALICE.id, "wrong answer")
    with pytest.raises(WaitTimeoutError, match="wrong answer"):
        await telegram.wait_for_text(ALICE, "right answer", timeout=0.2)
    with pytest.raises(WaitTimeoutError):
        await telegram.wait_idle(ALICE, timeout=0.2)
    update = await one_update(bot)
    await bot.get_updates(offset=update.update_id + 1, timeout=0)
    await telegram.wait_idle(ALICE, quiet=0.1)
    await telegram.wait_idle(quiet=0.1)


class TestProcess:
    async def test_it_ends_with_its_parent(self) -> None:
        async with running_telegram() as telegram:
            await telegram.user_says("anybody?")
            port = int(telegram.root.rpartition(":")[2])
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    async def test_sigterm_ends_it_too(self) -> None:
        async with SimulatorProcess("tests.simulators.telegram") as process:
            reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
            os.kill(process.pid, signal.SIGTERM)
            async with asyncio.timeout(5):
                assert await reader.read() == b""
            writer.close()

    async def test_a_start_that_fails_says_so(self) -> None:
        with pytest.raises(SimulatorStartError, match="exit code 1"):
            await asyncio.to_thread(SimulatorProcess("tests.simulators.missing").start)


async def test_deliveries_tell_when_an_update_was_queued_and_handed_out(telegram: TelegramSimulator, bot: Bot) -> None:
    await telegram.user_says("one")
    (waiting,) = await telegram.deliveries()
    assert waiting.delivered_at is None
    await bot.get_updates(timeout=1)
    (taken,) = await telegram.deliveries()
    assert taken.chat_id == ALICE.id
    assert taken.delivered_at is not None
    assert taken.queued_at == waiting.queued_at <= taken.delivered_at


async def test_messages_that_show_a_text_are_counted_in_private_chats(telegram: TelegramSimulator, bot: Bot) -> None:
    for person in (ALICE, BOB):
        await telegram.user_says("done", user=person)
    first = await bot.send_message(ALICE.id, "half")
    await bot.send_message(BOB.id, "done")
    assert await telegram.count_showing("done") == 1
    await bot.edit_message_text("done", ALICE.id, first.message_id)
    assert await telegram.count_showing("done") == 2


async def test_lean_requests_are_counted_and_not_kept(telegram: TelegramSimulator, bot: Bot) -> None:
    await telegram.user_says("hello")
    before = (await telegram.tally()).get(("sendMessage", "applied"), 0)
    await telegram.keep_lean()
    try:
        await bot.send_message(ALICE.id, "one")
    finally:
        await telegram.keep_lean(False)
    assert await telegram.records("sendMessage") == []
    assert (await telegram.tally())["sendMessage", "applied"] == before + 1
    assert [message.text for message in await telegram.bot_messages(ALICE)] == ["one"]
